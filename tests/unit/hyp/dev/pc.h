/* SPDX-License-Identifier: BSD-2-Clause */
/* A VM's PC on the bench: the platform with a core that only notes what it is told, and a guest's
 * ports, pages and MSRs. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hw/msr.h"
#include "hyp/dev/platform_state.h"

struct pc {
	struct platform p;
	uint64_t now;
	uint64_t notified; /* vCPUs that the core was told of */
	unsigned resets;
	unsigned console_ready;
	uint8_t console[PLATFORM_CONSOLE_BYTES];
};

static void pc_notify(void *ctx, uint64_t mask)
{
	struct pc *pc = ctx;

	/* No lock may be held over a callback: one that comes back must get it. */
	spin_lock(&pc->p.lock);
	spin_unlock(&pc->p.lock);
	__atomic_fetch_or(&pc->notified, mask, __ATOMIC_SEQ_CST);
}

static void pc_reset(void *ctx)
{
	((struct pc *)ctx)->resets++;
}

static void pc_console_ready(void *ctx)
{
	((struct pc *)ctx)->console_ready++;
}

static const struct platform_ops pc_ops = {pc_notify, pc_reset, pc_console_ready};

static struct platform_config pc_config(struct pc *pc, unsigned vcpus, uint64_t tsc_hz)
{
	return (struct platform_config){
	        .ops = &pc_ops,
	        .ctx = pc,
	        .vcpus = vcpus,
	        .phys_bits = 40,
	        .tsc_hz = tsc_hz,
	        .wall_clock_s = 1700000000, /* 2023-11-14 22:13:20 UTC, a Tuesday */
	        .ram_below_4g_bytes = 0x40000000,
	        .ram_above_4g_bytes = 0x80000000,
	        .console = pc->console,
	};
}

static struct pc *pc_new(unsigned vcpus, uint64_t tsc_hz)
{
	struct pc *pc;
	struct platform_config config;

	if (posix_memalign((void **)&pc, 64, sizeof(*pc)) != 0)
		abort();
	memset(pc, 0xa5, sizeof(*pc)); /* platform_init must not count on zeroes */
	pc->now = 0;
	pc->notified = 0;
	pc->resets = 0;
	pc->console_ready = 0;
	config = pc_config(pc, vcpus, tsc_hz);
	platform_init(&pc->p, &config, false);
	return pc;
}

static void pc_free(struct pc *pc)
{
	free(pc);
}

static uint32_t pc_in(struct pc *pc, uint16_t port, unsigned size)
{
	uint32_t value = 0;

	assert_true(platform_pio(&pc->p, 0, port, size, false, &value, pc->now));
	return value;
}

static uint8_t pc_inb(struct pc *pc, uint16_t port)
{
	return (uint8_t)pc_in(pc, port, 1);
}

static void pc_outb(struct pc *pc, uint16_t port, uint8_t byte)
{
	uint32_t value = byte;

	assert_true(platform_pio(&pc->p, 0, port, 1, true, &value, pc->now));
}

static uint64_t pc_load(struct pc *pc, unsigned vcpu, uint64_t gpa, unsigned size)
{
	uint64_t value = 0;

	assert_true(platform_mmio(&pc->p, vcpu, gpa, size, false, &value, pc->now));
	return value;
}

static void pc_store(struct pc *pc, unsigned vcpu, uint64_t gpa, unsigned size, uint64_t value)
{
	assert_true(platform_mmio(&pc->p, vcpu, gpa, size, true, &value, pc->now));
}

/* LAPIC registers as xAPIC, by their number. */
static uint32_t pc_apic(struct pc *pc, unsigned vcpu, unsigned reg)
{
	return (uint32_t)pc_load(pc, vcpu, APIC_BASE_DEFAULT + (reg << 4), 4);
}

static void pc_set_apic(struct pc *pc, unsigned vcpu, unsigned reg, uint32_t value)
{
	pc_store(pc, vcpu, APIC_BASE_DEFAULT + (reg << 4), 4, value);
}

static uint64_t pc_rdmsr(struct pc *pc, unsigned vcpu, uint32_t msr)
{
	uint64_t value = 0;

	assert_int_equal(platform_rdmsr(&pc->p, vcpu, msr, &value, pc->now), PLATFORM_MSR_OK);
	return value;
}

static void pc_wrmsr(struct pc *pc, unsigned vcpu, uint32_t msr, uint64_t value)
{
	assert_int_equal(platform_wrmsr(&pc->p, vcpu, msr, value, pc->now), PLATFORM_MSR_OK);
}

static void pc_refuse_wrmsr(struct pc *pc, unsigned vcpu, uint32_t msr, uint64_t value)
{
	assert_int_equal(platform_wrmsr(&pc->p, vcpu, msr, value, pc->now), PLATFORM_MSR_GP);
}

static void pc_x2apic(struct pc *pc, unsigned vcpu)
{
	pc_wrmsr(pc, vcpu, MSR_APIC_BASE, pc_rdmsr(pc, vcpu, MSR_APIC_BASE) | APIC_BASE_X2APIC);
}

/* Starts the LAPICs of all vCPUs (as they are after their start-up) with the spurious vector FFh.
 */
static void pc_enable_all(struct pc *pc)
{
	for (unsigned i = 0; i < pc->p.vcpus; i++) {
		pc->p.lapic[i].wait_sipi = false;
		pc_set_apic(pc, i, APIC_REG_SVR, APIC_SVR_ENABLE | 0xff);
	}
}

static void pc_set_redirect(struct pc *pc, unsigned pin, uint64_t entry)
{
	for (unsigned half = 2; half-- > 0;) { /* the high half first, as systems do */
		pc_store(pc, 0, IOAPIC_BASE_DEFAULT, 4, IOAPIC_REG_REDIRECT + 2 * pin + half);
		pc_store(pc, 0, IOAPIC_BASE_DEFAULT + IOAPIC_MMIO_WINDOW, 4,
		        (uint32_t)(entry >> half * 32));
	}
}

static uint64_t pc_redirect(struct pc *pc, unsigned pin)
{
	uint64_t entry = 0;

	for (unsigned half = 0; half < 2; half++) {
		pc_store(pc, 0, IOAPIC_BASE_DEFAULT, 4, IOAPIC_REG_REDIRECT + 2 * pin + half);
		entry |= pc_load(pc, 0, IOAPIC_BASE_DEFAULT + IOAPIC_MMIO_WINDOW, 4) << half * 32;
	}
	return entry;
}

/* The vector that the vCPU would take now and takes; -1: none. */
static int pc_take(struct pc *pc, unsigned vcpu)
{
	uint8_t vector = 0;

	if (platform_next_event(&pc->p, vcpu, &vector) != PLATFORM_EVENT_INTR)
		return -1;
	assert_int_equal(platform_accept(&pc->p, vcpu, PLATFORM_EVENT_INTR), vector);
	return vector;
}

/* The same, with EOI. */
static int pc_serve(struct pc *pc, unsigned vcpu)
{
	int vector = pc_take(pc, vcpu);

	if (vector >= 0)
		pc_set_apic(pc, vcpu, APIC_REG_EOI, 0);
	return vector;
}

static enum platform_event pc_event(struct pc *pc, unsigned vcpu)
{
	uint8_t vector = 0;

	return platform_next_event(&pc->p, vcpu, &vector);
}

/* Runs what is due up to a TSC value, each at its time, as a core would whose CPUs are idle.
 * Returns how many stops it made. */
static unsigned pc_run_until(struct pc *pc, uint64_t until)
{
	unsigned stops = 0;

	for (;;) {
		uint64_t next = platform_shared_deadline(&pc->p);

		for (unsigned i = 0; i < pc->p.vcpus; i++)
			if (platform_vcpu_deadline(&pc->p, i) < next)
				next = platform_vcpu_deadline(&pc->p, i);
		if (next > until)
			break;
		if (next > pc->now)
			pc->now = next;
		for (unsigned i = 0; i < pc->p.vcpus; i++)
			platform_run_vcpu_timer(&pc->p, i, pc->now);
		platform_run_shared_timers(&pc->p, pc->now);
		stops++;
	}
	pc->now = until;
	return stops;
}

static uint64_t pc_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}
