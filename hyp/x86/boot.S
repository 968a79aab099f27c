/* SPDX-License-Identifier: BSD-2-Clause */
/* hyp's first instructions: the Multiboot heads, and the way from 32-bit protected mode to x86_start in the high half. */
#include "hw/msr.h"
#include "hw/multiboot.h"

#define COM1             0x3f8
#define BOOT_CS          0x08
#define BOOT_DS          0x10
#define PD_ENTRIES       2048 /* 4 GiB in 2 MiB pages */
#define CPUID_LONG_MODE  (1 << 29)
#define CPUID_NX         (1 << 20)
#define DIRECT_MAP_SLOT  256
#define IMAGE_SLOT       511
#define IMAGE_PDPT_SLOT  510
#define STACK_BYTES      16384

	.section .boot.header, "a"
	.balign 8
mb1_header:
	.long MB1_HEADER_MAGIC
	.long MB1_HEADER_PAGE_ALIGN | MB1_HEADER_MEMORY
	.long -(MB1_HEADER_MAGIC + (MB1_HEADER_PAGE_ALIGN | MB1_HEADER_MEMORY))

	.balign 8
mb2_header:
	.long MB2_HEADER_MAGIC
	.long 0 /* i386, 32-bit protected mode, under UEFI too */
	.long mb2_header_end - mb2_header
	.long -(MB2_HEADER_MAGIC + (mb2_header_end - mb2_header))
	.balign 8
	.short MB2_HEADER_TAG_MODULE_ALIGN, 0
	.long 8
	.balign 8
	.short MB2_HEADER_TAG_END, 0
	.long 8
mb2_header_end:

	.section .boot, "awx"
	.code32
	.globl boot_entry
boot_entry:
	cli
	cld
	mov %eax, %edi /* loader's magic */
	mov %ebx, %esi /* its block */
	mov $boot_low_stack_end, %esp
	rdtsc
	mov %eax, boot_entry_tsc
	mov %edx, boot_entry_tsc + 4
	call check_cpu
	call fill_tables
	mov $CR4_PAE, %eax
	mov %eax, %cr4
	mov $boot_pml4, %eax
	mov %eax, %cr3
	mov $MSR_EFER, %ecx
	xor %edx, %edx
	mov $(EFER_LME | EFER_NXE), %eax
	wrmsr
	mov $(CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_PG), %eax
	mov %eax, %cr0
	lgdt boot_gdt_pointer
	ljmp $BOOT_CS, $boot_long

/* Long mode and NX, or one line on COM1 and the end. */
check_cpu:
	mov $0x80000000, %eax
	cpuid
	cmp $0x80000001, %eax
	jb 1f
	mov $0x80000001, %eax
	cpuid
	and $(CPUID_LONG_MODE | CPUID_NX), %edx
	cmp $(CPUID_LONG_MODE | CPUID_NX), %edx
	jne 1f
	ret
1:	mov $no_long_mode, %esi
	jmp refuse

/* Prints the line at %esi and stops. */
refuse:
	mov $COM1 + 3, %dx
	mov $0x80, %al
	out %al, %dx
	mov $COM1, %dx
	mov $1, %al /* 115200 */
	out %al, %dx
	inc %dx
	xor %al, %al
	out %al, %dx
	mov $COM1 + 3, %dx
	mov $3, %al
	out %al, %dx
1:	mov $0x10000, %ecx
2:	mov $COM1 + 5, %dx
	in %dx, %al
	test $0x20, %al
	loopz 2b
	lodsb
	test %al, %al
	jz 3f
	mov $COM1, %dx
	out %al, %dx
	jmp 1b
3:	cli
	hlt
	jmp 3b

/* The first 4 GiB at 0 and in the direct map, the first GiB in the image's place. */
fill_tables:
	movl $boot_pdpt_low + (PTE_PRESENT | PTE_WRITE), boot_pml4
	movl $boot_pdpt_low + (PTE_PRESENT | PTE_WRITE), boot_pml4 + DIRECT_MAP_SLOT * 8
	movl $boot_pdpt_high + (PTE_PRESENT | PTE_WRITE), boot_pml4 + IMAGE_SLOT * 8
	movl $boot_pd + (PTE_PRESENT | PTE_WRITE), boot_pdpt_low
	movl $boot_pd + 0x1000 + (PTE_PRESENT | PTE_WRITE), boot_pdpt_low + 8
	movl $boot_pd + 0x2000 + (PTE_PRESENT | PTE_WRITE), boot_pdpt_low + 16
	movl $boot_pd + 0x3000 + (PTE_PRESENT | PTE_WRITE), boot_pdpt_low + 24
	movl $boot_pd + (PTE_PRESENT | PTE_WRITE), boot_pdpt_high + IMAGE_PDPT_SLOT * 8
	mov $boot_pd, %ebx
	mov $(PTE_PRESENT | PTE_WRITE | PTE_LARGE), %eax
	mov $PD_ENTRIES, %ecx
1:	mov %eax, (%ebx)
	add $0x200000, %eax
	add $8, %ebx
	loop 1b
	ret

	.code64
boot_long:
	mov $BOOT_DS, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	xor %eax, %eax
	mov %eax, %fs
	mov %eax, %gs
	mov $boot_stack_end, %rsp
	sub $512, %rsp /* struct percpu stands at the top; asserted in start.c */
	mov %edi, %edi
	mov %esi, %esi
	mov boot_entry_tsc, %rdx
	xor %ebp, %ebp
	mov $x86_start, %rax
	call *%rax
	ud2

	.balign 8
boot_gdt:
	.quad 0
	.quad 0x00af9b000000ffff
	.quad 0x00cf93000000ffff
boot_gdt_pointer:
	.short . - boot_gdt - 1
	.long boot_gdt
	.balign 8
boot_entry_tsc:
	.quad 0
no_long_mode:
	.asciz "keelOS cannot run here: this CPU has no 64-bit mode with NX\r\n"

	.section .boot_bss, "aw", @nobits
	.balign 4096
boot_pml4:
	.skip 4096
boot_pdpt_low:
	.skip 4096
boot_pdpt_high:
	.skip 4096
boot_pd:
	.skip 4096 * 4
	.skip 256
boot_low_stack_end:

	.section .bss
	.balign STACK_BYTES
	.skip STACK_BYTES
boot_stack_end:

	.text
/* void switch_stack(uint64_t cr3, void *stack, void (*next)(void)): takes the final page tables and never returns. */
	.globl switch_stack
switch_stack:
	mov %rdi, %cr3
	mov %rsi, %rsp
	xor %ebp, %ebp
	call *%rdx
	ud2
	.section .note.GNU-stack, "", @progbits
