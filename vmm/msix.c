/* SPDX-License-Identifier: BSD-2-Clause */
/* MSI-X table, pending bits and delivery (msix.h has the rules). */
#include "vmm/msix.h"

#include <string.h>

static void keep(struct msix *msix)
{
	vault_write(msix->fn->bus->vault, msix->section, &msix->state, sizeof(msix->state));
}

static void make_fresh(struct msix_state *state)
{
	*state = (struct msix_state){0};
	for (unsigned i = 0; i < MSIX_MAX_VECTORS; i++)
		state->entries[i].control = PCI_MSIX_ENTRY_MASKED;
}

static void read_control(struct msix *msix)
{
	uint16_t control;

	memcpy(&control, msix->fn->config + msix->cap + offsetof(struct pci_msix_cap, control),
	        sizeof(control));
	msix->enabled = control & PCI_MSIX_ENABLE;
	msix->function_masked = control & PCI_MSIX_FUNCTION_MASK;
}

void msix_init(struct msix *msix, struct pci_function *fn, unsigned vectors, unsigned bar,
        uint32_t table_offset, uint32_t pending_offset)
{
	struct pci_msix_cap cap = {
	        .id = PCI_CAP_MSIX,
	        .control = (uint16_t)(vectors - 1),
	        .table = table_offset | bar,
	        .pba = pending_offset | bar,
	};
	const uint16_t writable = PCI_MSIX_ENABLE | PCI_MSIX_FUNCTION_MASK;

	*msix = (struct msix){.fn = fn, .vectors = vectors};
	msix->cap = pci_function_add_cap(fn, &cap, sizeof(cap));
	memcpy(fn->writable + msix->cap + offsetof(struct pci_msix_cap, control), &writable,
	        sizeof(writable));
	make_fresh(&msix->state);
}

int msix_attach(struct msix *msix)
{
	const struct vault *vault = msix->fn->bus->vault;
	int rc;

	rc = vault_record(vault, VAULT_MSIX, msix->fn->slot << 3, &msix->state, sizeof(msix->state),
	        &msix->section);
	if (rc != 0)
		return rc;
	read_control(msix);
	return 0;
}

void msix_reset(struct msix *msix)
{
	make_fresh(&msix->state);
	keep(msix);
	read_control(msix);
}

static bool is_masked(const struct msix *msix, unsigned vector)
{
	return msix->function_masked ||
	       (msix->state.entries[vector].control & PCI_MSIX_ENTRY_MASKED);
}

static void send(struct msix *msix, unsigned vector)
{
	const struct pci_msix_entry *entry = &msix->state.entries[vector];
	struct hv *hv = msix->fn->bus->hv;

	/* The guest chose address and data; hyp refuses what is no interrupt message. */
	hv->ops->msi_raise(
	        hv, (uint64_t)entry->address_high << 32 | entry->address_low, entry->data);
}

/*
 * Sends what is pending and may go. The bit is taken away after the message: killed in between, the
 * successor sends a second one, which a driver stands; a lost one it would not.
 */
static void send_pending(struct msix *msix)
{
	bool changed = false;

	for (unsigned vector = 0; vector < msix->vectors && msix->enabled; vector++) {
		uint64_t bit = 1ull << (vector % 64);

		if (!(msix->state.pending[vector / 64] & bit) || is_masked(msix, vector))
			continue;
		send(msix, vector);
		msix->state.pending[vector / 64] &= ~bit;
		changed = true;
	}
	if (changed)
		keep(msix);
}

void msix_control_written(struct msix *msix)
{
	read_control(msix);
	send_pending(msix);
}

void msix_signal(struct msix *msix, unsigned vector)
{
	if (vector >= msix->vectors || !msix->enabled)
		return;
	if (!is_masked(msix, vector)) {
		send(msix, vector);
		return;
	}
	uint64_t bit = 1ull << (vector % 64);

	if (msix->state.pending[vector / 64] & bit)
		return;
	msix->state.pending[vector / 64] |= bit;
	keep(msix);
}

/* Whole aligned words inside `bytes` only. */
static bool access_is_sound(uint64_t offset, unsigned size, uint64_t bytes)
{
	return (size == 4 || size == 8) && offset % size == 0 && offset < bytes;
}

uint64_t msix_table_read(const struct msix *msix, uint64_t offset, unsigned size)
{
	uint64_t value = 0;

	if (access_is_sound(offset, size, msix->vectors * sizeof(struct pci_msix_entry)))
		memcpy(&value, (const uint8_t *)msix->state.entries + offset, size);
	return value;
}

void msix_table_write(struct msix *msix, uint64_t offset, unsigned size, uint64_t value)
{
	if (!access_is_sound(offset, size, msix->vectors * sizeof(struct pci_msix_entry)))
		return;
	memcpy((uint8_t *)msix->state.entries + offset, &value, size);
	msix->state.entries[offset / sizeof(struct pci_msix_entry)].control &=
	        PCI_MSIX_ENTRY_MASKED;
	keep(msix);
	send_pending(msix);
}

uint64_t msix_pending_read(const struct msix *msix, uint64_t offset, unsigned size)
{
	uint64_t value = 0;

	if (access_is_sound(offset, size, (msix->vectors + 63) / 64 * 8))
		memcpy(&value, (const uint8_t *)msix->state.pending + offset, size);
	return value;
}
