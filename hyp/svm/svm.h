/* SPDX-License-Identifier: BSD-2-Clause */
/* AMD's part of a vCPU, shared by the files of hyp/svm only. */
#pragma once

#include "hw/vmcb.h"
#include "hyp/cpu/cpu.h"

/*
 * Who holds which register while hyp runs. VMRUN and #VMEXIT swap what the VMCB's state area holds
 * except FS, GS, TR, LDTR, KernelGSBase, the syscall and sysenter MSRs: those stay the guest's
 * until cpu_switch saves them (VMSAVE) and loads the next one's (VMLOAD). The same holds for the
 * FPU, XCR0, DR0-3 and TSC_AUX. hyp itself needs none of them.
 */

/* (c) constant, (o) owner CPU only, (a) atomic. */
struct cpu_vcpu {
	struct vmcb *vmcb;               /* (c) */
	uint64_t vmcb_hpa;               /* (c) */
	enum cpu_role role;              /* (c) */
	const struct cpu_nested *nested; /* (c) */
	uint8_t *xsave;                  /* (c) XSAVE area, 64-byte aligned */
	uint8_t *msrpm;                  /* (c) 8 KiB */
	uint8_t *iopm;                   /* (c) 12 KiB */
	uint64_t xcr0;                   /* (o) valid while not loaded */
	uint64_t xss;                    /* (o) what the guest believes; always 0 */
	uint64_t tsc_aux;                /* (o) valid while not loaded */
	uint64_t dr[4];                  /* (o) valid while not loaded */
	bool loaded;                     /* (o) the hardware holds the registers named above */
	uint32_t asid_cpu;               /* (o) CPU on which asid is valid */
	uint64_t asid_generation;        /* (o) */
	uint32_t flush;                  /* (a) translations are stale */
	bool nmi_in_service;             /* (o) an NMI was injected and its IRET has not finished */
	bool nmi_iret;                   /* (o) its IRET is about to run, at nmi_iret_rip */
	uint64_t nmi_iret_rip;
	bool nmi_step;     /* (o) another waits behind that IRET, which is single-stepped */
	uint64_t serial;   /* (c) no other vCPU ever has it */
	uint64_t debugctl; /* (o) what the guest believes */
	bool cr8_trap;     /* (o) the core wants writes of CR8 */
};

/* What the CPU offers; set by cpu_probe. */
extern uint32_t svm_features; /* CPUID 8000000Ah EDX */
extern uint32_t svm_asids;
extern bool svm_has_1g, svm_has_xsave, svm_has_tsc_aux, svm_has_ibpb;
extern uint64_t svm_xcr0_all; /* every state component of this CPU's XCR0 */
extern uint32_t svm_xsave_bytes;

static inline void vmcb_intercept(struct vmcb *vmcb, unsigned bit, bool on)
{
	if (on)
		vmcb->intercepts[bit / 32] |= 1u << (bit % 32);
	else
		vmcb->intercepts[bit / 32] &= ~(1u << (bit % 32));
}

static inline bool vmcb_intercepts(const struct vmcb *vmcb, unsigned bit)
{
	return vmcb->intercepts[bit / 32] >> (bit % 32) & 1;
}

/* hyp/svm/switch.S: VMRUN between loading and saving all GPRs but RAX and RSP, which the VMCB
 * holds. */
void svm_enter(uint64_t vmcb_hpa, struct cpu_regs *regs);
extern char svm_enter_return[]; /* where VMRUN comes back to */
/* The same around svm_enter where cpu_loses_events. */
void tcg_enter(struct cpu_vcpu *c, struct cpu_regs *regs);

/* Gives c an ASID valid on this CPU and sets the VMCB's TLB control. */
void svm_asid_prepare(struct cpu_vcpu *c);
/* Turns the VMCB's exit into our own words. */
void svm_exit_translate(struct cpu_vcpu *c, const struct cpu_regs *regs, struct cpu_exit *exit);
/* While loaded, the VMCB lacks FS, GS, TR … (VMLOAD set): writes them there. */
void svm_sync_from_hardware(struct cpu_vcpu *c);
/* The VMCB's VMLOAD set was changed: takes it into the hardware if c is loaded. */
void svm_sync_to_hardware(struct cpu_vcpu *c);
