/* SPDX-License-Identifier: BSD-2-Clause */
/* One physical CPU's own data, found from the stack pointer: hyp needs no GS, FS or TR of its own.
 */
#pragma once

#include "abi/types.h"
#include "hyp/x86/addr.h"

struct vcpu;

#define CPU_MAX 64u
/* Aligned to its size; struct percpu stands at its top; the page below is unmapped. */
#define CPU_STACK_BYTES 16384u

/*
 * Between VMRUN's exit and the load of anything of ours, GS, FS, TR and LDTR are still the guest's.
 * Interrupt stubs therefore use no IST and no segment base: `percpu()` masks the stack pointer.
 * Fields tagged (o) are touched by the owner CPU only, (a) are atomics that other CPUs may touch,
 * (c) are constant after start.
 */
struct percpu {
	uint32_t index;               /* (c) 0..cpu_count-1; 0 is the boot CPU */
	uint32_t apic_id;             /* (c) */
	uint64_t pending_for_root[4]; /* (o) vectors acknowledged in hyp (ISR bit set, no EOI sent)
	                                 that root has not got yet */
	uint32_t timer_fired;  /* (o) set by the stub when hyp's own timer vector arrived (already
	                          EOIed) */
	uint32_t nmi_seen;     /* (o) count of NMIs taken in hyp */
	uint32_t kick_pending; /* (a) another CPU asked this one to look at its queues; sent with an
	                          NMI */
	uint32_t kicks_under_way;  /* (a) CPUs in the middle of kicking this one */
	uint64_t kick_tsc;         /* (a) when its last NMI was sent */
	uint32_t stray_interrupts; /* (o) vectors that arrived where the manual forbids it (GIF 0):
	                              emulator faults */
	struct vcpu *current;      /* (o) whose register state (FPU, VMLOAD set) is on this CPU */
	struct vcpu *root;         /* (c) root's vCPU pinned here */
	void *vendor;     /* (c) hsave area etc., owned by hyp/svm or hyp/vmx: physical page in
	                     vendor_hpa */
	hpa_t vendor_hpa; /* (c) */
	uint64_t
	        timer_deadline_tsc; /* (o) what the local timer is armed for; UINT64_MAX: nothing */
	void *sched;                /* (c) hyp/core's run queue of this CPU */
	uint32_t x2apic;            /* (o) this CPU's APIC is in x2APIC mode now */
	uint32_t root_closed;       /* (o) root cannot take an interrupt now: edges are put off */
	uint64_t put_off[4];        /* (o) vectors taken and ended in hyp, to be sent again */
	uint8_t pending_more[256];  /* (o) how often a vector was acknowledged again while it was
	                               pending for root */
};

/*
 * A vector that hyp acknowledged on root's behalf, and its way to root. The local APIC ends vectors
 * by priority and not by name: root's EOI of a vector that it handles ends a higher one that hyp
 * acknowledged meanwhile, which may then come a second time. Root must get it as often as it was
 * acknowledged, else an EOI is missing and a vector stays in service for ever.
 */
static inline void percpu_pend_vector(struct percpu *p, uint8_t vector)
{
	uint64_t bit = 1ull << (vector % 64);

	if ((p->pending_for_root[vector / 64] & bit) && p->pending_more[vector] < 255)
		p->pending_more[vector]++;
	p->pending_for_root[vector / 64] |= bit;
}

static inline void percpu_unpend_vector(struct percpu *p, uint8_t vector)
{
	if (p->pending_more[vector] > 0)
		p->pending_more[vector]--;
	else
		p->pending_for_root[vector / 64] &= ~(1ull << (vector % 64));
}

static inline struct percpu *percpu(void)
{
	uint64_t sp;

	__asm__("mov %%rsp, %0" : "=r"(sp));
	return (struct percpu *)((sp & ~(uint64_t)(CPU_STACK_BYTES - 1)) + CPU_STACK_BYTES -
	                         sizeof(struct percpu));
}

extern unsigned cpu_count; /* CPUs that came up; constant after start */
struct percpu *percpu_of(unsigned index);
