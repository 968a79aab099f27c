/* SPDX-License-Identifier: BSD-2-Clause */
/* Single registers of a vCPU by our own names, wherever SVM keeps each. */

#include "hyp/cpu/cpu.h"
#include "hw/msr.h"
#include "hyp/svm/svm.h"
#include "hyp/x86/x86.h"

#define IN_VMCB(reg, field) [reg] = (uint16_t)offsetof(struct vmcb, field)

/* Registers that are one 64-bit field of the VMCB; 0: kept elsewhere. */
static const uint16_t fields[CPU_REG_COUNT] = {
        IN_VMCB(CPU_CR0, cr0),
        IN_VMCB(CPU_CR2, cr2),
        IN_VMCB(CPU_CR3, cr3),
        IN_VMCB(CPU_CR4, cr4),
        IN_VMCB(CPU_FS_BASE, fs.base),
        IN_VMCB(CPU_GS_BASE, gs.base),
        IN_VMCB(CPU_KERNEL_GS_BASE, kernel_gs_base),
        IN_VMCB(CPU_STAR, star),
        IN_VMCB(CPU_LSTAR, lstar),
        IN_VMCB(CPU_CSTAR, cstar),
        IN_VMCB(CPU_SFMASK, sfmask),
        IN_VMCB(CPU_SYSENTER_CS, sysenter_cs),
        IN_VMCB(CPU_SYSENTER_ESP, sysenter_esp),
        IN_VMCB(CPU_SYSENTER_EIP, sysenter_eip),
        IN_VMCB(CPU_PAT, g_pat),
};

static uint64_t *field(struct cpu_vcpu *c, enum cpu_reg reg)
{
	return (uint64_t *)(void *)((uint8_t *)c->vmcb + fields[reg]);
}

static bool paging_register(enum cpu_reg reg)
{
	return reg == CPU_CR0 || reg == CPU_CR3 || reg == CPU_CR4 || reg == CPU_EFER ||
	       reg == CPU_PAT;
}

uint64_t cpu_reg_get(struct cpu_vcpu *c, enum cpu_reg reg)
{
	if (fields[reg] != 0) {
		svm_sync_from_hardware(c);
		return *field(c, reg);
	}
	switch (reg) {
	case CPU_CR8: return c->vmcb->vintr & 0xf;
	case CPU_EFER: return c->vmcb->efer & ~(uint64_t)EFER_SVME;
	case CPU_XCR0: {
		uint32_t lo, hi;

		if (!c->loaded || !svm_has_xsave)
			return c->xcr0;
		__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
		return ((uint64_t)hi << 32) | lo;
	}
	case CPU_TSC_AUX: return c->loaded && svm_has_tsc_aux ? msr_read(MSR_TSC_AUX) : c->tsc_aux;
	case CPU_DEBUGCTL: return c->debugctl;
	case CPU_XSS: return c->xss;
	default: panic("svm: register %d cannot be read", (int)reg);
	}
}

void cpu_reg_set(struct cpu_vcpu *c, enum cpu_reg reg, uint64_t value)
{
	if (paging_register(reg))
		cpu_flush(c);
	if (fields[reg] != 0) {
		svm_sync_from_hardware(c);
		*field(c, reg) = value;
		svm_sync_to_hardware(c);
		return;
	}
	switch (reg) {
	case CPU_CR8: c->vmcb->vintr = (c->vmcb->vintr & ~VMCB_V_TPR_MASK) | (value & 0xf); break;
	case CPU_EFER: c->vmcb->efer = value | EFER_SVME; break;
	case CPU_XCR0:
		c->xcr0 = value;
		if (c->loaded && svm_has_xsave)
			__asm__ volatile(
			        "xsetbv"
			        :
			        : "c"(0), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
		break;
	case CPU_TSC_AUX:
		c->tsc_aux = value;
		if (c->loaded && svm_has_tsc_aux)
			msr_write(MSR_TSC_AUX, value);
		break;
	case CPU_DEBUGCTL: c->debugctl = value; break;
	case CPU_XSS: c->xss = value; break;
	default: panic("svm: register %d cannot be written", (int)reg);
	}
}
