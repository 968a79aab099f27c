/* SPDX-License-Identifier: BSD-2-Clause */
/* PM timer, HPET, PIT and RTC keep to the TSC exactly: each reading lies between two of the TSC. */

#include "tests/guest/lib/guest.h"

#define PM_PORT 0x608
#define PM_HZ   3579545ull
#define PIT_HZ  1193182ull
#define HPET    0xfed00000ull
#define ROUNDS  2000

struct sample {
	uint64_t before, after; /* TSC */
	uint64_t value;
};

static uint64_t read_pm(void)
{
	return inl(PM_PORT);
}

static uint64_t read_hpet(void)
{
	return *(volatile uint64_t *)(HPET + 0xf0);
}

static uint64_t read_hpet32(void)
{
	return mmio_read(HPET + 0xf0);
}

/* Mode 2 counts down from 65536. */
static uint64_t read_pit(void)
{
	uint8_t low;

	outb(0x43, 0x00);
	low = inb(0x40);
	return 65536 - (low | (unsigned)inb(0x40) << 8);
}

static struct sample take(uint64_t (*read)(void))
{
	struct sample s;

	s.before = rdtsc();
	s.value = read();
	s.after = rdtsc();
	return s;
}

static uint64_t muldiv(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t low, high;

	__asm__("mulq %3; divq %4" : "=&a"(low), "=&d"(high) : "0"(a), "r"(b), "r"(c) : "cc");
	return low;
}

/*
 * For as long as ROUNDS readings with random gaps take: ticks since the first reading lie between
 * what the TSC leaves open. `mask` is the counter's width; how often it went round meanwhile is not
 * known, but where it has to stand is.
 */
static void hold(uint64_t (*read)(void), uint64_t hz, uint64_t mask)
{
	struct random r = {.state = info->seed};
	struct sample first = take(read);

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct sample s;
		uint64_t low, high, ticks;

		for (uint64_t spin = random_next(&r) % 20000; spin > 0; spin--)
			__asm__ volatile("");
		s = take(read);
		ticks = s.value - first.value;
		low = muldiv(s.before - first.after, hz, info->tsc_hz);
		high = muldiv(s.after - first.before, hz, info->tsc_hz) + 1;
		if (high - low < mask / 2 && ((ticks - low + 1) & mask) > high - low + 1)
			test_failed(__FILE__, __LINE__, "ticks", ticks, low);
	}
}

static uint64_t hpet_hz(void)
{
	uint64_t period_fs = *(volatile uint64_t *)HPET >> 32;

	check(period_fs > 0 && period_fs <= 100000000);
	return muldiv(1000000000, 1000000, period_fs);
}

static void test_hpet(void)
{
	uint64_t period_fs = *(volatile uint64_t *)HPET >> 32;
	volatile uint64_t *counter = (volatile uint64_t *)(HPET + 0xf0);

	/* Whole number of ticks a second: the advertised period has no fraction that drifts. */
	check_same(hpet_hz() * period_fs, 1000000000000000ull);
	mmio_write(HPET + 0x10, 0);
	*counter = 0x123456789abcdef0;
	check_same(*counter, 0x123456789abcdef0);
	mmio_write(HPET + 0xf0, 0x11111111);
	mmio_write(HPET + 0xf4, 0x22222222);
	check_same(*counter, 0x2222222211111111);
	check_same(mmio_read(HPET + 0xf4), 0x22222222);
	mmio_write(HPET + 0xf0, 0xffffff00);
	mmio_write(HPET + 0x10, 1);
	hold(read_hpet, hpet_hz(), UINT64_MAX);
	hold(read_hpet32, hpet_hz(), 0xffffffff);
}

static void test_pit(void)
{
	outb(0x43, 0x34);
	outb(0x40, 0);
	outb(0x40, 0);
	/* A reload takes effect at once or with the next tick; wait for the first full count. */
	wait_for(false, 1000);
	hold(read_pit, PIT_HZ, 0xffff);
}

/* As Linux calibrates: channel 2 in mode 0, its output seen at port 61h. */
static void test_pit_one_shot(void)
{
	const unsigned count = 11932; /* 10 ms */

	for (unsigned i = 0; i < 10; i++) {
		uint64_t start_low, start_high, before, not_yet, after, low, high;

		outb(0x61, (inb(0x61) & 0xfd) | 1);
		outb(0x43, 0xb0);
		outb(0x42, (uint8_t)count);
		start_low = rdtsc();
		outb(0x42, (uint8_t)(count >> 8));
		start_high = rdtsc();
		before = start_high;
		do {
			not_yet = before;
			before = rdtsc();
		} while (!(inb(0x61) & 0x20) && rdtsc() < start_high + info->tsc_hz);
		after = rdtsc();
		/* At not_yet it had not gone by, at after it had; a tick for the load, one to count
		 * past. */
		low = muldiv(count, info->tsc_hz, PIT_HZ);
		high = muldiv(count + 2, info->tsc_hz, PIT_HZ);
		check(after - start_low >= low);
		check(not_yet <= start_high + high);
	}
}

static uint8_t cmos(uint8_t index)
{
	outb(0x70, index);
	return inb(0x71);
}

static void cmos_write(uint8_t index, uint8_t v)
{
	outb(0x70, index);
	outb(0x71, v);
}

/* The end of an update, as two TSC readings around it. */
static struct sample next_second(void)
{
	struct sample s = {0, 0, 0};
	uint64_t end = rdtsc() + info->tsc_hz * 3;

	cmos(0xc);
	do {
		s.before = rdtsc();
		s.value = cmos(0xc) & 0x10;
		s.after = rdtsc();
	} while (!s.value && s.after < end);
	check(s.value != 0);
	return s;
}

static unsigned from_bcd(uint8_t v)
{
	return cmos(0xb) & 4 ? v : (v >> 4) * 10u + (v & 15);
}

static void test_rtc_seconds(void)
{
	struct sample a, b;
	uint64_t gap_a;
	unsigned seconds;

	next_second();
	a = next_second();
	seconds = from_bcd(cmos(0));
	b = next_second();
	check_same(from_bcd(cmos(0)), (seconds + 1) % 60);
	/* Each poll may have been slow: the two ends leave that much open. */
	gap_a = a.after - a.before + (b.after - b.before) + us_to_tsc(100);
	check(b.after - a.before + gap_a >= info->tsc_hz);
	check(b.before - a.after <= info->tsc_hz + gap_a);
	check(from_bcd(cmos(0x32)) == 20 && from_bcd(cmos(9)) >= 20);
	check(from_bcd(cmos(8)) >= 1 && from_bcd(cmos(8)) <= 12);
	check(from_bcd(cmos(7)) >= 1 && from_bcd(cmos(7)) <= 31);
	check(from_bcd(cmos(4) & 0x7f) <= 23);
}

static volatile uint64_t rtc_count, rtc_causes;

static void on_rtc(struct frame *f)
{
	(void)f;
	rtc_causes |= cmos(0xc);
	rtc_count++;
	apic_eoi();
}

static bool rtc_comes(uint64_t count, uint64_t us)
{
	irq_on();
	wait_for(rtc_count >= count, us);
	irq_off();
	return rtc_count >= count;
}

static void test_rtc_interrupts(void)
{
	uint8_t b = cmos(0xb) & 0x87;
	uint64_t start, elapsed;

	apic_enable(false);
	on_vector(0x48, on_rtc);
	ioapic_route(8, 0x48, 0);
	cmos_write(0xa, 0x26); /* 1024 Hz */
	cmos(0xc);
	rtc_count = rtc_causes = 0;
	start = rdtsc();
	cmos_write(0xb, b | 0x40);
	check(rtc_comes(50, 10000000));
	irq_off();
	elapsed = rdtsc() - start;
	check(rtc_count <= muldiv(elapsed, 1024, info->tsc_hz) + 2);
	check_same(rtc_causes & 0xc0, 0xc0);
	cmos_write(0xb, b);
	rtc_comes(UINT64_MAX, 2000);
	rtc_count = rtc_causes = 0;
	check(!rtc_comes(1, 10000));
	cmos_write(0xb, b | 0x10); /* update ended */
	check(rtc_comes(1, 3000000));
	check(rtc_causes & 0x10);
	cmos_write(1, 0xff); /* alarm: any second, minute, hour */
	cmos_write(3, 0xff);
	cmos_write(5, 0xff);
	cmos_write(0xb, b | 0x20);
	rtc_count = rtc_causes = 0;
	check(rtc_comes(1, 3000000));
	check(rtc_causes & 0x20);
	cmos_write(0xb, b);
	ioapic_route(8, IOAPIC_MASKED, 0);
}

static volatile uint64_t hpet_count, hpet_last;

static void on_hpet(struct frame *f)
{
	(void)f;
	hpet_last = read_hpet();
	hpet_count++;
	apic_eoi();
}

static void hpet_timer(unsigned n, uint32_t config, uint64_t comparator)
{
	mmio_write(HPET + 0x100 + n * 0x20, config);
	*(volatile uint64_t *)(HPET + 0x108 + n * 0x20) = comparator;
}

static void test_hpet_timers(void)
{
	uint64_t hz = hpet_hz(), start;
	uint64_t routes = *(volatile uint64_t *)(HPET + 0x100) >> 32;
	unsigned pin = 2;

	for (unsigned i = 16; i < 24; i++)
		if (routes >> i & 1)
			pin = i;
	check(routes >> pin & 1);
	on_vector(0x49, on_hpet);
	ioapic_route(pin, 0x49, 0);
	mmio_write(HPET + 0x10, 1);
	for (unsigned i = 0; i < 20; i++) { /* one-shot */
		hpet_count = 0;
		start = read_hpet() + hz / 1000;
		hpet_timer(0, pin << 9 | 4, start);
		irq_on();
		wait_for(hpet_count != 0, 1000000);
		irq_off();
		check_same(hpet_count, 1);
		check(hpet_last >= start);
	}
	/* Periodic: as many as periods went by, or fewer that merged, never more. */
	hpet_count = 0;
	start = read_hpet();
	hpet_timer(0, pin << 9 | 4 | 8 | 0x40, start + hz / 500);
	*(volatile uint64_t *)(HPET + 0x108) = hz / 500;
	irq_on();
	wait_for(hpet_count >= 20, 5000000);
	irq_off();
	check(hpet_count >= 20);
	check(hpet_count <= (read_hpet() - start) / (hz / 500) + 1);
	mmio_write(HPET + 0x100, 0);
	ioapic_route(pin, IOAPIC_MASKED, 0);
}

void guest_main(void)
{
	test("the PM timer");
	hold(read_pm, PM_HZ, 0xffffffff);
	test("the HPET's counter, in both widths");
	test_hpet();
	test("the PIT in mode 2");
	test_pit();
	test("the PIT as Linux calibrates by it");
	test_pit_one_shot();
	test("the RTC's seconds and date");
	test_rtc_seconds();
	test("the RTC's interrupts");
	test_rtc_interrupts();
	test("the HPET's timers");
	test_hpet_timers();
}
