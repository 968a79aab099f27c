/* SPDX-License-Identifier: BSD-2-Clause */
/* The PCI function by which root's kernel finds hyp and gets its event interrupt: a model of its
 * configuration space. */
#pragma once

#include "abi/types.h"

/*
 * A PCI function (abi/pci.h) rather than an interrupt pin in the ACPI tables: stock Linux loads the
 * module for it by itself, gives it a vector, moves and masks it, with no table of root's firmware
 * rewritten. It has MSI with a mask bit and no BAR. So all that root can do to it is a
 * configuration access, which exits: hyp sees each unmask at once, and takes no page of address
 * space from root. (MSI-X would put mask bits into memory: unmapped they need a moving hole in
 * root's map, mapped their clearing is not seen.)
 *
 * When an event comes while the interrupt cannot be sent (MSI off, masked, or bus mastering off) it
 * is kept in the pending bit, once, and the configuration write that makes it possible says so.
 * Nothing is ever retried by time.
 *
 * Knows no lock: the caller has one around each call, from whichever CPU of root's.
 */
#define HYPPCI_CONFIG_BYTES 256u

struct hyppci {
	uint32_t config[HYPPCI_CONFIG_BYTES / 4];
};

/* Power-on state; also for each new start of root. */
void hyppci_init(struct hyppci *pci);
/* size 1, 2 or 4, aligned to itself, within HYPPCI_CONFIG_BYTES; anything else reads as all ones
 * and writes nothing. */
uint32_t hyppci_config_read(const struct hyppci *pci, unsigned offset, unsigned size);
/* True: an interrupt that was held back can be sent now, by hyppci_interrupt. */
bool hyppci_config_write(struct hyppci *pci, unsigned offset, unsigned size, uint32_t value);
/* True: send this message, now. False: kept pending. */
bool hyppci_interrupt(struct hyppci *pci, uint64_t *address, uint32_t *data);
