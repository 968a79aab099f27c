/* SPDX-License-Identifier: BSD-2-Clause */
/* The IOAPIC: registers, edges and levels, remote IRR, EOI by broadcast and register, and HAND
 * C-05. */
#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

#define GHZ        1000000000ull
#define LEVEL      (1ull << 15)
#define MASKED     (1ull << 16)
#define REMOTE_IRR (1ull << 14)
#define LOGICAL    (1ull << 11)

static struct pc *enabled_pc(unsigned vcpus)
{
	struct pc *pc = pc_new(vcpus, GHZ);

	pc_enable_all(pc);
	pc_outb(pc, 0x21, 0xff); /* the 8259s are out of the way */
	pc_outb(pc, 0xa1, 0xff);
	return pc;
}

/* 82093AA §3.1-3.2: index and window, which bits can be written, power-on values. */
static void test_registers(void **unused)
{
	struct pc *pc = enabled_pc(1);

	(void)unused;
	pc_store(pc, 0, IOAPIC_BASE_DEFAULT, 4, IOAPIC_REG_VERSION);
	assert_int_equal(pc_load(pc, 0, IOAPIC_BASE_DEFAULT, 4), IOAPIC_REG_VERSION);
	assert_int_equal(pc_load(pc, 0, IOAPIC_BASE_DEFAULT + 0x10, 4), 0x00170020);
	pc_store(pc, 0, IOAPIC_BASE_DEFAULT + 0x10, 4, 0xffffffff);
	assert_int_equal(pc_load(pc, 0, IOAPIC_BASE_DEFAULT + 0x10, 4), 0x00170020);
	pc_store(pc, 0, IOAPIC_BASE_DEFAULT, 4, IOAPIC_REG_ID);
	pc_store(pc, 0, IOAPIC_BASE_DEFAULT + 0x10, 4, 0xffffffff);
	assert_int_equal(pc_load(pc, 0, IOAPIC_BASE_DEFAULT + 0x10, 4), 0x0f000000);
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		assert_int_equal(pc_redirect(pc, pin), MASKED);
		pc_set_redirect(pc, pin, UINT64_MAX);
		assert_int_equal(pc_redirect(pc, pin), 0xfffe00000001afffull);
		pc_set_redirect(pc, pin, MASKED);
	}
	for (unsigned reg = 0x40; reg < 0x100; reg++) {
		pc_store(pc, 0, IOAPIC_BASE_DEFAULT, 4, reg);
		pc_store(pc, 0, IOAPIC_BASE_DEFAULT + 0x10, 4, 0xffffffff);
		assert_int_equal(pc_load(pc, 0, IOAPIC_BASE_DEFAULT + 0x10, 4), 0);
	}
	pc_free(pc);
}

/* An edge is one interrupt however long the line stays high; while masked it is lost (82093AA
 * §3.2.4). */
static void test_edge(void **unused)
{
	struct pc *pc = enabled_pc(2);

	(void)unused;
	pc_set_redirect(pc, 10, 1ull << 56 | 0x51);
	platform_pin(&pc->p, 10, 1, true);
	assert_int_equal(pc->notified, 2);
	assert_int_equal(pc_serve(pc, 1), 0x51);
	platform_pin(&pc->p, 10, 2, true); /* another source: the wire is high already */
	platform_pin(&pc->p, 10, 2, false);
	platform_pin(&pc->p, 10, 1, true);
	assert_int_equal(pc_serve(pc, 1), -1);
	platform_pin(&pc->p, 10, 1, false);
	platform_pin(&pc->p, 10, 1, true);
	platform_pin(&pc->p, 10, 1, false);
	platform_pin(&pc->p, 10, 1, true);
	assert_int_equal(pc_serve(pc, 1), 0x51);
	assert_int_equal(pc_serve(pc, 1), -1);
	pc_set_redirect(pc, 10, 1ull << 56 | MASKED | 0x51);
	platform_pin(&pc->p, 10, 1, false);
	platform_pin(&pc->p, 10, 1, true);
	pc_set_redirect(pc, 10, 1ull << 56 | 0x51);
	assert_int_equal(pc_serve(pc, 1), -1);
	platform_pin(&pc->p, 99, 1, true); /* no such pin or source */
	platform_pin(&pc->p, 10, 4, true);
	pc_free(pc);
}

/* Remote IRR holds a level until EOI; still high: again; low: not; sources are ORed. */
static void test_level(void **unused)
{
	struct pc *pc = enabled_pc(1);

	(void)unused;
	pc_set_redirect(pc, 16, LEVEL | 0x61);
	platform_pin(&pc->p, 16, 1, true);
	platform_pin(&pc->p, 16, 2, true);
	assert_int_equal(pc_redirect(pc, 16), LEVEL | REMOTE_IRR | 0x61);
	assert_int_equal(pc_take(pc, 0), 0x61);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_TMR + 3), 2);
	platform_pin(&pc->p, 16, 1, false);
	pc_set_apic(pc, 0, APIC_REG_EOI, 0); /* source 2 still holds it */
	assert_int_equal(pc_take(pc, 0), 0x61);
	platform_pin(&pc->p, 16, 2, false);
	assert_int_equal(pc_redirect(pc, 16), LEVEL | REMOTE_IRR | 0x61);
	pc_set_apic(pc, 0, APIC_REG_EOI, 0);
	assert_int_equal(pc_redirect(pc, 16), LEVEL | 0x61);
	assert_int_equal(pc_take(pc, 0), -1);
	/* Raised while masked: kept, and there on unmasking. */
	pc_set_redirect(pc, 16, LEVEL | MASKED | 0x61);
	platform_pin(&pc->p, 16, 1, true);
	assert_int_equal(pc_take(pc, 0), -1);
	pc_set_redirect(pc, 16, LEVEL | 0x61);
	assert_int_equal(pc_take(pc, 0), 0x61);
	/* Raised again between its end in the LAPIC and now: never lost. */
	platform_pin(&pc->p, 16, 1, false);
	platform_pin(&pc->p, 16, 1, true);
	pc_set_apic(pc, 0, APIC_REG_EOI, 0);
	assert_int_equal(pc_serve(pc, 0), 0x61);
	pc_free(pc);
}

/* SDM §10.8.5 and ICH9 §13.5.7: with broadcast suppressed the EOI register does it; edge mode
 * clears remote IRR. */
static void test_directed_eoi(void **unused)
{
	struct pc *pc = enabled_pc(1);

	(void)unused;
	pc_set_apic(pc, 0, APIC_REG_SVR, APIC_SVR_ENABLE | APIC_SVR_EOI_NO_BROADCAST | 0xff);
	pc_set_redirect(pc, 17, LEVEL | 0x62);
	platform_pin(&pc->p, 17, 1, true);
	assert_int_equal(pc_serve(pc, 0), 0x62);
	assert_int_equal(pc_redirect(pc, 17), LEVEL | REMOTE_IRR | 0x62);
	assert_int_equal(pc_serve(pc, 0), -1);
	pc_store(pc, 0, IOAPIC_BASE_DEFAULT + IOAPIC_MMIO_EOI, 4, 0x63); /* another vector */
	assert_int_equal(pc_serve(pc, 0), -1);
	pc_store(pc, 0, IOAPIC_BASE_DEFAULT + IOAPIC_MMIO_EOI, 4, 0x62);
	assert_int_equal(pc_serve(pc, 0), 0x62);
	platform_pin(&pc->p, 17, 1, false);
	pc_set_redirect(pc, 17, MASKED | 0x62);
	pc_set_redirect(pc, 17, MASKED | LEVEL | 0x62);
	assert_int_equal(pc_redirect(pc, 17), MASKED | LEVEL | 0x62);
	pc_free(pc);
}

/* A level that nobody could take is offered again when a LAPIC comes on. */
static void test_no_target(void **unused)
{
	struct pc *pc = enabled_pc(2);

	(void)unused;
	pc_set_apic(pc, 1, APIC_REG_SVR, 0xff);
	pc_set_redirect(pc, 18, 1ull << 56 | LEVEL | 0x63);
	platform_pin(&pc->p, 18, 3, true);
	assert_int_equal(pc_redirect(pc, 18), 1ull << 56 | LEVEL | 0x63);
	pc_set_apic(pc, 1, APIC_REG_SVR, APIC_SVR_ENABLE | 0xff);
	assert_int_equal(pc_serve(pc, 1), 0x63);
	pc_free(pc);
}

/* Delivery modes and destinations of an entry: NMI, lowest priority, logical, broadcast, 15-bit
 * ids. */
static void test_destinations(void **unused)
{
	struct pc *pc = enabled_pc(4);
	unsigned got = 0;

	(void)unused;
	for (unsigned i = 0; i < 4; i++)
		pc_set_apic(pc, i, APIC_REG_LDR, 1u << (24 + i));
	pc_set_redirect(pc, 11, 0x6ull << 56 | LOGICAL | 0x100 | 0x71);
	for (unsigned n = 0; n < 10; n++) {
		platform_pin(&pc->p, 11, 1, true);
		platform_pin(&pc->p, 11, 1, false);
		got += (pc_serve(pc, 1) == 0x71) + (pc_serve(pc, 2) == 0x71);
	}
	assert_int_equal(got, 10);
	pc_set_redirect(pc, 11, 0xffull << 56 | 0x72);
	platform_pin(&pc->p, 11, 1, true);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pc_serve(pc, i), 0x72);
	platform_pin(&pc->p, 11, 1, false);
	pc_set_redirect(pc, 11, 3ull << 56 | 0x400);
	platform_pin(&pc->p, 11, 1, true);
	assert_int_equal(pc_event(pc, 3), PLATFORM_EVENT_NMI);
	platform_accept(&pc->p, 3, PLATFORM_EVENT_NMI);
	platform_pin(&pc->p, 11, 1, false);
	pc_set_redirect(pc, 11, 3ull << 56 | 1ull << 49 | 0x73); /* id 259 */
	platform_pin(&pc->p, 11, 1, true);
	assert_int_equal(pc_event(pc, 3), PLATFORM_EVENT_NONE);
	pc_free(pc);
}

/*
 * HAND C-05: the handler only ends the interrupt. A guest instruction costs 100 ns here, an
 * interrupt 1 us; the main loop must go on, the interrupt must not be lost, and must stop at once
 * when the line drops.
 */
static void test_live_lock_brake(void **unused)
{
	struct pc *pc = enabled_pc(1);
	uint64_t loops = 0, interrupts = 0, after = 0;

	(void)unused;
	pc_set_redirect(pc, 19, LEVEL | 0x64);
	platform_pin(&pc->p, 19, 1, true);
	while (pc->now < 2 * GHZ) {
		if (pc->now >= platform_shared_deadline(&pc->p))
			platform_run_shared_timers(&pc->p, pc->now);
		if (pc_serve(pc, 0) == 0x64) {
			interrupts++;
			pc->now += 1000;
		} else {
			loops++;
			pc->now += 100;
		}
	}
	assert_true(loops > 10000000); /* at least half of the time */
	assert_true(interrupts > 20000);
	platform_pin(&pc->p, 19, 1, false);
	pc_serve(pc, 0); /* one may be under way */
	assert_int_equal(platform_shared_deadline(&pc->p), PLATFORM_NEVER);
	pc_run_until(pc, 3 * GHZ);
	assert_int_equal(pc_serve(pc, 0), -1);
	/* A device that behaves is not braked: each time the line falls before the end. */
	for (unsigned n = 0; n < 30000; n++) {
		platform_pin(&pc->p, 19, 1, true);
		after += pc_take(pc, 0) == 0x64;
		platform_pin(&pc->p, 19, 1, false);
		pc_set_apic(pc, 0, APIC_REG_EOI, 0);
	}
	assert_int_equal(after, 30000);
	pc_free(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_registers),
	        cmocka_unit_test(test_edge),
	        cmocka_unit_test(test_level),
	        cmocka_unit_test(test_directed_eoi),
	        cmocka_unit_test(test_no_target),
	        cmocka_unit_test(test_destinations),
	        cmocka_unit_test(test_live_lock_brake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
