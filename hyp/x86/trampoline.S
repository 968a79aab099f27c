/* SPDX-License-Identifier: BSD-2-Clause */
/* Where an application CPU wakes up: copied to a page below 1 MiB, straight from real mode to long mode. */
#include "hw/msr.h"

#define CODE64 0x08

	.section .rodata
	.balign 16
	.globl trampoline_start, trampoline_end
	.globl trampoline_cr3, trampoline_stack, trampoline_entry
trampoline_start:
	.code16
	cli
	cld
	mov %cs, %ax
	mov %ax, %ds
	/* The page's own linear address goes into the GDT pointer and the far pointer. */
	movzwl %ax, %eax
	shl $4, %eax
	add %eax, gdt_pointer - trampoline_start + 2
	add %eax, far_pointer - trampoline_start
	lgdtl gdt_pointer - trampoline_start
	mov $CR4_PAE, %eax
	mov %eax, %cr4
	mov trampoline_cr3 - trampoline_start, %eax
	mov %eax, %cr3
	mov $MSR_EFER, %ecx
	xor %edx, %edx
	mov $(EFER_LME | EFER_NXE), %eax
	wrmsr
	mov $(CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_PG), %eax
	mov %eax, %cr0
	ljmpl *(far_pointer - trampoline_start)
	.code64
long_mode:
	xor %eax, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov %eax, %fs
	mov %eax, %gs
	mov trampoline_stack(%rip), %rsp
	xor %ebp, %ebp
	mov trampoline_entry(%rip), %rax
	call *%rax
	ud2

	.balign 8
gdt:
	.quad 0
	.quad 0x00af9b000000ffff
gdt_pointer:
	.short . - gdt - 1
	.long gdt - trampoline_start
	.balign 4
far_pointer:
	.long long_mode - trampoline_start
	.short CODE64
	.balign 8
trampoline_cr3:
	.quad 0
trampoline_stack:
	.quad 0
trampoline_entry:
	.quad 0
trampoline_end:
	.section .note.GNU-stack, "", @progbits
