/* SPDX-License-Identifier: BSD-2-Clause */
/* AMD's world switch: everything around one VMRUN (APM 24593 §15.5). */

#include "hyp/svm/offsets.h"

	.text
	.globl svm_enter
	.type svm_enter, @function
/*
 * void svm_enter(uint64_t vmcb_hpa (rdi), struct cpu_regs *regs (rsi))
 * Needs: GIF 0. IF is 1 across VMRUN, for with V_INTR_MASKING the host's IF decides whether a physical interrupt ends the guest's run; GIF
 * keeps it from reaching hyp.
 */
svm_enter:
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	pushq	%rsi
	movq	%rdi, %rax
	movq	REGS_RCX(%rsi), %rcx
	movq	REGS_RDX(%rsi), %rdx
	movq	REGS_RBX(%rsi), %rbx
	movq	REGS_RBP(%rsi), %rbp
	movq	REGS_RDI(%rsi), %rdi
	movq	REGS_R8(%rsi), %r8
	movq	REGS_R9(%rsi), %r9
	movq	REGS_R10(%rsi), %r10
	movq	REGS_R11(%rsi), %r11
	movq	REGS_R12(%rsi), %r12
	movq	REGS_R13(%rsi), %r13
	movq	REGS_R14(%rsi), %r14
	movq	REGS_R15(%rsi), %r15
	movq	REGS_RSI(%rsi), %rsi
	sti
	vmrun	%rax
	.globl svm_enter_return
svm_enter_return:
	cli
	/* RSP and RAX are the host's again; RAX holds nothing of the guest's. */
	movq	(%rsp), %rax
	movq	%rcx, REGS_RCX(%rax)
	movq	%rdx, REGS_RDX(%rax)
	movq	%rbx, REGS_RBX(%rax)
	movq	%rbp, REGS_RBP(%rax)
	movq	%rsi, REGS_RSI(%rax)
	movq	%rdi, REGS_RDI(%rax)
	movq	%r8, REGS_R8(%rax)
	movq	%r9, REGS_R9(%rax)
	movq	%r10, REGS_R10(%rax)
	movq	%r11, REGS_R11(%rax)
	movq	%r12, REGS_R12(%rax)
	movq	%r13, REGS_R13(%rax)
	movq	%r14, REGS_R14(%rax)
	movq	%r15, REGS_R15(%rax)
	/* Nothing of the guest's stays in a register that hyp might use for speculation or leak. */
	xorl	%ecx, %ecx
	xorl	%edx, %edx
	xorl	%esi, %esi
	xorl	%edi, %edi
	xorl	%r8d, %r8d
	xorl	%r9d, %r9d
	xorl	%r10d, %r10d
	xorl	%r11d, %r11d
	popq	%rsi
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	cld
	ret
	.size svm_enter, . - svm_enter
	.section .note.GNU-stack, "", @progbits
