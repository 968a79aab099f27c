/* SPDX-License-Identifier: BSD-2-Clause */
/* The loop that each CPU lives in, and what it shares with root's and the VMs' side. */
#pragma once

#include "hyp/core/partition.h"

/* Runs the VM's vCPU until it stops being RUNNING, its slice ends, or root must run
 * (hyp/core/vm_run.c). */
void vm_run(struct vcpu *v);
/*
 * Root's hypercall (hyp/core/hypercall.c): number and argument block as abi/hypercall.h says;
 * returns what RAX gets, or HYPERCALL_AGAIN: the work is not finished (long zeroing, a vCPU that
 * still runs). RAX and RIP then stay as they are, so that root takes its interrupts and runs the
 * same VMMCALL again.
 */
#define HYPERCALL_AGAIN INT64_MIN
int64_t hypercall_root(struct vcpu *v, uint64_t number, uint64_t block_gpa, uint64_t bytes);
/* Arms this CPU's timer for hyp's deadline or root's, whichever is first; before each entry
 * (hyp/core/root_apic.c). */
void timer_set_hyp_deadline(uint64_t host_tsc);
/*
 * Takes pending host interrupts and sorts them: after cpu_run came back for one, or interrupts_wait
 * ended. True: a kick or another NMI came, so what was looked at before may be old. Who calls
 * interrupts_take alone leaves a kick pending, and the next kick is then not sent.
 */
bool interrupts_sort(void);
/* Counts v->exit by its kind. */
void vcpu_count_exit(struct vcpu *v);
/* Loads v's registers into this CPU and saves those of whoever had it; NULL: only saves. */
void vcpu_make_current(struct vcpu *v);
/* Time that all CPUs spent with nothing to run, in TSC ticks. */
uint64_t idle_total_tsc(void);
