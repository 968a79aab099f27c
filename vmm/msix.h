/* SPDX-License-Identifier: BSD-2-Clause */
/* MSI-X of one function: its table and pending bits, kept in the vault, and when a vector becomes a
 * message. */
#pragma once

#include "vmm/pci.h"

/*
 * A vector signalled while it or the function is masked sets its pending bit; unmasking sends one
 * message by the route of then, however often it was signalled (PCI 3.0 §6.8.2-6.8.3). While MSI-X
 * is off nothing is sent and nothing becomes pending.
 *
 * Locking: the caller holds one lock around every function here but msix_init (virtio_pci.c: its
 * own `lock`), so that signals from engine threads and the guest's table writes have an order.
 */
#define MSIX_MAX_VECTORS 65u /* a queue each, and configuration changes */

struct msix_state { /* VAULT_MSIX */
	struct pci_msix_entry entries[MSIX_MAX_VECTORS];
	uint64_t pending[2];
};
KEEL_ASSERT_SIZE(struct msix_state, 16 * 65 + 16);

struct msix {
	struct pci_function *fn;
	unsigned vectors;
	unsigned cap; /* offset in configuration space */
	bool enabled; /* as the control word says; a copy so that other threads need no look there
	               */
	bool function_masked;
	struct vault_section *section;
	struct msix_state state;
};

/* Adds the capability; table and pending bits are at the given offsets of that BAR. Before pci_add.
 */
void msix_init(struct msix *msix, struct pci_function *fn, unsigned vectors, unsigned bar,
        uint32_t table_offset, uint32_t pending_offset);
/* Takes the state from the vault, or a fresh one. After pci_add. 0 or a negative errno. */
int msix_attach(struct msix *msix);
/* All masked, nothing pending: a reset of the machine. */
void msix_reset(struct msix *msix);
/* After configuration space was written: the control word may have changed. */
void msix_control_written(struct msix *msix);
/* Guest accesses. Only whole, aligned double and quad words count (§6.8.2); others read 0 and
 * change nothing. */
uint64_t msix_table_read(const struct msix *msix, uint64_t offset, unsigned size);
void msix_table_write(struct msix *msix, uint64_t offset, unsigned size, uint64_t value);
uint64_t msix_pending_read(const struct msix *msix, uint64_t offset, unsigned size);
/* Sends the vector's message or makes it pending. A vector that is not there is ignored. */
void msix_signal(struct msix *msix, unsigned vector);
