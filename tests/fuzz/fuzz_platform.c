/* SPDX-License-Identifier: BSD-2-Clause */
/* Fuzzes a VM's PC: any order of port, page, MSR and outside accesses; no trap, no storm, no time
 * that runs back. */
#include <string.h>

#include "hw/msr.h"
#include "hyp/dev/platform_state.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

#define VCPUS  3u
#define TSC_HZ 2345678901ull

struct step {
	uint8_t what;
	uint8_t vcpu_size;
	uint16_t address;
	uint32_t value;
	uint32_t high;
	uint32_t wait;
};

static struct platform platform;
static uint8_t console[PLATFORM_CONSOLE_BYTES];
static unsigned resets;

static void on_notify(void *ctx, uint64_t mask)
{
	(void)ctx;
	if (mask == 0 || mask >> VCPUS != 0)
		__builtin_trap();
}

static void on_reset(void *ctx)
{
	(void)ctx;
	if (++resets > 1)
		__builtin_trap();
}

static void on_console(void *ctx)
{
	(void)ctx;
}

static const struct platform_ops ops = {on_notify, on_reset, on_console};

static void access_outside(const struct step *s, unsigned vcpu)
{
	uint8_t bytes[64] = {0};
	uint64_t position = s->value;

	switch (s->address & 7) {
	case 0: platform_msi(&platform, 0xfee00000u | (s->value & 0xfffff), s->high); break;
	case 1: platform_pin(&platform, s->value & 31, s->high & 7, (s->high & 8) != 0); break;
	case 2: platform_nmi(&platform, vcpu); break;
	case 3: platform_pv_ipi(&platform, s->value, s->high, s->address >> 8, s->wait); break;
	case 4: platform_console_write(&platform, bytes, s->value & 63); break;
	case 5: platform_console_read(&platform, &position, bytes, s->high & 63); break;
	case 6: platform_console_break(&platform); break;
	default: platform_eoi(&platform, vcpu); break;
	}
}

static void take_event(unsigned vcpu)
{
	uint8_t vector = 0;
	enum platform_event event = platform_next_event(&platform, vcpu, &vector);

	if (platform_accept(&platform, vcpu, event) != vector && event == PLATFORM_EVENT_INTR)
		__builtin_trap();
}

static void do_step(const struct step *s, uint64_t now)
{
	static const uint64_t pages[4] = {
	        IOAPIC_BASE_DEFAULT, PLATFORM_HPET_BASE, APIC_BASE_DEFAULT, 0};
	unsigned vcpu = s->vcpu_size % VCPUS, size = 1u << (s->vcpu_size >> 2 & 3);
	bool write = (s->vcpu_size & 0x80) != 0;
	uint64_t wide = (uint64_t)s->high << 32 | s->value;
	uint32_t narrow = s->value;

	switch (s->what & 7) {
	case 0:
	case 1: platform_pio(&platform, vcpu, s->address, size, write, &narrow, now); break;
	case 2:
		platform_mmio(&platform, vcpu, pages[s->address >> 14] + (s->address & 0x3ff), size,
		        write, &wide, now);
		break;
	case 3:
		platform_wrmsr(&platform, vcpu, MSR_X2APIC_BASE + (s->address & 0x7f), wide, now);
		break;
	case 4:
		platform_wrmsr(&platform, vcpu,
		        (s->address & 1) != 0 ? MSR_TSC_DEADLINE : MSR_APIC_BASE,
		        (s->address & 1) != 0 ? wide : APIC_BASE_DEFAULT | (s->value & 0xf00), now);
		break;
	case 5: access_outside(s, vcpu); break;
	case 6: platform_set_tpr(&platform, vcpu, s->value & 15); break;
	default: take_event(vcpu); break;
	}
}

/* What was due is not due again at once, and the PM timer goes on by what the TSC did. */
static void run_timers(uint64_t now)
{
	platform_run_shared_timers(&platform, now);
	if (platform_shared_deadline(&platform) <= now)
		__builtin_trap();
	for (unsigned i = 0; i < VCPUS; i++) {
		platform_run_vcpu_timer(&platform, i, now);
		if (platform_vcpu_deadline(&platform, i) <= now)
			__builtin_trap();
	}
	if (platform.lock.held != 0)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct platform_config config = {
	        .ops = &ops,
	        .vcpus = VCPUS,
	        .phys_bits = 40,
	        .tsc_hz = TSC_HZ,
	        .wall_clock_s = 1700000000,
	        .ram_below_4g_bytes = 1u << 30,
	        .console = console,
	};
	uint64_t now = 0;
	struct step s;

	resets = 0;
	platform_init(&platform, &config, false);
	for (; size >= sizeof(s); data += sizeof(s), size -= sizeof(s)) {
		memcpy(&s, data, sizeof(s));
		do_step(&s, now);
		now += (s.what & 0x80) != 0 ? (uint64_t)s.wait << 20 : s.wait;
		run_timers(now);
	}
	return 0;
}
