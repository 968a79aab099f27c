/* SPDX-License-Identifier: BSD-2-Clause */
/* A quiet VM beside a hostile one: its memory, its clock, its interrupts and its registers stay its
 * own. */

#include "tests/guest/lib/guest.h"

#define FROM 0x400000ull

static volatile uint64_t ticks;
static volatile bool stop;
static uint32_t wrong;

static void on_timer(struct frame *f)
{
	(void)f;
	ticks++;
	apic_eoi();
}

/* Fills all XMM registers, lets time go by with interrupts on, and looks at them again. */
static bool keep_xmm(uint64_t pattern)
{
	static uint64_t in[GUEST_CPUS_MAX][32] __attribute__((aligned(16)));
	static uint64_t out[GUEST_CPUS_MAX][32] __attribute__((aligned(16)));
	uint64_t *from = in[this_cpu()->index], *to = out[this_cpu()->index];

	for (unsigned i = 0; i < 32; i++)
		from[i] = pattern * (i + 1);
	__asm__ volatile(".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	                 "movaps \\n*16(%0), %%xmm\\n\n"
	                 ".endr\n"
	                 "movl $100000, %%ecx\n"
	                 "1: loop 1b\n"
	                 ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	                 "movaps %%xmm\\n, \\n*16(%1)\n"
	                 ".endr\n"
	                 :
	                 : "r"(from), "r"(to)
	                 : "rcx", "memory", "cc");
	return memcmp(from, to, sizeof(in[0])) == 0;
}

static bool keep_others(uint64_t pattern)
{
	uint64_t dr0, dr3;
	bool good;

	wrmsr(0xc0000102, pattern & 0x7fffffffffff);
	wrmsr(0xc0000082, pattern & 0x7fffffffffff);
	wrmsr(0xc0000103, (uint32_t)pattern);
	__asm__ volatile("mov %0, %%dr0; mov %1, %%dr3" : : "r"(pattern), "r"(~pattern));
	WRITE_CR(2, pattern);
	wait_for(false, 300);
	__asm__ volatile("mov %%dr0, %0; mov %%dr3, %1" : "=r"(dr0), "=r"(dr3));
	good = rdmsr(0xc0000102) == (pattern & 0x7fffffffffff) &&
	       rdmsr(0xc0000082) == (pattern & 0x7fffffffffff) &&
	       rdmsr(0xc0000103) == (uint32_t)pattern && dr0 == pattern && dr3 == ~pattern &&
	       READ_CR(2) == pattern;
	return good;
}

static void keep(void)
{
	struct random r = {.state = info->seed + this_cpu()->index};
	uint64_t last = rdtsc();

	while (!stop) {
		uint64_t now = rdtsc();

		if (now < last || !keep_xmm(random_next(&r)) || !keep_others(random_next(&r)))
			__atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
		last = now;
	}
}

static void test_memory(uint64_t round)
{
	volatile uint64_t *at = (volatile uint64_t *)FROM;
	uint64_t count = (info->ram_bytes - FROM) / 8;

	for (uint64_t i = 0; i < count; i += 64)
		at[i] = i * 0x9e3779b97f4a7c15ull + round;
	for (uint64_t i = 0; i < count; i += 64)
		if (at[i] != i * 0x9e3779b97f4a7c15ull + round)
			test_failed(__FILE__, __LINE__, "memory", at[i], i);
}

void guest_main(void)
{
	uint64_t end = rdtsc() + info->tsc_hz * argument("seconds=", 5), before = rdtsc(),
	         round = 0;

	apic_enable(true);
	on_vector(0x40, on_timer);
	apic_write(APIC_TDCR, 0xb);
	apic_write(APIC_LVT_TIMER, 0x40 | TIMER_PERIODIC);
	apic_write(APIC_TMICT, 10000000);
	test("memory, clock, interrupts and registers stay its own");
	for (unsigned i = 1; i < info->vcpus; i++) {
		check(cpu_start(i));
		cpu_run(i, keep);
	}
	irq_on();
	while (rdtsc() < end) {
		test_memory(round++);
		check(keep_xmm(round * 0x123456789abcdef));
		check(keep_others(round * 0xfedcba987654321));
	}
	irq_off();
	stop = true;
	for (unsigned i = 1; i < info->vcpus; i++)
		check(cpu_wait(i));
	check_same(wrong, 0);
	check(ticks > 10);
	check(ticks <= (rdtsc() - before) / (info->tsc_hz / 100) + 2);
	print("%lu rounds, %lu ticks\n", round, ticks);
}
