/* SPDX-License-Identifier: BSD-2-Clause */
/* Resets of single PCI functions, all at once; what firmware had put into them is put back. */
#pragma once

#include "hyp/x86/pci_config.h"

/* Offsets of a function's capabilities, 0 for one that it does not have. */
struct pci_caps {
	uint8_t express;
	uint8_t advanced; /* Advanced Features: a reset for conventional functions */
};

/*
 * Function f forgets what it was told to do, if it has a function-level reset (PCI Express 3.0
 * §6.6.2, or the ECN of 2008 for conventional PCI). Displays are left as they are, for the next
 * root's console, and so are functions that are known not to come back. Needs: f is no bridge, and
 * has no transaction pending.
 */
void pci_reset_begin(struct pci_function f, const struct pci_caps *caps);
unsigned pci_reset_count(void); /* how many have begun; 64 at most, the rest is left as it is */

/* True once every reset function answers again, or had a second to; then the header and the device
 * controls are what they were at pci_reset_begin. (The ports reach no further: a base address that
 * firmware had enlarged has its first size, LTR is off.) To be called again until it is. */
bool pci_reset_ended(void);
