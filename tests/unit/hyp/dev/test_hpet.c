/* SPDX-License-Identifier: BSD-2-Clause */
/* The HPET (IA-PC HPET 1.0a): counter in both widths, one-shot, periodic, 32-bit, level, legacy
 * replacement. */
#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

/* With this TSC one HPET count is 10 TSC ticks. */
#define TSC_HZ 1000000000ull
#define COUNT  10ull
#define HPET   PLATFORM_HPET_BASE

#define LEVEL    (1u << 1)
#define ENABLE   (1u << 2)
#define PERIODIC (1u << 3)
#define SET      (1u << 6)
#define BITS_32  (1u << 8)
#define ROUTE(n) ((unsigned)(n) << 9)

static struct pc *new_pc(void)
{
	struct pc *pc = pc_new(1, TSC_HZ);

	pc_enable_all(pc);
	pc_outb(pc, 0x21, 0xff);
	pc_outb(pc, 0xa1, 0xff);
	pc_set_redirect(pc, 2, 0x42);
	pc_set_redirect(pc, 8, 0x48);
	pc_set_redirect(pc, 20, 0x54);
	pc_set_redirect(pc, 21, 1u << 15 | 0x55);
	pc->now = 12345 * COUNT;
	return pc;
}

static void set(struct pc *pc, uint64_t reg, uint64_t value)
{
	pc_store(pc, 0, HPET + reg, 8, value);
}

static uint64_t get(struct pc *pc, uint64_t reg)
{
	return pc_load(pc, 0, HPET + reg, 8);
}

static void step(struct pc *pc, uint64_t counts)
{
	pc_run_until(pc, pc->now + counts * COUNT);
}

/* §2.3.4-2.3.8: capabilities, reset values, what cannot be written, odd accesses. */
static void test_registers(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	assert_int_equal(get(pc, 0), 0x009896808086a201ull);
	assert_int_equal(pc_load(pc, 0, HPET + 4, 4), 10000000);
	assert_int_equal(get(pc, 0x10), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(get(pc, 0x100 + 32 * i), 0x00f0010400000030ull);
		set(pc, 0x100 + 32 * i, UINT64_MAX & ~6ull);
		assert_int_equal(get(pc, 0x100 + 32 * i), 0x00f0010400003f78ull);
	}
	assert_int_equal(get(pc, 0x160), 0); /* no fourth timer */
	set(pc, 0x160, UINT64_MAX);
	set(pc, 0, UINT64_MAX);
	assert_int_equal(get(pc, 0), 0x009896808086a201ull);
	assert_int_equal(pc_load(pc, 0, HPET + 2, 2), 0);
	assert_int_equal(pc_load(pc, 0, HPET + 4, 8), 0);
	pc_store(pc, 0, HPET + 0x11, 1, 1);
	pc_store(pc, 0, HPET + 0xffc, 4, 1);
	assert_int_equal(get(pc, 0x10), 0);
	pc_free(pc);
}

/* HAND C-03: the counter stands while disabled, is written in halves and as a whole, and goes on
 * from there. */
static void test_counter(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	step(pc, 100);
	assert_int_equal(get(pc, 0xf0), 0);
	set(pc, 0x10, 1);
	step(pc, 100);
	assert_int_equal(get(pc, 0xf0), 100);
	set(pc, 0x10, 0);
	step(pc, 50);
	assert_int_equal(get(pc, 0xf0), 100);
	pc_store(pc, 0, HPET + 0xf0, 4, 0xfffffff0);
	pc_store(pc, 0, HPET + 0xf4, 4, 0x12345678);
	assert_int_equal(get(pc, 0xf0), 0x12345678fffffff0ull);
	assert_int_equal(pc_load(pc, 0, HPET + 0xf0, 4), 0xfffffff0);
	assert_int_equal(pc_load(pc, 0, HPET + 0xf4, 4), 0x12345678);
	set(pc, 0x10, 1);
	step(pc, 0x20);
	assert_int_equal(get(pc, 0xf0), 0x1234567900000010ull);
	pc_free(pc);
}

/* §2.3.9.2.1: one interrupt when the counter gets there; 32-bit timers again with each turn. */
static void test_one_shot(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	set(pc, 0x10, 1);
	set(pc, 0x100, ENABLE | ROUTE(20));
	set(pc, 0x108, 1000);
	step(pc, 999);
	assert_int_equal(pc_serve(pc, 0), -1);
	step(pc, 1);
	assert_int_equal(pc_serve(pc, 0), 0x54);
	assert_int_equal(get(pc, 0x108), 1000);
	step(pc, (1ull << 33) + 7);
	assert_int_equal(pc_serve(pc, 0), -1);
	set(pc, 0x100, ENABLE | BITS_32 | ROUTE(20));
	pc_store(pc, 0, HPET + 0x108, 4, pc_load(pc, 0, HPET + 0xf0, 4) + 500);
	for (unsigned n = 0; n < 3; n++) {
		step(pc, 499);
		assert_int_equal(pc_serve(pc, 0), -1);
		step(pc, 1);
		assert_int_equal(pc_serve(pc, 0), 0x54);
		step(pc, (1ull << 32) - 500);
	}
	/* Disabled interrupts: the comparator may match, nothing comes and nobody is woken. */
	set(pc, 0x100, BITS_32 | ROUTE(20));
	assert_int_equal(platform_shared_deadline(&pc->p), PLATFORM_NEVER);
	step(pc, 1ull << 33);
	assert_int_equal(pc_serve(pc, 0), -1);
	pc_free(pc);
}

/* A comparator that was passed by a little when it was written fires at once: the vCPU was away. */
static void test_late_comparator(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	set(pc, 0x10, 1);
	set(pc, 0x100, ENABLE | BITS_32 | ROUTE(20));
	step(pc, 5000);
	pc_store(pc, 0, HPET + 0x108, 4, 4990);
	assert_int_equal(pc_serve(pc, 0), 0x54);
	step(pc, 1000000);
	assert_int_equal(pc_serve(pc, 0), -1);
	/* What is enabled with an old comparator has not been late: silence. */
	set(pc, 0x10, 0);
	set(pc, 0x10, 1);
	step(pc, 1000000);
	assert_int_equal(pc_serve(pc, 0), -1);
	pc_free(pc);
}

/* §2.3.9.2.2, set as Linux does: comparator with SET, then the period; exact, and one interrupt
 * after a pause. */
static void test_periodic(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	set(pc, 0x10, 1);
	step(pc, 1000);
	pc_store(pc, 0, HPET + 0x100, 4, ENABLE | PERIODIC | SET | BITS_32 | ROUTE(20));
	pc_store(pc, 0, HPET + 0x108, 4, 1000 + 100000);
	pc_store(pc, 0, HPET + 0x108, 4, 100000);
	for (unsigned n = 1; n <= 100000; n++) {
		uint64_t due = platform_shared_deadline(&pc->p);

		assert_int_equal(due, (12345 + 1000 + 100000ull * n) * COUNT);
		pc->now = due;
		platform_run_shared_timers(&pc->p, due);
		assert_int_equal(pc_serve(pc, 0), 0x54);
		assert_int_equal(get(pc, 0x108), (uint32_t)(1000 + 100000ull * (n + 1)));
	}
	pc->now += (100000ull * 5000 + 50000) * COUNT;
	platform_run_shared_timers(&pc->p, pc->now);
	assert_int_equal(pc_serve(pc, 0), 0x54);
	platform_run_shared_timers(&pc->p, pc->now);
	assert_int_equal(pc_serve(pc, 0), -1);
	assert_int_equal(platform_shared_deadline(&pc->p), pc->now + 50000 * COUNT);
	assert_int_equal(get(pc, 0x108), (uint32_t)(get(pc, 0xf0) + 50000));
	pc_store(pc, 0, HPET + 0x108, 4, 1); /* 100 MHz */
	assert_in_range(pc_run_until(pc, pc->now + TSC_HZ), 40000, 50001);
	pc_free(pc);
}

/* §2.3.5, 2.3.6: a level interrupt's status is cleared by writing 1, and with it the wire falls. */
static void test_level(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	set(pc, 0x120, ENABLE | LEVEL | ROUTE(21));
	set(pc, 0x128, 100);
	set(pc, 0x10, 1);
	step(pc, 100);
	assert_int_equal(get(pc, 0x20), 2);
	assert_int_equal(pc_take(pc, 0), 0x55);
	set(pc, 0x20, 1); /* another timer's bit */
	pc_set_apic(pc, 0, APIC_REG_EOI, 0);
	assert_int_equal(pc_take(pc, 0), 0x55);
	set(pc, 0x20, 2);
	assert_int_equal(get(pc, 0x20), 0);
	pc_set_apic(pc, 0, APIC_REG_EOI, 0);
	assert_int_equal(pc_take(pc, 0), -1);
	/* A wire that is high moves with its route and falls with its enable. */
	set(pc, 0x128, get(pc, 0xf0) + 10);
	step(pc, 10);
	assert_int_equal(pc->p.ioapic.lines[21], 1u << 5);
	set(pc, 0x120, ENABLE | LEVEL | ROUTE(22));
	assert_int_equal(pc->p.ioapic.lines[21], 0);
	assert_int_equal(pc->p.ioapic.lines[22], 1u << 5);
	set(pc, 0x120, LEVEL | ROUTE(22));
	assert_int_equal(pc->p.ioapic.lines[22], 0);
	/* A route that it has not: no wire. */
	set(pc, 0x120, ENABLE | LEVEL | ROUTE(3));
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++)
		assert_int_equal(pc->p.ioapic.lines[pin], 0);
	pc_free(pc);
}

/* §2.3.5: in legacy mode timer 0 has pin 2, timer 1 pin 8; PIT and RTC have none, and get them back
 * without a stray edge. */
static void test_legacy(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	pc_outb(pc, 0x43, 0x34);
	pc_outb(pc, 0x40, 0xff);
	pc_outb(pc, 0x40, 0x0f);
	pc_outb(pc, 0x70, 0x0b);
	pc_outb(pc, 0x71, 0x42);
	set(pc, 0x100, ENABLE | PERIODIC | SET | ROUTE(20));
	set(pc, 0x108, 1000000);
	set(pc, 0x108, 1000000);
	set(pc, 0x120, ENABLE | ROUTE(20));
	set(pc, 0x128, 500000);
	set(pc, 0x10, 3);
	pc_serve(pc, 0); /* an RTC period that began before */
	step(pc, 499999);
	assert_int_equal(pc_serve(pc, 0), -1);
	step(pc, 1);
	assert_int_equal(pc_serve(pc, 0), 0x48);
	step(pc, 500000);
	assert_int_equal(pc_serve(pc, 0), 0x42);
	assert_int_equal(pc_serve(pc, 0), -1);
	pc_outb(pc, 0x70, 0x0c);
	pc_inb(pc, 0x71);
	set(pc, 0x100, 0);
	set(pc, 0x10, 0);
	assert_int_equal(pc_serve(pc, 0), -1);
	step(pc, 400000); /* 4 ms: a PIT period is 3.4 ms, an RTC period 1 ms */
	assert_int_equal(pc_serve(pc, 0), 0x48);
	assert_int_equal(pc_serve(pc, 0), 0x42);
	/* Edges that fell while the wire was away, and that nobody looked at, do not come later. */
	pc_outb(pc, 0x70, 0x0b);
	pc_outb(pc, 0x71, 0x02);
	set(pc, 0x10, 2);
	pc->now += 10000000;
	set(pc, 0x10, 0);
	assert_int_equal(pc_serve(pc, 0), -1);
	pc_free(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_registers),
	        cmocka_unit_test(test_counter),
	        cmocka_unit_test(test_one_shot),
	        cmocka_unit_test(test_late_comparator),
	        cmocka_unit_test(test_periodic),
	        cmocka_unit_test(test_level),
	        cmocka_unit_test(test_legacy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
