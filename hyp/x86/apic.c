/* SPDX-License-Identifier: BSD-2-Clause */
/* The local APIC of each CPU: x2APIC registers where it is in that mode, else its page in the
 * direct map. */
#include "hyp/x86/internal.h"

#include "hw/apic.h"
#include "hw/msr.h"
#include "lib/cmdline.h"
#include "lib/muldiv.h"
#include "lib/string.h"

#define CPUID_1_ECX_X2APIC       (1u << 21)
#define CPUID_1_ECX_TSC_DEADLINE (1u << 24)
#define ICR_POLLS_MAX            100000u

bool apic_is_x2apic;
uint64_t apic_timer_hz;
static bool has_deadline; /* (c) */

static volatile uint32_t *mmio(uint32_t reg)
{
	return hpa_to_virt(HPA(APIC_BASE_DEFAULT + (reg << 4)));
}

uint32_t apic_read(uint32_t reg)
{
	if (percpu()->x2apic)
		return (uint32_t)msr_read(MSR_X2APIC_BASE + reg);
	return *mmio(reg);
}

void apic_write(uint32_t reg, uint32_t value)
{
	if (percpu()->x2apic)
		msr_write(MSR_X2APIC_BASE + reg, value);
	else
		*mmio(reg) = value;
}

void apic_eoi(void)
{
	apic_write(APIC_REG_EOI, 0);
}

uint32_t apic_id(void)
{
	uint32_t id = apic_read(APIC_REG_ID);

	return percpu()->x2apic ? id : id >> 24;
}

static void icr_wait_idle(void)
{
	for (unsigned i = 0; i < ICR_POLLS_MAX && *mmio(APIC_REG_ICR) & APIC_ICR_BUSY; i++)
		cpu_pause();
}

void apic_icr_write(uint64_t icr)
{
	uint32_t high;

	if (percpu()->x2apic) {
		/* The x2APIC write is not serializing (SDM vol. 3 §11.12.3): stores before it must
		 * be seen first. */
		__asm__ volatile("mfence; lfence" : : : "memory");
		msr_write(MSR_X2APIC_BASE + APIC_REG_ICR, icr);
		return;
	}
	/* Root may be between its writes of the two halves: it finds its upper half again. */
	icr_wait_idle();
	high = *mmio(APIC_REG_ICR_HIGH);
	*mmio(APIC_REG_ICR_HIGH) = (uint32_t)(icr >> 32) << 24;
	*mmio(APIC_REG_ICR) = (uint32_t)icr;
	icr_wait_idle();
	*mmio(APIC_REG_ICR_HIGH) = high;
}

void apic_send_init(uint32_t id)
{
	apic_icr_write((uint64_t)id << 32 | APIC_DELIVERY_INIT | APIC_ICR_ASSERT | APIC_ICR_LEVEL);
	apic_icr_write((uint64_t)id << 32 | APIC_DELIVERY_INIT | APIC_ICR_LEVEL);
}

void apic_send_sipi(uint32_t id, uint8_t page)
{
	apic_icr_write((uint64_t)id << 32 | APIC_DELIVERY_SIPI | APIC_ICR_ASSERT | page);
}

/* Longer than an emulated CPU is kept from running between two instructions. */
#define KICK_OVERDUE_MS 5

bool cpu_loses_events;

static void send_kick(struct percpu *p)
{
	__atomic_store_n(&p->kick_tsc, tsc_now(), __ATOMIC_RELAXED);
	apic_icr_write((uint64_t)p->apic_id << 32 | APIC_DELIVERY_NMI | APIC_ICR_ASSERT);
}

/* Its NMI is not on its way any more: the CPU has lost it. */
static bool is_overdue(const struct percpu *p)
{
	return cpu_loses_events && tsc_now() - __atomic_load_n(&p->kick_tsc, __ATOMIC_RELAXED) >
	                                   tsc_hz / 1000 * KICK_OVERDUE_MS;
}

void cpu_kick(unsigned index)
{
	struct percpu *p = percpu_of(index);

	__atomic_add_fetch(&p->kicks_under_way, 1, __ATOMIC_SEQ_CST);
	/* pairs with who clears it */
	if (__atomic_exchange_n(&p->kick_pending, 1, __ATOMIC_SEQ_CST) == 0 || is_overdue(p))
		send_kick(p);
	__atomic_sub_fetch(&p->kicks_under_way, 1, __ATOMIC_SEQ_CST);
}

void cpu_kick_self_surely(void)
{
	struct percpu *p = percpu();

	/* Who set it before us has sent its NMI or will in a moment; after that nobody sends one,
	 * so ours and that are one. */
	if (__atomic_exchange_n(&p->kick_pending, 1, __ATOMIC_SEQ_CST) != 0)
		while (__atomic_load_n(&p->kicks_under_way, __ATOMIC_SEQ_CST) != 0)
			cpu_pause();
	send_kick(p);
}

void cpu_kick_find_lost(void)
{
	const struct percpu *p = percpu();

	if (__atomic_load_n(&p->kick_pending, __ATOMIC_ACQUIRE) && is_overdue(p))
		cpu_kick_self_surely();
}

bool apic_base_write(uint64_t value)
{
	bool down = percpu()->x2apic && !(value & APIC_BASE_X2APIC);

	if (down && !msr_write_safe(MSR_APIC_BASE,
	                    value & ~(uint64_t)(APIC_BASE_ENABLE | APIC_BASE_X2APIC)))
		return false;
	if (!msr_write_safe(MSR_APIC_BASE, value))
		return false;
	percpu()->x2apic = (value & APIC_BASE_X2APIC) != 0;
	if (down)
		apic_write(APIC_REG_SVR, APIC_SVR_ENABLE | HYP_TIMER_VECTOR);
	return true;
}

void apic_init_boot(const char *cmdline)
{
	char text[8] = "";
	bool off = cmdline_find(cmdline, "x2apic", text, sizeof(text)) >= 0 && !strcmp(text, "off");

	/* Firmware that turned it on has a reason (APIC ids above 255), and there is no easy way
	 * back. */
	apic_is_x2apic = (msr_read(MSR_APIC_BASE) & APIC_BASE_X2APIC) ||
	                 (!off && cpuid(1, 0).ecx & CPUID_1_ECX_X2APIC);
	has_deadline = cpuid(1, 0).ecx & CPUID_1_ECX_TSC_DEADLINE;
	apic_init_cpu();
}

void apic_init_cpu(void)
{
	uint64_t base = msr_read(MSR_APIC_BASE);
	uint64_t mode = APIC_BASE_ENABLE | (apic_is_x2apic ? APIC_BASE_X2APIC : 0);

	if (!apic_base_write(APIC_BASE_DEFAULT | (base & APIC_BASE_BSP) | mode))
		panic("the local APIC cannot be turned on");
	apic_write(APIC_REG_SVR, APIC_SVR_ENABLE | HYP_TIMER_VECTOR);
	apic_write(APIC_REG_LVT_TIMER, APIC_LVT_MASKED);
	percpu()->apic_id = apic_id();
}

void apic_timer_free_run(void)
{
	apic_write(APIC_REG_LVT_TIMER, APIC_LVT_MASKED);
	apic_write(APIC_REG_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_1);
	apic_write(APIC_REG_TIMER_INITIAL, UINT32_MAX);
}

static void arm_count(uint64_t deadline_tsc, uint8_t vector)
{
	uint64_t now = tsc_now();
	uint64_t ticks = 1;

	if (deadline_tsc > now)
		ticks += muldiv_u64(deadline_tsc - now, apic_timer_hz, tsc_hz);
	if (ticks > UINT32_MAX)
		ticks = UINT32_MAX; /* early: the caller finds nothing due and arms again */
	apic_write(APIC_REG_LVT_TIMER, vector);
	apic_write(APIC_REG_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_1);
	apic_write(APIC_REG_TIMER_INITIAL, (uint32_t)ticks);
}

void apic_timer_arm(uint64_t deadline_tsc, uint8_t vector)
{
	percpu()->timer_deadline_tsc = deadline_tsc;
	if (!has_deadline) {
		arm_count(deadline_tsc, vector);
		return;
	}
	apic_write(APIC_REG_LVT_TIMER, vector | APIC_LVT_TIMER_TSC_DEADLINE);
	/* SDM vol. 3 §11.5.4.1: the LVT's write by memory must come before the MSR's. */
	__asm__ volatile("mfence" : : : "memory");
	msr_write(MSR_TSC_DEADLINE, deadline_tsc ? deadline_tsc : 1);
}

void apic_timer_stop(void)
{
	percpu()->timer_deadline_tsc = UINT64_MAX;
	if (has_deadline)
		msr_write(MSR_TSC_DEADLINE, 0);
	apic_write(APIC_REG_LVT_TIMER, APIC_LVT_MASKED);
	if (!has_deadline)
		apic_write(APIC_REG_TIMER_INITIAL, 0);
}
