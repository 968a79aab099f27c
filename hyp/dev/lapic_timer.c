/* SPDX-License-Identifier: BSD-2-Clause */
/* The LAPIC timer: one-shot and periodic counts of a 1 GHz clock, and TSC deadlines (SDM vol. 3
 * §10.5.4). */
#include "hyp/dev/lapic.h"
#include "hyp/dev/platform_state.h"

#define MODE_MASK (APIC_LVT_TIMER_PERIODIC | APIC_LVT_TIMER_TSC_DEADLINE)

static bool is_deadline(const struct lapic *l)
{
	return (l->lvt[LAPIC_LVT_TIMER] & MODE_MASK) == APIC_LVT_TIMER_TSC_DEADLINE;
}

static bool is_periodic(const struct lapic *l)
{
	return (l->lvt[LAPIC_LVT_TIMER] & MODE_MASK) == APIC_LVT_TIMER_PERIODIC;
}

/* TDCR bits 3, 1, 0: 000 divides by 2 up to 110 by 128; 111 by 1. */
static unsigned divide_shift(uint32_t divide)
{
	return (((divide & 8) >> 1 | (divide & 3)) + 1) & 7;
}

static uint64_t period(const struct lapic *l)
{
	return (uint64_t)l->timer_initial << divide_shift(l->timer_divide);
}

/* Moves the start of a periodic count to its present period, stops a one-shot that ran out. True:
 * it expired since. */
static bool catch_up(const struct platform *p, struct lapic *l, uint64_t now)
{
	uint64_t count = timebase_count(&p->lapic_clock, now), elapsed;

	if (!l->timer_armed || count < l->timer_start)
		return false;
	elapsed = count - l->timer_start;
	if (elapsed < period(l))
		return false;
	if (is_periodic(l))
		l->timer_start += elapsed - elapsed % period(l);
	else
		l->timer_armed = false;
	return true;
}

uint32_t lapic_timer_current(const struct platform *p, const struct lapic *l, uint64_t now)
{
	uint64_t count = timebase_count(&p->lapic_clock, now), elapsed;

	if (!l->timer_armed || is_deadline(l))
		return 0;
	elapsed = count < l->timer_start ? 0 : count - l->timer_start;
	if (is_periodic(l))
		elapsed %= period(l);
	else if (elapsed >= period(l))
		return 0;
	return l->timer_initial - (uint32_t)(elapsed >> divide_shift(l->timer_divide));
}

void lapic_timer_rearm(struct platform *p, struct lapic *l, uint64_t now)
{
	uint64_t deadline = PLATFORM_NEVER;

	if (is_deadline(l)) {
		if (l->timer_tsc != 0)
			deadline = l->timer_tsc;
	} else if (l->timer_armed && (l->lvt[LAPIC_LVT_TIMER] & APIC_LVT_MASKED) == 0) {
		deadline = timebase_when(&p->lapic_clock, l->timer_start + period(l));
		if (is_periodic(l) && deadline < now + p->min_period_tsc &&
		        period(l) < PLATFORM_LAPIC_TIMER_HZ / PLATFORM_PERIODIC_MAX_HZ)
			deadline = now + p->min_period_tsc;
	}
	LAPIC_STORE(l->deadline, platform_clamp_deadline(deadline));
}

/* Expired ticks merge into one interrupt, as IRR has one bit for them. */
void lapic_timer_run(struct platform *p, struct lapic *l, uint64_t now)
{
	if (is_deadline(l)) {
		if (l->timer_tsc != 0 && now >= l->timer_tsc) {
			l->timer_tsc = 0;
			lapic_local(l, LAPIC_LVT_TIMER);
		}
	} else if (catch_up(p, l, now)) {
		lapic_local(l, LAPIC_LVT_TIMER);
	}
	lapic_timer_rearm(p, l, now);
}

void lapic_timer_write_initial(struct platform *p, struct lapic *l, uint32_t value, uint64_t now)
{
	if (is_deadline(l))
		return; /* SDM vol. 3 §10.5.4.1: ignored in this mode */
	if (catch_up(p, l, now))
		lapic_local(l, LAPIC_LVT_TIMER);
	l->timer_initial = value;
	l->timer_start = timebase_count(&p->lapic_clock, now);
	l->timer_armed = value != 0;
	lapic_timer_rearm(p, l, now);
}

/* The count goes on from where it is, at the new rate. */
void lapic_timer_write_divide(struct platform *p, struct lapic *l, uint32_t value, uint64_t now)
{
	uint64_t count = timebase_count(&p->lapic_clock, now), done;

	if (!is_deadline(l) && catch_up(p, l, now))
		lapic_local(l, LAPIC_LVT_TIMER);
	done = l->timer_armed ? l->timer_initial - lapic_timer_current(p, l, now) : 0;
	l->timer_divide = value & 0xb;
	done <<= divide_shift(value);
	l->timer_start = done > count ? 0 : count - done;
	lapic_timer_rearm(p, l, now);
}

/* A change to or from TSC deadline mode disarms; between one-shot and periodic the count goes on
 * (SDM vol. 3 §10.5.4.1). */
void lapic_timer_write_lvt(struct platform *p, struct lapic *l, uint32_t value, uint64_t now)
{
	bool was_deadline = is_deadline(l);

	lapic_timer_run(p, l, now);
	LAPIC_STORE(l->lvt[LAPIC_LVT_TIMER], value);
	if (is_deadline(l) != was_deadline) {
		l->timer_armed = false;
		l->timer_initial = 0;
		l->timer_tsc = 0;
	}
	lapic_timer_rearm(p, l, now);
}

void lapic_timer_write_tsc(struct platform *p, struct lapic *l, uint64_t value, uint64_t now)
{
	if (!is_deadline(l))
		return;
	l->timer_tsc = value;
	if (value != 0 && value <= now)
		lapic_timer_run(p, l, now);
	else
		lapic_timer_rearm(p, l, now);
}

uint64_t lapic_timer_read_tsc(const struct lapic *l, uint64_t now)
{
	return is_deadline(l) && l->timer_tsc > now ? l->timer_tsc : 0;
}
