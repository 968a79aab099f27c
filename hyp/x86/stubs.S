/* SPDX-License-Identifier: BSD-2-Clause */
/* Interrupt stubs, and the two windows in which hyp lets interrupts in. No IST, GS, FS or TR: see percpu.h. */

	.text
	.balign 16
	.globl interrupt_stubs
interrupt_stubs:
vector = 0
	.rept 256
	.balign 16
	/* Vectors with an error code: 8, 10-14, 17, 21, 29, 30 (APM 24593 vol. 2 §8.2). */
	.if !((vector == 8) || ((vector >= 10) && (vector <= 14)) || (vector == 17) || \
		(vector == 21) || (vector == 29) || (vector == 30))
	push $0
	.endif
	pushq $vector
	jmp stub_common
vector = vector + 1
	.endr

/* Builds struct interrupt_frame (interrupts.h). */
stub_common:
	push %rax
	push %rcx
	push %rdx
	push %rbx
	push %rbp
	push %rsi
	push %rdi
	push %r8
	push %r9
	push %r10
	push %r11
	push %r12
	push %r13
	push %r14
	push %r15
	cld
	mov %rsp, %rdi
	call interrupt_dispatch
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %r11
	pop %r10
	pop %r9
	pop %r8
	pop %rdi
	pop %rsi
	pop %rbp
	pop %rbx
	pop %rdx
	pop %rcx
	pop %rax
	add $16, %rsp
	iretq

/*
 * An STI holds interrupts off for one more instruction, STGI does not (APM 24593 vol. 3 "STGI"). The windows' labels tell
 * interrupt_dispatch whether a vector came where it may.
 */
	.globl window_take_gif, window_take_gif_start, window_take_gif_last
window_take_gif:
	sti
	stgi
window_take_gif_start:
	nop
	nop
window_take_gif_last:
	clgi
	cli
	ret

	.globl window_take_if, window_take_if_start, window_take_if_last
window_take_if:
	sti
	nop
window_take_if_start:
	nop
window_take_if_last:
	cli
	ret

/* Anything that arrives from ..._start to the HLT itself resumes at ..._end: nobody sleeps after what would have woken him. */
	.globl window_wait_gif, window_wait_gif_start, window_wait_gif_hlt, window_wait_gif_end
window_wait_gif:
	sti
	stgi
window_wait_gif_start:
	nop
window_wait_gif_hlt:
	hlt
window_wait_gif_end:
	clgi
	cli
	ret

/* %rdi: this CPU's kick_pending. NMIs may come at any instruction here, so the look at it is inside the window. */
	.globl window_wait_if, window_wait_if_start, window_wait_if_hlt, window_wait_if_end
window_wait_if:
window_wait_if_start:
	cmpl $0, (%rdi)
	jne window_wait_if_end
	sti
window_wait_if_hlt:
	hlt
window_wait_if_end:
	nop
	cli
	ret

/* bool msr_read_safe(uint32_t msr, uint64_t *v), bool msr_write_safe(uint32_t msr, uint64_t v): false on #GP. */
	.globl msr_read_safe, msr_write_safe
msr_read_safe:
	mov %edi, %ecx
1:	rdmsr
	shl $32, %rdx
	or %rdx, %rax
	mov %rax, (%rsi)
	mov $1, %eax
	ret
msr_write_safe:
	mov %edi, %ecx
	mov %esi, %eax
	mov %rsi, %rdx
	shr $32, %rdx
2:	wrmsr
	mov $1, %eax
	ret
fixup_false:
	xor %eax, %eax
	ret

	/* Pairs: an instruction that may fault, where to go on. */
	.section .fixup_table, "a"
	.quad 1b, fixup_false
	.quad 2b, fixup_false
	.section .note.GNU-stack, "", @progbits
