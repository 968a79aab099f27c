/* SPDX-License-Identifier: BSD-2-Clause */
/* Partitions (root and VMs) and their vCPUs: the structs that all of hyp/core works on. */
#pragma once

#include "abi/exits.h"
#include "abi/hypercall.h"
#include "hyp/core/sched_policy.h"
#include "hyp/x86/arena.h"
#include "hyp/cpu/cpu.h"
#include "hyp/dev/platform.h"
#include "hyp/x86/addr.h"
#include "lib/spinlock.h"

struct partition;
struct vm;        /* hyp/core/vm.h: what only VMs have */
struct root_vcpu; /* hyp/core/root.h: what only root's vCPUs have */

/*
 * Where a vCPU is in its life. Only the CPU that owns it (vcpu.cpu) changes it from RUNNING;
 * wake-ups from elsewhere go through sched_wake, which looks at it under the run queue's lock.
 */
enum vcpu_state {
	VCPU_WAIT_SIPI, /* application processor before its start */
	VCPU_READY,     /* on a run queue */
	VCPU_RUNNING,   /* current on a CPU */
	VCPU_HALTED,    /* HLT: until an interrupt, NMI or INIT */
	VCPU_EXIT,      /* VM: parked on its exit slot until root answers */
	VCPU_PAUSED,    /* VM: the partition does not run */
};

struct vcpu_counters {
	uint64_t run_tsc;
	uint64_t exits[KEEL_EXIT_KINDS];
	uint64_t interrupts, ipis, halts, doorbells, root_exits, root_wait_tsc, migrations;
};

/* Fields: (c) constant, (o) the owning CPU only, (q) under the run queue's lock, (a) atomic. */
struct vcpu {
	struct partition *partition; /* (c) */
	uint32_t index;              /* (c) within the partition; LAPIC id for VMs */
	struct cpu_vcpu *cpu_state;  /* (c) vendor's part */
	struct cpu_regs regs;        /* (o) */
	struct cpu_exit exit;        /* (o) the last exit */
	uint32_t cpu;                /* (q) CPU that owns it; root: its own for ever */
	enum vcpu_state state;       /* (q) */
	uint32_t look; /* (a) something new: platform_next_event, pause, reset … before the next
	                  entry */
	struct vcpu *queue_next;       /* (q) */
	uint64_t vruntime;             /* (q) weighted CPU time, TSC ticks */
	uint64_t slice_start_tsc;      /* (o) */
	struct sched_spins spins;      /* (o) */
	uint64_t park_tsc;             /* (o) when it parked on its exit slot */
	struct vcpu_counters counters; /* (o) writes; read by anyone, may be a little old */
	struct vcpu_vm *vm;            /* (c) VM part (hyp/core/vm.h), NULL for root */
	struct root_vcpu *root;        /* (c) root part, NULL for VMs */
};

struct partition {
	uint32_t id;              /* (c) 0: root */
	uint32_t vcpu_count;      /* (c) */
	struct vcpu *vcpus;       /* (c) array */
	struct cpu_nested nested; /* under lock */
	struct arena arena;       /* creation only */
	struct spinlock lock;
	struct vm *vm; /* (c) NULL for root */
};

extern struct partition root_partition;

static inline bool partition_is_root(const struct partition *p)
{
	return p->id == 0;
}
