/* SPDX-License-Identifier: BSD-2-Clause */
/* The LAPIC against SDM vol. 3 ch. 10: registers in both modes, priorities, timer, ICR, errors,
 * mode changes. */
#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

#define GHZ 1000000000ull
#define MSI (0xfee00000ull)

#define ICR_FIXED(vector) (APIC_ICR_ASSERT | (vector))

static void ipi(struct pc *pc, unsigned vcpu, uint32_t dest, uint32_t low)
{
	pc_set_apic(pc, vcpu, APIC_REG_ICR_HIGH, dest << 24);
	pc_set_apic(pc, vcpu, APIC_REG_ICR, low);
}

static void ipi_x2(struct pc *pc, unsigned vcpu, uint32_t dest, uint32_t low)
{
	pc_wrmsr(pc, vcpu, MSR_X2APIC_BASE + APIC_REG_ICR, (uint64_t)dest << 32 | low);
}

/* Bit n: vCPU n has that vector next; takes and ends it everywhere. */
static uint64_t who_got(struct pc *pc, int vector)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < pc->p.vcpus; i++) {
		int got = pc_take(pc, i);

		if (got == -1)
			continue;
		assert_int_equal(got, vector);
		platform_eoi(&pc->p, i);
		mask |= 1ull << i;
	}
	return mask;
}

/* SDM §10.4.7.1: state after power-on; the boot vCPU's pins in virtual wire mode. */
static void test_power_on(void **unused)
{
	struct pc *pc = pc_new(3, GHZ);

	(void)unused;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pc_rdmsr(pc, i, MSR_APIC_BASE), 0xfee00800 | (i == 0 ? 0x100 : 0));
		assert_int_equal(pc_apic(pc, i, APIC_REG_ID), i << 24);
		assert_int_equal(pc_apic(pc, i, APIC_REG_VERSION), 0x01050014);
		assert_int_equal(pc_apic(pc, i, APIC_REG_SVR), 0xff);
		assert_int_equal(pc_apic(pc, i, APIC_REG_DFR), UINT32_MAX);
		assert_int_equal(pc_apic(pc, i, APIC_REG_LDR), 0);
		assert_int_equal(pc_apic(pc, i, APIC_REG_TPR), 0);
		assert_int_equal(pc_apic(pc, i, APIC_REG_TIMER_CURRENT), 0);
		assert_int_equal(pc_apic(pc, i, APIC_REG_LVT_TIMER), APIC_LVT_MASKED);
		assert_int_equal(pc_apic(pc, i, APIC_REG_LVT_LINT0),
		        i == 0 ? APIC_DELIVERY_EXTINT : APIC_LVT_MASKED);
		assert_int_equal(pc_apic(pc, i, APIC_REG_LVT_LINT1),
		        i == 0 ? APIC_DELIVERY_NMI : APIC_LVT_MASKED);
		assert_int_equal(pc_event(pc, i), PLATFORM_EVENT_NONE);
		assert_int_equal(platform_vcpu_deadline(&pc->p, i), PLATFORM_NEVER);
	}
	pc_free(pc);
}

/* SDM §10.8.3: the higher class first, none of the same class while one is in service, TPR holds
 * back. */
static void test_priorities(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);

	(void)unused;
	pc_enable_all(pc);
	platform_msi(&pc->p, MSI, 0x41);
	platform_msi(&pc->p, MSI, 0x4f);
	platform_msi(&pc->p, MSI, 0x82);
	assert_int_equal(pc_take(pc, 0), 0x82);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_PPR), 0x80);
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_NONE);
	platform_msi(&pc->p, MSI, 0x8f); /* same class: waits */
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_NONE);
	platform_msi(&pc->p, MSI, 0x91);
	assert_int_equal(pc_take(pc, 0), 0x91);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_ISR + 4), 1u << 2 | 1u << 17);
	pc_set_apic(pc, 0, APIC_REG_EOI, 0);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_PPR), 0x80);
	pc_set_apic(pc, 0, APIC_REG_EOI, 0);
	assert_int_equal(pc_serve(pc, 0), 0x8f);
	pc_set_apic(pc, 0, APIC_REG_TPR, 0x4a);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_PPR), 0x4a);
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_NONE);
	assert_int_equal(platform_tpr_threshold(&pc->p, 0), 4);
	assert_int_equal(platform_get_tpr(&pc->p, 0), 4);
	platform_set_tpr(&pc->p, 0, 4); /* unchanged: the lower half stays */
	assert_int_equal(pc_apic(pc, 0, APIC_REG_TPR), 0x4a);
	platform_set_tpr(&pc->p, 0, 3);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_TPR), 0x30);
	assert_int_equal(platform_tpr_threshold(&pc->p, 0), 0);
	assert_int_equal(pc_serve(pc, 0), 0x4f);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_IRR + 2), 1u << 1);
	assert_int_equal(pc_serve(pc, 0), 0x41);
	pc_set_apic(pc, 0, APIC_REG_EOI, 0); /* nothing in service: no effect */
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_NONE);
	pc_free(pc);
}

/* SDM §10.9: what is gone when the CPU takes it gives the spurious vector and no ISR bit. */
static void test_spurious_vector(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);

	(void)unused;
	pc_enable_all(pc);
	pc_set_apic(pc, 0, APIC_REG_SVR, APIC_SVR_ENABLE | 0xef);
	platform_msi(&pc->p, MSI, 0x51);
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_INTR);
	platform_set_tpr(&pc->p, 0, 15);
	assert_int_equal(platform_accept(&pc->p, 0, PLATFORM_EVENT_INTR), 0xef);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_ISR + 7), 0);
	platform_set_tpr(&pc->p, 0, 0);
	assert_int_equal(pc_serve(pc, 0), 0x51);
	pc_free(pc);
}

/* SDM §10.4.7.2: disabled by SVR it takes no fixed interrupt, keeps what it had, masks its LVT; NMI
 * and INIT pass. */
static void test_software_disable(void **unused)
{
	struct pc *pc = pc_new(2, GHZ);

	(void)unused;
	pc_enable_all(pc);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x60);
	platform_msi(&pc->p, MSI, 0x61);
	pc_set_apic(pc, 0, APIC_REG_SVR, 0xff);
	platform_msi(&pc->p, MSI, 0x62);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_LVT_TIMER), 0x60 | APIC_LVT_MASKED);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x60);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_LVT_TIMER), 0x60 | APIC_LVT_MASKED);
	assert_int_equal(pc_serve(pc, 0), 0x61);
	assert_int_equal(pc_serve(pc, 0), -1);
	ipi(pc, 1, 0, APIC_DELIVERY_NMI | APIC_ICR_ASSERT);
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_NMI);
	pc_free(pc);
}

/* HAND C-06: SDM §10.6.1 and §10.12.9, broadcast and shorthands in both modes; all vCPUs are told
 * but the sender. */
static void test_broadcast(void **unused)
{
	(void)unused;
	for (unsigned x2 = 0; x2 < 2; x2++) {
		struct pc *pc = pc_new(4, GHZ);
		void (*send)(struct pc *, unsigned, uint32_t, uint32_t) = x2 ? ipi_x2 : ipi;
		uint32_t all = x2 ? UINT32_MAX : 0xff;

		pc_enable_all(pc);
		for (unsigned i = 0; x2 && i < 4; i++)
			pc_x2apic(pc, i);
		send(pc, 0, all, ICR_FIXED(0x40));
		assert_int_equal(pc->notified, 0xe);
		assert_int_equal(who_got(pc, 0x40), 0xf);
		send(pc, 1, 0, ICR_FIXED(0x41) | APIC_ICR_ALL);
		assert_int_equal(who_got(pc, 0x41), 0xf);
		send(pc, 2, 0, ICR_FIXED(0x42) | APIC_ICR_OTHERS);
		assert_int_equal(who_got(pc, 0x42), 0xb);
		send(pc, 3, 0, ICR_FIXED(0x43) | APIC_ICR_SELF);
		assert_int_equal(who_got(pc, 0x43), 0x8);
		send(pc, 3, 1, ICR_FIXED(0x44));
		assert_int_equal(who_got(pc, 0x44), 0x2);
		send(pc, 3, 77, ICR_FIXED(0x45)); /* nobody, and nothing breaks */
		assert_int_equal(who_got(pc, 0x45), 0);
		/* FFh is no broadcast for an x2APIC's ICR, but for MSIs and pins it is in both
		 * modes. */
		if (x2) {
			send(pc, 0, 0xff, ICR_FIXED(0x46));
			assert_int_equal(who_got(pc, 0x46), 0);
		}
		platform_msi(&pc->p, MSI | 0xff000, 0x47);
		assert_int_equal(who_got(pc, 0x47), 0xf);
		pc_free(pc);
	}
}

/* SDM §10.6.2.2 and §10.12.10.2: logical destinations, flat, cluster and x2APIC's. */
static void test_logical(void **unused)
{
	struct pc *pc = pc_new(20, GHZ);

	(void)unused;
	pc_enable_all(pc);
	for (unsigned i = 0; i < 4; i++)
		pc_set_apic(pc, i, APIC_REG_LDR, 1u << (24 + i) | 0x1234);
	assert_int_equal(pc_apic(pc, 3, APIC_REG_LDR), 0x08000000);
	ipi(pc, 0, 0x0a, ICR_FIXED(0x50) | APIC_ICR_LOGICAL);
	assert_int_equal(who_got(pc, 0x50), 0xa);
	for (unsigned i = 0; i < 4; i++) {
		pc_set_apic(pc, i, APIC_REG_DFR, 0);
		assert_int_equal(pc_apic(pc, i, APIC_REG_DFR), 0x0fffffff);
		pc_set_apic(pc, i, APIC_REG_LDR,
		        (i < 2 ? 0x10000000u : 0x20000000u) | 1u << (24 + i % 2));
	}
	ipi(pc, 0, 0x12, ICR_FIXED(0x51) | APIC_ICR_LOGICAL);
	assert_int_equal(who_got(pc, 0x51), 0x2);
	ipi(pc, 0, 0x23, ICR_FIXED(0x52) | APIC_ICR_LOGICAL);
	assert_int_equal(who_got(pc, 0x52), 0xc);
	ipi(pc, 0, 0xff, ICR_FIXED(0x53) | APIC_ICR_LOGICAL);
	assert_int_equal(who_got(pc, 0x53), 0xfffff);
	for (unsigned i = 0; i < 20; i++)
		pc_x2apic(pc, i);
	assert_int_equal(pc_rdmsr(pc, 18, MSR_X2APIC_BASE + APIC_REG_LDR), 0x10004);
	assert_int_equal(pc_rdmsr(pc, 18, MSR_X2APIC_BASE + APIC_REG_ID), 18);
	ipi_x2(pc, 0, 0x0001000c, ICR_FIXED(0x54) | APIC_ICR_LOGICAL);
	assert_int_equal(who_got(pc, 0x54), 0xc0000);
	ipi_x2(pc, 0, 0x00008001, ICR_FIXED(0x55) | APIC_ICR_LOGICAL);
	assert_int_equal(who_got(pc, 0x55), 0x8001);
	ipi_x2(pc, 0, UINT32_MAX, ICR_FIXED(0x56) | APIC_ICR_LOGICAL);
	assert_int_equal(who_got(pc, 0x56), 0xfffff);
	/* An MSI's physical destination is an x2APIC's id too. */
	platform_msi(&pc->p, MSI | 0x12000, 0x57);
	assert_int_equal(who_got(pc, 0x57), 1 << 18);
	pc_free(pc);
}

/* Bits 11:5 of an MSI's address extend its destination (KVM's and Hyper-V's 15-bit form): another
 * id, not this one. */
static void test_extended_destination(void **unused)
{
	struct pc *pc = pc_new(4, GHZ);

	(void)unused;
	pc_enable_all(pc);
	platform_msi(&pc->p, MSI | 0x02000 | 1 << 5, 0x58); /* id 258 */
	assert_int_equal(who_got(pc, 0x58), 0);
	platform_msi(&pc->p, MSI | 0xff000 | 1 << 5, 0x58); /* id 511: no broadcast */
	assert_int_equal(who_got(pc, 0x58), 0);
	platform_msi(&pc->p, MSI | 0x02000, 0x58);
	assert_int_equal(who_got(pc, 0x58), 4);
	pc_free(pc);
}

/* SDM §10.6.2.4: one of the targets, that with the lowest class; equals take turns; a disabled one
 * is never chosen. */
static void test_lowest_priority(void **unused)
{
	struct pc *pc = pc_new(4, GHZ);
	unsigned count[4] = {0};

	(void)unused;
	pc_enable_all(pc);
	for (unsigned i = 0; i < 4; i++)
		pc_set_apic(pc, i, APIC_REG_LDR, 1u << (24 + i));
	pc_set_apic(pc, 2, APIC_REG_SVR, 0xff);
	pc_set_apic(pc, 0, APIC_REG_TPR, 0x50);
	pc_set_apic(pc, 1, APIC_REG_TPR, 0x40);
	pc_set_apic(pc, 3, APIC_REG_TPR, 0x30);
	ipi(pc, 0, 0x0f, APIC_DELIVERY_LOWEST | ICR_FIXED(0x91) | APIC_ICR_LOGICAL);
	assert_int_equal(who_got(pc, 0x91), 8);
	for (unsigned i = 0; i < 4; i++)
		pc_set_apic(pc, i, APIC_REG_TPR, 0);
	for (unsigned n = 0; n < 300; n++) {
		uint64_t got;

		platform_msi(&pc->p, MSI | 0x0f000 | 4, 0x191); /* lowest priority, logical */
		got = who_got(pc, 0x91);
		assert_true(got != 0 && (got & (got - 1)) == 0);
		count[__builtin_ctzll(got)]++;
	}
	assert_int_equal(count[2], 0);
	for (unsigned i = 0; i < 4; i++)
		assert_true(i == 2 || count[i] >= 50);
	platform_msi(&pc->p, MSI | 0xff000 | 8, 0x92); /* redirection hint */
	assert_int_equal(__builtin_popcountll(who_got(pc, 0x92)), 1);
	pc_free(pc);
}

/* SDM §10.5.3: errors gather until ESR is written, raise the error LVT, and an illegal message goes
 * nowhere. */
static void test_errors(void **unused)
{
	struct pc *pc = pc_new(2, GHZ);

	(void)unused;
	pc_enable_all(pc);
	pc_set_apic(pc, 0, APIC_REG_LVT_ERROR, 0xf1);
	ipi(pc, 0, 1, ICR_FIXED(0x0f));
	assert_int_equal(pc_event(pc, 1), PLATFORM_EVENT_NONE);
	assert_int_equal(pc_serve(pc, 0), 0xf1);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_ESR), 0);
	pc_set_apic(pc, 0, APIC_REG_ESR, 0);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_ESR), 0x20);
	pc_set_apic(pc, 0, APIC_REG_ESR, 0);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_ESR), 0);
	platform_msi(&pc->p, MSI, 0x05);
	pc_apic(pc, 0, 0x3d); /* no such register */
	pc_set_apic(pc, 0, APIC_REG_ESR, 0);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_ESR), 0xc0);
	assert_int_equal(pc_serve(pc, 0), 0xf1);
	/* The error LVT's own vector is illegal: recorded, no endless round. */
	pc_set_apic(pc, 0, APIC_REG_LVT_ERROR, 0x03);
	pc_set_apic(pc, 0, APIC_REG_VERSION, 1);
	assert_int_equal(pc_serve(pc, 0), -1);
	pc_set_apic(pc, 0, APIC_REG_ESR, 0);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_ESR), 0x80);
	pc_free(pc);
}

/* SDM §10.12.1.2-3: registers that x2APIC lacks, reserved bits and directions are #GP; xAPIC mode
 * has no such MSRs. */
static void test_x2apic_rules(void **unused)
{
	static const struct {
		unsigned reg;
		uint64_t value;
	} refused[] = {
	        {APIC_REG_ID, 1},
	        {APIC_REG_VERSION, 1},
	        {APIC_REG_PPR, 0},
	        {APIC_REG_EOI, 1},
	        {APIC_REG_LDR, 1},
	        {APIC_REG_DFR, 0},
	        {APIC_REG_SVR, 0x2000},
	        {APIC_REG_ISR, 0},
	        {APIC_REG_ESR, 1},
	        {APIC_REG_TPR, 0x100},
	        {APIC_REG_ICR_HIGH, 0},
	        {APIC_REG_ICR, 1u << 13 | 0x40},
	        {APIC_REG_ICR, 1u << 17 | 0x40},
	        {APIC_REG_ICR, 1u << 20 | 0x40},
	        {APIC_REG_LVT_TIMER, 1u << 19},
	        {APIC_REG_LVT_ERROR, 0x700},
	        {APIC_REG_TIMER_CURRENT, 0},
	        {APIC_REG_TIMER_DIVIDE, 4},
	        {APIC_REG_TIMER_INITIAL, 1ull << 32},
	        {APIC_REG_SELF_IPI, 0x100},
	        {0x3d, 0},
	        {0x04, 0},
	};
	static const unsigned unreadable[] = {APIC_REG_EOI, APIC_REG_DFR, APIC_REG_APR,
	        APIC_REG_ICR_HIGH, APIC_REG_SELF_IPI, 0x00};
	struct pc *pc = pc_new(2, GHZ);
	uint64_t value = 0;

	(void)unused;
	pc_enable_all(pc);
	pc_refuse_wrmsr(pc, 0, MSR_X2APIC_BASE + APIC_REG_TPR, 0);
	assert_int_equal(
	        platform_rdmsr(&pc->p, 0, MSR_X2APIC_BASE + 2, &value, 0), PLATFORM_MSR_GP);
	assert_int_equal(platform_rdmsr(&pc->p, 0, MSR_EFER, &value, 0), PLATFORM_MSR_UNKNOWN);
	assert_int_equal(platform_wrmsr(&pc->p, 0, MSR_EFER, 0, 0), PLATFORM_MSR_UNKNOWN);
	pc_x2apic(pc, 0);
	for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		pc_refuse_wrmsr(pc, 0, MSR_X2APIC_BASE + refused[i].reg, refused[i].value);
	for (unsigned i = 0; i < sizeof(unreadable) / sizeof(unreadable[0]); i++)
		assert_int_equal(
		        platform_rdmsr(&pc->p, 0, MSR_X2APIC_BASE + unreadable[i], &value, 0),
		        PLATFORM_MSR_GP);
	assert_int_equal(
	        platform_rdmsr(&pc->p, 0, MSR_X2APIC_BASE + 0xff, &value, 0), PLATFORM_MSR_GP);
	pc_refuse_wrmsr(pc, 0, MSR_X2APIC_BASE + 0xff, 0);
	/* The page is nobody's now. */
	assert_int_equal(pc_load(pc, 0, APIC_BASE_DEFAULT + 0x20, 4), UINT32_MAX);
	pc_store(pc, 0, APIC_BASE_DEFAULT + (APIC_REG_TPR << 4), 4, 0x70);
	assert_int_equal(platform_get_tpr(&pc->p, 0), 0);
	pc_wrmsr(pc, 0, MSR_X2APIC_BASE + APIC_REG_SELF_IPI, 0x66);
	assert_int_equal(pc_take(pc, 0), 0x66);
	pc_wrmsr(pc, 0, MSR_X2APIC_BASE + APIC_REG_EOI, 0);
	assert_int_equal(pc->notified, 0);
	pc_wrmsr(pc, 0, MSR_X2APIC_BASE + APIC_REG_ICR,
	        0x100000000ull | ICR_FIXED(0x67) | APIC_ICR_BUSY);
	assert_int_equal(
	        pc_rdmsr(pc, 0, MSR_X2APIC_BASE + APIC_REG_ICR), 0x100000000ull | ICR_FIXED(0x67));
	assert_int_equal(pc_serve(pc, 1), 0x67); /* an xAPIC beside it */
	pc_free(pc);
}

/* SDM §10.12.5, figure 10-27: the allowed changes of IA32_APIC_BASE and what they leave. */
static void test_base_transitions(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);
	const uint64_t xapic = 0xfee00900, x2apic = 0xfee00d00, off = 0xfee00100;

	(void)unused;
	pc_enable_all(pc);
	pc_set_apic(pc, 0, APIC_REG_TPR, 0x20);
	pc_refuse_wrmsr(pc, 0, MSR_APIC_BASE, 0xfee00500); /* EXTD without EN */
	pc_refuse_wrmsr(pc, 0, MSR_APIC_BASE, xapic | 1);
	pc_refuse_wrmsr(pc, 0, MSR_APIC_BASE, xapic | 0x200);
	pc_refuse_wrmsr(pc, 0, MSR_APIC_BASE, xapic | 1ull << 40); /* beyond phys_bits */
	pc_refuse_wrmsr(pc, 0, MSR_APIC_BASE, xapic | 1ull << 63);
	pc_wrmsr(pc, 0, MSR_APIC_BASE, x2apic);
	assert_int_equal(pc_rdmsr(pc, 0, MSR_X2APIC_BASE + APIC_REG_TPR), 0x20); /* state is kept */
	pc_refuse_wrmsr(pc, 0, MSR_APIC_BASE, xapic);
	pc_refuse_wrmsr(pc, 0, MSR_APIC_BASE, 0xfee00500);
	pc_wrmsr(pc, 0, MSR_APIC_BASE, off);
	pc_refuse_wrmsr(pc, 0, MSR_APIC_BASE, x2apic);
	assert_int_equal(pc_load(pc, 0, APIC_BASE_DEFAULT + 0x20, 4), UINT32_MAX);
	platform_msi(&pc->p, MSI, 0x70);
	pc_wrmsr(pc, 0, MSR_APIC_BASE, xapic);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_SVR), 0xff); /* as after INIT */
	assert_int_equal(pc_apic(pc, 0, APIC_REG_TPR), 0);
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_NONE);
	pc_wrmsr(pc, 0, MSR_APIC_BASE, 0xd0000800); /* moved; the BSP bit is the machine's */
	assert_int_equal(pc_rdmsr(pc, 0, MSR_APIC_BASE), 0xd0000900);
	assert_int_equal(pc_load(pc, 0, 0xd0000030, 4), 0x01050014);
	pc_free(pc);
}

/* SDM §10.4.1: odd accesses of the page do no harm; bytes of a register can be read. */
static void test_odd_mmio(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);

	(void)unused;
	pc_enable_all(pc);
	assert_int_equal(pc_load(pc, 0, APIC_BASE_DEFAULT + 0x32, 1), 0x05);
	assert_int_equal(pc_load(pc, 0, APIC_BASE_DEFAULT + 0x30, 8), 0x01050014);
	assert_int_equal(pc_load(pc, 0, APIC_BASE_DEFAULT + 0x34, 4), 0);
	pc_store(pc, 0, APIC_BASE_DEFAULT + 0x80, 1, 0x70);
	pc_store(pc, 0, APIC_BASE_DEFAULT + 0x84, 4, 0x70);
	assert_int_equal(platform_get_tpr(&pc->p, 0), 0);
	pc_store(pc, 0, APIC_BASE_DEFAULT + 0xff0, 4, 1);
	pc_load(pc, 0, APIC_BASE_DEFAULT + 0xffc, 4);
	pc_free(pc);
}

/* SDM §10.5.4: a one-shot count reaches 0 and stays, each divider counts at its rate. */
static void test_one_shot(void **unused)
{
	static const struct {
		uint32_t code;
		unsigned divider;
	} dividers[] = {{0, 2}, {1, 4}, {2, 8}, {3, 16}, {8, 32}, {9, 64}, {10, 128}, {11, 1}};

	(void)unused;
	for (unsigned i = 0; i < 8; i++) {
		struct pc *pc = pc_new(1, 3 * GHZ);
		uint64_t length = 3ull * 1000 * dividers[i].divider; /* TSC ticks of 1000 counts */

		pc_enable_all(pc);
		pc->now = 12345 * 3;
		pc_set_apic(pc, 0, APIC_REG_TIMER_DIVIDE, dividers[i].code);
		pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x30);
		pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, 1000);
		assert_int_equal(platform_vcpu_deadline(&pc->p, 0), 12345 * 3 + length);
		pc->now += length / 4;
		assert_int_equal(pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), 750);
		pc_run_until(pc, 12345 * 3 + length - 1);
		assert_int_equal(pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), 1);
		assert_int_equal(pc_serve(pc, 0), -1);
		pc_run_until(pc, 12345 * 3 + length);
		assert_int_equal(pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), 0);
		assert_int_equal(pc_serve(pc, 0), 0x30);
		pc_run_until(pc, 12345 * 3 + 10 * length);
		assert_int_equal(pc_serve(pc, 0), -1);
		assert_int_equal(platform_vcpu_deadline(&pc->p, 0), PLATFORM_NEVER);
		pc_free(pc);
	}
}

/* Periodic: exact over a million periods at an odd TSC rate; a vCPU that was away gets one, not a
 * burst, and keeps the phase. */
static void test_periodic(void **unused)
{
	struct pc *pc = pc_new(1, 2893201733ull);
	uint64_t start, ticks = 0, tick_ns = 1000007;

	(void)unused;
	pc_enable_all(pc);
	pc->now = 777;
	start = timebase_count(&pc->p.lapic_clock, pc->now);
	pc_set_apic(pc, 0, APIC_REG_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_1);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x30 | APIC_LVT_TIMER_PERIODIC);
	pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, (uint32_t)tick_ns);
	for (unsigned n = 1; n <= 100000; n++) {
		uint64_t due = platform_vcpu_deadline(&pc->p, 0);

		assert_int_equal(due, timebase_when(&pc->p.lapic_clock, start + n * tick_ns));
		pc->now = due;
		platform_run_vcpu_timer(&pc->p, 0, due);
		if (pc_serve(pc, 0) == 0x30)
			ticks++;
	}
	assert_int_equal(ticks, 100000);
	/* Away for 1000.5 periods: one interrupt, the next at the old phase. */
	pc->now = timebase_when(&pc->p.lapic_clock, start + 101000 * tick_ns + tick_ns / 2);
	platform_run_vcpu_timer(&pc->p, 0, pc->now);
	assert_int_equal(pc_serve(pc, 0), 0x30);
	platform_run_vcpu_timer(&pc->p, 0, pc->now);
	assert_int_equal(pc_serve(pc, 0), -1);
	assert_in_range(pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), tick_ns / 2 - 1, tick_ns / 2 + 1);
	assert_int_equal(platform_vcpu_deadline(&pc->p, 0),
	        timebase_when(&pc->p.lapic_clock, start + 101001 * tick_ns));
	/* 100 days on it is still there. */
	pc->now = 8640000ull * 2893201733ull;
	platform_run_vcpu_timer(&pc->p, 0, pc->now);
	assert_int_equal(
	        (timebase_count(&pc->p.lapic_clock, platform_vcpu_deadline(&pc->p, 0)) - start) %
	                tick_ns,
	        0);
	pc_free(pc);
}

/* A period of 1 ns does not stop the world: the core is asked back 50,000 times a second at most.
 */
static void test_tiny_period(void **unused)
{
	struct pc *pc = pc_new(1, 2 * GHZ);

	(void)unused;
	pc_enable_all(pc);
	pc_set_apic(pc, 0, APIC_REG_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_1);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x30 | APIC_LVT_TIMER_PERIODIC);
	pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, 1);
	assert_in_range(pc_run_until(pc, 2 * GHZ), 40000, 50001);
	assert_int_equal(pc_serve(pc, 0), 0x30);
	pc_free(pc);
}

/* SDM §10.5.4.1: between one-shot and periodic the count goes on; masked it counts in silence; TDCR
 * changes only the rate. */
static void test_timer_changes(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);

	(void)unused;
	pc_enable_all(pc);
	pc_set_apic(pc, 0, APIC_REG_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_1);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x30 | APIC_LVT_TIMER_PERIODIC);
	pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, 100000);
	pc_run_until(pc, 250000);
	assert_int_equal(pc_serve(pc, 0), 0x30);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x30);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), 50000);
	pc_run_until(pc, 310000);
	assert_int_equal(pc_serve(pc, 0), 0x30);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), 0);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x30 | APIC_LVT_TIMER_PERIODIC);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), 0); /* it ran out: stays out */
	pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, 100000);
	pc->now += 40000;
	pc_set_apic(pc, 0, APIC_REG_TIMER_DIVIDE, 0); /* by 2 */
	assert_int_equal(pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), 60000);
	pc->now += 20000;
	assert_int_equal(pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), 50000);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x30 | APIC_LVT_MASKED);
	assert_int_equal(platform_vcpu_deadline(&pc->p, 0), PLATFORM_NEVER);
	pc->now += 1000000;
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x30);
	assert_int_equal(pc_serve(pc, 0), -1); /* it expired while masked */
	pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, 1000);
	pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, 0);
	assert_int_equal(platform_vcpu_deadline(&pc->p, 0), PLATFORM_NEVER);
	pc_free(pc);
}

/* SDM §10.5.4.1: TSC deadlines fire once, at once when past, 0 disarms; TMICT is dead then; a mode
 * change disarms. */
static void test_tsc_deadline(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);

	(void)unused;
	pc_enable_all(pc);
	pc->now = 5000;
	pc_wrmsr(pc, 0, MSR_TSC_DEADLINE, 9000); /* not in this mode: ignored */
	assert_int_equal(pc_rdmsr(pc, 0, MSR_TSC_DEADLINE), 0);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x31 | APIC_LVT_TIMER_TSC_DEADLINE);
	pc_set_apic(pc, 0, APIC_REG_TIMER_INITIAL, 1000);
	assert_int_equal(pc_apic(pc, 0, APIC_REG_TIMER_CURRENT), 0);
	assert_int_equal(platform_vcpu_deadline(&pc->p, 0), PLATFORM_NEVER);
	pc_wrmsr(pc, 0, MSR_TSC_DEADLINE, 9000);
	assert_int_equal(pc_rdmsr(pc, 0, MSR_TSC_DEADLINE), 9000);
	assert_int_equal(platform_vcpu_deadline(&pc->p, 0), 9000);
	pc_run_until(pc, 8999);
	assert_int_equal(pc_serve(pc, 0), -1);
	assert_int_equal(pc_run_until(pc, 9000), 1);
	assert_int_equal(pc_serve(pc, 0), 0x31);
	assert_int_equal(pc_rdmsr(pc, 0, MSR_TSC_DEADLINE), 0);
	pc_wrmsr(pc, 0, MSR_TSC_DEADLINE, 1);
	assert_int_equal(pc_serve(pc, 0), 0x31);
	pc_wrmsr(pc, 0, MSR_TSC_DEADLINE, 20000);
	pc_wrmsr(pc, 0, MSR_TSC_DEADLINE, 0);
	assert_int_equal(pc_run_until(pc, 30000), 0);
	pc_wrmsr(pc, 0, MSR_TSC_DEADLINE,
	        UINT64_MAX - 5); /* reads back, but the core is asked for no time that wraps */
	assert_true(pc_rdmsr(pc, 0, MSR_TSC_DEADLINE) == UINT64_MAX - 5);
	assert_true(platform_vcpu_deadline(&pc->p, 0) == PLATFORM_NEVER);
	pc_wrmsr(pc, 0, MSR_TSC_DEADLINE, 40000);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x31);
	pc_set_apic(pc, 0, APIC_REG_LVT_TIMER, 0x31 | APIC_LVT_TIMER_TSC_DEADLINE);
	assert_int_equal(pc_run_until(pc, 50000), 0);
	assert_int_equal(pc_serve(pc, 0), -1);
	pc_free(pc);
}

/* Two NMIs are kept (one in service, one latched), a third is lost; LINT1 and the wire follow the
 * LVT. */
static void test_nmi(void **unused)
{
	struct pc *pc = pc_new(2, GHZ);
	unsigned count = 0;

	(void)unused;
	pc_enable_all(pc);
	for (unsigned i = 0; i < 3; i++)
		ipi(pc, 1, 0, APIC_DELIVERY_NMI | APIC_ICR_ASSERT);
	assert_int_equal(pc->notified, 1);
	for (; pc_event(pc, 0) == PLATFORM_EVENT_NMI; count++)
		assert_int_equal(platform_accept(&pc->p, 0, PLATFORM_EVENT_NMI), 2);
	assert_int_equal(count, 2);
	pc_set_apic(pc, 0, APIC_REG_LVT_LINT1, APIC_DELIVERY_NMI | APIC_LVT_MASKED);
	platform_nmi(&pc->p, 0);
	assert_int_equal(pc_event(pc, 0), PLATFORM_EVENT_NONE);
	pc_set_apic(pc, 0, APIC_REG_LVT_LINT1, 0x77);
	platform_nmi(&pc->p, 0);
	assert_int_equal(pc_serve(pc, 0), 0x77);
	pc_wrmsr(pc, 1, MSR_APIC_BASE, 0xfee00000); /* off: the pin is the CPU's */
	platform_nmi(&pc->p, 1);
	assert_int_equal(pc_event(pc, 1), PLATFORM_EVENT_NMI);
	platform_nmi(&pc->p, 99);
	pc_free(pc);
}

/* PV EOI is offered for one edge in service and nothing else waiting (KVM's rule); PV IPI counts
 * who took it. */
static void test_paravirtual(void **unused)
{
	struct pc *pc = pc_new(3, GHZ);

	(void)unused;
	pc_enable_all(pc);
	assert_false(platform_pv_eoi_possible(&pc->p, 0));
	platform_msi(&pc->p, MSI, 0x50);
	assert_int_equal(pc_take(pc, 0), 0x50);
	assert_true(platform_pv_eoi_possible(&pc->p, 0));
	platform_msi(&pc->p, MSI, 0x60);
	assert_false(platform_pv_eoi_possible(&pc->p, 0));
	assert_int_equal(pc_take(pc, 0), 0x60);
	assert_false(platform_pv_eoi_possible(&pc->p, 0)); /* two in service */
	platform_eoi(&pc->p, 0);
	platform_eoi(&pc->p, 0);
	platform_msi(&pc->p, MSI, 0x8050); /* level */
	assert_int_equal(pc_take(pc, 0), 0x50);
	assert_false(platform_pv_eoi_possible(&pc->p, 0));
	platform_eoi(&pc->p, 0);
	pc->notified = 0;
	assert_int_equal(platform_pv_ipi(&pc->p, 6, 0, 0, 0x71), 2);
	assert_int_equal(pc->notified, 6);
	assert_int_equal(who_got(pc, 0x71), 6);
	assert_int_equal(platform_pv_ipi(&pc->p, 7, UINT64_MAX, 1, 0x72), 2);
	assert_int_equal(who_got(pc, 0x72), 6);
	assert_int_equal(platform_pv_ipi(&pc->p, 1, 1, UINT32_MAX, 0x72), 0);
	assert_int_equal(platform_pv_ipi(&pc->p, 1, 0, 2, APIC_DELIVERY_NMI), 1);
	assert_int_equal(pc_event(pc, 2), PLATFORM_EVENT_NMI);
	assert_true(platform_pv_ipi(&pc->p, 1, 0, 0, APIC_DELIVERY_INIT) < 0);
	assert_true(platform_pv_ipi(&pc->p, 1, 0, 0, 0x72 | APIC_ICR_LOGICAL) < 0);
	/* kvm-unit-tests' apic "PV IPIs testing": far ids and vector 0 are no error. */
	assert_int_equal(platform_pv_ipi(&pc->p, UINT32_MAX, 0, UINT32_MAX, 0), 0);
	assert_int_equal(platform_pv_ipi(&pc->p, 1, 0, 0, 0x0f), 0);
	platform_msi(&pc->p, 0xfed00000, 0x55); /* not where MSIs go */
	assert_int_equal(who_got(pc, 0x55), 0);
	pc_free(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_power_on),
	        cmocka_unit_test(test_priorities),
	        cmocka_unit_test(test_spurious_vector),
	        cmocka_unit_test(test_software_disable),
	        cmocka_unit_test(test_broadcast),
	        cmocka_unit_test(test_logical),
	        cmocka_unit_test(test_extended_destination),
	        cmocka_unit_test(test_lowest_priority),
	        cmocka_unit_test(test_errors),
	        cmocka_unit_test(test_x2apic_rules),
	        cmocka_unit_test(test_base_transitions),
	        cmocka_unit_test(test_odd_mmio),
	        cmocka_unit_test(test_one_shot),
	        cmocka_unit_test(test_periodic),
	        cmocka_unit_test(test_tiny_period),
	        cmocka_unit_test(test_timer_changes),
	        cmocka_unit_test(test_tsc_deadline),
	        cmocka_unit_test(test_nmi),
	        cmocka_unit_test(test_paravirtual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
