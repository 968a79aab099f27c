/* SPDX-License-Identifier: BSD-2-Clause */
/* Exceptions with their error codes, task priority, nested interrupts, and NMIs held until IRET. */

#include "tests/guest/lib/guest.h"

static void divide(void *argument)
{
	uint64_t zero = (uint64_t)argument;

	__asm__ volatile("xorl %%edx, %%edx; movl $1, %%eax; divq %0"
	                 :
	                 : "r"(zero)
	                 : "rax", "rdx", "cc");
}
static void undefined(void *argument)
{
	(void)argument;
	__asm__ volatile("ud2");
}
static void load_selector(void *argument)
{
	__asm__ volatile("mov %0, %%ds" : : "r"(argument));
}
static void read_byte(void *at)
{
	(void)*(volatile uint8_t *)at;
}
static void write_byte(void *at)
{
	*(volatile uint8_t *)at = 1;
}
static void run_at(void *at)
{
	__asm__ volatile("call *%0" : : "r"(at) : "memory");
}

#define LINEAR 0xe0000000ull

static void test_exceptions(void)
{
	static uint8_t page[4096] __attribute__((aligned(4096)));
	uint64_t *entry = page_entry(LINEAR);

	check_same(catch (divide, NULL), VECTOR_DE);
	check_same(catch (undefined, NULL), VECTOR_UD);
	check_same(catch (load_selector, (void *)0x1230), VECTOR_GP);
	check_same(this_cpu()->caught_error, 0x1230);
	check_same(catch (read_byte, (void *)0x8000000000000000ull), VECTOR_GP);
	*entry = 0;
	page_flush(LINEAR);
	check_same(catch (read_byte, (void *)(LINEAR + 5)), VECTOR_PF);
	check_same(this_cpu()->caught_error, 0);
	check_same(this_cpu()->caught_cr2, LINEAR + 5);
	check_same(catch (write_byte, (void *)LINEAR), VECTOR_PF);
	check_same(this_cpu()->caught_error, 2);
	*entry = (uint64_t)page | 1 | 1ull << 63;
	page_flush(LINEAR);
	check_same(catch (read_byte, (void *)LINEAR), -1);
	check_same(catch (write_byte, (void *)LINEAR), VECTOR_PF);
	check_same(this_cpu()->caught_error, 3);
	check_same(catch (run_at, (void *)LINEAR), VECTOR_PF);
	check_same(this_cpu()->caught_error, 0x11);
}

static volatile unsigned order[8], depth, deepest, taken;

static void on_interrupt(struct frame *f)
{
	depth++;
	if (depth > deepest)
		deepest = depth;
	order[taken++ % 8] = (unsigned)f->vector;
	if (f->vector == 0x55) {
		/* A higher class gets in, a lower or equal one waits for the EOI. */
		apic_ipi(0, 0x58 | ICR_SELF | ICR_ASSERT);
		apic_ipi(0, 0x45 | ICR_SELF | ICR_ASSERT);
		apic_ipi(0, 0x75 | ICR_SELF | ICR_ASSERT);
		check_same(apic_read(APIC_PPR), 0x50);
		irq_on();
		check(wait_for(taken == 2, 1000000));
		wait_for(false, 500);
		irq_off();
	}
	depth--;
	apic_eoi();
}

static void test_nesting(void)
{
	static const unsigned wanted[] = {0x55, 0x75, 0x58, 0x45};

	taken = deepest = 0;
	apic_ipi(0, 0x55 | ICR_SELF | ICR_ASSERT);
	irq_on();
	check(wait_for(taken == 4, 1000000));
	irq_off();
	check_same(deepest, 2);
	for (unsigned i = 0; i < 4; i++)
		check_same(order[i], wanted[i]);
	check_same(apic_read(APIC_PPR), 0);
}

/* CR8 holds back what is not above it, and lets it in the moment that it is lowered. */
static void test_priority(bool by_cr8)
{
	for (unsigned class = 4; class < 8; class ++) {
		unsigned vector = class << 4 | 5;

		if (vector == 0x55)
			vector = 0x58;
		taken = 0;
		if (by_cr8)
			WRITE_CR(8, class);
		else
			apic_write(APIC_TPR, class << 4);
		check_same(READ_CR(8), class);
		check_same(apic_read(APIC_TPR), class << 4);
		irq_on();
		apic_ipi(0, vector | ICR_SELF | ICR_ASSERT);
		wait_for(false, 500);
		check_same(taken, 0);
		check(apic_bit(APIC_IRR, vector));
		if (by_cr8)
			WRITE_CR(8, class - 1);
		else
			apic_write(APIC_TPR, (class - 1) << 4);
		check(wait_for(taken == 1, 1000000));
		irq_off();
		WRITE_CR(8, 0);
	}
}

static volatile unsigned nmis, nmi_depth, nmi_deepest;
static volatile uint64_t nmi_rip[2];

static void on_nmi(struct frame *f)
{
	if (nmis < 2)
		nmi_rip[nmis] = f->rip;
	nmis++;
	nmi_depth++;
	if (nmi_depth > nmi_deepest)
		nmi_deepest = nmi_depth;
	if (nmis == 1) {
		/* One is latched, and held until this handler's IRET. */
		apic_ipi(0, ICR_NMI | ICR_ASSERT);
		wait_for(false, 2000);
		cpuid(0, 0); /* an exit within */
		check_same(nmis, 1);
	}
	nmi_depth--;
}

static void test_nmi(void)
{
	for (unsigned i = 0; i < 20; i++) {
		nmis = nmi_depth = nmi_deepest = 0;
		apic_ipi(0, ICR_NMI | ICR_ASSERT);
		check(wait_for(nmis == 2, 1000000));
		wait_for(false, 200);
		check_same(nmis, 2);
		check_same(nmi_deepest, 1);
		/* Right behind that IRET, though interrupts are off and nothing exits. */
		check_same(nmi_rip[1], nmi_rip[0]);
	}
}

static void self_ipi(void *argument)
{
	apic_ipi(0, (uint32_t)(uint64_t)argument | ICR_SELF | ICR_ASSERT);
}

/* Vectors below 16 are none; the error register says so. */
static void test_errors(void)
{
	if (apic_is_x2()) {
		check_same(catch (self_ipi, (void *)3), -1);
		wrmsr(0x828, 0);
	} else {
		self_ipi((void *)3);
		apic_write(APIC_ESR, 0);
	}
	check(apic_read(APIC_ESR) & 0x60);
	apic_write(APIC_ESR, 0);
	check_same(apic_read(APIC_ESR), 0);
}

void guest_main(void)
{
	static const unsigned vectors[] = {0x45, 0x55, 0x58, 0x65, 0x75};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		on_vector(vectors[i], on_interrupt);
	on_vector(2, on_nmi);
	test("exceptions and their error codes");
	test_exceptions();
	for (unsigned x2 = 0; x2 < 2; x2++) {
		section(x2 ? "x2APIC" : "xAPIC");
		apic_enable(x2);
		test("a higher class interrupts, others wait");
		test_nesting();
		test("task priority by CR8");
		test_priority(true);
		test("task priority by the register");
		test_priority(false);
		test("an NMI within an NMI waits for IRET");
		test_nmi();
		test("a vector below 16 is an error");
		test_errors();
	}
}
