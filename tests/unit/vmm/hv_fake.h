/* SPDX-License-Identifier: BSD-2-Clause */
/* A hypervisor of anonymous memory that writes down what it was asked: what the device process is
 * tested on. */
#pragma once

#include "vmm/hv.h"
#include "vmm/vault.h"

struct fake_doorbell {
	bool used;
	uint64_t address;
	int fd;
};

struct fake_msi {
	uint64_t address;
	uint32_t data;
};

#define FAKE_MSI_LOG 64u

struct hv_fake {
	struct hv hv;   /* first */
	uint32_t state; /* KEEL_VM_STATE_* */
	struct fake_doorbell doorbells[KEEL_MAX_DOORBELLS];
	unsigned doorbell_adds, doorbell_removes, doorbell_refusals;
	struct fake_msi msis[FAKE_MSI_LOG];
	unsigned msi_count;
	bool pins[24];
	unsigned pin_writes[24];
	struct keel_vcpu_state vcpu0;
	bool vcpu0_set;
	uint32_t away_policy; /* KEEL_AWAY_* */
	unsigned runs, pauses, resets, completes;
	uint64_t completed[KEEL_MAX_VCPUS]; /* data of the last completion of each vCPU */
	uint64_t again; /* so many completed exits are followed by the same again */
	int notify_fd;
};

/* A VM with a vault formatted with that definition (NULL: not formatted). */
struct hv_fake *hv_fake_new(
        unsigned vcpus, uint64_t ram_bytes, size_t vault_bytes, const char *definition);
void hv_fake_free(struct hv_fake *fake);
/* The device process died: eventfds are gone, all else stays. */
void hv_fake_forget(struct hv_fake *fake);
/* A vCPU stops at an access; the slot gets the next sequence number. */
void hv_fake_exit(struct hv_fake *fake, unsigned vcpu, uint32_t kind, uint64_t address,
        uint32_t size, uint64_t data);
/* The doorbell that a guest's write rings: its index, -1 if it would be an exit. */
int hv_fake_find(const struct hv_fake *fake, uint64_t address);
/* A vault of its own, attached. */
struct vault hv_fake_vault(struct hv_fake *fake);
