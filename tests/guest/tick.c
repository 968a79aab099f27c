/* SPDX-License-Identifier: BSD-2-Clause */
/* A clock that ticks on every vCPU: the longest gap between two ticks tells what held it up. */

#include "tests/guest/lib/guest.h"

#define TIMER   0x40
#define TICK_US 10000

static uint64_t longest[GUEST_CPUS_MAX], until;

static void on_timer(struct frame *f)
{
	(void)f;
	apic_eoi();
}

/* Asleep between the ticks, so that waking up is part of it. */
static void tick(void)
{
	uint64_t *gap = &longest[this_cpu()->index], last = rdtsc(), now;

	apic_enable(true);
	apic_write(APIC_LVT_TIMER, TIMER | TIMER_DEADLINE);
	while ((now = rdtsc()) < until) {
		if (now - last > *gap)
			*gap = now - last;
		last = now;
		wrmsr(TSC_DEADLINE, now + us_to_tsc(TICK_US));
		halt();
	}
}

void guest_main(void)
{
	uint64_t most_ms = argument("gap_ms=", 1000), ms = info->tsc_hz / 1000;

	on_vector(TIMER, on_timer);
	test("ticks go on");
	until = rdtsc() + us_to_tsc(argument("seconds=", 5) * 1000000);
	for (unsigned i = 1; i < info->vcpus; i++) {
		check(cpu_start(i));
		cpu_run(i, tick);
	}
	tick();
	for (unsigned i = 1; i < info->vcpus; i++)
		check(cpu_wait(i));
	for (unsigned i = 0; i < info->vcpus; i++) {
		print("vCPU %u: longest gap %lu ms\n", i, longest[i] / ms);
		check(longest[i] / ms <= most_ms);
	}
}
