/* SPDX-License-Identifier: BSD-2-Clause */
/* Root's side of the core: its vCPUs, its view of memory, its timer and its interrupt from hyp. */
#pragma once

#include "hyp/core/partition.h"
#include "hyp/x86/boot_info.h"

/* Builds root's partition and loads its kernel. Boot CPU, before smp_release. Panics with a reason
 * if it cannot. */
void root_create(const struct boot_info *info);
/* True when root's vCPU of this CPU can use it now: running code, or halted with an interrupt for
 * it. */
bool root_wants_cpu(void);
/* True when an interrupt for root waits on this CPU: root goes in front at once. One that root does
 * not let in (IF 0) counts only for a while: a root that hangs so must not keep VMs from the CPU.
 */
bool root_has_interrupt(void);
#define VECTOR_MC 18u
/* The CPU reported a machine check while a VM ran: root, which has the banks, takes it. */
void root_machine_check(void);
/* Root's vCPU of this CPU would take an interrupt at its next entry. */
bool root_is_open(void);
/* Runs root's vCPU of this CPU until it gives the CPU up (HLT, slice end, kick). */
void root_run(struct vcpu *v);

/* (any CPU) Maps or hides pool memory for root: 2 MiB multiples, identity. Returns when no CPU has
 * a stale translation. */
void root_map_pool(hpa_t start, uint64_t bytes, bool visible);
/* (any CPU) Changes what root sees at gpa (4 KiB multiples); flags 0 hides. Returns as
 * root_map_pool. 0 or -KEEL_ENOMEM. */
int root_map(gpa_t gpa, hpa_t hpa, uint64_t bytes, unsigned flags);
/* (any CPU) Raises the event interrupt (vector 0 of the hyp PCI function). */
void root_raise_event(void);
/* A VM has something for root: sets its bit in the root event page and raises the event if the word
 * was 0. */
void root_notify_vm(uint32_t vm_id);
/* Copies between root's memory at a GPA and hyp, refusing what root may not touch. Not more than a
 * page-crossing pair. False: refused. */
bool root_copy_in(void *to, uint64_t gpa, size_t bytes);
bool root_copy_out(uint64_t gpa, const void *from, size_t bytes);

extern struct keel_root_shared *root_shared;
extern uint64_t root_entry_tsc; /* when root's first instruction ran */
extern uint64_t root_refused;   /* accesses of root to memory that it has no right to */
