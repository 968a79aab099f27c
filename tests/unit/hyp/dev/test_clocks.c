/* SPDX-License-Identifier: BSD-2-Clause */
/* All clocks of a VM against each other and the TSC, and Linux's own calibration replayed against
 * the models (HAND C-01 to C-03). */
#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

#define DAY_S 86400ull

static uint64_t random_rate(uint64_t *state)
{
	return 800000000 + pc_random(state) % 5200000001;
}

static uint64_t exact(uint64_t tsc, uint64_t hz, uint64_t tsc_hz)
{
	return (uint64_t)((unsigned __int128)tsc * hz / tsc_hz);
}

static uint32_t read_pm(struct pc *pc)
{
	return pc_in(pc, PLATFORM_PM_TIMER_PORT, 4);
}

static uint64_t read_hpet(struct pc *pc)
{
	return pc_load(pc, 0, PLATFORM_HPET_BASE + 0xf0, 8);
}

static void start_hpet(struct pc *pc)
{
	pc_store(pc, 0, PLATFORM_HPET_BASE + 0x10, 4, 1);
}

/* HPET 1.0a §2.3.4 and HAND C-03: the advertised period is the rate, not nearly. */
static uint64_t hpet_period_fs(struct pc *pc)
{
	return pc_load(pc, 0, PLATFORM_HPET_BASE + 4, 4);
}

/* Error under one tick and 1 ppm at any rate after any time up to 100 days; the clocks agree
 * likewise (DESIGN.md, "Time is exact"). */
static void test_agree(void **unused)
{
	uint64_t state = 1;

	(void)unused;
	for (unsigned round = 0; round < 3000; round++) {
		uint64_t tsc_hz = random_rate(&state);
		struct pc *pc = pc_new(1, tsc_hz);
		uint64_t limit = tsc_hz * 100 * DAY_S >> pc_random(&state) % 53, hpet, ns;
		uint32_t pm;

		start_hpet(pc);
		pc->now = 1 + pc_random(&state) % (limit + 1);
		ns = exact(pc->now, 1000000000, tsc_hz);
		pm = read_pm(pc);
		hpet = read_hpet(pc);
		assert_true((uint32_t)(pm - (uint32_t)exact(pc->now, 3579545, tsc_hz)) <= 1);
		assert_true(hpet - exact(pc->now, 100000000, tsc_hz) <= 1);
		assert_int_equal(hpet_period_fs(pc), 10 * 1000000); /* 10 ns, without a rest */
		assert_true(hpet * 10 + 10 >= ns && hpet * 10 <= ns + 1);
		assert_int_equal(pc->p.rtc.base_count, 0);
		pc_outb(pc, 0x70, 0x00);
		assert_int_equal(pc_inb(pc, 0x71) & 0x0f, (1700000000 + ns / 1000000000) % 10);
		/* A second later each has moved on by its rate. */
		pc->now += tsc_hz;
		assert_in_range((uint32_t)(read_pm(pc) - pm), 3579544, 3579546);
		assert_in_range(read_hpet(pc) - hpet, 99999999, 100000001);
		pc_free(pc);
	}
}

/* HAND C-02: tight loops with random gaps: never backwards, and no error builds up with the number
 * of reads. */
static void test_read_patterns(void **unused)
{
	uint64_t state = 2, tsc_hz = 2399987654ull;
	struct pc *pc = pc_new(1, tsc_hz);
	uint64_t start, wraps = 0;
	uint32_t last;

	(void)unused;
	pc->now = 0xfffff000ull * tsc_hz / 3579545; /* soon around the corner of 32 bits */
	start = pc->now;
	last = read_pm(pc);
	for (unsigned n = 0; n < 2000000; n++) {
		uint32_t pm;

		pc->now += pc_random(&state) % (n % 16 == 0 ? 120000 : 2400);
		pm = read_pm(pc);
		if (pm < last) {
			assert_true(last > 0xfffff000u && pm < 0x1000);
			wraps++;
		}
		last = pm;
	}
	assert_int_equal(wraps, 1);
	assert_true((uint32_t)(last - (uint32_t)exact(pc->now, 3579545, tsc_hz)) <= 1);
	assert_true(pc->now - start > tsc_hz / 1000);
	/* Narrow reads are the bytes of the whole, as of one moment. */
	last = read_pm(pc);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(
		        pc_inb(pc, (uint16_t)(PLATFORM_PM_TIMER_PORT + i)), last >> i * 8 & 0xff);
	assert_int_equal(pc_in(pc, PLATFORM_PM_TIMER_PORT + 2, 2), last >> 16);
	pc_outb(pc, PLATFORM_PM_TIMER_PORT, 0x55); /* read only */
	assert_int_equal(read_pm(pc), last);
	pc_free(pc);
}

/* A guest CPU: every access costs, and the value is sampled somewhere within it. */
struct guest {
	struct pc *pc;
	uint64_t state;
	uint64_t cost; /* TSC ticks of one exit */
};

static uint64_t rdtsc(struct guest *g)
{
	g->pc->now += 25;
	return g->pc->now;
}

static void spend_half(struct guest *g)
{
	g->pc->now += g->cost / 2 + pc_random(&g->state) % 50;
}

static uint8_t in(struct guest *g, uint16_t port)
{
	uint8_t value;

	spend_half(g);
	value = pc_inb(g->pc, port);
	spend_half(g);
	return value;
}

static void out(struct guest *g, uint8_t value, uint16_t port)
{
	spend_half(g);
	pc_outb(g->pc, port, value);
	spend_half(g);
}

/* arch/x86/kernel/tsc.c tsc_read_refs: the TSC after the reference clock, whichever is asked for.
 */
static uint64_t read_refs(struct guest *g, uint64_t *reference, bool use_hpet)
{
	uint64_t tsc;

	spend_half(g);
	*reference = use_hpet ? (uint32_t)pc_load(g->pc, 0, PLATFORM_HPET_BASE + 0xf0, 4)
	                      : read_pm(g->pc);
	spend_half(g);
	tsc = rdtsc(g);
	return tsc;
}

/* The same file: tsc_refine_calibration_work, calc_hpet_ref, calc_pmtimer_ref: kHz after a second.
 */
static uint64_t refined_khz(struct guest *g, bool use_hpet)
{
	uint64_t ref1, ref2, start = read_refs(g, &ref1, use_hpet), stop, ns;

	g->pc->now += g->pc->p.tsc_hz + pc_random(&g->state) % 4000000;
	stop = read_refs(g, &ref2, use_hpet);
	ref2 = (uint32_t)(ref2 - ref1);
	ns = use_hpet ? ref2 * hpet_period_fs(g->pc) / 1000000 : ref2 * 1000000000 / 3579545;
	return (stop - start) * 1000000 / ns;
}

/* Issue 5, 2: within 1 ppm after Linux's refinement, whichever reference it takes; kHz are rounded
 * down, up to 1.25 ppm at 0.8 GHz. */
static void test_linux_refined_calibration(void **unused)
{
	uint64_t state = 3;

	(void)unused;
	for (unsigned round = 0; round < 400; round++) {
		uint64_t tsc_hz = random_rate(&state) / 1000 * 1000, khz;
		struct guest g = {pc_new(1, tsc_hz), state, tsc_hz / 1000000};

		start_hpet(g.pc);
		g.pc->now = pc_random(&state) % (tsc_hz * 1000);
		khz = refined_khz(&g, round % 2 == 0);
		/* 1 ppm of the clocks, what the exit's jitter and the reference's tick give in a
		 * second, and the rounding. */
		assert_true(khz * 1000 >= tsc_hz - tsc_hz / 1000000 - 1000);
		assert_true(khz * 1000 <= tsc_hz + tsc_hz / 1000000 + 1000);
		pc_free(g.pc);
	}
}

/* The same file: quick_pit_calibrate's wait for the high byte of channel 2 to reach a value. */
static bool expect_msb(struct guest *g, uint8_t value, uint64_t *tsc, uint64_t *delta)
{
	uint64_t previous = 0, last = 0;
	unsigned count;

	for (count = 0; count < 50000; count++) {
		in(g, 0x42);
		if (in(g, 0x42) != value)
			break;
		previous = last;
		last = rdtsc(g);
	}
	*delta = rdtsc(g) - previous;
	*tsc = last;
	return count > 5;
}

static uint64_t quick_khz(struct guest *g)
{
	uint64_t tsc = 0, delta = 0, d1 = 0, d2 = 0;

	out(g, (uint8_t)((in(g, 0x61) & ~2) | 1), 0x61);
	out(g, 0xb0, 0x43);
	out(g, 0xff, 0x42);
	out(g, 0xff, 0x42);
	in(g, 0x42);
	in(g, 0x42);
	if (!expect_msb(g, 0xff, &tsc, &d1))
		return 0;
	for (unsigned i = 1; i <= 50 * 1193182 / 1000 / 256; i++) {
		if (!expect_msb(g, (uint8_t)(0xff - i), &delta, &d2))
			return 0;
		delta -= tsc;
		if (d1 + d2 < delta >> 11) /* 500 ppm */
			return delta * 1193182 / ((uint64_t)i * 256 * 1000);
	}
	return 0;
}

/* Linux's quick PIT calibration ends and is within its own 500 ppm; pit_calibrate_tsc's 10 ms by
 * the OUT pin likewise. */
static void test_linux_pit_calibration(void **unused)
{
	uint64_t state = 5;

	(void)unused;
	for (unsigned round = 0; round < 30; round++) {
		uint64_t tsc_hz = random_rate(&state), khz, start, spins = 0;
		struct guest g = {pc_new(1, tsc_hz), state, tsc_hz / 1000000};

		g.pc->now = pc_random(&state) % tsc_hz;
		khz = quick_khz(&g);
		assert_true(khz > tsc_hz / 1000 - tsc_hz / 2000000 &&
		            khz < tsc_hz / 1000 + tsc_hz / 2000000);
		out(&g, (uint8_t)((in(&g, 0x61) & ~2) | 1), 0x61);
		out(&g, 0xb0, 0x43);
		out(&g, 11932 & 0xff, 0x42);
		out(&g, 11932 >> 8, 0x42);
		start = rdtsc(&g);
		while ((in(&g, 0x61) & 0x20) == 0)
			spins++;
		assert_true(spins > 1000);
		khz = (rdtsc(&g) - start) / 10;
		assert_true(
		        khz > tsc_hz / 1000 * 9990 / 10000 && khz < tsc_hz / 1000 * 10010 / 10000);
		pc_free(g.pc);
	}
}

/*
 * HAND C-01: Linux's watchdog reads PM, TSC, PM, PM (kernel/time/clocksource.c cs_watchdog_read)
 * and compares half-second intervals. With the count sampled from the `now` that the access was
 * handed, the skew over an interval stays under the exit's length.
 */
static void test_linux_watchdog(void **unused)
{
	struct guest g = {pc_new(1, 2600000000ull), 11, 5000};
	uint64_t last_tsc = 0, last_pm = 0;

	(void)unused;
	for (unsigned n = 0; n < 1000; n++) {
		uint64_t pm, again, tsc = read_refs(&g, &pm, false), tsc_ns, pm_ns;

		read_refs(&g, &again, false);
		assert_true((uint32_t)(again - pm) < 100);
		tsc_ns = exact(tsc - last_tsc, 1000000000, 2600000000ull);
		pm_ns = (uint64_t)(uint32_t)(pm - last_pm) * 1000000000 / 3579545;
		if (n > 0)
			assert_true(llabs((long long)(tsc_ns - pm_ns)) < 5000);
		last_tsc = tsc;
		last_pm = pm;
		g.pc->now += 1300000000ull;
	}
	pc_free(g.pc);
}

/* The timers agree with the clocks: an hour of PIT, HPET, RTC and LAPIC ticks, each counted,
 * against the TSC. */
static void test_timers_agree(void **unused)
{
	uint64_t tsc_hz = 1999999943ull, hour = tsc_hz * 3600;
	struct pc *pc = pc_new(1, tsc_hz);
	unsigned count[4] = {0};

	(void)unused;
	pc_enable_all(pc);
	pc_set_redirect(pc, 2, 0x42);  /* PIT */
	pc_set_redirect(pc, 8, 0x48);  /* RTC */
	pc_set_redirect(pc, 20, 0x54); /* HPET timer 2 */
	pc_outb(pc, 0x43, 0x34);
	pc_outb(pc, 0x40, 11932 & 0xff);
	pc_outb(pc, 0x40, 11932 >> 8);
	pc_outb(pc, 0x70, 0x0a);
	pc_outb(pc, 0x71, 0x2b); /* 32 Hz */
	pc_outb(pc, 0x70, 0x0b);
	pc_outb(pc, 0x71, 0x42);
	pc_outb(pc, 0x70, 0x0c);
	pc_store(pc, 0, PLATFORM_HPET_BASE + 0x140, 4, 20 << 9 | 1 << 6 | 1 << 3 | 1 << 2);
	pc_store(pc, 0, PLATFORM_HPET_BASE + 0x148, 8, 1000000);
	pc_store(pc, 0, PLATFORM_HPET_BASE + 0x148, 8, 1000000);
	start_hpet(pc);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x60 | APIC_LVT_TIMER_PERIODIC);
	pc_set_apic(pc, 0, APIC_REG_TIMER_DIVIDE, 3); /* by 16 */
	pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, 625000);
	while (pc->now <= hour) {
		uint64_t next = platform_shared_deadline(&pc->p),
		         mine = platform_vcpu_deadline(&pc->p, 0);
		int vector;

		pc->now = next < mine ? next : mine;
		if (pc->now > hour)
			break;
		platform_run_vcpu_timer(&pc->p, 0, pc->now);
		platform_run_shared_timers(&pc->p, pc->now);
		while ((vector = pc_serve(pc, 0)) >= 0) {
			count[0] += vector == 0x42;
			count[1] += vector == 0x48;
			count[2] += vector == 0x54;
			count[3] += vector == 0x60;
			if (vector == 0x48)
				pc_inb(pc, 0x71);
		}
	}
	assert_int_equal(count[0], 1193182ull * 3600 / 11932);
	assert_int_equal(count[1], 32 * 3600);
	assert_int_equal(count[2], 100 * 3600);
	assert_int_equal(count[3], 100 * 3600);
	pc_free(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_agree),
	        cmocka_unit_test(test_read_patterns),
	        cmocka_unit_test(test_linux_refined_calibration),
	        cmocka_unit_test(test_linux_pit_calibration),
	        cmocka_unit_test(test_linux_watchdog),
	        cmocka_unit_test(test_timers_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
