/* SPDX-License-Identifier: BSD-2-Clause */
/* The 8254 (data sheet 231164): modes, counts in all forms, latches, gates, and channel 0's
 * interrupt. */
#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

/* With this TSC one PIT count is 1000 TSC ticks. */
#define TSC_HZ (1193182ull * 1000)
#define COUNT  1000ull

static struct pc *new_pc(void)
{
	struct pc *pc = pc_new(1, TSC_HZ);

	pc_enable_all(pc);
	pc_set_redirect(pc, 2, 0x42);
	pc_outb(pc, 0x21, 0xff);
	pc->now = 5 * COUNT;
	return pc;
}

/* Control word and a 16-bit count; the counter is loaded by the next clock. */
static void program(struct pc *pc, unsigned channel, unsigned mode, uint16_t count)
{
	pc_outb(pc, 0x43, (uint8_t)(channel << 6 | 0x30 | mode << 1));
	pc_outb(pc, (uint16_t)(0x40 + channel), (uint8_t)count);
	pc_outb(pc, (uint16_t)(0x40 + channel), (uint8_t)(count >> 8));
}

static uint16_t latched(struct pc *pc, unsigned channel)
{
	uint8_t low;

	pc_outb(pc, 0x43, (uint8_t)(channel << 6));
	low = pc_inb(pc, (uint16_t)(0x40 + channel));
	return (uint16_t)(low | pc_inb(pc, (uint16_t)(0x40 + channel)) << 8);
}

static uint8_t status(struct pc *pc, unsigned channel)
{
	pc_outb(pc, 0x43, (uint8_t)(0xe0 | 2u << channel));
	return pc_inb(pc, (uint16_t)(0x40 + channel));
}

static bool out2(struct pc *pc)
{
	return (pc_inb(pc, 0x61) & 0x20) != 0;
}

static void step(struct pc *pc, uint64_t counts)
{
	pc_run_until(pc, pc->now + counts * COUNT);
}

/* Mode 0: low until the count is done, one interrupt, counts on below 0. */
static void test_mode_0(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	program(pc, 0, 0, 100);
	assert_int_equal(status(pc, 0), 0x30);
	step(pc, 1);
	assert_int_equal(latched(pc, 0), 100);
	step(pc, 99);
	assert_int_equal(latched(pc, 0), 1);
	assert_int_equal(pc_serve(pc, 0), -1);
	step(pc, 1);
	assert_int_equal(latched(pc, 0), 0);
	assert_int_equal(status(pc, 0), 0xb0);
	assert_int_equal(pc_serve(pc, 0), 0x42);
	step(pc, 2);
	assert_int_equal(latched(pc, 0), 0xfffe);
	step(pc, 1000000);
	assert_int_equal(pc_serve(pc, 0), -1);
	pc_free(pc);
}

/* Mode 2: N down to 1, low at 1, an interrupt each N; a count of 0 is 65536. */
static void test_mode_2(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	program(pc, 0, 2, 30);
	step(pc, 1);
	for (unsigned n = 0; n < 3; n++)
		for (unsigned left = 30; left > 0; left--) {
			assert_int_equal(latched(pc, 0), left);
			assert_int_equal(status(pc, 0) >> 7, left != 1);
			step(pc, 1);
			assert_int_equal(pc_serve(pc, 0), left == 1 ? 0x42 : -1);
		}
	program(pc, 0, 2, 0);
	step(pc, 65536);
	assert_int_equal(pc_serve(pc, 0), -1);
	step(pc, 1);
	assert_int_equal(pc_serve(pc, 0), 0x42);
	pc_free(pc);
}

/* Mode 3: half of the period high, half low, counting by two; the interrupt comes with each period.
 */
static void test_mode_3(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	program(pc, 0, 3, 40);
	step(pc, 1);
	for (unsigned n = 0; n < 80; n++) {
		assert_int_equal(status(pc, 0) >> 7, n % 40 < 20);
		assert_int_equal(latched(pc, 0), 40 - 2 * (n % 20));
		step(pc, 1);
		assert_int_equal(pc_serve(pc, 0), n % 40 == 39 ? 0x42 : -1);
	}
	pc_free(pc);
}

/* Modes 1 and 5 wait for the gate to rise, and start anew each time it does; 4 strobes once.
 * Channel 2's gate is port 61h bit 0. */
static void test_gate_modes(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	program(pc, 2, 1, 50);
	assert_true(out2(pc));
	step(pc, 100);
	assert_true(out2(pc));
	pc_outb(pc, 0x61, 1);
	step(pc, 1);
	assert_false(out2(pc));
	step(pc, 40);
	pc_outb(pc, 0x61, 0);
	pc_outb(pc, 0x61, 1); /* triggered again */
	step(pc, 40);
	assert_false(out2(pc));
	step(pc, 11);
	assert_true(out2(pc));
	program(pc, 2, 5, 10);
	pc_outb(pc, 0x61, 0);
	pc_outb(pc, 0x61, 1);
	step(pc, 10);
	assert_true(out2(pc));
	step(pc, 1);
	assert_false(out2(pc));
	step(pc, 1);
	assert_true(out2(pc));
	program(pc, 0, 4, 10);
	step(pc, 11);
	assert_int_equal(status(pc, 0) >> 7, 0);
	assert_int_equal(pc_serve(pc, 0), -1);
	step(pc, 1);
	assert_int_equal(pc_serve(pc, 0), 0x42);
	step(pc, 70000);
	assert_int_equal(pc_serve(pc, 0), -1);
	pc_free(pc);
}

/* A low gate holds the count in mode 0, reloads in mode 2 when it rises. */
static void test_gate_holds(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	pc_outb(pc, 0x61, 1);
	program(pc, 2, 0, 100);
	step(pc, 41);
	pc_outb(pc, 0x61, 0);
	step(pc, 1000);
	assert_int_equal(latched(pc, 2), 60);
	assert_false(out2(pc));
	pc_outb(pc, 0x61, 1);
	step(pc, 59);
	assert_false(out2(pc));
	step(pc, 1);
	assert_true(out2(pc));
	program(pc, 2, 2, 100);
	step(pc, 50);
	pc_outb(pc, 0x61, 0);
	assert_true(out2(pc));
	pc_outb(pc, 0x61, 1);
	step(pc, 1);
	assert_int_equal(latched(pc, 2), 100);
	pc_outb(pc, 0x61, 0x0f);
	assert_int_equal(pc_inb(pc, 0x61) & 0xcf, 0x0f);
	pc_free(pc);
}

/* A new count in mode 2 or 3 begins when the running period is over; its interrupts have no gap and
 * no extra. */
static void test_new_count(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	program(pc, 0, 2, 100);
	step(pc, 31); /* 30 done */
	pc_outb(pc, 0x40, 30);
	pc_outb(pc, 0x40, 0);
	assert_int_equal(latched(pc, 0), 70);
	assert_int_equal(status(pc, 0) & 0x40, 0x40); /* null count */
	step(pc, 69);
	assert_int_equal(pc_serve(pc, 0), -1);
	step(pc, 1);
	assert_int_equal(pc_serve(pc, 0), 0x42);
	assert_int_equal(status(pc, 0) & 0x40, 0);
	assert_int_equal(latched(pc, 0), 30);
	step(pc, 29);
	assert_int_equal(pc_serve(pc, 0), -1);
	step(pc, 1);
	assert_int_equal(pc_serve(pc, 0), 0x42);
	pc_free(pc);
}

/* Latches hold until read, read-back takes count and status of several channels, single bytes, BCD.
 */
static void test_reading(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	program(pc, 0, 2, 0x1234);
	program(pc, 2, 0, 0x2000);
	pc_outb(pc, 0x61, 1);
	step(pc, 1);
	pc_outb(pc, 0x43, 0x00);
	step(pc, 4);
	pc_outb(pc, 0x43, 0x00); /* latched already */
	assert_int_equal(pc_inb(pc, 0x40), 0x34);
	assert_int_equal(pc_inb(pc, 0x40), 0x12);
	assert_int_equal(pc_inb(pc, 0x40), 0x30); /* live, low and high in turn */
	assert_int_equal(pc_inb(pc, 0x40), 0x12);
	pc_outb(pc, 0x43, 0xca); /* count and status of channels 0 and 2 */
	step(pc, 8);
	assert_int_equal(pc_inb(pc, 0x40), 0xb4);
	assert_int_equal(pc_inb(pc, 0x40), 0x30);
	assert_int_equal(pc_inb(pc, 0x40), 0x12);
	assert_int_equal(pc_inb(pc, 0x42), 0x30);
	assert_int_equal(pc_inb(pc, 0x42), (0x2000 - 4) & 0xff);
	assert_int_equal(pc_inb(pc, 0x42), (0x2000 - 4) >> 8);
	pc_outb(pc, 0x43, 0x94); /* channel 2, low byte only, mode 2 */
	pc_outb(pc, 0x42, 200);
	step(pc, 1 + 10);
	assert_int_equal(pc_inb(pc, 0x42), 190);
	pc_outb(pc, 0x43, 0xa4); /* high byte only */
	pc_outb(pc, 0x42, 2);
	step(pc, 1 + 1);
	assert_int_equal(pc_inb(pc, 0x42), 0x01);
	pc_outb(pc, 0x43, 0xb5); /* BCD */
	pc_outb(pc, 0x42, 0x00);
	pc_outb(pc, 0x42, 0x10);
	step(pc, 1 + 1);
	assert_int_equal(latched(pc, 2), 0x0999);
	assert_int_equal(pc_in(pc, 0x43, 1), 0);
	pc_free(pc);
}

/* After a pause of many periods there is one interrupt and the phase is kept; while masked nothing
 * wakes the core more than it must. */
static void test_missed_ticks(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	program(pc, 0, 2, 1000);
	step(pc, 1001);
	assert_int_equal(pc_serve(pc, 0), 0x42);
	pc->now += 1000500 * COUNT;
	platform_run_shared_timers(&pc->p, pc->now);
	assert_int_equal(pc_serve(pc, 0), 0x42);
	platform_run_shared_timers(&pc->p, pc->now);
	assert_int_equal(pc_serve(pc, 0), -1);
	step(pc, 499);
	assert_int_equal(pc_serve(pc, 0), -1);
	step(pc, 1);
	assert_int_equal(pc_serve(pc, 0), 0x42);
	program(pc, 0, 2, 1); /* 1.19 MHz: the core is asked at most 50,000 times a second */
	assert_in_range(pc_run_until(pc, pc->now + TSC_HZ), 40000, 50001);
	pc_free(pc);
}

/* The refresh bit of port 61h toggles about every 15 us: old software waits by it. */
static void test_refresh_toggle(void **unused)
{
	struct pc *pc = new_pc();
	unsigned toggles = 0;
	uint8_t last = pc_inb(pc, 0x61) & 0x10;

	(void)unused;
	for (unsigned n = 0; n < 1000000; n++) {
		uint8_t value;

		pc->now += TSC_HZ / 1000000; /* 1 us */
		value = pc_inb(pc, 0x61) & 0x10;
		toggles += value != last;
		last = value;
	}
	assert_in_range(toggles, 66200, 66400);
	pc_free(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_mode_0),
	        cmocka_unit_test(test_mode_2),
	        cmocka_unit_test(test_mode_3),
	        cmocka_unit_test(test_gate_modes),
	        cmocka_unit_test(test_gate_holds),
	        cmocka_unit_test(test_new_count),
	        cmocka_unit_test(test_reading),
	        cmocka_unit_test(test_missed_ticks),
	        cmocka_unit_test(test_refresh_toggle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
