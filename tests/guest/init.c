/* SPDX-License-Identifier: BSD-2-Clause */
/* INIT and SIPI: one restart for each pair, the mode stays, and the boot vCPU needs no SIPI (C-07).
 */

#include "tests/guest/lib/guest.h"

static void sleep(void)
{
	for (;;)
		halt();
}

static volatile uint64_t reported_base, reported_id;

static void go_x2(void)
{
	apic_enable(true);
}

static void report(void)
{
	reported_base = rdmsr(APIC_BASE_MSR);
	reported_id = reported_base & 0x400 ? apic_read(APIC_ID) : apic_read(APIC_ID) >> 24;
}

static void test_restarts(uint64_t rounds)
{
	struct random r = {.state = info->seed};
	uint32_t before = __atomic_load_n(&guest_cpus[1].started, __ATOMIC_SEQ_CST);

	for (uint64_t i = 0; i < rounds; i++) {
		check(cpu_start(1));
		cpu_run(1, sleep);
		for (uint64_t spin = random_next(&r) % 5000; spin > 0; spin--)
			__asm__ volatile("");
	}
	wait_for(false, 5000);
	check_same(__atomic_load_n(&guest_cpus[1].started, __ATOMIC_SEQ_CST), before + rounds);
	/* A SIPI to one that does not wait for it does nothing. */
	apic_ipi(1, ICR_SIPI | ICR_ASSERT | 8);
	wait_for(false, 5000);
	check_same(__atomic_load_n(&guest_cpus[1].started, __ATOMIC_SEQ_CST), before + rounds);
	/* INIT alone stops it. */
	cpu_start(1);
	cpu_run(1, sleep);
	apic_ipi(1, ICR_INIT | ICR_ASSERT);
	wait_for(false, 5000);
	check_same(__atomic_load_n(&guest_cpus[1].started, __ATOMIC_SEQ_CST), before + rounds + 1);
}

static void test_mode(void)
{
	check(cpu_start(1));
	cpu_run(1, report);
	check(cpu_wait(1));
	check_same(reported_base & 0xd00, 0x800);
	check_same(reported_id, 1);
	cpu_run(1, go_x2);
	check(cpu_wait(1));
	check(cpu_start(1));
	cpu_run(1, report);
	check(cpu_wait(1));
	check_same(reported_base & 0xd00, 0xc00);
	check_same(reported_id, 1);
}

static void all_start(void)
{
	for (unsigned i = 1; i < info->vcpus; i++)
		check(cpu_start(i));
}

static void after_init(void)
{
	check_same(guest_cpus[0].started, 1);
	check_same(rdmsr(APIC_BASE_MSR) & 0x900, 0x900); /* still the boot CPU */
	test(NULL);
	guest_exit(guest_result());
}

static void init_boot_cpu(void)
{
	apic_enable(true);
	apic_ipi(0, ICR_INIT | ICR_ASSERT);
}

/*
 * The boot vCPU goes to the reset vector, where this VM has no memory: #UD in real mode, and its
 * entry in the table at 0 is our start code.
 */
static void test_boot_cpu(void)
{
	volatile uint16_t *ivt = (volatile uint16_t *)(uintptr_t)cpu_prepare(0);

	ivt[VECTOR_UD * 2] = 0;
	ivt[VECTOR_UD * 2 + 1] = 0x800;
	cpu_run(0, after_init);
	cpu_run(1, init_boot_cpu);
	for (;;)
		pause();
}

void guest_main(void)
{
	apic_enable(false);
	test("all vCPUs start");
	all_start();
	test("each INIT and SIPI gives one restart");
	test_restarts(argument("rounds=", 1000));
	test("INIT keeps the LAPIC's mode and id");
	test_mode();
	test("INIT to the boot vCPU");
	test_boot_cpu();
}
