/* SPDX-License-Identifier: BSD-2-Clause */
/* PCI bus 0: configuration space by ports and ECAM, base addresses that move, INTx lines; what a
 * function must bring. */
#pragma once

#include <pthread.h>

#include "hw/pci.h"
#include "vmm/hv.h"
#include "vmm/vault.h"

/*
 * A function's 256 bytes of configuration are plain memory with a mask of writable bits; what a
 * guest writes there it reads back, also where it makes no sense (C-10). A base address responds
 * only while memory decoding is on and it lies whole in one of the two windows. Functions are told
 * apart by themselves, never by address: two may overlap for a while, the first in slot order then
 * answers.
 *
 * Every change is in the vault before anything is done about it. Doorbells follow the base
 * addresses in two passes over all functions, first what is to go, then what is to come, so that
 * two functions can swap places.
 *
 * Threads: pci_intx_set on any thread; everything else on the control thread.
 */
struct pci_bus;
struct pci_function;

struct pci_function_ops {
	/* size is 1, 2, 4 or 8; offset + size lies in the BAR. */
	uint64_t (*bar_read)(struct pci_function *fn, unsigned bar, uint64_t offset, unsigned size);
	void (*bar_write)(struct pci_function *fn, unsigned bar, uint64_t offset, unsigned size,
	        uint64_t value);
	/* Just before bytes of configuration space are read, and just after they were written and
	 * kept. Both may be NULL. */
	void (*config_read)(struct pci_function *fn, unsigned offset, unsigned size);
	void (*config_written)(struct pci_function *fn, unsigned offset, unsigned size);
	/* Some function's base addresses changed. come = false: drop doorbells that no longer fit;
	 * true: add those that lack. */
	void (*decode_changed)(struct pci_function *fn, bool come);
};

struct pci_bar {
	uint64_t bytes; /* a power of two, at least 16; 0: none */
	uint32_t flags; /* PCI_BAR_64, PCI_BAR_PREFETCH */
};

struct pci_function {
	const struct pci_function_ops *ops; /* NULL: only configuration space */
	struct pci_bus *bus;
	unsigned slot;
	unsigned number; /* of the function in its slot; not 0: pci_add_fixed */
	struct pci_bar bars[PCI_BARS];
	uint8_t config[PCI_CONFIG_BYTES];
	uint8_t writable[PCI_CONFIG_BYTES];
	uint8_t initial[PCI_CONFIG_BYTES]; /* after a reset */
	unsigned caps_end;                 /* first free byte for a capability */
	unsigned last_cap;
	struct vault_section *section;
	bool intx_asked; /* bus->intx_lock: the device's interrupt state, before INTX_OFF */
};

struct pci_bus_state { /* VAULT_PCI, instance PCI_BUS_INSTANCE */
	uint32_t config_address;
	uint32_t reserved[7];
};
KEEL_ASSERT_SIZE(struct pci_bus_state, 32);
#define PCI_BUS_INSTANCE 0xffffu

struct pci_bus {
	struct hv *hv;
	const struct vault *vault;
	struct vault_section *section;
	struct pci_bus_state state;
	uint64_t window64, window64_bytes; /* where 64-bit BARs are decoded */
	const struct hv_exit *current;     /* the exit being answered, NULL outside of one */
	struct pci_function *functions[PCI_SLOTS]; /* function 0 of each slot */
	struct pci_function *other;                /* the one that is no function 0, or NULL */
	pthread_mutex_t intx_lock;                 /* taken inside a function's own lock */
	uint32_t intx_high; /* intx_lock: bit pin - LAYOUT_INTX_FIRST, as hyp was told */
};

/* 0 or a negative errno (no room in the vault, or damaged). */
int pci_bus_init(struct pci_bus *bus, struct hv *hv, const struct vault *vault);

/* Fills ids and class; then bars and capabilities are added; then pci_add. */
void pci_function_init(
        struct pci_function *fn, uint16_t vendor, uint16_t device, uint32_t class_code);
void pci_function_add_bar(struct pci_function *fn, unsigned bar, uint64_t bytes, uint32_t flags);
/* Appends a capability of `bytes` with the given content (its next field is filled in) and returns
 * its offset. */
unsigned pci_function_add_cap(struct pci_function *fn, const void *cap, unsigned bytes);

/*
 * Puts the function in a slot; its configuration is then what the vault has, or the initial one,
 * kept from now on. Negative errno: no room, damaged, or (-EEXIST) the vault's function there is
 * another kind of device.
 */
int pci_add(struct pci_bus *bus, struct pci_function *fn, unsigned slot);
/* The same for one that has nothing but what it was made with: no BAR, nothing that a guest can
 * write, nothing in the vault. At most one of them is not function 0 of its slot. */
void pci_add_fixed(struct pci_bus *bus, struct pci_function *fn, unsigned slot, unsigned number);
/* All functions' configuration to its initial value. */
void pci_reset(struct pci_bus *bus);
/* What firmware does: places every BAR in the 32-bit window, turns decoding on, fills the interrupt
 * lines. */
void pci_assign(struct pci_bus *bus);
/* Makes doorbells and INTx pins in hyp what the configuration says: on attach, and after
 * pci_assign. */
void pci_sync(struct pci_bus *bus);

/* An exit. False: not ours. For a read *value is what the guest gets. */
bool pci_pio(struct pci_bus *bus, uint64_t port, unsigned size, bool write, uint64_t *value);
bool pci_mmio(struct pci_bus *bus, uint64_t gpa, unsigned size, bool write, uint64_t *value);

/* Any offset below 4096, any size up to 8. */
uint64_t pci_config_read(struct pci_function *fn, unsigned offset, unsigned size);
void pci_config_write(struct pci_function *fn, unsigned offset, unsigned size, uint64_t value);
/* For what a function itself changes in its configuration. */
void pci_config_keep(struct pci_function *fn);

#define PCI_BAR_SILENT UINT64_MAX
/* Where the BAR responds, or PCI_BAR_SILENT. */
uint64_t pci_bar_address(const struct pci_function *fn, unsigned bar);
uint16_t pci_command(const struct pci_function *fn);
/* The device's interrupt state, for drivers without MSI-X. */
void pci_intx_set(struct pci_function *fn, bool high);
