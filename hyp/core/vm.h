/* SPDX-License-Identifier: BSD-2-Clause */
/* What only VMs have beside struct partition and struct vcpu, and how they live and die. */
#pragma once

#include "abi/shared.h"
#include "hyp/core/doorbell.h"
#include "hyp/core/msr_policy.h"
#include "hyp/core/partition.h"
#include "hyp/dev/platform.h"
#include "lib/insn.h"

/*
 * Essay: the life of a VM.
 *
 * A slot of the table goes FREE -> CREATING -> ALIVE -> DYING -> FREE under the table's lock. Only
 * ALIVE ones are found by vm_get, which counts users; a VM is destroyed only when its destroyer is
 * the only user. Hence no lock is held over the long work of either end.
 *
 * Whether an ALIVE VM runs is `run`, and each vCPU looks at it first thing in vm_run. To stop a VM,
 * `run` is cleared, every vCPU is either taken from its queue or told to look, and the VM is still
 * as soon as all are PAUSED and `inside` (CPUs in vm_run or in its devices' timers for this VM) is
 * 0. Nobody waits for that: the hypercall comes again (HYPERCALL_AGAIN) until it is so.
 *
 * Parking. A vCPU that needs root writes its own record of the access (struct vcpu_access), then
 * the slot in the shared area, then leaves its CPU as EXIT. Nothing is read back from the slot:
 * root may write there what it likes. EXIT_COMPLETE brings the data and makes it READY again, and
 * vm_run takes up the instruction where it stood.
 */

#define VM_LOG_ONCE 64u

/* What of an instruction is under way while its vCPU waits for root. */
enum vcpu_pending {
	PENDING_NONE,
	PENDING_PIO,  /* IN or OUT without string */
	PENDING_STEP, /* an emulated instruction: vcpu_vm.step */
};

/* hyp's own record of an access that only root can answer. */
struct vcpu_access {
	uint32_t kind; /* KEEL_EXIT_* */
	uint32_t size;
	uint64_t address;
	uint64_t data;
};

/* (o) the owning CPU only, (a) atomic, (q) as struct vcpu says. */
struct vcpu_vm {
	struct vm *vm;             /* (c) */
	uint32_t run_state;        /* (o) KEEL_RUN_READY, WAIT_SIPI, HALTED or EXIT */
	enum vcpu_pending pending; /* (o) */
	bool answered;             /* (o) data of `access` is there: pending may go on */
	struct vcpu_access access; /* (o) */
	uint32_t sequence;         /* (o) of the exit slot */
	uint32_t parked;           /* (a) 1: an answer is taken; who sets it to 0 may give it */
	struct insn_step step;     /* (o) */
	uint8_t piece_done; /* (o) bytes of the step's piece that are read or written already */
	uint8_t pio_length; /* (o) bytes of the IN or OUT that waits */
	/* An injection that an exit cut short. */
	uint8_t cut_type, cut_vector; /* (o) */
	bool cut_has_error;
	uint32_t cut_error;
	/* An exception that hyp raises at the next entry; comes before all else. */
	bool fault; /* (o) */
	uint8_t fault_vector;
	bool fault_has_error;
	uint32_t fault_error;

	uint64_t tsc_adjust;         /* (o) guest TSC = host TSC + vm->tsc_offset + tsc_adjust */
	uint64_t msrs[MSR_STORES];   /* (o) of those that msr_policy only keeps */
	uint64_t system_time_msr;    /* (o) kvmclock */
	uint64_t pv_eoi_msr;         /* (o) */
	uint8_t *pv_eoi_flag;        /* (o) in guest RAM; NULL: off */
	bool pv_eoi_armed;           /* (o) the flag was set and not yet looked at */
	bool window_on, cr8_trap_on; /* (o) what the hardware was told */
	uint64_t fx[64]
	        __attribute__((aligned(64))); /* (o) FXSAVE image while an SSE move is emulated */

	uint64_t timer_tsc; /* (q) host TSC of the LAPIC timer while HALTED */
};

enum vm_life {
	VM_FREE,
	VM_CREATING,
	VM_ALIVE,
	VM_DYING,
};

/* (c) constant after creation, (a) atomic, (l) under partition.lock, (q) home queue's lock. */
struct vm {
	struct partition partition;
	uint32_t id;                     /* (c) */
	char name[KEEL_VM_NAME_BYTES];   /* (c) */
	uint8_t uuid[16];                /* (c) */
	uint32_t flags, weight;          /* (c) */
	uint32_t away_policy, away_ms;   /* (c) KEEL_AWAY_* */
	uint64_t ram_bytes, vault_bytes; /* (c) */
	uint64_t firmware_bytes;         /* (c) of ram_bytes, its end */
	uint32_t *frames;                /* (c) HPA >> 21 of each page: RAM, then vault */
	uint32_t ram_frames;             /* (c) */
	uint32_t vault_frames;           /* (c) */
	struct keel_vm_shared *shared;   /* (c) in the vault: root may write anything there */
	struct platform *platform;       /* (c) */
	struct platform_config config;   /* (c) */
	uint8_t *console;                /* (c) */
	uint64_t created_tsc;            /* (c) host TSC */
	uint64_t tsc_offset;             /* (c) */
	uint64_t wall_msr;               /* (o: any vCPU) kvmclock */

	uint32_t run;                    /* (a) the vCPUs may run */
	uint32_t inside;                 /* (a) CPUs that are at work for it */
	uint32_t control;                /* (a) a call of root's that needs its vCPUs still, or
	                                    changes whether they are */
	uint32_t state;                  /* (a) KEEL_VM_STATE_* */
	uint32_t resets;                 /* (a) */
	uint32_t exits_waiting;          /* (a) */
	uint32_t away_exits;             /* (a) exits that began while root was away */
	uint32_t home_cpu;               /* (c) runs the timers of the shared devices */
	uint64_t shared_timer_tsc;       /* (q) host TSC */
	struct vm *home_next;            /* (q) VMs whose timers that CPU runs */
	bool homed;                      /* (q) is in that list */
	struct doorbell_table doorbells; /* its own lock */
	uint32_t logged[VM_LOG_ONCE];    /* (l) what was reported once already */
	uint32_t logged_count;           /* (l) */
	uint32_t told;                   /* (a) times that a vCPU of it was described in the log */
};

static inline struct vcpu *vm_vcpu(struct vm *vm, uint32_t index)
{
	return &vm->partition.vcpus[index];
}

static inline uint64_t vm_now(const struct vm *vm, uint64_t host_tsc)
{
	return host_tsc + vm->tsc_offset;
}

/* Guest TSC of a deadline to host TSC; "never" stays so. */
static inline uint64_t vm_host_tsc(const struct vm *vm, uint64_t guest_tsc)
{
	return guest_tsc == PLATFORM_NEVER ? UINT64_MAX : guest_tsc - vm->tsc_offset;
}

/* Life. -KEEL_E*, 0, or HYPERCALL_AGAIN. create fills head.vm. */
int64_t vm_create_check(const struct keel_hc_vm_create *c);
/* Needs: vm_create_check gave 0. caller tells calls that come again from others (the block's
 * address). */
int64_t vm_create(struct keel_hc_vm_create *c, uint64_t caller);
/* Needs: vm from vm_get. 0: it is gone, and the reference with it. */
int64_t vm_destroy(struct vm *vm);
struct vm *vm_get(uint32_t id);      /* NULL: no such VM */
struct vm *vm_get_next(uint32_t id); /* the first with an id >= id */
void vm_put(struct vm *vm);
uint32_t vm_count(void);

int64_t vm_start(struct vm *vm);
int64_t vm_pause(struct vm *vm);
int64_t vm_reset(struct vm *vm);
bool vm_is_still(struct vm *vm);
/* From a vCPU's own exit, or its device: all vCPUs stop and root is told. */
void vm_stop(struct vm *vm, uint32_t state, uint32_t event, uint32_t cause);
/* True the first time that key is seen for this VM (at most VM_LOG_ONCE different ones). */
bool vm_log_once(struct vm *vm, uint32_t key);
/* The device callbacks of platform_ops, all VMs'. */
extern const struct platform_ops vm_platform_ops;
/* Power-on values of what a vCPU has beside the hardware's registers. sipi: -1 for power-on or
 * INIT. */
void vcpu_vm_reset(struct vcpu *v, bool init);
