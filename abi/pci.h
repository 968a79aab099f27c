/* SPDX-License-Identifier: BSD-2-Clause */
/* The PCI function that hyp shows to root, so that root's module loads by itself and has an
 * interrupt. */
#pragma once

#include "abi/types.h"

/*
 * One function on bus 0, with no BAR and one MSI message (64-bit address, maskable): everything
 * about it lies in configuration space, which exits anyway, so hyp sees each mask and unmask and no
 * page of root's has to be taken out for it. The identifiers are keelOS's own choice ("KE"), not
 * assigned by the PCI-SIG.
 */
#define KEEL_PCI_VENDOR   0x4b45u
#define KEEL_PCI_DEVICE   0x0001u
#define KEEL_PCI_REVISION 0x01u
#define KEEL_PCI_CLASS    0x088000u /* system peripheral, other */
