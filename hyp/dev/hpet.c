/* SPDX-License-Identifier: BSD-2-Clause */
/* The HPET: its counter is the time base plus an offset, its timers fire when the counter that the
 * guest reads gets there. */
#include "hyp/dev/hpet.h"
#include "hyp/dev/platform_state.h"

#define REG_CAPABILITY 0x000u
#define REG_CONFIG     0x010u
#define REG_STATUS     0x020u
#define REG_COUNTER    0x0f0u
#define REG_TIMERS     0x100u
#define TIMER_BYTES    0x20u
#define TIMER_CONFIG   0x00u
#define TIMER_COMPARE  0x08u

#define CONFIG_ENABLE 1u
#define CONFIG_LEGACY 2u

#define TIMER_LEVEL    (1u << 1)
#define TIMER_ENABLE   (1u << 2)
#define TIMER_PERIODIC (1u << 3)
#define TIMER_SET      (1u << 6)
#define TIMER_32       (1u << 8)
#define TIMER_ROUTE    (31u << 9)
#define TIMER_WRITABLE                                                                             \
	(TIMER_LEVEL | TIMER_ENABLE | TIMER_PERIODIC | TIMER_SET | TIMER_32 | TIMER_ROUTE)
#define ROUTES      0x00f00104ull                      /* pins 2, 8, 20-23 */
#define TIMER_FIXED (ROUTES << 32 | 1u << 4 | 1u << 5) /* can be periodic, has 64 bits */

/* Revision 1, three timers, 64 bits, legacy replacement, Intel. */
#define CAPABILITY                                                                                 \
	((uint64_t)HPET_PERIOD_FS << 32 | 0x8086u << 16 | 1u << 15 | 1u << 13 |                    \
	        (HPET_TIMERS - 1) << 8 | 1u)

/*
 * Software reads the counter, adds a little and writes the comparator. A vCPU may lose its CPU
 * between these for longer than "a little"; a comparator that was passed by less than this when it
 * is written fires at once and not a whole turn of the counter later.
 */
#define LATE_COUNTS HPET_HZ

static uint64_t clock_now(const struct platform *p, uint64_t now)
{
	return timebase_count(&p->hpet_clock, now);
}

static uint64_t counter(const struct hpet *h, uint64_t clock)
{
	return (h->config & CONFIG_ENABLE) != 0 ? h->counter + clock : h->counter;
}

bool hpet_is_legacy(const struct hpet *h)
{
	return (h->config & CONFIG_LEGACY) != 0;
}

static uint64_t width_mask(const struct hpet_timer *t)
{
	return (t->config & TIMER_32) != 0 ? UINT32_MAX : UINT64_MAX;
}

/* The pin that timer i drives now; IOAPIC_PINS: none. */
static unsigned find_pin(const struct hpet *h, unsigned i)
{
	unsigned route = (unsigned)(h->timer[i].config & TIMER_ROUTE) >> 9;

	if (hpet_is_legacy(h) && i < 2)
		return i == 0 ? PLATFORM_PIN_PIT : PLATFORM_PIN_RTC;
	return (ROUTES >> route & 1) != 0 ? route : IOAPIC_PINS;
}

/* A level interrupt's wire follows its status bit. */
static void update_line(struct platform *p, unsigned i)
{
	struct hpet_timer *t = &p->hpet.timer[i];
	unsigned pin = find_pin(&p->hpet, i), source = PLATFORM_SOURCE_HPET + i;
	bool high = (p->hpet.status >> i & 1) != 0 && (t->config & TIMER_LEVEL) != 0 &&
	            (t->config & TIMER_ENABLE) != 0 && pin < IOAPIC_PINS;

	if (t->pin_high && (!high || pin != t->pin)) {
		platform_drive(p, t->pin, source, false);
		t->pin_high = false;
	}
	if (high && !t->pin_high) {
		t->pin = (uint8_t)pin;
		t->pin_high = true;
		platform_drive(p, pin, source, true);
	}
}

static void fire(struct platform *p, unsigned i)
{
	struct hpet_timer *t = &p->hpet.timer[i];
	unsigned pin = find_pin(&p->hpet, i);

	if ((t->config & TIMER_LEVEL) != 0) {
		p->hpet.status |= 1ull << i;
		update_line(p, i);
	} else if ((t->config & TIMER_ENABLE) != 0 && pin < IOAPIC_PINS) {
		platform_pulse(p, pin, PLATFORM_SOURCE_HPET + i);
	}
}

/* Periods that were missed are one interrupt; the comparator goes past the counter in whole periods
 * (§2.3.9.2.2). */
static void advance(struct hpet_timer *t, uint64_t clock)
{
	uint64_t step = (t->config & TIMER_PERIODIC) != 0 ? t->period : 0;
	uint64_t steps;

	if (step == 0 && (t->config & TIMER_32) == 0) {
		t->match = PLATFORM_NEVER; /* not again in thousands of years */
		return;
	}
	if (step == 0) { /* a turn of 32 bits: there again, the comparator stays */
		t->match += (((clock - t->match) >> 32) + 1) << 32;
		return;
	}
	steps = (clock - t->match) / step + 1;
	/* A period of nearly 2^64 lies beyond the end of time. */
	t->match = step < PLATFORM_NEVER - clock ? t->match + steps * step : PLATFORM_NEVER;
	t->comparator = (t->comparator + steps * step) & width_mask(t);
}

static void find_match(struct hpet *h, unsigned i, uint64_t clock, bool forgive_late)
{
	struct hpet_timer *t = &h->timer[i];
	uint64_t distance = (t->comparator - counter(h, clock)) & width_mask(t);
	uint64_t late = (counter(h, clock) - t->comparator) & width_mask(t);

	if (forgive_late && late < LATE_COUNTS)
		distance = 0;
	t->match = (h->config & CONFIG_ENABLE) != 0 && distance < PLATFORM_NEVER - clock
	                   ? clock + distance
	                   : PLATFORM_NEVER;
}

void hpet_run(struct platform *p, uint64_t now)
{
	uint64_t clock = clock_now(p, now);

	for (unsigned i = 0; i < HPET_TIMERS; i++) {
		struct hpet_timer *t = &p->hpet.timer[i];

		if (t->match <= clock) {
			fire(p, i);
			advance(t, clock);
		}
		t->deadline = PLATFORM_NEVER;
		if (t->match == PLATFORM_NEVER || (t->config & TIMER_ENABLE) == 0)
			continue;
		t->deadline = timebase_when(&p->hpet_clock, t->match);
		if ((t->config & TIMER_PERIODIC) != 0 &&
		        t->period < HPET_HZ / PLATFORM_PERIODIC_MAX_HZ &&
		        t->deadline < now + p->min_period_tsc)
			t->deadline = now + p->min_period_tsc;
	}
}

uint64_t hpet_deadline(const struct hpet *h)
{
	uint64_t deadline = PLATFORM_NEVER;

	for (unsigned i = 0; i < HPET_TIMERS; i++)
		if (h->timer[i].deadline < deadline)
			deadline = h->timer[i].deadline;
	return deadline;
}

static uint64_t read_register(const struct platform *p, uint32_t offset, uint64_t now)
{
	const struct hpet *h = &p->hpet;
	unsigned i = (offset - REG_TIMERS) / TIMER_BYTES;

	switch (offset) {
	case REG_CAPABILITY: return CAPABILITY;
	case REG_CONFIG: return h->config;
	case REG_STATUS: return h->status;
	case REG_COUNTER: return counter(h, clock_now(p, now));
	default: break;
	}
	if (offset < REG_TIMERS || i >= HPET_TIMERS)
		return 0;
	if (offset % TIMER_BYTES == TIMER_CONFIG)
		return h->timer[i].config | TIMER_FIXED;
	return offset % TIMER_BYTES == TIMER_COMPARE ? h->timer[i].comparator : 0;
}

static void write_config(struct platform *p, uint64_t value, uint64_t clock, uint64_t now)
{
	struct hpet *h = &p->hpet;
	uint64_t held = counter(h, clock);

	pit_run(p, now); /* what is due belongs to who has the wire now */
	h->config = value & (CONFIG_ENABLE | CONFIG_LEGACY);
	h->counter = (h->config & CONFIG_ENABLE) != 0 ? held - clock : held;
	for (unsigned i = 0; i < HPET_TIMERS; i++) {
		find_match(h, i, clock, false);
		update_line(p, i);
	}
	pit_run(p, now);
	rtc_run(p, now);
}

static void write_timer_config(struct platform *p, unsigned i, uint64_t value, uint64_t clock)
{
	struct hpet_timer *t = &p->hpet.timer[i];
	uint64_t changed = t->config ^ value;

	t->config = value & TIMER_WRITABLE;
	if ((changed & TIMER_32) != 0 && (value & TIMER_32) != 0) {
		t->comparator &= UINT32_MAX;
		t->period &= UINT32_MAX;
	}
	if ((changed & TIMER_32) != 0)
		find_match(&p->hpet, i, clock, false);
	if ((value & TIMER_LEVEL) == 0)
		p->hpet.status &= ~(1ull << i);
	update_line(p, i);
}

/* §2.3.9.2.2: in periodic mode a write sets the period; with TIMER_SET, which goes by that, also
 * the comparator. */
static void write_comparator(
        struct hpet *h, unsigned i, uint64_t value, uint64_t mask, uint64_t clock)
{
	struct hpet_timer *t = &h->timer[i];
	bool periodic = (t->config & TIMER_PERIODIC) != 0;

	if (!periodic || (t->config & TIMER_SET) != 0) {
		t->comparator = ((t->comparator & ~mask) | (value & mask)) & width_mask(t);
		find_match(h, i, clock, true);
	}
	if (periodic)
		t->period = ((t->period & ~mask) | (value & mask)) & width_mask(t);
	t->config &= ~(uint64_t)TIMER_SET;
}

static void write_register(
        struct platform *p, uint32_t offset, uint64_t value, uint64_t mask, uint64_t now)
{
	struct hpet *h = &p->hpet;
	uint64_t clock = clock_now(p, now);
	uint64_t whole = (read_register(p, offset, now) & ~mask) | (value & mask);
	unsigned i = (offset - REG_TIMERS) / TIMER_BYTES;

	switch (offset) {
	case REG_CONFIG: write_config(p, whole, clock, now); return;
	case REG_STATUS:
		h->status &= ~(value & mask);
		for (i = 0; i < HPET_TIMERS; i++)
			update_line(p, i);
		return;
	case REG_COUNTER:
		h->counter = (h->config & CONFIG_ENABLE) != 0 ? whole - clock : whole;
		for (i = 0; i < HPET_TIMERS; i++)
			find_match(h, i, clock, false);
		return;
	default: break;
	}
	if (offset < REG_TIMERS || i >= HPET_TIMERS)
		return;
	if (offset % TIMER_BYTES == TIMER_CONFIG)
		write_timer_config(p, i, whole, clock);
	else if (offset % TIMER_BYTES == TIMER_COMPARE)
		write_comparator(h, i, value, mask, clock);
}

/* §2.3.1: aligned accesses of 32 or 64 bits; others do nothing here. */
static bool is_access(uint32_t offset, unsigned size)
{
	return (size == 4 || size == 8) && (offset & (size - 1)) == 0;
}

uint64_t hpet_read(struct platform *p, uint32_t offset, unsigned size, uint64_t now)
{
	uint64_t value;

	if (!is_access(offset, size))
		return 0;
	if (offset >= REG_STATUS && (offset & ~7u) != REG_COUNTER)
		hpet_run(p, now);
	value = read_register(p, offset & ~7u, now);
	return size == 8 ? value : (uint32_t)(value >> (offset & 4) * 8);
}

void hpet_write(struct platform *p, uint32_t offset, unsigned size, uint64_t value, uint64_t now)
{
	unsigned shift = (offset & 4) * 8;
	uint64_t mask = size == 8 ? UINT64_MAX : (uint64_t)UINT32_MAX << shift;

	if (!is_access(offset, size))
		return;
	hpet_run(p, now);
	write_register(p, offset & ~7u, value << shift, mask, now);
	hpet_run(p, now);
}

void hpet_reset(struct hpet *h)
{
	*h = (struct hpet){.config = 0};
	for (unsigned i = 0; i < HPET_TIMERS; i++)
		h->timer[i] = (struct hpet_timer){.comparator = UINT64_MAX,
		        .match = PLATFORM_NEVER,
		        .deadline = PLATFORM_NEVER};
}
