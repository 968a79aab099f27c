/* SPDX-License-Identifier: BSD-2-Clause */
/* All that the device process sees of the hypervisor below it, so that /dev/keel is one
 * implementation and not an assumption. */
#pragma once

#include <errno.h>

#include "abi/hypercall.h"
#include "abi/shared.h"
#include "abi/vcpu.h"

/*
 * An open `struct hv` is the exclusive right to serve one VM (a second holder gets -EBUSY). The VM,
 * its memory, its doorbells and the bits of those that were rung live on when the holder dies; the
 * next holder finds them as they are.
 *
 * Memory: `ram` is one mapping of ram_bytes, whose first ram_low_bytes are at GPA 0, the rest at 4
 * GiB; and behind those of firmware_bytes that end at 4 GiB. `vault` is the region whose first
 * KEEL_VM_SHARED_BYTES are `shared` (written by the hypervisor too), the rest is ours alone.
 *
 * Exits: hv_exit_next gives each pending exit once in this process; hv_exit_complete lets that vCPU
 * go on. Until then it is pending and a successor finds it again with the same sequence number.
 *
 * Threads: msi_raise and pin_set may be called on any thread; everything else on the control thread
 * only. All calls return 0 or a negative errno.
 */
struct hv;

struct hv_doorbell {
	unsigned index; /* 0..KEEL_MAX_DOORBELLS-1 */
	unsigned space; /* KEEL_DOORBELL_PIO or _MMIO */
	uint64_t address;
	unsigned size; /* 1, 2, 4, 8; 0: any */
	int fd; /* eventfd to signal; at once if it was rung while nobody listened. -1: only the bit
	           in shared->doorbells */
};

struct hv_ops {
	void (*close)(struct hv *hv);
	int (*info)(struct hv *hv, struct keel_hc_vm_info *info);
	int (*run)(struct hv *hv);
	int (*pause)(struct hv *hv); /* no vCPU runs any more when it returns */
	int (*reset)(struct hv *hv); /* power-on state of vCPUs and platform; VM paused; memory,
	                                doorbells and console kept */
	int (*vcpu_get)(struct hv *hv, unsigned vcpu, struct keel_vcpu_state *state);
	int (*vcpu_set)(struct hv *hv, unsigned vcpu, const struct keel_vcpu_state *state);
	int (*doorbell_add)(struct hv *hv, const struct hv_doorbell *doorbell);
	int (*doorbell_remove)(struct hv *hv, unsigned index);
	int (*irqfd_set)(struct hv *hv, int fd, uint64_t address,
	        uint32_t data); /* again with the same fd: changes the route */
	int (*irqfd_clear)(struct hv *hv, int fd);
	int (*msi_raise)(struct hv *hv, uint64_t address, uint32_t data);
	int (*pin_set)(struct hv *hv, unsigned pin, bool high);
	int (*exit_complete)(struct hv *hv, unsigned vcpu, uint32_t sequence, uint64_t data);
	int (*notify)(struct hv *hv, int fd,
	        uint32_t events); /* eventfd for exits and KEEL_EVENT_* in events; -1 removes */
	int (*counters)(struct hv *hv, unsigned vcpu, struct keel_hc_counters *counters);
};

struct hv {
	const struct hv_ops *ops;
	uint32_t vm;
	char name[KEEL_VM_NAME_BYTES];
	unsigned vcpus;
	uint64_t ram_bytes;
	uint64_t ram_low_bytes;
	uint64_t firmware_bytes;
	uint64_t vault_bytes;
	uint8_t *ram;
	uint8_t *vault;
	struct keel_vm_shared *shared;
	uint64_t exits_taken; /* bits of exit_pending taken but not yet given out; control thread */
};

struct hv_exit {
	unsigned vcpu;
	uint32_t sequence;
	uint32_t kind; /* KEEL_EXIT_* */
	uint32_t size; /* 1, 2, 4 or 8 */
	uint64_t address;
	uint64_t data; /* of a write */
};

/* Opens /dev/keel's VM of that name or number with the device right. On failure *hv is NULL and
 * `error` one line. */
int hv_keel_open(const char *name_or_id, struct hv **hv, char *error, size_t error_bytes);

/* The next pending exit that is well formed; false when there is none. A malformed slot is
 * completed with all ones. */
bool hv_exit_next(struct hv *hv, struct hv_exit *out);
/* Makes hv_exit_next look at every slot, whatever the pending bits say: what an attach does. */
void hv_exit_rescan(struct hv *hv);
/* Takes the events that are set among `mask`; they are clear afterwards. */
uint32_t hv_events_take(struct hv *hv, uint32_t mask);
