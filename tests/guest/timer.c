/* SPDX-License-Identifier: BSD-2-Clause */
/* The LAPIC timer in both modes: one-shot, periodic and TSC deadline, held to the TSC by counts. */

#include "tests/guest/lib/guest.h"

#define VECTOR    0x40
#define LAPIC_HZ  1000000000ull /* CPUID 40000010h tells it */
#define DIVIDE_1  0xb
#define DIVIDE_16 0x3

static volatile uint64_t fired, fired_tsc;

static void on_timer(struct frame *f)
{
	(void)f;
	fired_tsc = rdtsc();
	fired++;
	apic_eoi();
}

static uint64_t lapic_to_tsc(uint64_t ticks)
{
	return ticks * (info->tsc_hz / 1000) / (LAPIC_HZ / 1000);
}

static void set_mode(uint32_t lvt)
{
	apic_write(APIC_LVT_TIMER, lvt);
	fired = 0;
}

/* Lets interrupts in until `count` have come; false after 10 s. */
static bool wait_fired(uint64_t count)
{
	irq_on();
	wait_for(fired >= count, 10000000);
	irq_off();
	return fired >= count;
}

static void let_in(uint64_t us)
{
	irq_on();
	wait_for(false, us);
	irq_off();
}

static void test_one_shot(uint32_t divide, uint64_t factor)
{
	const uint32_t ticks = 2000000;

	set_mode(VECTOR);
	apic_write(APIC_TDCR, divide);
	for (unsigned i = 0; i < 20; i++) {
		uint64_t start = rdtsc();

		fired = 0;
		apic_write(APIC_TMICT, ticks / (uint32_t)factor);
		while (fired == 0)
			halt();
		check_same(fired, 1);
		check(fired_tsc - start >= lapic_to_tsc(ticks) - 100);
		check_same(apic_read(APIC_TMCCT), 0);
	}
	let_in(5000);
	check_same(fired, 1);
}

static void test_stop(void)
{
	set_mode(VECTOR);
	apic_write(APIC_TMICT, 1000000000); /* far off: a busy host must not get there first */
	apic_write(APIC_TMICT, 0);
	let_in(5000);
	check_same(fired, 0);
	set_mode(VECTOR | LVT_MASKED);
	apic_write(APIC_TMICT, 1000);
	let_in(2000);
	check_same(fired, 0);
	check(!apic_bit(APIC_IRR, VECTOR));
}

/* The count has to be where the TSC says, at any time; interrupts may merge but never come early.
 */
static void test_periodic(void)
{
	const uint32_t period = 1000000;
	uint64_t before, after, start_low, start_high, periods_low, periods_high;

	set_mode(VECTOR | TIMER_PERIODIC);
	apic_write(APIC_TDCR, DIVIDE_1);
	start_low = rdtsc();
	apic_write(APIC_TMICT, period);
	start_high = rdtsc();
	check(wait_fired(30));
	/* Where it stands, held against both ends of what the start and this read leave open. */
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t count, low, high;

		before = rdtsc();
		count = apic_read(APIC_TMCCT);
		after = rdtsc();
		low = (before - start_high) / (info->tsc_hz / 1000000) * 1000;
		high = (after - start_low) / (info->tsc_hz / 1000000) * 1000;
		check(count <= period);
		/* tsc_hz is no whole number of MHz: that rounding makes up to 1 us in 1000. */
		low -= low / 900 + 2000;
		high += high / 900 + 2000;
		if (high - low < period / 2)
			check((period - count + period - low % period) % period <= high - low);
	}
	irq_on();
	after = rdtsc();
	irq_off();
	periods_high = (after - start_low) / lapic_to_tsc(period) + 1;
	periods_low = 30;
	check(fired >= periods_low);
	check(fired <= periods_high);
	apic_write(APIC_TMICT, 0);
	let_in(1000);
	fired = 0;
	let_in(5000);
	check_same(fired, 0);
}

static void test_deadline(void)
{
	set_mode(VECTOR | TIMER_DEADLINE);
	for (unsigned i = 0; i < 50; i++) {
		uint64_t deadline = rdtsc() + us_to_tsc(i * 100);

		fired = 0;
		wrmsr(TSC_DEADLINE, deadline);
		while (fired == 0)
			halt();
		check_same(fired, 1);
		check(fired_tsc >= deadline);
		check_same(rdmsr(TSC_DEADLINE), 0);
	}
	fired = 0;
	wrmsr(TSC_DEADLINE, 1); /* long gone: at once */
	check(wait_fired(1));
	fired = 0;
	wrmsr(TSC_DEADLINE, rdtsc() + us_to_tsc(1000000));
	check(rdmsr(TSC_DEADLINE) != 0);
	wrmsr(TSC_DEADLINE, 0);
	let_in(5000);
	check_same(fired, 0);
	/* Another mode disarms it (SDM vol 3 §10.5.4.1). */
	wrmsr(TSC_DEADLINE, rdtsc() + us_to_tsc(1000000));
	apic_write(APIC_LVT_TIMER, VECTOR);
	let_in(5000);
	check_same(fired, 0);
	wrmsr(TSC_DEADLINE, rdtsc() + us_to_tsc(10));
	check_same(rdmsr(TSC_DEADLINE), 0);
	apic_write(APIC_LVT_TIMER, VECTOR | TIMER_DEADLINE);
	apic_write(APIC_TMICT, 1000); /* is ignored */
	check_same(apic_read(APIC_TMCCT), 0);
	let_in(2000);
	check_same(fired, 0);
	set_mode(LVT_MASKED);
}

void guest_main(void)
{
	on_vector(VECTOR, on_timer);
	for (unsigned x2 = 0; x2 < 2; x2++) {
		apic_enable(x2);
		section(x2 ? "x2APIC" : "xAPIC");
		test("one-shot, undivided");
		test_one_shot(DIVIDE_1, 1);
		test("one-shot, divided by 16");
		test_one_shot(DIVIDE_16, 16);
		test("count 0 stops it, a masked entry gives nothing");
		test_stop();
		test("periodic");
		test_periodic();
		test("TSC deadline");
		test_deadline();
	}
}
