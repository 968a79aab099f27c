/* SPDX-License-Identifier: BSD-2-Clause */
/* From SVM's exit codes to our own names: nothing above this file sees a VMCB (APM 24593 appendix
 * C). */

#include "hyp/svm/svm.h"
#include "hyp/x86/x86.h"

#define K(name) (uint8_t) KEEL_KIND_##name

/* Codes 0 to 8Fh. A hole is KEEL_KIND_NONE and becomes OTHER. */
static const uint8_t kinds[0x90] = {
        [SVM_EXIT_CR_READ... SVM_EXIT_CR_WRITE + 15] = K(CR),
        [SVM_EXIT_DR_READ... SVM_EXIT_DR_WRITE + 15] = K(DR),
        [SVM_EXIT_EXCEPTION... SVM_EXIT_EXCEPTION + 31] = K(EXCEPTION),
        [SVM_EXIT_INTR] = K(INTERRUPT),
        [SVM_EXIT_NMI] = K(NMI),
        [SVM_EXIT_SMI] = K(OTHER),
        [SVM_EXIT_INIT] = K(INIT),
        [SVM_EXIT_VINTR] = K(WINDOW),
        [SVM_EXIT_CR0_SEL] = K(CR),
        [SVM_EXIT_RDPMC] = K(UNDEFINED),
        [SVM_EXIT_CPUID] = K(CPUID),
        [SVM_EXIT_IRET] = K(WINDOW),
        [SVM_EXIT_INVD] = K(WBINVD),
        [SVM_EXIT_PAUSE] = K(PAUSE),
        [SVM_EXIT_HLT] = K(HALT),
        [SVM_EXIT_INVLPGA] = K(UNDEFINED),
        [SVM_EXIT_IOIO] = K(PIO),
        [SVM_EXIT_MSR] = K(MSR_READ),
        [SVM_EXIT_TASK_SWITCH] = K(OTHER),
        [0x7e] = K(OTHER), /* FERR freeze */
        [SVM_EXIT_SHUTDOWN] = K(SHUTDOWN),
        [SVM_EXIT_VMRUN] = K(UNDEFINED),
        [SVM_EXIT_VMMCALL] = K(HYPERCALL),
        [SVM_EXIT_VMLOAD... SVM_EXIT_SKINIT] = K(UNDEFINED),
        [SVM_EXIT_WBINVD] = K(WBINVD),
        [SVM_EXIT_MONITOR] = K(UNDEFINED),
        [SVM_EXIT_MWAIT] = K(UNDEFINED),
        [SVM_EXIT_MWAIT_COND] = K(UNDEFINED),
        [SVM_EXIT_XSETBV] = K(XSETBV),
        [0x8e] = K(UNDEFINED), /* RDPRU */
};

static void translate_pio(const struct vmcb *v, const struct cpu_regs *regs, struct cpu_exit *x)
{
	uint32_t info = (uint32_t)v->exit_info1;

	x->port = (uint16_t)(info >> 16);
	x->size = (uint8_t)SVM_IOIO_SIZE(info);
	x->write = !(info & SVM_IOIO_IN);
	x->string = info & SVM_IOIO_STRING;
	x->rep = info & SVM_IOIO_REP;
	x->address_size = info & SVM_IOIO_ADDR16 ? 2 : info & SVM_IOIO_ADDR32 ? 4 : 8;
	x->segment = (uint8_t)SVM_IOIO_SEG(info);
	x->length = (uint8_t)(v->exit_info2 -
	                      regs->rip); /* RIP of the next instruction, always there (§15.10.2) */
}

static void translate_npf(const struct vmcb *v, struct cpu_exit *x)
{
	x->gpa = v->exit_info2;
	x->write = v->exit_info1 & SVM_NPF_WRITE;
	x->fetch = v->exit_info1 & SVM_NPF_FETCH;
	x->table_walk = v->exit_info1 & SVM_NPF_TABLE_WALK;
	x->present = v->exit_info1 & SVM_NPF_PRESENT;
	x->length = 0;
	if (svm_features & SVM_FEATURE_DECODE_ASSISTS && v->fetched <= 15) {
		x->insn_bytes = v->fetched;
		__builtin_memcpy(x->insn, v->fetched_bytes, sizeof(x->insn));
	}
}

static void translate_cr(const struct vmcb *v, struct cpu_exit *x, uint32_t code)
{
	x->write = code & 0x10;
	x->reg = (uint8_t)(code & 15);
	x->gpr = 0xff;
	if (svm_features & SVM_FEATURE_DECODE_ASSISTS && (v->exit_info1 >> 63))
		x->gpr = v->exit_info1 & 15;
}

/*
 * An event whose delivery this exit cut short (§15.7.2, §15.20). Software interrupts and INT3/INTO
 * run again by themselves, as RIP is still at the instruction. The emulator gives external
 * interrupts as type 3: no exception has a vector from 32 on, so that is put right here.
 */
static void translate_cut(const struct vmcb *v, struct cpu_exit *x)
{
	uint64_t e = v->exit_int_info;
	unsigned type = VMCB_EVENT_TYPE(e);
	uint8_t vector = VMCB_EVENT_VECTOR(e);

	x->cut_type = CPU_INJECT_NONE;
	if (!(e & VMCB_EVENT_VALID) || type == CPU_INJECT_SOFT)
		return;
	if (type == CPU_INJECT_EXCEPTION && (vector == 3 || vector == 4))
		return;
	if (type == CPU_INJECT_EXCEPTION && vector >= 32)
		type = CPU_INJECT_INTR;
	x->cut_type = (uint8_t)type;
	x->cut_vector = vector;
	x->cut_has_error = type == CPU_INJECT_EXCEPTION && (e & VMCB_EVENT_ERROR);
	x->cut_error = VMCB_EVENT_CODE(e);
}

/*
 * The emulator saves hyp's own state as the guest's when it believes, after an exit, that nested
 * paging is still on (on its boot CPU; park=boot in hyp/x86/smp.c avoids it): the guest's RIP is
 * then where VMRUN comes back to, and its page tables are hyp's. What the guest had is lost, so its
 * state is as invalid as one that VMRUN refuses. (A guest that makes this up itself stops only
 * itself.)
 */
static bool is_hosts_own(const struct vmcb *v)
{
	uint64_t cr3;

	if (v->rip != (uint64_t)(uintptr_t)svm_enter_return)
		return false;
	__asm__ volatile("mov %%cr3, %0" : "=r"(cr3));
	if (v->cr3 != cr3)
		return false;
	log_line(
	        "svm: the emulator's fault: it saved hyp's own state as a guest's (exit code %llx)",
	        (unsigned long long)v->exit_code);
	return true;
}

void svm_exit_translate(struct cpu_vcpu *c, const struct cpu_regs *regs, struct cpu_exit *x)
{
	const struct vmcb *v = c->vmcb;
	uint32_t code = (uint32_t)v->exit_code;

	x->vendor_code = code;
	x->insn_bytes = 0;
	x->length = 0;
	if (svm_features & SVM_FEATURE_NRIP && v->next_rip > regs->rip &&
	        v->next_rip - regs->rip <= 15)
		x->length = (uint8_t)(v->next_rip - regs->rip);
	translate_cut(v, x);
	if (code == SVM_EXIT_INVALID || is_hosts_own(v)) {
		x->kind = KEEL_KIND_INVALID;
		return;
	}
	if (code == SVM_EXIT_NPF) {
		x->kind = KEEL_KIND_MMIO;
		translate_npf(v, x);
		return;
	}
	x->kind = code < sizeof(kinds) ? (enum keel_exit_kind)kinds[code] : KEEL_KIND_OTHER;
	switch (x->kind) {
	case KEEL_KIND_NONE: x->kind = KEEL_KIND_OTHER; break;
	case KEEL_KIND_PIO: translate_pio(v, regs, x); break;
	case KEEL_KIND_MSR_READ:
		x->write = v->exit_info1 & 1;
		x->kind = x->write ? KEEL_KIND_MSR_WRITE : KEEL_KIND_MSR_READ;
		break;
	case KEEL_KIND_CR:
	case KEEL_KIND_DR: translate_cr(v, x, code); break;
	case KEEL_KIND_EXCEPTION:
		x->vector = (uint8_t)(code - SVM_EXIT_EXCEPTION);
		x->error_code = (uint32_t)v->exit_info1;
		break;
	default: break;
	}
}
