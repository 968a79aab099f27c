/* SPDX-License-Identifier: BSD-2-Clause */
/* The state in which each CPU runs hyp, and the PC's old interrupt controller out of the way. */
#include "hyp/x86/internal.h"

#include "hw/msr.h"

#define CPUID_1_ECX_XSAVE (1u << 26)
#define CPUID_7_EBX_SMEP  (1u << 7)
#define CPUID_7_EBX_SMAP  (1u << 20)
#define CPUID_7_ECX_UMIP  (1u << 2)

#define PIC_MASTER  0x20
#define PIC_SLAVE   0xa0
#define PIC_ICW1    0x11 /* edge, cascade, ICW4 follows */
#define PIC_ICW4    0x01 /* 8086 mode */
#define PIC_VECTORS 0x20 /* away from the exceptions */

struct descriptor_pointer {
	uint16_t limit;
	uint64_t base;
} __attribute__((packed));

/* Selectors 08h code, 10h data. No TSS: there is no other privilege level and no IST. */
static const uint64_t gdt[] = {0, 0x00af9b000000ffff, 0x00cf93000000ffff};

static void load_gdt(void)
{
	struct descriptor_pointer p = {sizeof(gdt) - 1, (uintptr_t)gdt};

	__asm__ volatile("lgdt %0\n\t"
	                 "pushq $0x08\n\t"
	                 "leaq 1f(%%rip), %%rax\n\t"
	                 "pushq %%rax\n\t"
	                 "lretq\n"
	                 "1:\tmovl $0x10, %%eax\n\t"
	                 "movl %%eax, %%ds\n\t"
	                 "movl %%eax, %%es\n\t"
	                 "movl %%eax, %%ss\n\t"
	                 "xorl %%eax, %%eax\n\t"
	                 "movl %%eax, %%fs\n\t"
	                 "movl %%eax, %%gs\n\t"
	                 "lldt %%ax"
	                 :
	                 : "m"(p)
	                 : "rax", "memory");
}

static uint64_t choose_cr4(void)
{
	uint64_t cr4 = CR4_PAE | CR4_DE | CR4_MCE | CR4_OSFXSR | CR4_OSXMMEXCPT;
	struct cpuid_result seven = {0};

	if (cpuid(1, 0).ecx & CPUID_1_ECX_XSAVE)
		cr4 |= CR4_OSXSAVE;
	if (cpuid(0, 0).eax >= 7)
		seven = cpuid(7, 0);
	if (seven.ebx & CPUID_7_EBX_SMEP)
		cr4 |= CR4_SMEP;
	if (seven.ebx & CPUID_7_EBX_SMAP)
		cr4 |= CR4_SMAP;
	if (seven.ecx & CPUID_7_ECX_UMIP)
		cr4 |= CR4_UMIP;
	return cr4;
}

void cpu_setup(void)
{
	uint64_t cr0 = CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_PG;

	load_gdt();
	interrupts_load_idt();
	__asm__ volatile("mov %0, %%cr0" : : "r"(cr0));
	__asm__ volatile("mov %0, %%cr4" : : "r"(choose_cr4()));
	msr_write(MSR_EFER, EFER_LME | EFER_LMA | EFER_NXE);
	msr_write(MSR_PAT, PAT_RESET);
}

/*
 * The BIOS leaves the timer's interrupt on at vector 8, which is the double fault's. Root sets the
 * PIC up for itself; until then it is silent, and what it still has to say (its spurious
 * interrupts) lies above the exceptions.
 */
void pic_silence(void)
{
	outb(PIC_MASTER, PIC_ICW1);
	outb(PIC_SLAVE, PIC_ICW1);
	outb(PIC_MASTER + 1, PIC_VECTORS);
	outb(PIC_SLAVE + 1, PIC_VECTORS + 8);
	outb(PIC_MASTER + 1, 1 << 2);
	outb(PIC_SLAVE + 1, 2);
	outb(PIC_MASTER + 1, PIC_ICW4);
	outb(PIC_SLAVE + 1, PIC_ICW4);
	outb(PIC_MASTER + 1, 0xff);
	outb(PIC_SLAVE + 1, 0xff);
}
