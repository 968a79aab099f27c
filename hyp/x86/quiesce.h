/* SPDX-License-Identifier: BSD-2-Clause */
/* Taking the machine's devices out of the hands of a root that is gone. */
#pragma once

#include "abi/types.h"

/*
 * Every PCI function of segment 0 loses bus mastering, MSI, MSI-X and INTx, and its posted writes
 * are flushed by a read; what was a master begins a reset of its function where it has one; IOAPIC
 * pins and the 8259s are masked. Needs: root runs on no CPU. Returns the number of functions that
 * were masters, and of those how many are being reset.
 */
unsigned machine_quiesce(unsigned *reset);

/*
 * True once the resets are over, 100 ms to a second later; to be called until it is, by one CPU at
 * a time. Then nothing that an earlier root programmed lands any more: from a function that was
 * reset whatever the next root does, from one without a reset as long as its driver does not let it
 * be a master before it has reset it itself.
 */
bool machine_is_quiet(void);

/* This CPU's local APIC forgets what is in service and pending, and masks what root had programmed
 * but the timer, which hyp shares. */
void apic_quiesce(void);
