/* SPDX-License-Identifier: BSD-2-Clause */
/* No wake-up is lost between STI and HLT: one's own timer, and IPIs from another vCPU. */

#include "tests/guest/lib/guest.h"

#define TIMER 0x40
#define PING  0x50

static volatile uint64_t ticks;
static volatile uint32_t turn;

static void on_timer(struct frame *f)
{
	(void)f;
	ticks++;
	apic_eoi();
}

/* The timer falls anywhere between long before the STI and well into the HLT. */
static void test_timer(uint64_t rounds, bool deadline)
{
	struct random r = {.state = info->seed};

	apic_write(APIC_LVT_TIMER, TIMER | (deadline ? TIMER_DEADLINE : 0));
	apic_write(APIC_TDCR, 0xb);
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t before = ticks, ns = random_next(&r) % 40000;

		if (deadline)
			wrmsr(TSC_DEADLINE, rdtsc() + us_to_tsc(ns) / 1000);
		else
			apic_write(APIC_TMICT, (uint32_t)ns + 1);
		for (uint64_t spin = random_next(&r) % 64; spin > 0; spin--)
			__asm__ volatile("" : : : "memory");
		/* Sleeps for ever if the wake-up is lost: the runner's time limit tells. */
		while (ticks == before)
			halt();
		if (ticks != before + 1)
			test_failed(__FILE__, __LINE__, "ticks", ticks, before + 1);
	}
}

static void on_ping(struct frame *f)
{
	(void)f;
	apic_eoi();
}

static uint64_t ping_rounds;

/* Each waits for its turn asleep, then hands it on: the other one may be anywhere on its way to
 * sleep. */
static void ping(void)
{
	uint32_t me = this_cpu()->index, count = info->vcpus;

	for (uint64_t i = 0; i < ping_rounds; i++) {
		while (turn % count != me)
			halt();
		__atomic_add_fetch(&turn, 1, __ATOMIC_SEQ_CST);
		apic_ipi((me + 1) % count, PING | ICR_ASSERT);
	}
}

static void apic_then_ping(void)
{
	apic_enable(true);
	ping();
}

void guest_main(void)
{
	uint64_t rounds = argument("rounds=", 10000);

	apic_enable(true);
	on_vector(TIMER, on_timer);
	on_vector(PING, on_ping);
	test("STI; HLT against the LAPIC timer, one-shot");
	test_timer(rounds, false);
	test("STI; HLT against the TSC deadline");
	test_timer(rounds, true);
	if (info->vcpus == 1)
		return;
	test("STI; HLT against IPIs round all vCPUs");
	ping_rounds = rounds / 4;
	for (unsigned i = 1; i < info->vcpus; i++) {
		check(cpu_start(i));
		cpu_run(i, apic_then_ping);
	}
	ping();
	for (unsigned i = 1; i < info->vcpus; i++)
		check(cpu_wait(i));
	check_same(turn, ping_rounds * info->vcpus);
}
