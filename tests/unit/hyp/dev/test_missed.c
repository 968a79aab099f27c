/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters at any rate and after any time, and what a timer makes of the ticks that nobody took:
 * one interrupt, then its old rhythm. */
#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

#define DAY_S     86400ull
#define LAPIC_HZ  1000000000ull
#define HPET(reg) (PLATFORM_HPET_BASE + (reg))

static uint64_t exact(uint64_t tsc, uint64_t hz, uint64_t tsc_hz)
{
	return (uint64_t)((unsigned __int128)tsc * hz / tsc_hz);
}

static uint16_t read_pit(struct pc *pc)
{
	uint16_t low;

	pc_outb(pc, 0x43, 0x80); /* latch channel 2 */
	low = pc_inb(pc, 0x42);
	return (uint16_t)(low | pc_inb(pc, 0x42) << 8);
}

static uint64_t random_tsc_hz(uint64_t *state)
{
	return 800000000 + pc_random(state) % 5200000001;
}

/* From 1 ns to 100 days, as likely in each power of two. */
static uint64_t random_time(uint64_t *state, uint64_t tsc_hz)
{
	uint64_t limit = tsc_hz * 100 * DAY_S >> pc_random(state) % 53;

	return 1 + pc_random(state) % (limit + 1);
}

/* The difference of two counts that wrap at `size`, as a number around 0. */
static int64_t apart(uint64_t a, uint64_t b, uint64_t size)
{
	uint64_t d = (a - b) % size;

	return d > size / 2 ? (int64_t)d - (int64_t)size : (int64_t)d;
}

/* Down-counters too are what the time since their start says, within a tick, however often and
 * when they are read. */
static void test_down_counters(void **unused)
{
	uint64_t state = 21;

	(void)unused;
	for (unsigned round = 0; round < 2000; round++) {
		uint64_t tsc_hz = random_tsc_hz(&state), start;
		struct pc *pc = pc_new(1, tsc_hz);

		pc->now = random_time(&state, tsc_hz);
		start = pc->now;
		pc_outb(pc, 0x61, 1);
		pc_outb(pc, 0x43, 0xb4); /* channel 2, mode 2, from 65536 */
		pc_outb(pc, 0x42, 0);
		pc_outb(pc, 0x42, 0);
		pc_enable_all(pc);
		pc_set_apic(pc, 0, APIC_REG_LVT_TIMER,
		        0x60 | APIC_LVT_MASKED | APIC_LVT_TIMER_PERIODIC);
		pc_set_apic(pc, 0, APIC_REG_TIMER_DIVIDE, 0xb); /* by 1 */
		pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, 4000000000u);
		for (unsigned read = 0; read < 8; read++) {
			uint64_t since, pit, lapic;

			pc->now += random_time(&state, tsc_hz) >> 3;
			since = pc->now - start;
			pit = exact(since, 1193182, tsc_hz);
			lapic = exact(since, LAPIC_HZ, tsc_hz);
			/* The 8254 loads a count on the clock's next edge. */
			assert_in_range(apart(65536 - pit % 65536, read_pit(pc), 65536) + 2, 0, 4);
			assert_in_range(
			        apart(4000000000u - lapic % 4000000000u,
			                pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), 4000000000u) +
			                2,
			        0, 4);
		}
		pc_free(pc);
	}
}

/* Read densely, none of them ever goes the wrong way, but where it starts anew. */
static void test_monotonic(void **unused)
{
	uint64_t state = 22;

	(void)unused;
	for (unsigned round = 0; round < 20; round++) {
		uint64_t tsc_hz = random_tsc_hz(&state), pm, hpet;
		struct pc *pc = pc_new(1, tsc_hz);
		int64_t step;
		uint16_t pit;

		pc->now = random_time(&state, tsc_hz);
		pc_outb(pc, 0x61, 1);
		pc_outb(pc, 0x43, 0xb4);
		pc_outb(pc, 0x42, 0);
		pc_outb(pc, 0x42, 0);
		pc_store(pc, 0, HPET(0x10), 4, 1);
		pc->now += tsc_hz;
		pit = read_pit(pc);
		pm = pc_in(pc, PLATFORM_PM_TIMER_PORT, 4);
		hpet = pc_load(pc, 0, HPET(0xf0), 8);
		for (unsigned read = 0; read < 20000; read++) {
			uint16_t next_pit;
			uint64_t next;

			pc->now += pc_random(&state) % (tsc_hz / 100000);
			next_pit = read_pit(pc);
			step = apart(pit, next_pit, 65536);
			assert_true(step >= 0 && step < 14);
			pit = next_pit;
			next = pc_in(pc, PLATFORM_PM_TIMER_PORT, 4);
			assert_true(apart(next, pm, 1ull << 32) >= 0);
			pm = next;
			next = pc_load(pc, 0, HPET(0xf0), 8);
			assert_true(next >= hpet);
			hpet = next;
		}
		pc_free(pc);
	}
}

/* A timer of 100 Hz or about, how it is set up, and what its handler does beside the EOI. */
struct ticker {
	const char *name;
	void (*start)(struct pc *pc);
	void (*quiet)(struct pc *pc);
	int vector;
	uint64_t hz, per_tick; /* its clock, and how many of it a tick is */
};

static void start_pit(struct pc *pc)
{
	pc_set_redirect(pc, 2, 0x42);
	pc_outb(pc, 0x43, 0x34);
	pc_outb(pc, 0x40, 11932 & 0xff);
	pc_outb(pc, 0x40, 11932 >> 8);
}

static void start_rtc(struct pc *pc)
{
	pc_set_redirect(pc, 8, 0x48);
	pc_outb(pc, 0x70, 0x0a);
	pc_outb(pc, 0x71, 0x29); /* 128 Hz */
	pc_outb(pc, 0x70, 0x0b);
	pc_outb(pc, 0x71, 0x42);
	pc_outb(pc, 0x70, 0x0c);
	pc_inb(pc, 0x71);
}

static void quiet_rtc(struct pc *pc)
{
	pc_inb(pc, 0x71); /* register C */
}

static void start_hpet(struct pc *pc, uint64_t more)
{
	pc_set_redirect(pc, 20, 0x54 | (more & 2 ? 1u << 15 : 0));
	pc_store(pc, 0, HPET(0x140), 4, 20 << 9 | 1 << 6 | 1 << 3 | 1 << 2 | more);
	pc_store(pc, 0, HPET(0x148), 8, 1000000);
	pc_store(pc, 0, HPET(0x148), 8, 1000000);
	pc_store(pc, 0, HPET(0x10), 4, 1);
}

static void start_hpet_edge(struct pc *pc)
{
	start_hpet(pc, 0);
}

static void start_hpet_level(struct pc *pc)
{
	start_hpet(pc, 2);
}

static void quiet_hpet(struct pc *pc)
{
	pc_store(pc, 0, HPET(0x20), 4, 1 << 2);
}

static void start_lapic(struct pc *pc)
{
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x60 | APIC_LVT_TIMER_PERIODIC);
	pc_set_apic(pc, 0, APIC_REG_TIMER_DIVIDE, 0xb);
	pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, 10000000);
}

static void quiet_nothing(struct pc *pc)
{
	(void)pc;
}

static const struct ticker tickers[] = {
        {"PIT", start_pit, quiet_nothing, 0x42, 1193182, 11932},
        {"RTC", start_rtc, quiet_rtc, 0x48, 32768, 256},
        {"HPET, edge", start_hpet_edge, quiet_nothing, 0x54, 100000000, 1000000},
        {"HPET, level", start_hpet_level, quiet_hpet, 0x54, 100000000, 1000000},
        {"LAPIC", start_lapic, quiet_nothing, 0x60, LAPIC_HZ, 10000000},
};

static unsigned take_all(struct pc *pc, const struct ticker *t)
{
	unsigned count = 0;
	int vector;

	while ((vector = pc_take(pc, 0)) >= 0) {
		assert_int_equal(vector, t->vector);
		t->quiet(pc);
		pc_set_apic(pc, 0, APIC_REG_EOI, 0);
		count++;
	}
	return count;
}

static void run_timers(struct pc *pc)
{
	platform_run_vcpu_timer(&pc->p, 0, pc->now);
	platform_run_shared_timers(&pc->p, pc->now);
}

/* The next deadline's time. */
static uint64_t go_to_next(struct pc *pc)
{
	uint64_t a = platform_shared_deadline(&pc->p), b = platform_vcpu_deadline(&pc->p, 0);

	pc->now = a < b ? a : b;
	run_timers(pc);
	return pc->now;
}

/*
 * A pause of seconds: nothing runs, the clocks go on. All ticks that were missed are one interrupt
 * at most (an edge more of a PIT or HPET, the RTC's flag in C, LAPIC's one bit of IRR), and the
 * next one is a whole number of periods after the last before the pause.
 */
static void test_pause(void **unused)
{
	uint64_t state = 23;

	(void)unused;
	for (unsigned round = 0; round < 500; round++) {
		const struct ticker *t = &tickers[round % (sizeof(tickers) / sizeof(tickers[0]))];
		uint64_t tsc_hz = random_tsc_hz(&state), before, after, ticks, error;
		struct pc *pc = pc_new(1, tsc_hz);

		pc_enable_all(pc);
		pc->now = random_time(&state, tsc_hz) >> 10;
		t->start(pc);
		for (unsigned n = 0; n < 5; n++) {
			go_to_next(pc);
			assert_int_equal(take_all(pc, t), 1);
		}
		before = pc->now;
		pc->now += tsc_hz / 50 + pc_random(&state) % (tsc_hz * 20);
		run_timers(pc);
		assert_int_equal(take_all(pc, t), 1);
		run_timers(pc);
		assert_int_equal(take_all(pc, t), 0);
		for (unsigned n = 0; n < 3; n++) {
			after = go_to_next(pc);
			assert_int_equal(take_all(pc, t), 1);
			ticks = exact(after - before + tsc_hz / 100000, t->hz, tsc_hz) /
			        t->per_tick;
			error = after - before > exact(ticks * t->per_tick, tsc_hz, t->hz)
			                ? after - before - exact(ticks * t->per_tick, tsc_hz, t->hz)
			                : exact(ticks * t->per_tick, tsc_hz, t->hz) -
			                          (after - before);
			if (error > tsc_hz / t->hz + 2)
				fail_msg("%s: %llu ticks off by %llu TSC", t->name,
				        (unsigned long long)ticks, (unsigned long long)error);
		}
		pc_free(pc);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_down_counters),
	        cmocka_unit_test(test_monotonic),
	        cmocka_unit_test(test_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
