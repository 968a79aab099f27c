/* SPDX-License-Identifier: BSD-2-Clause */
/* ASIDs: handed out per CPU in generations, so that few of them serve any number of vCPUs (APM
 * 24593 §15.16). */

#include "hyp/svm/svm.h"
#include "hyp/x86/x86.h"

/*
 * Each CPU counts ASIDs up; when they are used up the whole TLB is flushed and a new generation
 * begins. A vCPU's ASID holds on one CPU and in one generation. A vCPU whose translations are stale
 * simply takes a new ASID: no flush by ASID is needed, which not every CPU has.
 */
static struct {
	uint64_t generation;
	uint32_t next;
	uint32_t reserved[13];
} asids[CPU_MAX];

void svm_asid_prepare(struct cpu_vcpu *c)
{
	uint32_t cpu = percpu()->index;
	bool stale = __atomic_exchange_n(&c->flush, 0, __ATOMIC_ACQUIRE);

	c->vmcb->tlb_control = VMCB_TLB_NOTHING;
	if (!stale && c->asid_cpu == cpu && c->asid_generation == asids[cpu].generation &&
	        asids[cpu].generation != 0)
		return;
	if (asids[cpu].generation == 0 || asids[cpu].next >= svm_asids) {
		asids[cpu].generation++;
		asids[cpu].next = 1;
		c->vmcb->tlb_control = VMCB_TLB_FLUSH_ALL;
	}
	c->vmcb->asid = asids[cpu].next++;
	c->asid_cpu = cpu;
	c->asid_generation = asids[cpu].generation;
}

void cpu_flush(struct cpu_vcpu *c)
{
	__atomic_store_n(&c->flush, 1, __ATOMIC_RELEASE);
}
