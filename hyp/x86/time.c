/* SPDX-License-Identifier: BSD-2-Clause */
/* How fast the TSC and the APIC timer run, measured against the ACPI PM timer or else the PIT, and
 * what the RTC says. */
#include "hyp/x86/internal.h"

#include "hw/apic.h"
#include "lib/muldiv.h"

/*
 * Essay: one reading of (TSC, counter) is off by up to the time a port read takes plus one PM tick
 * (279 ns), on an emulator by much more when the host takes the CPU away. So a sample is 32
 * readings, of which the 8 with the shortest time between the TSC reads around the port read are
 * kept and averaged: that also averages the tick's own size out. Two samples 60 ms apart give the
 * rate to a few ppm. The first is taken as early, the second as late as possible, so the wait costs
 * nothing.
 */
#define READINGS       32u
#define KEPT           8u
#define CALIBRATE_US   60000u
#define FIRST_GUESS_US 1000u
#define PM_POLLS_MAX   10000u

#define PIT_HZ          1193182u
#define PIT_CHANNEL_2   0x42
#define PIT_COMMAND     0x43
#define PIT_MODE_0_CH_2 0xb0
#define PORT_61         0x61
#define PORT_61_GATE    0x01
#define PORT_61_SPEAKER 0x02
#define PORT_61_OUT     0x20
#define PIT_POLLS_MAX   50000000u
#define PIT_RUNS_MAX    8u
#define PIT_GOOD_PART   20000u /* 50 ppm */
#define PIT_FIRST_TICKS 11932u /* 10 ms */
#define PIT_TICKS       59659u /* 50 ms */

#define CMOS_INDEX    0x70
#define CMOS_DATA     0x71
#define RTC_STATUS_A  0x0a
#define RTC_STATUS_B  0x0b
#define RTC_UIP       0x80
#define RTC_BINARY    0x04
#define RTC_24H       0x02
#define RTC_PM        0x80
#define RTC_POLLS_MAX 100000u

struct sample {
	uint64_t tsc;     /* of the first reading */
	uint32_t count;   /* of the first reading */
	uint64_t tsc_sum; /* of the kept ones, relative to the first */
	uint64_t count_sum;
};

uint64_t tsc_hz;
static struct sample pm_begin, apic_begin;
static bool has_pm;
static int64_t boot_wall_clock_s;

static uint32_t read_pm(void)
{
	return inl(acpi_info.pm_timer_port);
}

static uint32_t pm_mask(void)
{
	return acpi_info.pm_timer_32 ? UINT32_MAX : 0xffffffu;
}

static uint32_t read_apic_up(void)
{
	return UINT32_MAX - apic_read(APIC_REG_TIMER_CURRENT);
}

struct reading {
	uint64_t window; /* TSC ticks that it took */
	uint64_t tsc;    /* in the middle */
	uint32_t count;
};

static void take_sample(struct sample *s, uint32_t (*read)(void), uint32_t mask)
{
	struct reading kept[KEPT] = {{0, 0, 0}}, r;
	unsigned n = 0;

	*s = (struct sample){0};
	for (unsigned i = 0; i < READINGS; i++) {
		uint64_t before = tsc_now();
		unsigned at;

		r.count = read() & mask;
		r.window = tsc_now() - before;
		r.tsc = before + r.window / 2;
		if (!i) {
			s->tsc = r.tsc;
			s->count = r.count;
		}
		/* Sorted by window; the longest falls out. */
		for (at = n; at > 0 && kept[at - 1].window > r.window; at--)
			if (at < KEPT)
				kept[at] = kept[at - 1];
		if (at < KEPT)
			kept[at] = r;
		if (n < KEPT)
			n++;
	}
	for (unsigned i = 0; i < KEPT; i++) {
		s->tsc_sum += kept[i].tsc - s->tsc;
		s->count_sum += (kept[i].count - s->count) & mask;
	}
}

/* KEPT times what passed from a to b. */
static uint64_t tsc_between(const struct sample *a, const struct sample *b)
{
	return (b->tsc - a->tsc) * KEPT + b->tsc_sum - a->tsc_sum;
}

static uint64_t count_between(const struct sample *a, const struct sample *b, uint32_t mask)
{
	return (uint64_t)((b->count - a->count) & mask) * KEPT + b->count_sum - a->count_sum;
}

static uint64_t measure_pm(struct sample *end)
{
	uint64_t ticks;

	take_sample(end, read_pm, pm_mask());
	ticks = count_between(&pm_begin, end, pm_mask());
	return muldiv_u64(tsc_between(&pm_begin, end), ACPI_PM_TIMER_HZ, ticks ? ticks : 1);
}

static bool pm_runs(void)
{
	uint32_t first;

	if (!acpi_info.pm_timer_port)
		return false;
	first = read_pm();
	for (unsigned i = 0; i < PM_POLLS_MAX; i++)
		if (read_pm() != first)
			return true;
	return false;
}

static void wait_pm_us(uint32_t us)
{
	uint64_t ticks = (uint64_t)us * ACPI_PM_TIMER_HZ / 1000000;

	while (((read_pm() - pm_begin.count) & pm_mask()) < ticks)
		cpu_pause();
}

struct pit_run {
	uint64_t ticks;  /* TSC ticks, from the middle of its bounds at either end */
	uint64_t unsure; /* width of both bounds together */
};

static struct pit_run run_pit(uint32_t pit_ticks)
{
	uint64_t before, start, seen, last;

	outb(PORT_61, (uint8_t)((inb(PORT_61) & ~PORT_61_SPEAKER) | PORT_61_GATE));
	outb(PIT_COMMAND, PIT_MODE_0_CH_2);
	outb(PIT_CHANNEL_2, (uint8_t)pit_ticks);
	before = tsc_now();
	outb(PIT_CHANNEL_2, (uint8_t)(pit_ticks >> 8));
	start = seen = tsc_now();
	for (unsigned i = 0; !(inb(PORT_61) & PORT_61_OUT); i++) {
		seen = tsc_now();
		if (i == PIT_POLLS_MAX)
			refuse("neither an ACPI PM timer nor a PIT that runs");
	}
	last = seen;
	seen = tsc_now();
	return (struct pit_run){
	        (last + seen) / 2 - (before + start) / 2, seen - last + start - before};
}

/* TSC ticks a second by PIT channel 2: the best of a few runs, for any of them may be disturbed. */
static uint64_t measure_pit(uint32_t pit_ticks)
{
	struct pit_run best = run_pit(pit_ticks);

	for (unsigned i = 1; i < PIT_RUNS_MAX && best.unsure > best.ticks / PIT_GOOD_PART; i++) {
		struct pit_run next = run_pit(pit_ticks);

		if (next.unsure < best.unsure)
			best = next;
	}
	return muldiv_u64(best.ticks, PIT_HZ, pit_ticks);
}

void time_calibrate_begin(void)
{
	struct sample guess;

	has_pm = pm_runs();
	apic_timer_free_run();
	take_sample(&apic_begin, read_apic_up, UINT32_MAX);
	if (!has_pm) {
		tsc_hz = measure_pit(PIT_FIRST_TICKS);
		return;
	}
	take_sample(&pm_begin, read_pm, pm_mask());
	wait_pm_us(FIRST_GUESS_US);
	tsc_hz = measure_pm(&guess);
}

static uint8_t cmos_read(uint8_t index)
{
	outb(CMOS_INDEX, index);
	return inb(CMOS_DATA);
}

struct rtc_fields {
	uint8_t f[7]; /* seconds, minutes, hours, day, month, year, century */
};

static struct rtc_fields rtc_read_raw(void)
{
	static const uint8_t index[6] = {0x00, 0x02, 0x04, 0x07, 0x08, 0x09};
	struct rtc_fields r = {{0}};

	for (unsigned i = 0; i < RTC_POLLS_MAX && cmos_read(RTC_STATUS_A) & RTC_UIP; i++)
		cpu_pause();
	for (unsigned i = 0; i < 6; i++)
		r.f[i] = cmos_read(index[i]);
	if (acpi_info.rtc_century)
		r.f[6] = cmos_read(acpi_info.rtc_century);
	return r;
}

static unsigned from_bcd(uint8_t v)
{
	return (v >> 4) * 10u + (v & 15u);
}

/* Days from 1970-01-01 in the Gregorian calendar; years count from March so that the leap day comes
 * last. */
static int64_t days_from_date(int64_t year, unsigned month, unsigned day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	unsigned m = month <= 2 ? month + 9 : month - 3;

	return y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

static int64_t rtc_seconds(void)
{
	struct rtc_fields r = rtc_read_raw(), again = rtc_read_raw();
	uint8_t b = cmos_read(RTC_STATUS_B);
	bool pm;
	unsigned v[7];
	int64_t year;

	/* An update may fall between two registers: two equal readings cannot both have been cut.
	 */
	for (unsigned i = 0; i < 8 && __builtin_memcmp(&r, &again, sizeof(r)); i++) {
		r = again;
		again = rtc_read_raw();
	}
	pm = !(b & RTC_24H) && r.f[2] & RTC_PM;
	if (!(b & RTC_24H))
		r.f[2] &= (uint8_t)~RTC_PM;
	for (unsigned i = 0; i < 7; i++)
		v[i] = b & RTC_BINARY ? r.f[i] : from_bcd(r.f[i]);
	if (!(b & RTC_24H))
		v[2] = v[2] % 12 + (pm ? 12 : 0);
	year = v[6] >= 19 && v[6] <= 21 ? v[6] * 100 + v[5] : 2000 + v[5];
	return days_from_date(year, v[4], v[3]) * 86400 + v[2] * 3600 + v[1] * 60 + v[0];
}

int64_t wall_clock_at_boot_s(void)
{
	return boot_wall_clock_s;
}

void time_calibrate_end(void)
{
	struct sample pm_end, apic_end;

	/* Too long ago for a 24-bit PM timer or the 32-bit APIC count: measure afresh. */
	if (has_pm && tsc_now() - pm_begin.tsc > 2 * tsc_hz)
		time_calibrate_begin();
	if (has_pm) {
		wait_pm_us(CALIBRATE_US);
		tsc_hz = measure_pm(&pm_end);
	} else {
		apic_timer_free_run();
		take_sample(&apic_begin, read_apic_up, UINT32_MAX);
		tsc_hz = measure_pit(PIT_TICKS);
	}
	take_sample(&apic_end, read_apic_up, UINT32_MAX);
	apic_timer_hz = muldiv_u64(count_between(&apic_begin, &apic_end, UINT32_MAX), tsc_hz,
	        tsc_between(&apic_begin, &apic_end));
	apic_timer_stop();
	boot_wall_clock_s = rtc_seconds() - (int64_t)(tsc_now() / tsc_hz);
	log_line("TSC %llu Hz by the %s, APIC timer %llu Hz", (unsigned long long)tsc_hz,
	        has_pm ? "PM timer" : "PIT", (unsigned long long)apic_timer_hz);
}

void time_wait_us(uint64_t us)
{
	uint64_t end = tsc_now() + muldiv_u64(us, tsc_hz, 1000000);

	while (tsc_now() < end)
		cpu_pause();
}
