/* SPDX-License-Identifier: BSD-2-Clause */
/* A vCPU's registers outside of its run: switching the hardware between vCPUs, and state by groups.
 */

#include "hyp/cpu/cpu.h"
#include "abi/hypercall.h"
#include "hw/msr.h"
#include "hyp/svm/svm.h"
#include "hyp/x86/x86.h"

static uint64_t xcr0_read(void)
{
	uint32_t lo, hi;

	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return ((uint64_t)hi << 32) | lo;
}

static void xcr0_write(uint64_t v)
{
	__asm__ volatile("xsetbv" : : "c"(0), "a"((uint32_t)v), "d"((uint32_t)(v >> 32)));
}

/* All components are saved, not only those that the guest's XCR0 enables now: it may have turned
 * one off with its state live. */
static void fpu_save(struct cpu_vcpu *c)
{
	if (!svm_has_xsave) {
		__asm__ volatile("fxsave64 %0" : "=m"(*(uint8_t(*)[512])c->xsave));
		return;
	}
	c->xcr0 = xcr0_read();
	if (c->xcr0 != svm_xcr0_all)
		xcr0_write(svm_xcr0_all);
	__asm__ volatile("xsave64 (%0)" : : "r"(c->xsave), "a"(-1), "d"(-1) : "memory");
}

static void fpu_load(struct cpu_vcpu *c)
{
	if (!svm_has_xsave) {
		__asm__ volatile("fxrstor64 %0" : : "m"(*(uint8_t(*)[512])c->xsave));
		return;
	}
	if (xcr0_read() != svm_xcr0_all)
		xcr0_write(svm_xcr0_all);
	__asm__ volatile("xrstor64 (%0)" : : "r"(c->xsave), "a"(-1), "d"(-1) : "memory");
	if (c->xcr0 != svm_xcr0_all)
		xcr0_write(c->xcr0);
}

static void debug_save(struct cpu_vcpu *c)
{
	__asm__ volatile("mov %%dr0, %0" : "=r"(c->dr[0]));
	__asm__ volatile("mov %%dr1, %0" : "=r"(c->dr[1]));
	__asm__ volatile("mov %%dr2, %0" : "=r"(c->dr[2]));
	__asm__ volatile("mov %%dr3, %0" : "=r"(c->dr[3]));
}

static void debug_load(const struct cpu_vcpu *c)
{
	__asm__ volatile("mov %0, %%dr0" : : "r"(c->dr[0]));
	__asm__ volatile("mov %0, %%dr1" : : "r"(c->dr[1]));
	__asm__ volatile("mov %0, %%dr2" : : "r"(c->dr[2]));
	__asm__ volatile("mov %0, %%dr3" : : "r"(c->dr[3]));
}

static void vmsave(const struct cpu_vcpu *c)
{
	__asm__ volatile("vmsave %0" : : "a"(c->vmcb_hpa) : "memory");
}

static void vmload(const struct cpu_vcpu *c)
{
	__asm__ volatile("vmload %0" : : "a"(c->vmcb_hpa) : "memory");
}

void svm_sync_from_hardware(struct cpu_vcpu *c)
{
	if (c->loaded)
		vmsave(c);
}

void svm_sync_to_hardware(struct cpu_vcpu *c)
{
	if (c->loaded)
		vmload(c);
}

/*
 * What one VM taught the branch predictors of this CPU must not steer another one (PRED_CMD.IBPB,
 * APM 24593 "Speculation Control MSRs"). Root in between changes nothing: it is trusted, and guards
 * its own kernel.
 */
static void predictors_flush(const struct cpu_vcpu *to)
{
	static uint64_t last[CPU_MAX]; /* (o) serial of the VM's vCPU that ran here last */
	uint64_t *mine = &last[percpu()->index];

	if (to->role != CPU_ROLE_VM || *mine == to->serial)
		return;
	*mine = to->serial;
	if (svm_has_ibpb)
		msr_write(MSR_PRED_CMD, 1);
}

void cpu_switch(struct cpu_vcpu *from, struct cpu_vcpu *to)
{
	if (from == to)
		return;
	if (from != NULL) {
		vmsave(from);
		fpu_save(from);
		debug_save(from);
		if (svm_has_tsc_aux)
			from->tsc_aux = msr_read(MSR_TSC_AUX);
		from->loaded = false;
	}
	if (to != NULL) {
		predictors_flush(to);
		vmload(to);
		fpu_load(to);
		debug_load(to);
		if (svm_has_tsc_aux)
			msr_write(MSR_TSC_AUX, to->tsc_aux);
		to->loaded = true;
	}
}

/* hyp has CR4.PKE on, and no user pages for which it would matter (APM vol 2 §5.6.7). */
static uint32_t pkru_read(void)
{
	uint32_t pkru;

	__asm__ volatile("rdpkru" : "=a"(pkru) : "c"(0) : "rdx");
	return pkru;
}

void cpu_mode_get(struct cpu_vcpu *c, struct cpu_mode *out)
{
	struct vmcb *v = c->vmcb;

	svm_sync_from_hardware(c);
	*out = (struct cpu_mode){
	        .pkru = c->loaded && v->cr4 & CR4_PKE ? pkru_read() : 0,
	        .cr0 = v->cr0,
	        .cr3 = v->cr3,
	        .cr4 = v->cr4,
	        .efer = v->efer & ~(uint64_t)EFER_SVME,
	        .cpl = v->cpl,
	        .long_mode = (v->efer & EFER_LMA) && (v->cs.attr & 0x200),
	        .default_32 = v->cs.attr & 0x400,
	        .seg_base = {v->es.base, v->cs.base, v->ss.base, v->ds.base, v->fs.base,
	                v->gs.base},
	};
}

static void segment_get(const struct vmcb_segment *s, struct keel_segment *out)
{
	*out = (struct keel_segment){
	        .base = s->base, .limit = s->limit, .selector = s->selector, .attr = s->attr};
}

static void segment_set(struct vmcb_segment *s, const struct keel_segment *in)
{
	*s = (struct vmcb_segment){
	        .base = in->base, .limit = in->limit, .selector = in->selector, .attr = in->attr};
}

/* Where each of enum keel_seg stands in the VMCB. */
static struct vmcb_segment *segment_of(struct vmcb *v, unsigned i)
{
	struct vmcb_segment *const at[8] = {
	        &v->es, &v->cs, &v->ss, &v->ds, &v->fs, &v->gs, &v->ldtr, &v->tr};

	return at[i];
}

static void msrs_get(const struct vmcb *v, struct keel_vcpu_state *out)
{
	out->star = v->star;
	out->lstar = v->lstar;
	out->cstar = v->cstar;
	out->sfmask = v->sfmask;
	out->kernel_gs_base = v->kernel_gs_base;
	out->sysenter_cs = v->sysenter_cs;
	out->sysenter_esp = v->sysenter_esp;
	out->sysenter_eip = v->sysenter_eip;
	out->pat = v->g_pat;
}

static void msrs_set(struct vmcb *v, const struct keel_vcpu_state *in)
{
	v->star = in->star;
	v->lstar = in->lstar;
	v->cstar = in->cstar;
	v->sfmask = in->sfmask;
	v->kernel_gs_base = in->kernel_gs_base;
	v->sysenter_cs = in->sysenter_cs;
	v->sysenter_esp = in->sysenter_esp;
	v->sysenter_eip = in->sysenter_eip;
	v->g_pat = in->pat;
}

void cpu_state_get(struct cpu_vcpu *c, const struct cpu_regs *regs, struct keel_vcpu_state *out)
{
	struct vmcb *v = c->vmcb;

	svm_sync_from_hardware(c);
	__builtin_memcpy(out->gpr, regs->gpr, sizeof(out->gpr));
	out->rip = regs->rip;
	out->rflags = regs->rflags;
	for (unsigned i = 0; i < 8; i++)
		segment_get(segment_of(v, i), &out->segs[i]);
	segment_get(&v->gdtr, &out->gdtr);
	segment_get(&v->idtr, &out->idtr);
	out->cr0 = v->cr0;
	out->cr2 = v->cr2;
	out->cr3 = v->cr3;
	out->cr4 = v->cr4;
	out->efer = v->efer & ~(uint64_t)EFER_SVME;
	msrs_get(v, out);
	out->groups = KEEL_VCPU_GPR | KEEL_VCPU_SEGS | KEEL_VCPU_CONTROL | KEEL_VCPU_MSRS;
}

/* What VMRUN would refuse (APM 24593 §15.5.1), refused here with nothing changed. */
static bool control_is_legal(const struct keel_vcpu_state *in)
{
	bool paging = in->cr0 & CR0_PG;

	if ((in->cr0 >> 32) || (in->cr0 & CR0_NW && !(in->cr0 & CR0_CD)))
		return false;
	if (paging && !(in->cr0 & CR0_PE))
		return false;
	if (in->efer & ~(uint64_t)(EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE))
		return false;
	if ((in->efer & EFER_LME) && paging && !(in->cr4 & CR4_PAE))
		return false;
	if (!(in->efer & EFER_LMA) != !((in->efer & EFER_LME) && paging))
		return false;
	return !(in->cr3 >> 52) && !(in->cr4 >> 32);
}

int cpu_state_set(struct cpu_vcpu *c, struct cpu_regs *regs, const struct keel_vcpu_state *in)
{
	struct vmcb *v = c->vmcb;

	if ((in->groups & KEEL_VCPU_CONTROL) && !control_is_legal(in))
		return -KEEL_EINVAL;
	svm_sync_from_hardware(c);
	if (in->groups & KEEL_VCPU_GPR) {
		__builtin_memcpy(regs->gpr, in->gpr, sizeof(in->gpr));
		regs->rip = in->rip;
		regs->rflags = in->rflags | RFLAGS_FIXED;
	}
	if (in->groups & KEEL_VCPU_SEGS) {
		for (unsigned i = 0; i < 8; i++)
			segment_set(segment_of(v, i), &in->segs[i]);
		segment_set(&v->gdtr, &in->gdtr);
		segment_set(&v->idtr, &in->idtr);
		v->cpl = (uint8_t)((in->segs[KEEL_SS].attr >> 5) & 3);
	}
	if (in->groups & KEEL_VCPU_CONTROL) {
		v->cr0 = in->cr0;
		v->cr2 = in->cr2;
		v->cr3 = in->cr3;
		v->cr4 = in->cr4;
		v->efer = in->efer | EFER_SVME;
		cpu_flush(c);
	}
	if (in->groups & KEEL_VCPU_MSRS)
		msrs_set(v, in);
	svm_sync_to_hardware(c);
	return 0;
}
