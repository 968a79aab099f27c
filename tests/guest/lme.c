/* SPDX-License-Identifier: BSD-2-Clause */
/* A vCPU in real mode that asks for long mode before it has PAE, or never gets that far: legal
 * (APM 24593 §14.6.1 names no order of the two), and its exits leave the server whole. */

#include "tests/guest/lib/guest.h"

#define CODE  0x9000u
#define COUNT 0x9ff8u /* exits that it has behind it */
#define EXITS 1000u

/* Real mode, CS = 900h: EFER.LME without CR4.PAE, then exits until there were enough. */
__asm__(".code16\n"
        "lme_begin:\n"
        "	cli\n"
        "	xorw	%ax, %ax\n"
        "	movw	%ax, %ds\n"
        "	movl	$0xc0000080, %ecx\n"
        "	movl	$0x100, %eax\n"
        "	xorl	%edx, %edx\n"
        "	wrmsr\n"
        "1:	movl	$0x40000000, %eax\n"
        "	cpuid\n"
        "	incl	0x9ff8\n"
        "	cmpl	$1000, 0x9ff8\n"
        "	jb	1b\n"
        "2:	hlt\n"
        "	jmp	2b\n"
        "lme_end:\n"
        ".code64\n");
extern const uint8_t lme_begin[], lme_end[];

void guest_main(void)
{
	volatile uint32_t *count = (uint32_t *)(uintptr_t)COUNT;

	test("exits with EFER.LME and without CR4.PAE");
	memcpy((void *)(uintptr_t)CODE, lme_begin, (size_t)(lme_end - lme_begin));
	*count = 0;
	apic_ipi(1, ICR_INIT | ICR_ASSERT);
	apic_ipi(1, ICR_SIPI | ICR_ASSERT | (CODE >> 12));
	wait_for(*count >= EXITS, 5000000);
	check_same(*count, EXITS);
	/* And it starts as any other afterwards. */
	check(cpu_start(1));
}
