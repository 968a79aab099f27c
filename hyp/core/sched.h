/* SPDX-License-Identifier: BSD-2-Clause */
/* Which vCPU runs on this CPU next: root in front when it has an interrupt, VMs by weight, halted
 * ones by their timers. */
#pragma once

#include "hyp/core/partition.h"

/* All of these run with host interrupts held. Those marked (any) may be called for a vCPU of
 * another CPU. */
void sched_init_cpu(void);
/* The vCPU to run now, already marked RUNNING; NULL: nothing is runnable. Root runs if
 * root_wants_cpu() and the policy says so. */
struct vcpu *sched_next(void);
/* How long (host TSC) the given vCPU may run before sched_next is asked again; UINT64_MAX: nobody
 * else waits here. */
uint64_t sched_slice_end(const struct vcpu *v);
/* Earliest host TSC at which timers of halted vCPUs homed here, or of their VMs' shared devices,
 * are due; UINT64_MAX: none. */
uint64_t sched_timer_deadline(void);
/* Runs the timers that are due (of halted vCPUs and shared devices), which may wake vCPUs. */
void sched_run_timers(void);
/* The current vCPU stops being runnable (HALTED, EXIT, WAIT_SIPI, PAUSED), or goes back to the
 * queue (READY). */
void sched_put(struct vcpu *v, enum vcpu_state state);
/* (any) It has something to do: HALTED or as `from` says becomes READY on its CPU (or an idle one),
 * RUNNING gets a kick. */
void sched_wake(struct vcpu *v);
/* (any) A VM's vCPUs come to life or leave for ever (the VM is paused). */
void sched_add(struct vcpu *v);
void sched_remove(struct vcpu *v);
