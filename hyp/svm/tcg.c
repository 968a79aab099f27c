/* SPDX-License-Identifier: BSD-2-Clause */
/* Entering a guest on QEMU's emulated SVM, whose faults the lab has to live with. */

#include "abi/hypercall.h"
#include "hw/apic.h"
#include "hw/msr.h"
#include "hyp/cpu/cpu.h"
#include "hyp/svm/svm.h"
#include "hyp/x86/x86.h"

/*
 * What QEMU's TCG (7.2 to 10.0) does against the manual, and what is done about it here. None of
 * this runs on a real CPU.
 *
 * A vector comes twice. VMRUN delivers an injected interrupt by itself and leaves its number as
 * "exception to deliver": if the emulator's thread is then called away before any exit, it delivers
 * that again, at any instruction and whatever RFLAGS.IF says. So an NMI is made pending before such
 * an entry: it ends the run right after the delivery, and with that the number is forgotten.
 *
 * Events get lost. VMRUN with V_IRQ set (the interrupt window) changes the CPU's word of pending
 * requests without the lock that others hold who set bits in it at that moment: an NMI of theirs,
 * or the news of an interrupt in the APIC, is gone. The window's exit comes soon. After it the APIC
 * is made to look again at what it has, by a write of its TPR; a lost NMI is found by its age
 * (cpu_kick_find_lost).
 *
 * Hyp's paging stays off. #VMEXIT loads hyp's CR0 while EFER and CR4 are the guest's still, and
 * takes it for a refused one if that would be long mode without CR4.PAE: all else is hyp's then,
 * but hyp runs on without paging, through whatever memory follows. So a guest with EFER.LME that
 * does not page yet is lent CR4.PAE, which does nothing until it pages.
 *
 * The boot CPU is worse still: see park=boot in hyp/x86/smp.c.
 */

static bool injects_interrupt(const struct vmcb *vmcb)
{
	return (vmcb->event_inject & VMCB_EVENT_VALID) &&
	       VMCB_EVENT_TYPE(vmcb->event_inject) == CPU_INJECT_INTR;
}

void tcg_enter(struct cpu_vcpu *c, struct cpu_regs *regs)
{
	bool window = c->vmcb->vintr & VMCB_V_IRQ;

	uint64_t lent = (c->vmcb->efer & EFER_LME) && !(c->vmcb->cr0 & CR0_PG)
	                        ? CR4_PAE & ~c->vmcb->cr4
	                        : 0;

	c->vmcb->cr4 |= lent;
	if (injects_interrupt(c->vmcb))
		cpu_kick_self_surely();
	svm_enter(c->vmcb_hpa, regs);
	if (!(c->vmcb->cr0 & CR0_PG))
		c->vmcb->cr4 &= ~lent;
	if (window)
		apic_write(APIC_REG_TPR, apic_read(APIC_REG_TPR));
}
