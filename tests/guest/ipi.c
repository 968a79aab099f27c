/* SPDX-License-Identifier: BSD-2-Clause */
/* IPIs reach exactly those they are meant for: by id, broadcast, shorthand, logical id, as NMI. */

#include "tests/guest/lib/guest.h"

#define VECTOR 0x50
#define ROUNDS 20

static volatile uint32_t stop, ready;

/* The others: asleep with interrupts on. */
static void sleep_until_stop(void)
{
	apic_enable(apic_is_x2());
	__atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
	while (!stop)
		halt();
}

static void sleep_in_x2(void)
{
	apic_enable(true);
	sleep_until_stop();
}

static uint64_t count_of(unsigned cpu, unsigned vector)
{
	return load(&guest_cpus[cpu].interrupts[vector]);
}

static uint32_t everybody(void)
{
	return (1u << info->vcpus) - 1;
}

/* Sends and checks that each vCPU in mask took it once, and nobody else. */
static void send(uint32_t dest, uint32_t icr, uint32_t mask)
{
	unsigned vector = (icr & ICR_NMI) == ICR_NMI ? 2 : icr & 0xff;
	uint64_t before[GUEST_CPUS_MAX];

	for (unsigned i = 0; i < info->vcpus; i++)
		before[i] = count_of(i, vector);
	apic_ipi(dest, icr | ICR_ASSERT);
	irq_on();
	for (unsigned i = 0; i < info->vcpus; i++)
		if (mask >> i & 1)
			wait_for(count_of(i, vector) != before[i], 5000000);
	wait_for(false, 200);
	irq_off();
	for (unsigned i = 0; i < info->vcpus; i++)
		if (count_of(i, vector) - before[i] != (mask >> i & 1))
			test_failed(__FILE__, __LINE__, "interrupts of vCPU",
			        (uint64_t)icr << 32 | i, (uint64_t)dest << 32 | mask);
}

static void test_physical(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < info->vcpus; i++)
			send(i, VECTOR, 1u << i);
		send(ICR_EVERYBODY, VECTOR, everybody());
	}
	send(info->vcpus + 3, VECTOR, 0); /* nobody there */
	send(1, VECTOR, everybody() & 2);
}

static void test_shorthand(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		send(0, VECTOR | ICR_SELF, 1);
		send(0, VECTOR | ICR_ALL, everybody());
		send(0, VECTOR | ICR_OTHERS, everybody() & ~1u);
	}
}

static void set_logical(void)
{
	apic_write(APIC_DFR, 0xffffffff);
	apic_write(APIC_LDR, 1u << (24 + this_cpu()->index));
}

static void set_cluster(void)
{
	/* Two a cluster. */
	unsigned i = this_cpu()->index;

	apic_write(APIC_DFR, 0x0fffffff);
	apic_write(APIC_LDR, (i / 2) << 28 | 1u << (24 + i % 2));
}

static volatile uint32_t done;
static void (*setter)(void);

static void on_set(struct frame *f)
{
	(void)f;
	setter();
	apic_eoi();
	__atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
}

static void on_all(void (*fn)(void))
{
	setter = fn;
	done = 0;
	apic_ipi(0, 0x51 | ICR_ALL | ICR_ASSERT);
	irq_on();
	check(wait_for(done == info->vcpus, 5000000));
	irq_off();
}

static void test_logical(void)
{
	if (apic_is_x2()) {
		check_same(apic_read(APIC_LDR), 1);
		for (unsigned mask = 0; mask <= everybody(); mask++)
			send(mask, VECTOR | ICR_LOGICAL, mask);
		send(1u << 16 | everybody(), VECTOR | ICR_LOGICAL, 0); /* another cluster */
		return;
	}
	on_all(set_logical);
	for (unsigned mask = 0; mask <= everybody(); mask++)
		send(mask, VECTOR | ICR_LOGICAL, mask);
	send(0xff, VECTOR | ICR_LOGICAL, everybody());
	on_all(set_cluster);
	send(0x01, VECTOR | ICR_LOGICAL, 1);
	send(0x03, VECTOR | ICR_LOGICAL, everybody() & 3);
	send(0x12, VECTOR | ICR_LOGICAL, everybody() & 8);
	send(0xff, VECTOR | ICR_LOGICAL, everybody());
	on_all(set_logical);
}

static uint64_t count_all(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < info->vcpus; i++)
		sum += count_of(i, VECTOR);
	return sum;
}

/* One of them takes it. */
static void test_lowest(void)
{
	uint64_t before = count_all();

	apic_ipi(everybody(), VECTOR | 1u << 8 | ICR_LOGICAL | ICR_ASSERT);
	irq_on();
	wait_for(count_all() != before, 5000000);
	wait_for(false, 3000);
	irq_off();
	check_same(count_all() - before, 1);
}

static void test_nmi(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 1; i < info->vcpus; i++)
			send(i, ICR_NMI, 1u << i);
		send(0, ICR_NMI | ICR_OTHERS, everybody() & ~1u);
	}
}

void guest_main(void)
{
	on_vector(VECTOR, handler_eoi);
	on_vector(0x51, on_set);
	for (unsigned x2 = 0; x2 < 2; x2++) {
		section(x2 ? "x2APIC" : "xAPIC");
		apic_enable(x2);
		test("the other vCPUs start");
		stop = ready = 0;
		for (unsigned i = 1; i < info->vcpus; i++) {
			if (x2 == 0)
				check(cpu_start(i));
			cpu_run(i, x2 ? sleep_in_x2 : sleep_until_stop);
		}
		check(wait_for(ready == info->vcpus - 1, 10000000));
		test("by id, and by the broadcast id");
		test_physical();
		test("by shorthand");
		test_shorthand();
		test("by logical id");
		test_logical();
		test("lowest priority");
		test_lowest();
		test("NMI");
		test_nmi();
		stop = 1;
		apic_ipi(0, VECTOR | ICR_OTHERS | ICR_ASSERT);
		for (unsigned i = 1; i < info->vcpus; i++)
			check(cpu_wait(i));
	}
}
