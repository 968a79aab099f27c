/* SPDX-License-Identifier: BSD-2-Clause */
/* A tiny guest's first instructions, the way of the other vCPUs from real mode, and exception entries. */

#define BOARD_TABLES 0x10000
#define TRAMPOLINE   0x8000

	.section .text.start, "ax"
	.code64
	.globl guest_start
guest_start:
	movq	$boot_stack_end, %rsp
	xorl	%ebp, %ebp
	xorl	%edi, %edi
	call	guest_cpu_setup
	call	guest_begin
1:	cli
	hlt
	jmp	1b

/*
 * The other way in: as a Multiboot 1 image, by any loader (`lab/guest-suite build/guest/suite`). It
 * does what the runner does else: page tables, 64-bit mode, and the info block, in multiboot.c.
 */
	.balign	4
	.long	0x1badb002, 3, -(0x1badb002 + 3)
	.code32
	.globl guest_multiboot
guest_multiboot:
	movl	%ebx, %esi
	movl	$BOARD_TABLES, %edi
	xorl	%eax, %eax
	movl	$(6 * 1024), %ecx
	rep stosl
	movl	$(BOARD_TABLES + 0x1003), BOARD_TABLES
	movl	$(BOARD_TABLES + 0x2003), %eax
	movl	$(BOARD_TABLES + 0x1000), %edi
1:	movl	%eax, (%edi)
	addl	$0x1000, %eax
	addl	$8, %edi
	cmpl	$(BOARD_TABLES + 0x1020), %edi
	jne	1b
	movl	$0x83, %eax
	movl	$(BOARD_TABLES + 0x2000), %edi
1:	movl	%eax, (%edi)
	addl	$0x200000, %eax
	addl	$8, %edi
	cmpl	$(BOARD_TABLES + 0x6000), %edi
	jne	1b
	movl	$0x620, %eax
	movl	%eax, %cr4
	movl	$BOARD_TABLES, %eax
	movl	%eax, %cr3
	movl	$0xc0000080, %ecx
	movl	$0x900, %eax
	xorl	%edx, %edx
	wrmsr
	movl	$0x80010033, %eax
	movl	%eax, %cr0
	lgdtl	multiboot_gdtr
	ljmpl	$8, $1f
	.code64
1:	movl	$0x10, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	movl	%eax, %fs
	movl	%eax, %gs
	movq	$boot_stack_end, %rsp
	movl	%esi, %edi
	call	guest_from_multiboot
	jmp	guest_start
	.balign	8
multiboot_gdt:
	.quad	0, 0x00af9b000000ffff, 0x00cf93000000ffff
multiboot_gdtr:
	.word	23
	.long	multiboot_gdt

/* Copied to TRAMPOLINE; a vCPU starts here in real mode with CS = 800h. */
	.balign	16
	.code16
	.globl trampoline, trampoline_end, trampoline_index
trampoline:
	cli
	xorw	%ax, %ax
	movw	%ax, %ds
	lgdtl	TRAMPOLINE + trampoline_gdtr - trampoline
	movl	$0x620, %eax
	movl	%eax, %cr4
	movl	$BOARD_TABLES, %eax
	movl	%eax, %cr3
	movl	$0xc0000080, %ecx
	movl	$0x900, %eax
	xorl	%edx, %edx
	wrmsr
	movl	$0x80010033, %eax
	movl	%eax, %cr0
	ljmpl	$8, $(TRAMPOLINE + trampoline64 - trampoline)
	.code64
trampoline64:
	movl	$0x10, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	movl	%eax, %fs
	movl	%eax, %gs
	movl	TRAMPOLINE + trampoline_index - trampoline, %edi
	movq	$ap_entry, %rax
	jmp	*%rax
	.balign	8
trampoline_gdt:
	.quad	0, 0x00af9b000000ffff, 0x00cf93000000ffff
trampoline_gdtr:
	.word	23
	.long	TRAMPOLINE + trampoline_gdt - trampoline
trampoline_index:
	.long	0
trampoline_end:

	.text
ap_entry:
	/* edi: index, from 1 on */
	movl	%edi, %eax
	shll	$14, %eax
	leaq	ap_stacks(%rax), %rsp
	xorl	%ebp, %ebp
	pushq	%rdi
	call	guest_cpu_setup
	popq	%rdi
	pushq	$0
	call	guest_ap_begin
1:	hlt
	jmp	1b

/* Entries of all 256 vectors, 16 bytes each. */
	.balign	16
	.globl guest_entries
guest_entries:
	vector = 0
	.rept	256
	.balign	16
	.if !(vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21)
	pushq	$0
	.endif
	pushq	$vector
	jmp	entry_common
	vector = vector + 1
	.endr

entry_common:
	pushq	%rax
	pushq	%rbx
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	pushq	%rbp
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	cld
	movq	%rsp, %rdi
	movq	%rsp, %rbp
	andq	$-16, %rsp
	call	guest_trap
	movq	%rbp, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rbp
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%rcx
	popq	%rbx
	popq	%rax
	addq	$16, %rsp
	iretq

/* int catch_call(fn, argument, uint64_t *rsp): -1, or what guest_uncatch is given. */
	.globl catch_call, guest_uncatch
catch_call:
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	pushfq
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rsp, (%rdx)
	call	*%rax
	movl	$-1, %eax
1:	popfq
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	ret
/* guest_uncatch(rsp, vector) */
guest_uncatch:
	movq	%rdi, %rsp
	movl	%esi, %eax
	jmp	1b

	.bss
	.balign	16
	.skip	16384
boot_stack_end:
ap_stacks:
	.skip	8 * 16384
	.section .note.GNU-stack, "", @progbits
