/* SPDX-License-Identifier: BSD-2-Clause */
/* The 8259A pair (data sheet 231468) and how its INTR reaches a vCPU: virtual wire, ELCR, cascade,
 * spurious requests. */
#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

static void init_pair(struct pc *pc, uint8_t icw4)
{
	pc_outb(pc, 0x20, 0x11);
	pc_outb(pc, 0x21, 0x20);
	pc_outb(pc, 0x21, 0x04);
	pc_outb(pc, 0x21, icw4);
	pc_outb(pc, 0xa0, 0x11);
	pc_outb(pc, 0xa1, 0x28);
	pc_outb(pc, 0xa1, 0x02);
	pc_outb(pc, 0xa1, 0x01);
}

static struct pc *pc_with_pair(uint8_t icw4)
{
	struct pc *pc = pc_new(2, 1000000000);

	init_pair(pc, icw4);
	return pc;
}

static void pulse(struct pc *pc, unsigned pin)
{
	platform_pin(&pc->p, pin, 1, true);
	platform_pin(&pc->p, pin, 1, false);
}

/* Power-on LINT0 of the boot vCPU takes ExtINT, that of others does not; pin 2 is input 0;
 * priorities are fixed, 0 first. */
static void test_virtual_wire(void **unused)
{
	struct pc *pc = pc_with_pair(1);

	(void)unused;
	pc->p.lapic[1].wait_sipi = false;
	pulse(pc, 5);
	assert_int_equal(pc->notified, 1);
	assert_int_equal(pc_event(pc, 1), PLATFORM_EVENT_NONE);
	pulse(pc, 2);
	assert_int_equal(pc_take(pc, 0), 0x20);
	assert_int_equal(pc_take(pc, 0), -1); /* 5 waits for the end of 0 */
	pc_outb(pc, 0x20, 0x20);
	assert_int_equal(pc_take(pc, 0), 0x25);
	pulse(pc, 2); /* higher: interrupts the handler of 5 */
	assert_int_equal(pc_take(pc, 0), 0x20);
	pc_outb(pc, 0x20, 0x0b);
	assert_int_equal(pc_inb(pc, 0x20), 0x21);
	pc_outb(pc, 0x20, 0x0a);
	assert_int_equal(pc_inb(pc, 0x20), 0);
	pc_outb(pc, 0x20, 0x65); /* specific end of 5 */
	pc_outb(pc, 0x20, 0x20);
	/* Masked in LINT0, or with ExtINT at another vCPU. */
	pc_set_apic(pc, 0, APIC_REG_SVR, 0x1ff);
	pc_set_apic(pc, 0, APIC_REG_LVT_LINT0, APIC_DELIVERY_EXTINT | APIC_LVT_MASKED);
	pc_set_apic(pc, 1, APIC_REG_SVR, 0x1ff);
	pc_set_apic(pc, 1, APIC_REG_LVT_LINT0, APIC_DELIVERY_EXTINT);
	pc->notified = 0;
	pulse(pc, 6);
	assert_int_equal(pc->notified, 2);
	assert_int_equal(pc_take(pc, 0), -1);
	assert_int_equal(pc_take(pc, 1), 0x26);
	pc_free(pc);
}

/* SDM §10.4.3: without a LAPIC INTR is the CPU's; LINT0 as a fixed interrupt or NMI takes the
 * 8259s' edges. */
static void test_other_lint0(void **unused)
{
	struct pc *pc = pc_with_pair(1);

	(void)unused;
	pc_wrmsr(pc, 0, MSR_APIC_BASE, 0xfee00100);
	pulse(pc, 7);
	assert_int_equal(pc_take(pc, 0), 0x27);
	pc_outb(pc, 0x20, 0x20);
	pc_wrmsr(pc, 0, MSR_APIC_BASE, 0xfee00900);
	pc_set_apic(pc, 0, APIC_REG_SVR, 0x1ff);
	pc_set_apic(pc, 0, APIC_REG_LVT_LINT0, 0x99);
	pulse(pc, 7);
	assert_int_equal(pc_serve(pc, 0), 0x99);
	pc_outb(pc, 0x20, 0x0c); /* poll acknowledges */
	assert_int_equal(pc_inb(pc, 0x20), 0x87);
	pc_outb(pc, 0x20, 0x20);
	pc_set_apic(pc, 0, APIC_REG_LVT_LINT0, APIC_DELIVERY_NMI);
	pulse(pc, 2);
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_NMI);
	pc_free(pc);
}

/* The slave's eight come between the master's 1 and 3, in their own order; both want an end. */
static void test_cascade(void **unused)
{
	struct pc *pc = pc_with_pair(1);

	(void)unused;
	pulse(pc, 3);
	pulse(pc, 12);
	pulse(pc, 8);
	pulse(pc, 1);
	assert_int_equal(pc_take(pc, 0), 0x21);
	pc_outb(pc, 0x20, 0x20);
	assert_int_equal(pc_take(pc, 0), 0x28);
	pc_outb(pc, 0xa0, 0x20);
	pc_outb(pc, 0x20, 0x20);
	assert_int_equal(pc_take(pc, 0), 0x2c);
	pc_outb(pc, 0xa0, 0x20);
	pc_outb(pc, 0x20, 0x20);
	assert_int_equal(pc_take(pc, 0), 0x23);
	pc_outb(pc, 0x20, 0x20);
	assert_int_equal(pc_take(pc, 0), -1);
	/* Special fully nested: a higher one of the slave interrupts a lower one of it. */
	init_pair(pc, 0x11);
	pulse(pc, 12);
	assert_int_equal(pc_take(pc, 0), 0x2c);
	pulse(pc, 8);
	assert_int_equal(pc_take(pc, 0), 0x28);
	pc_free(pc);
}

/* ELCR (PIIX3 §2.5.2): a level input asks as long as it is high; edges do not; some inputs are
 * edges always. */
static void test_elcr(void **unused)
{
	struct pc *pc = pc_with_pair(1);

	(void)unused;
	pc_outb(pc, 0x4d0, 0xff);
	pc_outb(pc, 0x4d1, 0xff);
	assert_int_equal(pc_inb(pc, 0x4d0), 0xf8);
	assert_int_equal(pc_inb(pc, 0x4d1), 0xde);
	platform_pin(&pc->p, 10, 1, true);
	for (unsigned n = 0; n < 3; n++) {
		assert_int_equal(pc_take(pc, 0), 0x2a);
		pc_outb(pc, 0xa0, 0x20);
		pc_outb(pc, 0x20, 0x20);
	}
	platform_pin(&pc->p, 10, 1, false);
	assert_int_equal(pc_take(pc, 0), -1);
	pc_outb(pc, 0x4d1, 0);
	platform_pin(&pc->p, 10, 1, true);
	assert_int_equal(pc_take(pc, 0), 0x2a);
	pc_outb(pc, 0xa0, 0x20);
	pc_outb(pc, 0x20, 0x20);
	assert_int_equal(pc_take(pc, 0), -1);
	pc_free(pc);
}

/* Data sheet "Edge/level": a request gone before its acknowledge gives input 7, with no ISR bit. */
static void test_spurious(void **unused)
{
	struct pc *pc = pc_with_pair(1);

	(void)unused;
	pc_outb(pc, 0x4d0, 0xf8);
	platform_pin(&pc->p, 5, 1, true);
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_INTR);
	pc->p.pic.chip[0].irr = 0; /* between INTR and INTA */
	assert_int_equal(platform_accept(&pc->p, 0, PLATFORM_EVENT_INTR), 0x27);
	pc_outb(pc, 0x20, 0x0b);
	assert_int_equal(pc_inb(pc, 0x20), 0);
	pc_free(pc);
}

/* Automatic EOI, rotation, set priority, special mask, mask registers. */
static void test_modes(void **unused)
{
	struct pc *pc = pc_with_pair(3);

	(void)unused;
	pulse(pc, 3);
	pulse(pc, 4);
	assert_int_equal(pc_take(pc, 0), 0x23);
	assert_int_equal(pc_take(pc, 0), 0x24);
	pc_outb(pc, 0x20, 0x80); /* rotate in automatic EOI */
	pulse(pc, 3);
	assert_int_equal(pc_take(pc, 0), 0x23);
	pulse(pc, 3);
	pulse(pc, 4);
	assert_int_equal(pc_take(pc, 0), 0x24);
	assert_int_equal(pc_take(pc, 0), 0x23);
	init_pair(pc, 1);
	pc_outb(pc, 0x20, 0xc5); /* 5 is the lowest: 6 first */
	pulse(pc, 2);
	pulse(pc, 6);
	assert_int_equal(pc_take(pc, 0), 0x26);
	pc_outb(pc, 0x20, 0xa0); /* rotate on EOI: 6 is the lowest */
	assert_int_equal(pc_take(pc, 0), 0x20);
	pc_outb(pc, 0x20, 0xe0); /* specific, rotates */
	pulse(pc, 1);
	assert_int_equal(pc_take(pc, 0), 0x21);
	pc_outb(pc, 0x21, 0x02);
	pulse(pc, 7);
	assert_int_equal(pc_take(pc, 0), -1); /* 1 is in service */
	pc_outb(pc, 0x20, 0x68);              /* special mask: what is masked holds nothing back */
	assert_int_equal(pc_take(pc, 0), 0x27);
	assert_int_equal(pc_inb(pc, 0x21), 0x02);
	pc_free(pc);
}

/* ICW1 forgets edges and what is in service; without ICW4 the sequence is three words. */
static void test_init_words(void **unused)
{
	struct pc *pc = pc_with_pair(1);

	(void)unused;
	pulse(pc, 3);
	pulse(pc, 4);
	assert_int_equal(pc_take(pc, 0), 0x23);
	pc_outb(pc, 0x20, 0x10);
	pc_outb(pc, 0x21, 0x43);
	pc_outb(pc, 0x21, 0x04);
	assert_int_equal(pc_take(pc, 0), -1);
	pc_outb(pc, 0x21, 0xfe);
	assert_int_equal(pc_inb(pc, 0x21), 0xfe);
	pulse(pc, 2);
	assert_int_equal(pc_take(pc, 0), 0x40);
	/* A wire that is high meanwhile: the edge is past, a level is still there. */
	pc_outb(pc, 0x4d0, 0x20);
	platform_pin(&pc->p, 4, 1, true);
	platform_pin(&pc->p, 5, 1, true);
	pc_outb(pc, 0x20, 0x10);
	pc_outb(pc, 0x21, 0x40);
	pc_outb(pc, 0x21, 0x04);
	assert_int_equal(pc_take(pc, 0), 0x45);
	pc_free(pc);
}

/* Before an OS has touched them nothing comes, whatever the wires do; unmasked they have the PC's
 * vectors. */
static void test_power_on(void **unused)
{
	struct pc *pc = pc_new(1, 1000000000);

	(void)unused;
	for (unsigned pin = 0; pin < 16; pin++)
		pulse(pc, pin);
	assert_int_equal(pc_take(pc, 0), -1);
	assert_int_equal(pc_inb(pc, 0x21), 0xff);
	assert_int_equal(pc_inb(pc, 0xa1), 0xff);
	pc_outb(pc, 0xa1, 0xfe);
	pc_outb(pc, 0x21, 0xfb);
	assert_int_equal(pc_take(pc, 0), 0x70);
	pc_free(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_power_on),
	        cmocka_unit_test(test_virtual_wire),
	        cmocka_unit_test(test_other_lint0),
	        cmocka_unit_test(test_cascade),
	        cmocka_unit_test(test_elcr),
	        cmocka_unit_test(test_spurious),
	        cmocka_unit_test(test_modes),
	        cmocka_unit_test(test_init_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
