/* SPDX-License-Identifier: BSD-2-Clause */
/* KVM's paravirtual parts: clock, EOI by a flag, IPIs by hypercall, and hypercalls that there are
 * not. */

#include "tests/guest/lib/guest.h"

#define MSR_WALL   0x4b564d00u
#define MSR_SYSTEM 0x4b564d01u
#define MSR_EOI    0x4b564d04u
#define MSR_POLL   0x4b564d05u
#define VECTOR     0x70

struct clock_page {
	volatile uint32_t version, pad;
	volatile uint64_t tsc, ns;
	volatile uint32_t mul;
	volatile int8_t shift;
	volatile uint8_t flags;
	uint8_t pad2[2];
};

static struct clock_page page __attribute__((aligned(64)));
static volatile uint32_t wall[3] __attribute__((aligned(16)));

static uint64_t high_product(uint64_t a, uint64_t b)
{
	uint64_t low = a, high;

	__asm__("mulq %2" : "+a"(low), "=&d"(high) : "r"(b) : "cc");
	return high << 32 | low >> 32;
}

static uint64_t muldiv(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t low, high;

	__asm__("mulq %3; divq %4" : "=&a"(low), "=&d"(high) : "0"(a), "r"(b), "r"(c) : "cc");
	return low;
}

static uint64_t clock_ns(uint64_t tsc)
{
	uint64_t ticks = tsc - page.tsc;

	ticks = page.shift < 0 ? ticks >> -page.shift : ticks << page.shift;
	return page.ns + high_product(ticks, page.mul);
}

static void test_clock(void)
{
	uint64_t a, b, start_tsc, start_ns;

	wrmsr(MSR_SYSTEM, (uint64_t)&page | 1);
	check_same(rdmsr(MSR_SYSTEM), (uint64_t)&page | 1);
	check(page.version != 0 && page.version % 2 == 0);
	check(page.mul != 0);
	check(page.flags & 1); /* stable over all vCPUs */
	start_tsc = rdtsc();
	start_ns = clock_ns(start_tsc);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t before = rdtsc(), ns = clock_ns(before);
		uint64_t exact = muldiv(before - start_tsc, 1000000000, info->tsc_hz);

		check(ns >= start_ns);
		a = ns - start_ns;
		b = a > exact ? a - exact : exact - a;
		if (b > 2 + exact / 1000000)
			test_failed(__FILE__, __LINE__, "ns", a, exact);
		wait_for(false, 20);
	}
	wrmsr(MSR_WALL, (uint64_t)wall);
	check(wall[0] != 0 && wall[0] % 2 == 0);
	check(wall[1] > 1700000000);
	check(wall[2] < 1000000000);
	wrmsr(MSR_SYSTEM, 0);
	wrmsr(MSR_POLL, 0);
	check_same(rdmsr(MSR_POLL), 0);
	wrmsr(MSR_POLL, 1);
}

static void write_bad(void *argument)
{
	wrmsr((uint32_t)(uint64_t)argument, 0xd0000001); /* no RAM */
}

static volatile uint32_t eoi_flag __attribute__((aligned(4)));
static volatile uint64_t by_flag, by_register;

static void on_eoi(struct frame *f)
{
	(void)f;
	if (__atomic_fetch_and(&eoi_flag, ~1u, __ATOMIC_SEQ_CST) & 1) {
		by_flag++;
		return;
	}
	by_register++;
	apic_eoi();
}

static void test_eoi(void)
{
	on_vector(VECTOR, on_eoi);
	wrmsr(MSR_EOI, (uint64_t)&eoi_flag | 1);
	for (unsigned i = 0; i < 500; i++) {
		uint64_t before = by_flag + by_register;

		apic_ipi(0, VECTOR | ICR_SELF | ICR_ASSERT);
		irq_on();
		check(wait_for(by_flag + by_register != before, 1000000));
		irq_off();
		check_same(by_flag + by_register, before + 1);
		check(!apic_bit(APIC_ISR, VECTOR));
	}
	check(by_flag > 400);
	wrmsr(MSR_EOI, 0);
	check_same(eoi_flag & 1, 0);
	on_vector(VECTOR, handler_eoi);
}

static uint64_t hypercall(uint64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	__asm__ volatile("vmmcall" : "+a"(nr) : "b"(a), "c"(b), "d"(c), "S"(d) : "memory");
	return nr;
}

static void sleep(void)
{
	apic_enable(true);
	irq_on();
	for (;;)
		halt();
}

static void test_ipi(void)
{
	for (unsigned i = 1; i < info->vcpus; i++) {
		check(cpu_start(i));
		cpu_run(i, sleep);
		check(wait_for(load((uint64_t *)&guest_cpus[i].work) == 0, 1000000));
		wait_for(false, 2000);
	}
	for (unsigned round = 0; round < 100; round++) {
		uint64_t mask = ((1u << info->vcpus) - 1) & ~1ull;

		check_same(hypercall(10, mask, 0, 0, VECTOR), info->vcpus - 1);
		for (unsigned i = 1; i < info->vcpus; i++) {
			check(wait_for(
			        load(&guest_cpus[i].interrupts[VECTOR]) == round + 1, 2000000));
			if (round == 0)
				continue;
		}
	}
	if (info->vcpus > 1) { /* from a base other than 0 */
		check_same(hypercall(10, 1, 0, 1, VECTOR), 1);
		check(wait_for(load(&guest_cpus[1].interrupts[VECTOR]) == 101, 2000000));
	}
	check_same(hypercall(10, 0xff00, 0, 0, VECTOR), 0);
}

static void test_unknown(void)
{
	static const uint64_t numbers[] = {
	        0, 2, 3, 4, 6, 7, 8, 9, 12, 99, 0x4b450001, 0x4b450003, UINT64_MAX, 1ull << 32};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		check_same(hypercall(numbers[i], (uint64_t)&page, 8, 0, 0), (uint64_t)-1000);
}

void guest_main(void)
{
	apic_enable(true);
	test("kvmclock keeps to the TSC");
	test_clock();
	test("an address without RAM is #GP");
	check_same(catch (write_bad, (void *)(uint64_t)MSR_SYSTEM), VECTOR_GP);
	check_same(catch (write_bad, (void *)(uint64_t)MSR_EOI), VECTOR_GP);
	test("EOI by the flag");
	test_eoi();
	test("IPIs by hypercall");
	test_ipi();
	test("an unknown hypercall returns an error, root's own too");
	test_unknown();
}
