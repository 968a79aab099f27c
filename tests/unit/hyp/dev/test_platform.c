/* SPDX-License-Identifier: BSD-2-Clause */
/* The platform driven as the core drives it: vCPUs on threads of their own, starts and interrupts
 * that race, pins, dispatch. */
#include <pthread.h>

#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

#define GHZ 1000000000ull
#define MSI 0xfee00000ull

static void send(struct pc *pc, unsigned from, unsigned to, uint32_t low)
{
	pc_set_apic(pc, from, APIC_REG_ICR_HIGH, to << 24);
	pc_set_apic(pc, from, APIC_REG_ICR, low);
}

static void send_init(struct pc *pc, unsigned from, unsigned to)
{
	send(pc, from, to, APIC_DELIVERY_INIT | APIC_ICR_ASSERT | APIC_ICR_LEVEL);
}

static void send_sipi(struct pc *pc, unsigned from, unsigned to, uint8_t vector)
{
	send(pc, from, to, APIC_DELIVERY_SIPI | APIC_ICR_ASSERT | vector);
}

/* The guest's own way (arch/x86/kernel/smpboot.c): INIT, de-assert, SIPI twice; the second finds a
 * vCPU that runs. */
static void test_linux_start(void **unused)
{
	struct pc *pc = pc_new(2, GHZ);
	uint8_t vector = 0;

	(void)unused;
	pc_set_apic(pc, 0, APIC_REG_SVR, 0x1ff);
	assert_int_equal(pc_event(pc, 1), PLATFORM_EVENT_NONE);
	send(pc, 0, 1, APIC_DELIVERY_NMI | APIC_ICR_ASSERT);
	assert_int_equal(pc_event(pc, 1), PLATFORM_EVENT_NONE); /* waits for SIPI only */
	send_init(pc, 0, 1);
	send(pc, 0, 1, APIC_DELIVERY_INIT | APIC_ICR_LEVEL);
	assert_int_equal(pc_event(pc, 1), PLATFORM_EVENT_INIT);
	platform_accept(&pc->p, 1, PLATFORM_EVENT_INIT);
	assert_int_equal(pc_event(pc, 1), PLATFORM_EVENT_NONE);
	send_sipi(pc, 0, 1, 0x9a);
	assert_int_equal(platform_next_event(&pc->p, 1, &vector), PLATFORM_EVENT_SIPI);
	assert_int_equal(vector, 0x9a);
	assert_int_equal(platform_accept(&pc->p, 1, PLATFORM_EVENT_SIPI), 0x9a);
	send_sipi(pc, 0, 1, 0x9a);
	assert_int_equal(pc_event(pc, 1), PLATFORM_EVENT_NONE);
	send_init(pc, 0, 1);
	platform_accept(&pc->p, 1, PLATFORM_EVENT_INIT);
	assert_int_equal(pc_event(pc, 1), PLATFORM_EVENT_NONE); /* the old SIPI is gone */
	pc_free(pc);
}

/* HAND C-07 (b), (c): INIT leaves x2APIC mode and id, resets the rest; the boot vCPU does not wait
 * for SIPI. */
static void test_init_keeps_mode(void **unused)
{
	struct pc *pc = pc_new(3, GHZ);

	(void)unused;
	pc_enable_all(pc);
	for (unsigned i = 0; i < 3; i++)
		pc_x2apic(pc, i);
	pc_wrmsr(pc, 2, MSR_X2APIC_BASE + APIC_REG_LVT_TIMER, 0x60);
	pc_wrmsr(pc, 2, MSR_X2APIC_BASE + APIC_REG_TIMER_INITIAL, 1000);
	platform_msi(&pc->p, MSI | 2 << 12, 0x50);
	pc_wrmsr(pc, 0, MSR_X2APIC_BASE + APIC_REG_ICR,
	        2ull << 32 | APIC_DELIVERY_INIT | APIC_ICR_ASSERT);
	assert_int_equal(pc_event(pc, 2), PLATFORM_EVENT_INIT);
	platform_accept(&pc->p, 2, PLATFORM_EVENT_INIT);
	assert_int_equal(pc_rdmsr(pc, 2, MSR_APIC_BASE), 0xfee00c00);
	assert_int_equal(pc_rdmsr(pc, 2, MSR_X2APIC_BASE + APIC_REG_ID), 2);
	assert_int_equal(pc_rdmsr(pc, 2, MSR_X2APIC_BASE + APIC_REG_LDR), 4);
	assert_int_equal(pc_rdmsr(pc, 2, MSR_X2APIC_BASE + APIC_REG_SVR), 0xff);
	assert_int_equal(platform_vcpu_deadline(&pc->p, 2), PLATFORM_NEVER);
	assert_int_equal(lapic_highest(pc->p.lapic[2].irr), -1);
	pc_wrmsr(pc, 1, MSR_X2APIC_BASE + APIC_REG_ICR, APIC_DELIVERY_INIT | APIC_ICR_ASSERT);
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_INIT);
	platform_accept(&pc->p, 0, PLATFORM_EVENT_INIT);
	assert_false(pc->p.lapic[0].wait_sipi);
	pc_wrmsr(pc, 1, MSR_X2APIC_BASE + APIC_REG_ICR, APIC_DELIVERY_NMI | APIC_ICR_ASSERT);
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_NMI);
	pc_free(pc);
}

/*
 * Every order in which two INIT+SIPI pairs can fall between a target's looking and accepting: it
 * ends up started by the second pair, and starts at most twice. Bit n of order: step n is the
 * sender's.
 */
static void test_every_start_order(void **unused)
{
	unsigned once = 0, twice = 0;

	(void)unused;
	for (unsigned order = 0; order < 1u << 12; order++) {
		struct pc *pc;
		unsigned sent = 0, starts = 0;
		uint8_t vector = 0, last = 0;
		enum platform_event seen = PLATFORM_EVENT_NONE;

		if (__builtin_popcount(order) != 4)
			continue;
		pc = pc_new(2, GHZ);
		for (unsigned step = 0; step < 12 + 8; step++) {
			if (step < 12 && (order >> step & 1) != 0) {
				if (sent % 2 == 0)
					send_init(pc, 0, 1);
				else
					send_sipi(pc, 0, 1, (uint8_t)(10 + sent));
				sent++;
			} else if (seen == PLATFORM_EVENT_NONE) {
				seen = platform_next_event(&pc->p, 1, &vector);
			} else {
				uint8_t got = platform_accept(&pc->p, 1, seen);

				if (seen == PLATFORM_EVENT_SIPI) {
					starts++;
					last = got;
				}
				seen = PLATFORM_EVENT_NONE;
			}
		}
		assert_false(pc->p.lapic[1].wait_sipi);
		assert_int_equal(last, 13);
		once += starts == 1;
		twice += starts == 2;
		assert_true(starts == 1 || starts == 2);
		pc_free(pc);
	}
	assert_true(once > 0 && twice > 0);
}

/* A vCPU on a thread: it looks only when the core was notified, as a halted one does. */
struct runner {
	struct pc *pc;
	unsigned vcpu;
	bool running; /* took a SIPI since the last INIT */
	uint64_t starts;
	uint64_t interrupts[256];
	uint64_t nmis;
	uint32_t last_vector; /* of the last start */
	uint32_t *stop;
	uint64_t done; /* published: starts */
};

static void handle_events(struct runner *r)
{
	struct platform *p = &r->pc->p;
	enum platform_event event;
	uint8_t vector;

	while ((event = platform_next_event(p, r->vcpu, &vector)) != PLATFORM_EVENT_NONE) {
		vector = platform_accept(p, r->vcpu, event);
		switch (event) {
		case PLATFORM_EVENT_INIT: r->running = false; break;
		case PLATFORM_EVENT_SIPI:
			r->running = true;
			r->starts++;
			pc_set_apic(r->pc, r->vcpu, APIC_REG_SVR, 0x1ff);
			r->last_vector = vector;
			__atomic_store_n(&r->done, r->starts, __ATOMIC_RELEASE);
			break;
		case PLATFORM_EVENT_NMI: r->nmis++; break;
		default:
			__atomic_fetch_add(&r->interrupts[vector], 1, __ATOMIC_RELEASE);
			pc_set_apic(r->pc, r->vcpu, APIC_REG_EOI, 0);
			break;
		}
	}
}

static void *run_vcpu(void *argument)
{
	struct runner *r = argument;
	uint64_t mine = 1ull << r->vcpu;

	while (!__atomic_load_n(r->stop, __ATOMIC_ACQUIRE)) {
		if ((__atomic_load_n(&r->pc->notified, __ATOMIC_ACQUIRE) & mine) == 0) {
			sched_yield();
			continue;
		}
		__atomic_fetch_and(&r->pc->notified, ~mine, __ATOMIC_SEQ_CST);
		handle_events(r);
	}
	return NULL;
}

static void wait_for(const uint64_t *word, uint64_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
		sched_yield();
}

#define ROUNDS 20000u

/* HAND C-07 (a): INIT then SIPI at any moment, amid other interrupts: each pair is one start, with
 * its vector. */
static void test_init_sipi_race(void **unused)
{
	struct pc *pc = pc_new(2, GHZ);
	uint32_t stop = 0;
	struct runner ap = {.pc = pc, .vcpu = 1, .stop = &stop};
	uint64_t state = 77;
	pthread_t thread;

	(void)unused;
	pc_set_apic(pc, 0, APIC_REG_SVR, 0x1ff);
	pthread_create(&thread, NULL, run_vcpu, &ap);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		uint8_t vector = (uint8_t)(1 + round % 200);

		for (uint64_t n = pc_random(&state) % 4; n > 0; n--)
			send(pc, 0, 1, APIC_ICR_ASSERT | 0x40);
		send_init(pc, 0, 1);
		for (volatile uint64_t n = pc_random(&state) % 300; n > 0; n--)
			;
		send_sipi(pc, 0, 1, vector);
		wait_for(&ap.done, round);
		assert_int_equal(ap.last_vector, vector);
		if (round % 3 == 0)
			send_sipi(pc, 0, 1, 0xee); /* finds it running */
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(ap.starts, ROUNDS);
	pc_free(pc);
}

struct sender {
	struct pc *pc;
	struct runner *targets;
	unsigned vcpu;
};

/* Each sender has a vector of its own and waits until each target took it: none may be lost, none
 * may come twice. */
static void *run_sender(void *argument)
{
	struct sender *s = argument;
	uint8_t vector = (uint8_t)(0x40 + 16 * s->vcpu);

	for (unsigned round = 1; round <= ROUNDS / 4; round++) {
		switch (round % 3) {
		case 0: send(s->pc, s->vcpu, 0, APIC_ICR_OTHERS | APIC_ICR_ASSERT | vector); break;
		case 1:
			platform_msi(&s->pc->p, MSI | 2 << 12, vector);
			platform_msi(&s->pc->p, MSI | 3 << 12, vector);
			send(s->pc, s->vcpu, s->vcpu ^ 1, APIC_ICR_ASSERT | vector);
			break;
		default: platform_pv_ipi(&s->pc->p, 0xf ^ 1ull << s->vcpu, 0, 0, vector); break;
		}
		wait_for(&s->targets[2].interrupts[vector], round);
		wait_for(&s->targets[3].interrupts[vector], round);
	}
	return NULL;
}

/* Two vCPUs send to two others on four threads; edges and a level pin at once. */
static void test_interrupt_race(void **unused)
{
	struct pc *pc = pc_new(4, GHZ);
	uint32_t stop = 0;
	struct runner *r = calloc(4, sizeof(*r));
	struct sender senders[2];
	pthread_t threads[4];
	uint64_t raised = 0;

	(void)unused;
	pc_enable_all(pc);
	pc_outb(pc, 0xa1, 0xff);
	pc_set_redirect(pc, 16, 3ull << 56 | 1u << 15 | 0x90);
	pc_set_redirect(pc, 9, 2ull << 56 | 0x80);
	for (unsigned i = 0; i < 4; i++)
		r[i] = (struct runner){.pc = pc, .vcpu = i, .stop = &stop};
	for (unsigned i = 0; i < 4; i++) {
		if (i < 2)
			senders[i] = (struct sender){pc, r, i};
		pthread_create(&threads[i], NULL, i < 2 ? run_sender : run_vcpu,
		        i < 2 ? (void *)&senders[i] : &r[i]);
	}
	/* This thread is a device with a level and an edge wire. */
	while (raised < ROUNDS / 4) {
		raised++;
		platform_pin(&pc->p, 16, 1, true);
		platform_pin(&pc->p, 9, 1, true);
		wait_for(&r[2].interrupts[0x80], raised);
		wait_for(&r[3].interrupts[0x90], raised);
		platform_pin(&pc->p, 16, 1, false);
		platform_pin(&pc->p, 9, 1, false);
	}
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(threads[2], NULL);
	pthread_join(threads[3], NULL);
	for (unsigned i = 2; i < 4; i++) {
		assert_int_equal(r[i].interrupts[0x40], ROUNDS / 4);
		assert_int_equal(r[i].interrupts[0x50], ROUNDS / 4);
	}
	assert_int_equal(r[2].interrupts[0x80], raised);
	assert_true(r[3].interrupts[0x90] >= raised); /* again while the line was still high */
	free(r);
	pc_free(pc);
}

/* The pins of a q35: what reaches the IOAPIC, the 8259s or both (platform_drive's rule), for each
 * source. */
static void test_wiring(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);

	(void)unused;
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		unsigned irq = pin == 2 ? 0 : pin;

		platform_pin(&pc->p, pin, 3, true);
		assert_int_equal(pc->p.ioapic.lines[pin], 8);
		assert_int_equal(pc->p.pic.chip[0].lines | pc->p.pic.chip[1].lines << 8,
		        pin == 0 || pin > 15 ? 0 : (1u << irq) | (irq >= 8 ? 1u << 2 : 0));
		platform_pin(&pc->p, pin, 3, false);
		assert_int_equal(pc->p.ioapic.lines[pin], 0);
		pc_outb(pc, 0x20, 0x11); /* forgets the edge */
		pc_outb(pc, 0xa0, 0x11);
	}
	pc_free(pc);
}

/* What is not ours is refused, so that root gets it; what straddles our ports reads ones there. */
static void test_not_ours(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);
	static const uint16_t ports[] = {
	        0, 0x22, 0x3f7, 0x2f8, 0x400, 0x600, 0x604, 0x60c, 0xcf8, 0xcfc, 0xc000, 0xffff};
	static const uint64_t pages[] = {0, 0xe0000000, 0xfebff000, 0xfec01000, 0xfecff000,
	        0xfed01000, 0xfedff000, 0xfee01000, 1ull << 40};
	uint32_t value = 0;
	uint64_t data = 0;

	(void)unused;
	for (unsigned i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
		for (unsigned size = 1; size <= 4; size *= 2) {
			assert_false(platform_pio(&pc->p, 0, ports[i], size, false, &value, 0));
			assert_false(platform_pio(&pc->p, 0, ports[i], size, true, &value, 0));
		}
	for (unsigned i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		assert_false(platform_mmio(&pc->p, 0, pages[i], 4, false, &data, 0));
	assert_int_equal(pc_in(pc, 0x61, 2) >> 8, 0xff);
	assert_int_equal(pc_in(pc, 0x3fe, 4) >> 16, 0xffff);
	assert_false(platform_pio(&pc->p, 0, 0x40, 0, false, &value, 0));
	pc_free(pc);
}

/* Time does not run the shared timers for nothing: a quiet machine has no deadline at all. */
static void test_quiet(void **unused)
{
	struct pc *pc = pc_new(4, GHZ);

	(void)unused;
	pc_enable_all(pc);
	assert_int_equal(pc_run_until(pc, 1000 * GHZ), 0);
	assert_int_equal(pc->notified, 0);
	pc_free(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_linux_start),
	        cmocka_unit_test(test_init_keeps_mode),
	        cmocka_unit_test(test_every_start_order),
	        cmocka_unit_test(test_init_sipi_race),
	        cmocka_unit_test(test_interrupt_race),
	        cmocka_unit_test(test_wiring),
	        cmocka_unit_test(test_not_ours),
	        cmocka_unit_test(test_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
