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
uint64_t sched_slice_end(struct vcpu *v);
/* Earliest host TSC at which timers of halted vCPUs homed here, or of their VMs' shared devices,
 * are due; UINT64_MAX: none. */
uint64_t sched_timer_deadline(void);
/* Runs the timers that are due (of halted vCPUs and shared devices), which may wake vCPUs. */
void sched_run_timers(void);
/* The current vCPU stops being runnable (HALTED, EXIT, WAIT_SIPI, PAUSED), or goes back to the
 * queue (READY). Charges its time. With `look` set, HALTED and WAIT_SIPI become READY. */
void sched_put(struct vcpu *v, enum vcpu_state state);
/* (any) It has something to do: HALTED or WAIT_SIPI becomes READY on its CPU (or an idle one),
 * RUNNING gets a kick. */
void sched_wake(struct vcpu *v);
/* (any) EXIT becomes READY. False: it was not EXIT. */
bool sched_unpark(struct vcpu *v);
/* (any) Out of all queues. True: it is PAUSED and its registers are in memory. False: not yet, ask
 * again. */
bool sched_pause(struct vcpu *v);
/* (any) A paused vCPU comes to life as READY, or as EXIT if it waits for root. */
void sched_resume(struct vcpu *v, bool parked);
/* (any) A VM's vCPUs get a CPU, or leave for ever (PAUSED). */
void sched_add(struct vcpu *v);
void sched_remove(struct vcpu *v);
/* The current one had an exit by PAUSE. If it spins, its slice ends and who waits goes before it,
 * although it may have used less. */
void sched_spin(struct vcpu *v);
/* True when another vCPU waits for this CPU. Root does not count: a guest spins in its delays too,
 * and would lose its CPU to it in each. */
bool sched_is_contended(void);
/* (any) The VM's shared devices have their timers run by its home CPU, or no longer. */
void sched_vm_start(struct vm *vm);
void sched_vm_stop(struct vm *vm);
/* (any) An access may have changed the deadline of a VM's shared devices. */
void sched_vm_timer(struct vm *vm);
