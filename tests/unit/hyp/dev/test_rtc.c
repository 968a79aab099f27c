/* SPDX-License-Identifier: BSD-2-Clause */
/* The RTC (MC146818A): the host's date, setting it, formats, the three interrupts, CMOS memory, and
 * what a reset keeps. */
#include <time.h>

#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

/* With this TSC one count of the RTC's clock is 10000 TSC ticks. */
#define TSC_HZ (32768ull * 10000)
#define SECOND TSC_HZ

static uint8_t get(struct pc *pc, unsigned index)
{
	pc_outb(pc, 0x70, (uint8_t)(0x80 | index)); /* as Linux does, with the NMI bit */
	return pc_inb(pc, 0x71);
}

static void set(struct pc *pc, unsigned index, uint8_t value)
{
	pc_outb(pc, 0x70, (uint8_t)index);
	pc_outb(pc, 0x71, value);
}

static struct pc *new_pc(void)
{
	struct pc *pc = pc_new(1, TSC_HZ);

	pc_enable_all(pc);
	pc_outb(pc, 0x21, 0xff);
	pc_outb(pc, 0xa1, 0xff);
	pc_set_redirect(pc, 8, 0x48);
	return pc;
}

static unsigned bcd(unsigned value)
{
	return value / 10 << 4 | value % 10;
}

static void expect_time(struct pc *pc, int64_t seconds)
{
	time_t time = (time_t)seconds;
	struct tm tm;

	gmtime_r(&time, &tm);
	assert_int_equal(get(pc, 0), bcd((unsigned)tm.tm_sec));
	assert_int_equal(get(pc, 2), bcd((unsigned)tm.tm_min));
	assert_int_equal(get(pc, 4), bcd((unsigned)tm.tm_hour));
	assert_int_equal(get(pc, 6), (unsigned)tm.tm_wday + 1);
	assert_int_equal(get(pc, 7), bcd((unsigned)tm.tm_mday));
	assert_int_equal(get(pc, 8), bcd((unsigned)tm.tm_mon + 1));
	assert_int_equal(get(pc, 9), bcd((unsigned)tm.tm_year % 100));
	assert_int_equal(get(pc, 0x32), bcd((unsigned)(tm.tm_year + 1900) / 100));
}

/* The date is the host's, through leap years and centuries, against the C library's calendar. */
static void test_date(void **unused)
{
	uint64_t state = 5;

	(void)unused;
	for (unsigned n = 0; n < 3000; n++) {
		struct pc *pc = pc_new(1, TSC_HZ);
		struct platform_config config = pc_config(pc, 1, TSC_HZ);

		config.wall_clock_s = (int64_t)(pc_random(&state) % 7258118400ull); /* to 2200 */
		platform_init(&pc->p, &config, false);
		expect_time(pc, config.wall_clock_s);
		pc->now = pc_random(&state) % (SECOND * 86400 * 100);
		expect_time(pc, config.wall_clock_s + (int64_t)(pc->now / SECOND));
		pc_free(pc);
	}
}

/* Set as Linux's mc146818_set_time does: SET, divider reset, bytes, run; the first second is half
 * as long. */
static void test_set_time(void **unused)
{
	struct pc *pc = new_pc();
	const struct {
		uint8_t index, value;
	} bytes[] = {
	        {9, 0x30}, {8, 0x12}, {7, 0x31}, {4, 0x23}, {2, 0x59}, {0, 0x58}, {0x32, 0x20}};
	const int64_t want = 1924991998; /* 2030-12-31 23:59:58 */

	(void)unused;
	pc->now = SECOND / 4;
	set(pc, 0x0b, 0x82);
	set(pc, 0x0a, 0x76);
	pc->now += 3 * SECOND;
	for (unsigned i = 0; i < 7; i++)
		set(pc, bytes[i].index, bytes[i].value);
	assert_int_equal(get(pc, 0), 0x58);
	set(pc, 0x0b, 0x02);
	pc->now += 3 * SECOND;
	assert_int_equal(get(pc, 0), 0x58); /* held by the divider */
	set(pc, 0x0a, 0x26);
	expect_time(pc, want);
	pc->now += SECOND / 2 - 1;
	expect_time(pc, want);
	pc->now += 1;
	expect_time(pc, want + 1);
	pc->now += SECOND;
	expect_time(pc, want + 2); /* a new year */
	/* Without SET a byte goes into the running time. */
	set(pc, 2, 0x30);
	expect_time(pc, want + 2 + 1800);
	pc->now += SECOND;
	expect_time(pc, want + 2 + 1801);
	/* Rubbish is taken without harm. */
	set(pc, 0x0b, 0x82);
	for (unsigned i = 0; i < 10; i++)
		set(pc, i, 0xff);
	set(pc, 0x32, 0xff);
	set(pc, 0x0b, 0x02);
	pc->now += 5 * SECOND;
	get(pc, 0);
	pc_free(pc);
}

/* Binary and twelve-hour formats (data sheet table 2): 12 AM is midnight, bit 7 is PM. */
static void test_formats(void **unused)
{
	struct pc *pc = new_pc();
	static const uint8_t twelve[24] = {0x12, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
	        0x09, 0x10, 0x11, 0x92, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x90,
	        0x91};

	(void)unused;
	for (unsigned hour = 0; hour < 24; hour++) {
		set(pc, 0x0b, 0x02);
		set(pc, 4, (uint8_t)bcd(hour));
		set(pc, 0x0b, 0x00);
		assert_int_equal(get(pc, 4), twelve[hour]);
		set(pc, 4, twelve[hour]);
		set(pc, 0x0b, 0x06);
		assert_int_equal(get(pc, 4), hour);
		assert_int_equal(get(pc, 9), 23);
	}
	pc_free(pc);
}

/* UIP is up for the last 244 us of each second, never while held. */
static void test_update_in_progress(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	pc->now = 7 * SECOND - 8 * 10000 - 1;
	assert_int_equal(get(pc, 0x0a), 0x26);
	pc->now++;
	assert_int_equal(get(pc, 0x0a), 0xa6);
	set(pc, 0x0b, 0x82);
	assert_int_equal(get(pc, 0x0a), 0x26);
	pc_free(pc);
}

/* The periodic interrupt at all fifteen rates; reading C ends it, not reading C keeps it at one (no
 * burst, no wake-ups). */
static void test_periodic(void **unused)
{
	struct pc *pc = new_pc();
	static const unsigned rates[16] = {
	        0, 256, 128, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2};

	(void)unused;
	for (unsigned rate = 0; rate < 16; rate++) {
		unsigned count = 0;
		uint64_t end = pc->now + 4 * SECOND;

		set(pc, 0x0a, (uint8_t)(0x20 | rate));
		set(pc, 0x0b, 0x42);
		get(pc, 0x0c);
		pc_serve(pc, 0);
		while (platform_shared_deadline(&pc->p) <= end) {
			pc->now = platform_shared_deadline(&pc->p);
			platform_run_shared_timers(&pc->p, pc->now);
			assert_int_equal(pc_serve(pc, 0), 0x48);
			assert_int_equal(get(pc, 0x0c), pc->now % SECOND == 0 ? 0xd0 : 0xc0);
			count++;
		}
		assert_int_equal(count, 4 * rates[rate]);
		pc->now = end;
	}
	pc_run_until(pc, pc->now + SECOND); /* nobody reads C */
	assert_int_equal(pc_serve(pc, 0), 0x48);
	assert_int_equal(pc_run_until(pc, pc->now + 100 * SECOND), 0);
	assert_int_equal(pc_serve(pc, 0), -1);
	assert_int_equal(get(pc, 0x0c) & 0xc0, 0xc0);
	assert_int_equal(get(pc, 0x0c), 0);
	set(pc, 0x0b,
	        0x52); /* another kind that is due later raises nothing while the wire is up */
	pc_run_until(pc, pc->now + SECOND - 1);
	assert_int_equal(pc_run_until(pc, pc->now + 100 * SECOND), 0);
	get(pc, 0x0c);
	set(pc, 0x0b, 0x02); /* without PIE the flag still comes */
	pc->now += SECOND;
	assert_int_equal(get(pc, 0x0c) & 0xc0, 0x40);
	pc_free(pc);
}

/* The update interrupt each second; SET stops it and clears its enable. */
static void test_update_interrupt(void **unused)
{
	struct pc *pc = new_pc();

	(void)unused;
	pc->now = SECOND / 4;
	set(pc, 0x0b, 0x12);
	for (unsigned n = 1; n < 5; n++) {
		assert_int_equal(platform_shared_deadline(&pc->p), n * SECOND);
		pc_run_until(pc, n * SECOND);
		assert_int_equal(pc_serve(pc, 0), 0x48);
		assert_int_equal(get(pc, 0x0c), 0x80 | 0x10 | 0x40);
	}
	set(pc, 0x0b, 0x92);
	assert_int_equal(get(pc, 0x0b), 0x82);
	assert_int_equal(platform_shared_deadline(&pc->p), PLATFORM_NEVER);
	pc_free(pc);
}

/* The alarm at a time of day, each hour, each minute, each second (C0h-FFh do not care), and one
 * that can never be. */
static void test_alarm(void **unused)
{
	struct pc *pc = new_pc(); /* 22:13:20 */
	static const struct {
		uint8_t hour, minute, second;
		unsigned after_s, then_s;
	} alarms[] = {
	        {0x22, 0x13, 0x25, 5, 86400},
	        {0x22, 0x13, 0x20, 86400, 86400},
	        {0x07, 0x00, 0x00, 31600, 86400},
	        {0xff, 0x00, 0x00, 2800, 3600},
	        {0xff, 0xc0, 0x10, 50, 60},
	        {0xff, 0xff, 0xff, 1, 1},
	        {0x22, 0xff, 0x21, 1, 60},
	        {0x22, 0x13, 0xff, 1, 1},
	};

	(void)unused;
	for (unsigned i = 0; i < sizeof(alarms) / sizeof(alarms[0]); i++) {
		pc_free(pc);
		pc = new_pc();
		set(pc, 1, alarms[i].second);
		set(pc, 3, alarms[i].minute);
		set(pc, 5, alarms[i].hour);
		set(pc, 0x0b, 0x22);
		assert_int_equal(platform_shared_deadline(&pc->p), alarms[i].after_s * SECOND);
		pc_run_until(pc, alarms[i].after_s * SECOND);
		assert_int_equal(pc_serve(pc, 0), 0x48);
		assert_int_equal(get(pc, 0x0c) & 0xa0, 0xa0);
		assert_int_equal(platform_shared_deadline(&pc->p),
		        (alarms[i].after_s + alarms[i].then_s) * SECOND);
	}
	set(pc, 1, 0x61);
	assert_int_equal(platform_shared_deadline(&pc->p), PLATFORM_NEVER);
	pc_run_until(pc, pc->now + 200000 * SECOND);
	assert_int_equal(get(pc, 0x0c) & 0x20, 0);
	pc_free(pc);
}

/* The memory's size where a BIOS leaves it (SeaBIOS and old systems read these), the checksum,
 * memory that keeps what is written. */
static void test_cmos(void **unused)
{
	struct pc *pc = new_pc();
	unsigned sum = 0;

	(void)unused;
	assert_int_equal(get(pc, 0x15) | get(pc, 0x16) << 8, 640);
	assert_int_equal(get(pc, 0x17) | get(pc, 0x18) << 8, 0xffff);
	assert_int_equal(get(pc, 0x34) | get(pc, 0x35) << 8, (0x40000000 - 0x1000000) >> 16);
	assert_int_equal(
	        get(pc, 0x5b) | get(pc, 0x5c) << 8 | get(pc, 0x5d) << 16, 0x80000000 >> 16);
	for (unsigned i = 0x10; i <= 0x2d; i++)
		sum += get(pc, i);
	assert_int_equal(get(pc, 0x2e) << 8 | get(pc, 0x2f), sum);
	assert_int_equal(get(pc, 0x0d), 0x80);
	set(pc, 0x0d, 0);
	assert_int_equal(get(pc, 0x0d), 0x80);
	set(pc, 0x0f, 0x0a); /* shutdown status */
	set(pc, 0x7f, 0x77);
	assert_int_equal(get(pc, 0x0f), 0x0a);
	assert_int_equal(get(pc, 0x7f), 0x77);
	assert_int_equal(pc_inb(pc, 0x70), 0xff);
	pc_free(pc);
}

/* Data sheet "RESET": interrupts are off after it, time as the guest set it and memory stay; TSC 0
 * may lie elsewhere. */
static void test_reset_keeps(void **unused)
{
	struct pc *pc = new_pc();
	struct platform_config config = pc_config(pc, 1, TSC_HZ);

	(void)unused;
	set(pc, 4, 0x10); /* twelve hours back */
	set(pc, 0x50, 0x99);
	set(pc, 0x0b, 0x72);
	pc->now = 100 * SECOND;
	config.wall_clock_s += 100;
	platform_init(&pc->p, &config, true);
	pc->now = 0;
	expect_time(pc, config.wall_clock_s - 43200);
	assert_int_equal(get(pc, 0x50), 0x99);
	assert_int_equal(get(pc, 0x0b), 0x02);
	assert_int_equal(platform_shared_deadline(&pc->p), PLATFORM_NEVER);
	pc_free(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_date),
	        cmocka_unit_test(test_set_time),
	        cmocka_unit_test(test_formats),
	        cmocka_unit_test(test_update_in_progress),
	        cmocka_unit_test(test_periodic),
	        cmocka_unit_test(test_update_interrupt),
	        cmocka_unit_test(test_alarm),
	        cmocka_unit_test(test_cmos),
	        cmocka_unit_test(test_reset_keeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
