/* SPDX-License-Identifier: BSD-2-Clause */
/* The RTC: time of day from the time base, flags worked out when somebody looks, interrupts when
 * somebody waits. */
#include "hyp/dev/platform_state.h"
#include "hyp/dev/rtc.h"

#define REG_SECONDS       0x00u
#define REG_ALARM_SECONDS 0x01u
#define REG_MINUTES       0x02u
#define REG_ALARM_MINUTES 0x03u
#define REG_HOURS         0x04u
#define REG_ALARM_HOURS   0x05u
#define REG_WEEKDAY       0x06u
#define REG_DAY           0x07u
#define REG_MONTH         0x08u
#define REG_YEAR          0x09u
#define REG_A             0x0au
#define REG_B             0x0bu
#define REG_C             0x0cu
#define REG_D             0x0du
#define REG_CENTURY       0x32u

#define A_UPDATING 0x80u
#define A_RATE     0x0fu
#define B_SET      0x80u
#define B_PERIODIC 0x40u
#define B_ALARM    0x20u
#define B_UPDATE   0x10u
#define B_BINARY   0x04u
#define B_24H      0x02u
#define C_IRQ      0x80u
#define D_VALID    0x80u

#define SECOND_SHIFT  15u /* RTC_HZ = 1 << 15 */
#define UPDATE_COUNTS 8   /* UIP is up from 244 us before the update (data sheet, "Update cycle") */
#define NO_ALARM      INT64_MAX

#define DAY_S 86400

static uint64_t rtc_count(const struct platform *p, uint64_t now)
{
	return timebase_count(&p->rtc_clock, now);
}

/* Register A's divider 11x holds the chain in reset. */
static bool in_reset(const struct rtc *r)
{
	return (r->cmos[REG_A] & 0x60) == 0x60;
}

/* The time bytes in cmos are the software's while the clock is held; else time goes on from base.
 */
static bool is_held(const struct rtc *r)
{
	return (r->cmos[REG_B] & B_SET) != 0 || in_reset(r);
}

static int64_t since_base(const struct rtc *r, uint64_t count)
{
	return (int64_t)count - r->base_count;
}

static int64_t seconds_at(const struct rtc *r, uint64_t count)
{
	return r->base_s + (since_base(r, count) >> SECOND_SHIFT);
}

static uint8_t encode(const struct rtc *r, unsigned value)
{
	return (uint8_t)((r->cmos[REG_B] & B_BINARY) != 0 ? value : value / 10 << 4 | value % 10);
}

static unsigned decode(const struct rtc *r, uint8_t byte)
{
	return (r->cmos[REG_B] & B_BINARY) != 0 ? byte : (byte >> 4) * 10u + (byte & 15u);
}

static uint8_t encode_hour(const struct rtc *r, unsigned hour)
{
	if ((r->cmos[REG_B] & B_24H) != 0)
		return encode(r, hour);
	return (uint8_t)(encode(r, hour % 12 == 0 ? 12 : hour % 12) | (hour >= 12 ? 0x80 : 0));
}

static unsigned decode_hour(const struct rtc *r, uint8_t byte)
{
	if ((r->cmos[REG_B] & B_24H) != 0)
		return decode(r, byte);
	return decode(r, byte & 0x7f) % 12 + ((byte & 0x80) != 0 ? 12 : 0);
}

/* Days from 1970-01-01 and back, for the Gregorian calendar (a year begins in March, a leap day
 * ends it). */
static int64_t days_from_date(int64_t year, unsigned month, unsigned day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t era = y / 400, of_era = y % 400;
	int64_t of_year = (153 * (int64_t)(month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct date {
	unsigned year, month, day;
};

/* Needs: days from year 0 on. */
static struct date date_from_days(int64_t days)
{
	int64_t z = days + 719468, era = z / 146097, of_era = z % 146097;
	int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int64_t m = (5 * of_year + 2) / 153;
	unsigned month = (unsigned)(m < 10 ? m + 3 : m - 9);

	return (struct date){
	        .year = (unsigned)(year_of_era + era * 400 + (month <= 2 ? 1 : 0)),
	        .month = month,
	        .day = (unsigned)(of_year - (153 * m + 2) / 5 + 1),
	};
}

static void store_time(struct rtc *r, int64_t seconds)
{
	int64_t days = seconds / DAY_S;
	unsigned of_day = (unsigned)(seconds % DAY_S);
	struct date date = date_from_days(days);

	r->cmos[REG_SECONDS] = encode(r, of_day % 60);
	r->cmos[REG_MINUTES] = encode(r, of_day / 60 % 60);
	r->cmos[REG_HOURS] = encode_hour(r, of_day / 3600);
	r->cmos[REG_WEEKDAY] = encode(
	        r, (unsigned)((days + 4) % 7 + 1)); /* 1970-01-01 was a Thursday, 5 */
	r->cmos[REG_DAY] = encode(r, date.day);
	r->cmos[REG_MONTH] = encode(r, date.month);
	r->cmos[REG_YEAR] = encode(r, date.year % 100);
	r->cmos[REG_CENTURY] = encode(r, date.year / 100 % 100);
}

/* The guest may have written anything: the result is some second of the years 0 to 25599. */
static int64_t load_time(const struct rtc *r)
{
	unsigned month = decode(r, r->cmos[REG_MONTH]) % 13;
	int64_t year = decode(r, r->cmos[REG_CENTURY]) * 100ll + decode(r, r->cmos[REG_YEAR]);
	int64_t seconds = days_from_date(
	                          year, month == 0 ? 1 : month, decode(r, r->cmos[REG_DAY])) *
	                          DAY_S +
	                  decode_hour(r, r->cmos[REG_HOURS]) * 3600ll +
	                  decode(r, r->cmos[REG_MINUTES]) * 60ll + decode(r, r->cmos[REG_SECONDS]);

	return seconds < 0 ? 0 : seconds;
}

/* Counts of one periodic interrupt as a shift; 0: none (data sheet table 3, 32768 Hz). */
static unsigned rate_shift(const struct rtc *r)
{
	unsigned rate = r->cmos[REG_A] & A_RATE;

	if (rate == 0 || in_reset(r))
		return 0;
	return rate <= 2 ? rate + 6 : rate - 1;
}

static bool alarm_matches(uint8_t byte, unsigned wanted, unsigned value)
{
	return (byte & 0xc0) == 0xc0 || wanted == value;
}

/* The first second after `after` at which all three alarm bytes match: by hours, minutes, seconds,
 * so under 300 steps. */
static int64_t next_alarm(const struct rtc *r, int64_t after)
{
	const uint8_t *cmos = r->cmos;
	int64_t at = after + 1;

	for (unsigned step = 0; step < 300; step++) {
		unsigned of_day = (unsigned)(at % DAY_S);

		if (!alarm_matches(cmos[REG_ALARM_HOURS], decode_hour(r, cmos[REG_ALARM_HOURS]),
		            of_day / 3600))
			at += 3600 - of_day % 3600;
		else if (!alarm_matches(cmos[REG_ALARM_MINUTES], decode(r, cmos[REG_ALARM_MINUTES]),
		                 of_day / 60 % 60))
			at += 60 - of_day % 60;
		else if (!alarm_matches(cmos[REG_ALARM_SECONDS], decode(r, cmos[REG_ALARM_SECONDS]),
		                 of_day % 60))
			at++;
		else
			return at;
	}
	return NO_ALARM;
}

/* The IRQ line is register C's bit 7; in HPET's legacy mode its wire is the HPET's. */
static void update_line(struct platform *p)
{
	struct rtc *r = &p->rtc;

	if ((r->cmos[REG_C] & r->cmos[REG_B] & (B_PERIODIC | B_ALARM | B_UPDATE)) != 0)
		r->cmos[REG_C] |= C_IRQ;
	else
		r->cmos[REG_C] &= (uint8_t)~C_IRQ;
	platform_drive(p, PLATFORM_PIN_RTC, PLATFORM_SOURCE_OWN,
	        (r->cmos[REG_C] & C_IRQ) != 0 && !hpet_is_legacy(&p->hpet));
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* A flag that is up already raises nothing more: while the guest does not read C there is nothing
 * to wait for. */
static void rearm(struct platform *p)
{
	struct rtc *r = &p->rtc;
	uint8_t waited = r->cmos[REG_B] & (uint8_t)~r->cmos[REG_C];
	int64_t base = since_base(r, r->seen_count), next = INT64_MAX, alarm;
	unsigned shift = rate_shift(r);

	r->deadline = PLATFORM_NEVER;
	if ((r->cmos[REG_C] & C_IRQ) != 0)
		return;
	if ((waited & B_PERIODIC) != 0 && shift != 0)
		next = ((base >> shift) + 1) * (1ll << shift);
	if ((waited & B_UPDATE) != 0 && !is_held(r))
		next = earlier(next, ((base >> SECOND_SHIFT) + 1) * RTC_HZ);
	if ((waited & B_ALARM) != 0 && !is_held(r)) {
		alarm = next_alarm(r, seconds_at(r, r->seen_count));
		if (alarm != NO_ALARM)
			next = earlier(next, (alarm - r->base_s) * RTC_HZ);
	}
	if (next != INT64_MAX)
		r->deadline = timebase_when(&p->rtc_clock, (uint64_t)(next + r->base_count));
}

/* Works out the flags for the time since the last look: periods and seconds that were missed are
 * one flag each. */
void rtc_run(struct platform *p, uint64_t now)
{
	struct rtc *r = &p->rtc;
	uint64_t count = rtc_count(p, now);
	int64_t before = since_base(r, r->seen_count), after = since_base(r, count);
	unsigned shift = rate_shift(r);

	if (count > r->seen_count) {
		if (shift != 0 && before >> shift != after >> shift)
			r->cmos[REG_C] |= B_PERIODIC;
		if (!is_held(r) && before >> SECOND_SHIFT != after >> SECOND_SHIFT) {
			r->cmos[REG_C] |= B_UPDATE;
			if (next_alarm(r, seconds_at(r, r->seen_count)) <= seconds_at(r, count))
				r->cmos[REG_C] |= B_ALARM;
		}
		r->seen_count = count;
	}
	update_line(p);
	rearm(p);
}

static bool is_time(unsigned index)
{
	return index == REG_CENTURY ||
	       (index <= REG_YEAR && index != REG_ALARM_SECONDS && index != REG_ALARM_MINUTES &&
	               index != REG_ALARM_HOURS);
}

uint8_t rtc_read(struct platform *p, uint16_t port, uint64_t now)
{
	struct rtc *r = &p->rtc;
	uint64_t count = rtc_count(p, now);
	uint8_t value;

	if ((port & 1) == 0)
		return 0xff; /* port 70h cannot be read */
	if (is_time(r->index) && !is_held(r))
		store_time(r, seconds_at(r, count));
	value = r->cmos[r->index];
	if (r->index == REG_A) {
		int64_t phase = since_base(r, count) & (RTC_HZ - 1);

		return value | (!is_held(r) && phase >= RTC_HZ - UPDATE_COUNTS ? A_UPDATING : 0);
	}
	if (r->index == REG_C) {
		rtc_run(p, now);
		value = r->cmos[REG_C];
		r->cmos[REG_C] = 0;
		rtc_run(p, now);
	}
	return r->index == REG_D ? D_VALID : value;
}

/* Takes over a time of day that begins at `count` within the second that runs. */
static void set_time(struct rtc *r, uint64_t count)
{
	int64_t phase = since_base(r, count) & (RTC_HZ - 1);

	r->base_s = load_time(r);
	r->base_count = (int64_t)count - phase;
}

static void write_control(struct rtc *r, uint8_t value, uint64_t count)
{
	bool was_held = is_held(r), was_reset = in_reset(r);

	if (!was_held)
		store_time(r, seconds_at(r, count));
	if (r->index == REG_A) {
		r->cmos[REG_A] = value & (uint8_t)~A_UPDATING;
	} else {
		/* Data sheet: SET clears the update interrupt's enable. */
		r->cmos[REG_B] = (value & B_SET) != 0 ? value & (uint8_t)~B_UPDATE : value;
	}
	/* The first second after the divider's reset is half a second long (data sheet, "Divider
	 * control"). */
	if (was_reset && !in_reset(r))
		r->base_count = (int64_t)count - RTC_HZ / 2;
	if (!is_held(r) && was_held)
		set_time(r, count);
	else if (!is_held(r))
		store_time(r, seconds_at(r, count)); /* in the format that B now says */
}

void rtc_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now)
{
	struct rtc *r = &p->rtc;
	uint64_t count = rtc_count(p, now);

	if ((port & 1) == 0) {
		r->index = value &
		           (RTC_CMOS_BYTES -
		                   1); /* bit 7 masks NMIs on a PC; none comes by that way here */
		return;
	}
	rtc_run(p, now);
	if (r->index == REG_A || r->index == REG_B) {
		write_control(r, value, count);
	} else if (is_time(r->index) && !is_held(r)) {
		store_time(r, seconds_at(r, count));
		r->cmos[r->index] = value;
		set_time(r, count);
	} else if (r->index != REG_C && r->index != REG_D) {
		r->cmos[r->index] = value;
	}
	rtc_run(p, now);
}

static void set_word(struct rtc *r, unsigned index, uint64_t value)
{
	if (value > 0xffff)
		value = 0xffff;
	r->cmos[index] = (uint8_t)value;
	r->cmos[index + 1] = (uint8_t)(value >> 8);
}

/* What a PC BIOS keeps there: KiB below 640 K and above 1 MiB, 64 KiB units above 16 MiB and above
 * 4 GiB. */
static void set_memory_bytes(struct rtc *r, const struct platform_config *config)
{
	const uint64_t mib = 1u << 20;
	uint64_t low = config->ram_below_4g_bytes, high_units = config->ram_above_4g_bytes >> 16;
	uint64_t extended = low > mib ? (low - mib) >> 10 : 0;
	unsigned sum = 0;

	set_word(r, 0x15, 640);
	set_word(r, 0x17, extended);
	set_word(r, 0x30, extended);
	set_word(r, 0x34, low > 16 * mib ? (low - 16 * mib) >> 16 : 0);
	r->cmos[0x5b] = (uint8_t)high_units;
	r->cmos[0x5c] = (uint8_t)(high_units >> 8);
	r->cmos[0x5d] = (uint8_t)(high_units >> 16);
	r->cmos[0x14] = 0x02; /* a mathematics coprocessor, no floppy, no display */
	for (unsigned i = 0x10; i <= 0x2d; i++)
		sum += r->cmos[i];
	r->cmos[0x2e] = (uint8_t)(sum >> 8);
	r->cmos[0x2f] = (uint8_t)sum;
}

void rtc_reset(struct platform *p, const struct platform_config *config, bool keep)
{
	struct rtc *r = &p->rtc;
	int64_t wall_clock_s = config->wall_clock_s < 0 ? 0 : config->wall_clock_s;

	if (keep) {
		/* Guest TSC 0 may lie elsewhere now; what the guest set the clock off by stays. */
		r->base_s += wall_clock_s - r->wall_clock_s;
		r->base_s = r->base_s < 0 ? 0 : r->base_s;
		r->seen_count = 0;
		/* RESET's pin clears these only; the battery keeps time and memory (data sheet,
		 * "RESET"). */
		r->cmos[REG_B] &= (uint8_t) ~(B_PERIODIC | B_ALARM | B_UPDATE);
		r->cmos[REG_C] = 0;
		r->deadline = PLATFORM_NEVER;
	} else {
		*r = (struct rtc){.base_s = wall_clock_s, .deadline = PLATFORM_NEVER};
		r->cmos[REG_A] = 0x26; /* 32768 Hz crystal, 1024 Hz rate */
		r->cmos[REG_B] = B_24H;
	}
	r->wall_clock_s = wall_clock_s;
	set_memory_bytes(r, config);
}
