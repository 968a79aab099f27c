/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that hyp and root both write: event words, doorbell bits and exit slots, with the owner in
 * each state. */
#pragma once

#include "abi/types.h"

#define KEEL_MAX_VMS       64u
#define KEEL_MAX_VCPUS     64u
#define KEEL_MAX_DOORBELLS 512u
#define KEEL_VM_NAME_BYTES 64u /* with the terminating 0 */

/*
 * Root's event page, one for the machine. hyp sets bit (VM - 1) in vm_pending; if the word was 0
 * before, it raises root's interrupt (vector 0 of the hyp PCI function). Root takes the word by
 * exchange with 0, then looks at each VM's keel_vm_shared. So no event is lost and a burst costs
 * one interrupt.
 */
#define KEEL_ROOT_SHARED_MAGIC 0x544f4f524c45454bull /* "KEELROOT" */
struct keel_root_shared {
	uint64_t magic;      /* hyp */
	uint32_t version;    /* hyp: KEEL_ABI_VERSION */
	uint32_t reserved0;  /* 0 */
	uint64_t vm_pending; /* hyp sets bits, root exchanges with 0 */
	uint64_t reserved[5];
};
KEEL_ASSERT_SIZE(struct keel_root_shared, 64);
KEEL_ASSERT_OFFSET(struct keel_root_shared, vm_pending, 16);

/*
 * A VM's shared area: the first KEEL_VM_SHARED_BYTES of its vault region. Bits are set by hyp and
 * cleared by root (atomic and-not or exchange) only when root has a listener for them; else they
 * stay and are looked at on reattach (DESIGN §2 rule 4).
 */
#define KEEL_VM_SHARED_MAGIC 0x0053484d564c454bull
#define KEEL_VM_SHARED_BYTES 65536u

/* keel_vm_shared.events */
#define KEEL_EVENT_RESET                                                                           \
	(1u << 0) /* the guest asked for a reset; all vCPUs are stopped until KEEL_HC_VM_RUN */
#define KEEL_EVENT_TRIPLE_FAULT                                                                    \
	(1u << 1)                    /* likewise, by a triple fault (reset_cause says which vCPU) */
#define KEEL_EVENT_CONSOLE (1u << 2) /* console output became available */
#define KEEL_EVENT_STATE   (1u << 3) /* run / pause / park state changed */
#define KEEL_EVENT_DEAD                                                                            \
	(1u << 4) /* a vCPU cannot go on (hardware refused its state); the VM is stopped */

/*
 * One exit slot a vCPU: an access that only root can answer. States and owners:
 *   IDLE     hyp owns all fields.
 *   PENDING  root owns result and may read the rest. hyp wrote the request, then state (release),
 * then the exit_pending bit, then the event. (root writes data for a read, then calls
 * KEEL_HC_EXIT_COMPLETE, which moves the slot to IDLE and lets the vCPU go on) A device process
 * that attaches finds PENDING slots and answers them: the request is unchanged until completed, and
 * completing twice is refused with -KEEL_EAGAIN because the sequence number does not fit.
 */
#define KEEL_SLOT_IDLE    0u
#define KEEL_SLOT_PENDING 1u

#define KEEL_EXIT_PIO_READ   1u
#define KEEL_EXIT_PIO_WRITE  2u
#define KEEL_EXIT_MMIO_READ  3u
#define KEEL_EXIT_MMIO_WRITE 4u

struct keel_exit_slot {
	uint32_t state;        /* hyp (release) */
	uint32_t kind;         /* hyp: KEEL_EXIT_* */
	uint32_t sequence;     /* hyp: counts exits of this vCPU; EXIT_COMPLETE must repeat it */
	uint32_t size;         /* hyp: bytes, 1, 2, 4 or 8 */
	uint64_t address;      /* hyp: port or GPA */
	uint64_t data;         /* write: hyp; read: root */
	uint64_t since_tsc;    /* hyp: host TSC when it parked */
	uint64_t reserved[11]; /* 0 */
};
KEEL_ASSERT_SIZE(struct keel_exit_slot, 128);
KEEL_ASSERT_OFFSET(struct keel_exit_slot, address, 16);
KEEL_ASSERT_OFFSET(struct keel_exit_slot, data, 24);

struct keel_vm_shared {
	uint64_t magic;        /* hyp */
	uint32_t version;      /* hyp: KEEL_ABI_VERSION */
	uint32_t vcpus;        /* hyp */
	uint64_t exit_pending; /* bit vCPU: its slot became PENDING; hyp sets, root clears */
	uint32_t events;       /* KEEL_EVENT_*; hyp sets, root clears */
	uint32_t reset_cause;  /* hyp: KEEL_RESET_* of the last reset event */
	uint64_t doorbells[8]; /* bit n: doorbell n rung; hyp sets, root clears */
	uint64_t reserved[20]; /* 0 */
	struct keel_exit_slot slots[KEEL_MAX_VCPUS];
};
KEEL_ASSERT_OFFSET(struct keel_vm_shared, exit_pending, 16);
KEEL_ASSERT_OFFSET(struct keel_vm_shared, events, 24);
KEEL_ASSERT_OFFSET(struct keel_vm_shared, doorbells, 32);
KEEL_ASSERT_OFFSET(struct keel_vm_shared, slots, 256);
KEEL_ASSERT_SIZE(struct keel_vm_shared, 256 + 128 * 64);

#define KEEL_RESET_PORT         1u /* port 64h, 92h, CF9h */
#define KEEL_RESET_TRIPLE_FAULT 2u
#define KEEL_RESET_AWAY         3u /* the VM's policy: root was away for too long */
#define KEEL_RESET_AWAY_STOP    4u /* likewise, and it is not to be started again */
