/* SPDX-License-Identifier: BSD-2-Clause */
/* The virtio 1.2 PCI transport (§4.1, modern only): what the driver programs, kept in the vault,
 * and the device behind it. */
#pragma once

#include <pthread.h>

#include "hw/virtio.h"
#include "vmm/msix.h"
#include "vmm/virtio.h"

/*
 * One 64-bit BAR of 64 KiB holds everything: common configuration, ISR, device configuration, one
 * notification address per queue (multiplier 4), MSI-X table and pending bits. The notification
 * addresses are doorbells in hyp while the BAR responds; a notification that still comes as an exit
 * (no doorbell free, or one on its way) is answered too.
 *
 * State machine of a queue: programmed (all fields writable) -> enabled (size and addresses
 * latched, checked against guest RAM, in-flight area zeroed) -> running (once DRIVER_OK is set) ->
 * reset, back to programmed. Writes that the state does not allow have no effect (C-13); a
 * queue_select out of range reads 0 and takes no writes (C-18).
 *
 * Locking: `lock` guards state, msix and the INTx decision against engine threads that signal. It
 * is never held while the device is called.
 */
#define VIRTIO_PCI_BAR         0u
#define VIRTIO_PCI_BAR_BYTES   0x10000u
#define VIRTIO_PCI_COMMON_AT   0x0000u
#define VIRTIO_PCI_ISR_AT      0x1000u
#define VIRTIO_PCI_DEVICE_AT   0x2000u
#define VIRTIO_PCI_NOTIFY_AT   0x3000u
#define VIRTIO_PCI_NOTIFY_STEP 4u
#define VIRTIO_PCI_TABLE_AT    0x8000u
#define VIRTIO_PCI_PENDING_AT  0xc000u

struct virtio_queue_state {
	uint16_t size;
	uint16_t vector;
	uint16_t enabled; /* 0 or 1 */
	uint16_t reserved;
	uint64_t desc;
	uint64_t driver;
	uint64_t device;
};
KEEL_ASSERT_SIZE(struct virtio_queue_state, 32);

struct virtio_state { /* VAULT_VIRTIO */
	uint8_t status;
	uint8_t isr;
	uint8_t generation;
	uint8_t reserved0;
	uint16_t config_vector;
	uint16_t queue_select;
	uint32_t device_feature_select;
	uint32_t driver_feature_select;
	uint64_t driver_features;
	/* What the last read of ISR, which clears it, gave to which exit: a successor gives that
	 * exit the same. */
	uint32_t reply_vcpu;
	uint32_t reply_sequence;
	uint32_t reply_valid;
	uint32_t reply_data;
	uint64_t reserved1[3];
	struct virtio_queue_state queues[VIRTIO_MAX_QUEUES];
};
KEEL_ASSERT_OFFSET(struct virtio_state, queues, 64);
KEEL_ASSERT_SIZE(struct virtio_state, 64 + 32 * 64);

struct virtio_pci {
	struct pci_function fn; /* first */
	struct virtio_device *dev;
	const struct gmem *gmem;
	unsigned cfg_cap;        /* offset of VIRTIO_PCI_CAP_PCI_CFG in configuration space */
	uint64_t offered;        /* features */
	unsigned doorbell_first; /* index in hyp of queue 0's */
	uint64_t doorbell_at[VIRTIO_MAX_QUEUES]; /* where hyp has it; PCI_BAR_SILENT: it has none */
	int kick_fds[VIRTIO_MAX_QUEUES];
	struct vault_section *inflight;
	size_t inflight_at[VIRTIO_MAX_QUEUES + 1]; /* queue q's area in it is [q] to [q + 1] */
	uint64_t slow_kicks;                       /* notifications that came as exits */
	pthread_mutex_t lock;
	struct msix msix; /* lock */
	struct vault_section *section;
	struct virtio_state state; /* lock */
};

/*
 * Puts the device into the slot and takes its state from the vault, if it has any. Its doorbells
 * get the indices from doorbell_first, one a queue. NULL with one line in `error`. The queues run
 * only after virtio_pci_resume.
 */
struct virtio_pci *virtio_pci_create(struct pci_bus *bus, unsigned slot, struct virtio_device *dev,
        const struct gmem *gmem, unsigned doorbell_first, char *error, size_t error_bytes);
/* Starts the queues that were running when the predecessor ended. After pci_sync. */
void virtio_pci_resume(struct virtio_pci *vp);
/* Power-on state of everything but configuration space (pci_reset does that); the device is quiet
 * afterwards. */
void virtio_pci_reset(struct virtio_pci *vp);

/* virtio_common.c: the common configuration structure, and what its writes do. Offsets and sizes
 * are the guest's. */
uint64_t virtio_common_read(struct virtio_pci *vp, unsigned offset, unsigned size);
void virtio_common_write(struct virtio_pci *vp, unsigned offset, unsigned size, uint64_t value);
/* Needs: lock. */
void virtio_state_make_fresh(const struct virtio_pci *vp, struct virtio_state *state);
void virtio_state_keep(struct virtio_pci *vp);
/* Not with the lock. Starts queue q; a refusal makes the device ask for a reset. */
void virtio_queue_run(struct virtio_pci *vp, unsigned q, bool resumed);
