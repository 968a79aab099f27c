/* SPDX-License-Identifier: BSD-2-Clause */
/* Entering a guest on QEMU's emulated SVM, whose faults the lab has to live with. */

#include "abi/hypercall.h"
#include "hw/apic.h"
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
 * or the news of an interrupt in the APIC, is gone. A CPU was also seen asleep with two vectors
 * waiting in its APIC, and why is not known. So the APIC is made to look again at what it has, by a
 * write of its TPR, before each entry and before each sleep, and after a window's exit, which comes
 * soon. A lost NMI is found by its age (cpu_kick_find_lost).
 *
 * A VM's CR8 was found in the real APIC's TPR, where it kept root's interrupts out for ever, though
 * V_INTR_MASKING keeps them apart. It is put back.
 */

static bool injects_interrupt(const struct vmcb *vmcb)
{
	return (vmcb->event_inject & VMCB_EVENT_VALID) &&
	       VMCB_EVENT_TYPE(vmcb->event_inject) == CPU_INJECT_INTR;
}

void tcg_enter(struct cpu_vcpu *c, struct cpu_regs *regs)
{
	bool window = c->vmcb->vintr & VMCB_V_IRQ, vm = c->role == CPU_ROLE_VM;
	uint32_t before = apic_read(APIC_REG_TPR), after;

	apic_write(APIC_REG_TPR, before);
	if (injects_interrupt(c->vmcb))
		cpu_kick_self_surely();
	svm_enter(c->vmcb_hpa, regs);
	if (!vm && !window)
		return;
	after = apic_read(APIC_REG_TPR);
	/* Root may have changed its own. */
	if (vm && after != before)
		apic_write(APIC_REG_TPR, before);
	else if (window)
		apic_write(APIC_REG_TPR, after);
}
