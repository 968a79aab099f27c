/* SPDX-License-Identifier: BSD-2-Clause */
/* From pins to handlers: PIT over IOAPIC and over the 8259s, level interrupts, MSI. */

#include "tests/guest/lib/guest.h"

#define VECTOR   0x60
#define PIC_BASE 0x30
#define PIN      17

static void pin(unsigned level)
{
	outl(BOARD_PIN, PIN | level << 8);
}

static volatile uint64_t *count_of(unsigned vector)
{
	return &this_cpu()->interrupts[vector];
}

/* True: at least one more of that vector came. */
static bool comes(unsigned vector, uint64_t us)
{
	uint64_t before = *count_of(vector);
	bool came;

	irq_on();
	came = wait_for(*count_of(vector) != before, us);
	irq_off();
	return came;
}

static void pit_rate(unsigned hz)
{
	unsigned count = 1193182 / hz;

	outb(0x43, 0x34);
	outb(0x40, (uint8_t)count);
	outb(0x40, (uint8_t)(count >> 8));
}

static void test_pit_ioapic(void)
{
	uint64_t before;

	pit_rate(1000);
	ioapic_route(2, VECTOR, 0);
	for (unsigned i = 0; i < 20; i++)
		check(comes(VECTOR, 1000000));
	/* Sleeping works too. */
	before = *count_of(VECTOR);
	while (*count_of(VECTOR) < before + 20)
		halt();
	ioapic_route(2, IOAPIC_MASKED | VECTOR, 0);
	comes(VECTOR, 3000);
	check(!comes(VECTOR, 10000));
}

static void on_pic(struct frame *f)
{
	(void)f;
	outb(0x20, 0x20);
}

/* Virtual wire: INTR of the 8259s through LINT0 as ExtINT, with and without the LAPIC. */
static void test_virtual_wire(void)
{
	pic_init(PIC_BASE);
	on_vector(PIC_BASE, on_pic);
	apic_write(APIC_LVT_LINT0, 0x700);
	pic_masks(0xfffe);
	for (unsigned i = 0; i < 20; i++)
		check(comes(PIC_BASE, 1000000));
	pic_masks(0xffff);
	comes(PIC_BASE, 3000);
	check(!comes(PIC_BASE, 10000));
	pic_masks(0xfffe);
	check(comes(PIC_BASE, 1000000));
	apic_write(APIC_LVT_LINT0, 0x700 | LVT_MASKED);
	comes(PIC_BASE, 3000);
	check(!comes(PIC_BASE, 10000));
	wrmsr(APIC_BASE_MSR, rdmsr(APIC_BASE_MSR) & ~(1ull << 11));
	check(comes(PIC_BASE, 1000000)); /* off: INTR goes to the CPU */
	check_same(cpuid(1, 0).edx >> 9 & 1, 0);
	wrmsr(APIC_BASE_MSR, rdmsr(APIC_BASE_MSR) | 1ull << 11);
	apic_enable(false);
	pic_masks(0xffff);
	outb(0x20, 0x20);
}

static volatile bool drop;

static void on_level(struct frame *f)
{
	(void)f;
	if (drop)
		pin(0);
	apic_eoi();
}

static void test_level(void)
{
	uint64_t before;

	on_vector(VECTOR, on_level);
	drop = true;
	ioapic_route(PIN, VECTOR | IOAPIC_LEVEL, 0);
	for (unsigned i = 0; i < 50; i++) {
		before = *count_of(VECTOR);
		pin(1);
		check(comes(VECTOR, 1000000));
		check_same(*count_of(VECTOR), before + 1);
		check(!(ioapic_read(0x10 + PIN * 2) & IOAPIC_REMOTE));
	}
	/* Raised behind a mask: it is there when the mask goes. */
	ioapic_route(PIN, VECTOR | IOAPIC_LEVEL | IOAPIC_MASKED, 0);
	pin(1);
	check(!comes(VECTOR, 5000));
	ioapic_route(PIN, VECTOR | IOAPIC_LEVEL, 0);
	check(comes(VECTOR, 1000000));
	/* In service and again high: nothing until EOI, then it comes again. */
	irq_off();
	pin(1);
	check(wait_for(apic_bit(APIC_IRR, VECTOR), 1000000));
	check(ioapic_read(0x10 + PIN * 2) & IOAPIC_REMOTE);
	check(comes(VECTOR, 1000000));
	check(!comes(VECTOR, 5000));
}

/* C-05: EOI without quieting the device. The main loop has to move, and it stops with the line. */
static void test_live_lock(void)
{
	uint64_t turns = 0, before = *count_of(VECTOR), end;

	drop = false;
	pin(1);
	/* hyp lets go only after thousands of repeats, as others do: so wait for turns, not for a
	 * time. */
	end = rdtsc() + us_to_tsc(20000000);
	irq_on();
	while (turns < 1000 && rdtsc() < end)
		turns++;
	irq_off();
	check_same(turns, 1000);
	check(*count_of(VECTOR) - before > 10);
	pin(0);
	comes(VECTOR, 2000);
	check(!comes(VECTOR, 20000));
	drop = true;
	pin(1);
	check(comes(VECTOR, 1000000)); /* not lost for good */
}

static void test_edge(void)
{
	on_vector(VECTOR, handler_eoi);
	pin(0);
	ioapic_route(PIN, VECTOR, 0);
	for (unsigned i = 0; i < 50; i++) {
		uint64_t before = *count_of(VECTOR);

		pin(1);
		check(comes(VECTOR, 1000000));
		check(!comes(VECTOR, 100));
		pin(0);
		check(!comes(VECTOR, 100));
		check_same(*count_of(VECTOR), before + 1);
	}
	ioapic_route(PIN, IOAPIC_MASKED, 0);
}

static void test_msi(void)
{
	for (unsigned i = 0; i < 50; i++) {
		outl(BOARD_MSI_TARGET, 0xfee00000);
		outl(BOARD_MSI, 0x61);
		check(comes(0x61, 1000000));
	}
	/* Several while interrupts are off: one a vector, highest first. */
	irq_off();
	for (unsigned v = 0x62; v < 0x66; v++)
		for (unsigned n = 0; n < 3; n++)
			outl(BOARD_MSI, v);
	for (unsigned v = 0x62; v < 0x66; v++)
		check(wait_for(apic_bit(APIC_IRR, v), 1000000));
	irq_on();
	wait_for(false, 1000);
	irq_off();
	for (unsigned v = 0x62; v < 0x66; v++)
		check_same(*count_of(v), 1);
	outl(BOARD_MSI_TARGET, 0xfee00000 | 0xf << 12); /* nobody */
	outl(BOARD_MSI, 0x61);
	check(!comes(0x61, 2000));
}

void guest_main(void)
{
	apic_enable(false);
	on_vector(VECTOR, handler_eoi);
	for (unsigned v = 0x61; v < 0x66; v++)
		on_vector(v, handler_eoi);
	test("the PIT through the IOAPIC");
	test_pit_ioapic();
	test("the PIT through the 8259s, LINT0, and without a LAPIC");
	test_virtual_wire();
	test("a level pin: remote IRR, masks, EOI");
	test_level();
	test("EOI before the device is quiet does not lock up");
	test_live_lock();
	test("an edge pin");
	test_edge();
	test("MSI");
	test_msi();
}
