/* SPDX-License-Identifier: BSD-2-Clause */
/* A guest that writes rubbish into every register, from a seed that replays it: nothing trips,
 * nothing storms, all goes on after. */
#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

#define VCPUS 5u
#define STEPS 60000u
#define SEEDS 60u

static uint64_t random_value(uint64_t *state)
{
	uint64_t value = pc_random(state);

	switch (pc_random(state) % 4) {
	case 0: return value & 0xff;
	case 1: return value & (value >> 13) & (value >> 29);
	case 2: return value % 5 - 2;
	default: return value;
	}
}

static void random_port(struct pc *pc, uint64_t *state, unsigned vcpu)
{
	static const uint16_t ports[] = {0x20, 0x21, 0xa0, 0xa1, 0x40, 0x41, 0x42, 0x43, 0x43, 0x60,
	        0x61, 0x64, 0x70, 0x71, 0x71, 0x80, 0x92, 0x3f8, 0x3f9, 0x3fa, 0x3fb, 0x3fc, 0x3fd,
	        0x3fe, 0x4d0, 0x4d1, 0x608, 0xcf9};
	uint32_t value = (uint32_t)random_value(state);
	uint16_t port = pc_random(state) % 16 == 0
	                        ? (uint16_t)pc_random(state)
	                        : ports[pc_random(state) % (sizeof(ports) / sizeof(ports[0]))];

	platform_pio(&pc->p, vcpu, port, 1u << pc_random(state) % 3, pc_random(state) % 4 != 0,
	        &value, pc->now);
}

static void random_page(struct pc *pc, uint64_t *state, unsigned vcpu)
{
	static const uint64_t pages[] = {0xfec00000, 0xfed00000, 0xfee00000, 0xfee00000};
	uint64_t value = random_value(state), page = pages[pc_random(state) % 4];
	uint64_t gpa = page + pc_random(state) % (page == 0xfed00000          ? 0x180
	                                                 : page == 0xfec00000 ? 0x50
	                                                                      : 0x400);

	if (pc_random(state) % 8 != 0)
		gpa &= page == 0xfed00000 ? ~3ull : ~15ull;
	if (page == 0xfec00000 && gpa == page)
		value &= 0x3f;
	platform_mmio(&pc->p, vcpu, gpa, pc_random(state) % 3 == 0 ? 8 : 4,
	        pc_random(state) % 4 != 0, &value, pc->now);
}

static void random_msr(struct pc *pc, uint64_t *state, unsigned vcpu)
{
	uint64_t value = random_value(state);
	uint32_t msr = MSR_X2APIC_BASE + (uint32_t)(pc_random(state) % 0x48);

	if (pc_random(state) % 8 == 0)
		msr = MSR_TSC_DEADLINE;
	if (pc_random(state) % 64 == 0) {
		msr = MSR_APIC_BASE;
		value = 0xfee00000 | (pc_random(state) % 8) << 9;
	}
	if (msr == MSR_TSC_DEADLINE && pc_random(state) % 2 == 0)
		value = pc->now + value % 1000000;
	if (pc_random(state) % 4 == 0)
		platform_rdmsr(&pc->p, vcpu, msr, &value, pc->now);
	else
		platform_wrmsr(&pc->p, vcpu, msr, value, pc->now);
}

static void random_outside(struct pc *pc, uint64_t *state, unsigned vcpu)
{
	uint64_t value = random_value(state), position = value;
	uint8_t bytes[64] = {0};

	switch (pc_random(state) % 8) {
	case 0: platform_msi(&pc->p, random_value(state), (uint32_t)value); break;
	case 1:
	case 2:
		platform_pin(&pc->p, (unsigned)(value % 30), (unsigned)(value >> 8) % 5,
		        (value >> 16) & 1);
		break;
	case 3: platform_nmi(&pc->p, vcpu); break;
	case 4:
		platform_pv_ipi(&pc->p, random_value(state), value, (uint32_t)(value & 0x7f),
		        (uint32_t)random_value(state));
		break;
	case 5: platform_console_write(&pc->p, bytes, value % 64); break;
	case 6: platform_console_read(&pc->p, &position, bytes, value % 64); break;
	default: platform_console_break(&pc->p); break;
	}
}

static void take_some(struct pc *pc, uint64_t *state, unsigned vcpu)
{
	for (unsigned n = 0; n < 4; n++) {
		uint8_t vector = 0;
		enum platform_event event = platform_next_event(&pc->p, vcpu, &vector);

		if (event == PLATFORM_EVENT_NONE)
			break;
		platform_accept(&pc->p, vcpu, event);
		if (pc_random(state) % 2 == 0)
			platform_eoi(&pc->p, vcpu);
	}
	platform_set_tpr(&pc->p, vcpu, (unsigned)pc_random(state) % 16);
	platform_pv_eoi_possible(&pc->p, vcpu);
	assert_in_range(platform_tpr_threshold(&pc->p, vcpu), 0, 15);
}

/* Timers may be due now or later, but after they were run none is due again at once: a core that
 * runs them cannot be kept busy. */
static void run_timers(struct pc *pc)
{
	platform_run_shared_timers(&pc->p, pc->now);
	assert_true(platform_shared_deadline(&pc->p) > pc->now);
	for (unsigned i = 0; i < VCPUS; i++) {
		platform_run_vcpu_timer(&pc->p, i, pc->now);
		assert_true(platform_vcpu_deadline(&pc->p, i) > pc->now);
	}
}

static void hammer(uint64_t seed)
{
	uint64_t state = seed, tsc_hz = 800000000 + seed * 433333333;
	struct pc *pc = pc_new(VCPUS, tsc_hz);
	struct platform_config config = pc_config(pc, VCPUS, tsc_hz);

	for (unsigned step = 0; step < STEPS; step++) {
		unsigned vcpu = (unsigned)(pc_random(&state) % VCPUS);

		switch (pc_random(&state) % 8) {
		case 0:
		case 1:
		case 2: random_port(pc, &state, vcpu); break;
		case 3:
		case 4: random_page(pc, &state, vcpu); break;
		case 5: random_msr(pc, &state, vcpu); break;
		case 6: random_outside(pc, &state, vcpu); break;
		default: take_some(pc, &state, vcpu); break;
		}
		pc->now += pc_random(&state) %
		           (pc_random(&state) % 512 == 0 ? tsc_hz * 100000 : 100000);
		if (step % 7 == 0)
			run_timers(pc);
		if (step % 20000 == 19999)
			platform_init(&pc->p, &config, true);
	}
	assert_true(pc->resets <= STEPS / 20000 + 1);
	/* After a reset it is a PC again. */
	platform_init(&pc->p, &config, true);
	pc_enable_all(pc);
	platform_msi(&pc->p, 0xfee03000, 0x77);
	assert_int_equal(pc_serve(pc, 3), 0x77);
	pc_outb(pc, 0x3f8, 'k');
	pc_free(pc);
}

static void test_rubbish(void **unused)
{
	(void)unused;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		print_message("seed %llu\n", (unsigned long long)seed);
		hammer(seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_rubbish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
