/* SPDX-License-Identifier: BSD-2-Clause */
/* The 8254: three counters worked out from the time since they were loaded, and channel 0's
 * interrupt. */
#include "hyp/dev/pit.h"
#include "hyp/dev/platform_state.h"

#define PORT_CONTROL 0x43u
#define PORT_GATE    0x61u

#define REFRESH_COUNTS 18u /* the refresh bit of port 61h toggles every 15.085 us */

static uint64_t pit_count(const struct platform *p, uint64_t now)
{
	return timebase_count(&p->pit_clock, now);
}

/* The gate holds the count in all modes but 1 and 5, where it triggers. */
static bool gate_holds(const struct pit_channel *c)
{
	return !c->gate && c->mode != 1 && c->mode != 5;
}

static bool is_periodic(const struct pit_channel *c)
{
	return c->mode == 2 || c->mode == 3;
}

static uint64_t elapsed(const struct pit_channel *c, uint64_t count)
{
	if (gate_holds(c))
		return c->stopped;
	return count < c->start ? 0 : count - c->start;
}

/* Data sheet modes 2 and 3: a new count written in mid-period is loaded at the end of that period.
 */
static void take_next(struct pit_channel *c, uint64_t count)
{
	if (c->next_count == 0 || count < c->next_start)
		return;
	c->count = c->next_count;
	c->start = c->next_start;
	c->next_count = 0;
}

static bool output(const struct pit_channel *c, uint64_t count)
{
	uint64_t done = elapsed(c, count);

	if (!c->loaded)
		return c->mode != 0;
	switch (c->mode) {
	case 0: return done >= c->count;
	case 1: return !c->triggered || done >= c->count;
	case 2: return !c->gate || done % c->count != c->count - 1;
	case 3: return !c->gate || done % c->count < (c->count + 1) / 2;
	case 4: return done != c->count;
	default: return !c->triggered || done != c->count;
	}
}

static uint16_t to_bcd(uint32_t value)
{
	return (uint16_t)(value % 10 | value / 10 % 10 << 4 | value / 100 % 10 << 8 |
	                  value / 1000 % 10 << 12);
}

static uint32_t from_bcd(uint32_t value)
{
	return (value & 15) + (value >> 4 & 15) * 10 + (value >> 8 & 15) * 100 +
	       (value >> 12 & 15) * 1000;
}

static uint16_t counter_value(const struct pit_channel *c, uint64_t count)
{
	uint32_t modulus = c->bcd ? 10000 : 65536, value;
	uint64_t done = elapsed(c, count);

	if (!c->loaded)
		return 0;
	if (c->mode == 2)
		value = c->count - (uint32_t)(done % c->count);
	else if (c->mode == 3)
		value = c->count - (uint32_t)(2 * (done % c->count) % c->count);
	else if (!c->triggered && (c->mode == 1 || c->mode == 5))
		value = c->count;
	else /* goes on below 0 */
		value = c->count + modulus - (uint32_t)(done % modulus);
	value %= modulus;
	return c->bcd ? to_bcd(value) : (uint16_t)value;
}

/* The first rising edge of channel 0's output after `count`. */
static uint64_t next_edge(const struct pit_channel *c, uint64_t count)
{
	uint64_t edge;

	if (!c->loaded || c->mode == 1 || c->mode == 5)
		return PLATFORM_NEVER;
	if (is_periodic(c))
		return c->start + (elapsed(c, count) / c->count + 1) * c->count;
	edge = c->start + c->count + (c->mode == 4 ? 1 : 0);
	return edge > count ? edge : PLATFORM_NEVER;
}

static void rearm(struct platform *p, uint64_t now)
{
	struct pit *pit = &p->pit;
	const struct pit_channel *c = &pit->channel[0];

	pit->irq_count = next_edge(c, pit_count(p, now));
	pit->deadline = PLATFORM_NEVER;
	if (pit->irq_count == PLATFORM_NEVER || hpet_is_legacy(&p->hpet))
		return;
	pit->deadline = timebase_when(&p->pit_clock, pit->irq_count);
	if (is_periodic(c) && c->count < PIT_HZ / PLATFORM_PERIODIC_MAX_HZ &&
	        pit->deadline < now + p->min_period_tsc)
		pit->deadline = now + p->min_period_tsc;
}

/* Edges that were missed are one: the 8259 and the IOAPIC keep one request. */
void pit_run(struct platform *p, uint64_t now)
{
	uint64_t count = pit_count(p, now);

	if (p->pit.irq_count <= count && !hpet_is_legacy(&p->hpet))
		platform_pulse(p, PLATFORM_PIN_PIT, PLATFORM_SOURCE_OWN);
	for (unsigned i = 0; i < PIT_CHANNELS; i++)
		take_next(&p->pit.channel[i], count);
	rearm(p, now);
}

static void load(struct pit_channel *c, uint32_t raw, uint64_t count)
{
	uint32_t value = c->bcd ? from_bcd(raw) : raw;

	if (value == 0)
		value = c->bcd ? 10000 : 65536;
	if (c->loaded && is_periodic(c) && c->gate) {
		c->next_count = value;
		c->next_start = c->start + (elapsed(c, count) / c->count + 1) * c->count;
	} else if (c->loaded && (c->mode == 1 || c->mode == 5)) {
		c->next_count = value; /* at the next trigger */
		c->next_start = PLATFORM_NEVER;
	} else {
		c->count = value;
		c->start = count + 1; /* loaded by the clock after the write */
		c->stopped = 0;
		c->loaded = true;
	}
}

static void write_counter(struct pit_channel *c, uint8_t value, uint64_t count)
{
	switch (c->access) {
	case 1: load(c, value, count); break;
	case 2: load(c, (uint32_t)value << 8, count); break;
	default:
		if (c->write_high)
			load(c, (uint32_t)value << 8 | c->write_low, count);
		c->write_low = value;
		c->write_high = !c->write_high;
		break;
	}
}

static void latch_count(struct pit_channel *c, uint64_t count)
{
	if (c->latch_bytes != 0)
		return;
	c->latch = counter_value(c, count);
	c->latch_bytes = c->access == 3 ? 2 : 1;
}

static void latch_status(struct pit_channel *c, uint64_t count)
{
	bool null_count = !c->loaded || c->next_count != 0;

	if (c->status_latched)
		return;
	c->status = (uint8_t)(output(c, count) << 7 | null_count << 6 | c->access << 4 |
	                      c->mode << 1 | c->bcd);
	c->status_latched = true;
}

static void write_control(struct pit *pit, uint8_t value, uint64_t count)
{
	struct pit_channel *c = &pit->channel[value >> 6 & 3];
	uint8_t mode = value >> 1 & 7;

	if (value >> 6 == 3) { /* read back */
		for (unsigned i = 0; i < PIT_CHANNELS; i++) {
			if ((value >> (i + 1) & 1) == 0)
				continue;
			if ((value & 0x20) == 0)
				latch_count(&pit->channel[i], count);
			if ((value & 0x10) == 0)
				latch_status(&pit->channel[i], count);
		}
		return;
	}
	if ((value & 0x30) == 0) {
		latch_count(c, count);
		return;
	}
	*c = (struct pit_channel){
	        .mode = mode > 5 ? mode & 3 : mode,
	        .access = value >> 4 & 3,
	        .bcd = (value & 1) != 0,
	        .gate = c->gate,
	        .count = c->count,
	};
}

static uint8_t read_counter(struct pit_channel *c, uint64_t count)
{
	uint16_t value;

	if (c->status_latched) {
		c->status_latched = false;
		return c->status;
	}
	if (c->latch_bytes != 0) {
		bool high = c->access == 2 || (c->access == 3 && c->latch_bytes == 1);

		c->latch_bytes--;
		return (uint8_t)(high ? c->latch >> 8 : c->latch);
	}
	value = counter_value(c, count);
	if (c->access == 3) {
		c->read_high = !c->read_high;
		return (uint8_t)(c->read_high ? value : value >> 8);
	}
	return (uint8_t)(c->access == 2 ? value >> 8 : value);
}

static void set_gate(struct pit_channel *c, bool gate, uint64_t count)
{
	if (gate == c->gate)
		return;
	if (!gate)
		c->stopped = elapsed(c, count);
	c->gate = gate;
	if (!gate)
		return;
	if (c->mode == 0 || c->mode == 4) {
		if (c->start <= count) /* else it is not loaded yet */
			c->start = count - c->stopped;
		return;
	}
	if (c->next_count != 0) {
		c->count = c->next_count;
		c->next_count = 0;
	}
	c->start = count + 1;
	c->triggered = true;
}

uint8_t pit_read(struct platform *p, uint16_t port, uint64_t now)
{
	struct pit *pit = &p->pit;
	uint64_t count = pit_count(p, now);

	pit_run(p, now);
	if (port == PORT_GATE)
		return (uint8_t)(pit->port_61h | (count / REFRESH_COUNTS & 1) << 4 |
		                 (output(&pit->channel[2], count) ? 0x20u : 0));
	return port == PORT_CONTROL ? 0 : read_counter(&pit->channel[port & 3], count);
}

void pit_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now)
{
	struct pit *pit = &p->pit;
	uint64_t count = pit_count(p, now);

	pit_run(p, now);
	if (port == PORT_GATE) {
		pit->port_61h = value & 0x0f;
		set_gate(&pit->channel[2], (value & 1) != 0, count);
	} else if (port == PORT_CONTROL) {
		write_control(pit, value, count);
	} else {
		write_counter(&pit->channel[port & 3], value, count);
	}
	rearm(p, now);
}

void pit_reset(struct pit *pit)
{
	*pit = (struct pit){.irq_count = PLATFORM_NEVER, .deadline = PLATFORM_NEVER};
	for (unsigned i = 0; i < PIT_CHANNELS; i++)
		pit->channel[i] = (struct pit_channel){
		        .count = 65536, .access = 3, .mode = 3, .gate = i != 2};
}
