/* SPDX-License-Identifier: BSD-2-Clause */
/* Interrupts from outside into the LAPICs, and what a vCPU takes next. */
#include "hyp/dev/platform_state.h"

#define KVM_EINVAL (-22)
#define MSI_PREFIX 0xfeeu

/* MSI address and data (SDM vol. 3 §10.11); address bits 11:5 extend the destination to 15 bits, as
 * Linux and KVM use them. */
void platform_msi(struct platform *p, uint64_t address, uint32_t data)
{
	struct lapic_message m = {
	        .dest = (uint32_t)(address >> 12 & 0xff) | (uint32_t)(address >> 5 & 0x7f) << 8,
	        .broadcast = 0xff,
	        .delivery = data & APIC_DELIVERY_MASK,
	        .vector = (uint8_t)data,
	        .logical = (address & 4) != 0,
	        .level = (data & APIC_LVT_LEVEL) != 0,
	        .lowest = (address & 8) != 0,
	};
	uint64_t fresh = 0;

	if ((uint32_t)address >> 20 != MSI_PREFIX)
		return; /* a write to something else */
	lapic_deliver(p, &m, &fresh);
	platform_notify(p, fresh, PLATFORM_NOBODY);
}

void platform_pin(struct platform *p, unsigned pin, unsigned source, bool high)
{
	if (pin >= IOAPIC_PINS || source >= PLATFORM_SOURCE_HPET)
		return;
	platform_lock(p);
	platform_drive(p, pin, source, high);
	platform_unlock(p, PLATFORM_NOBODY);
}

void platform_nmi(struct platform *p, unsigned vcpu)
{
	if (vcpu >= p->vcpus)
		return;
	if ((lapic_local(&p->lapic[vcpu], LAPIC_LVT_LINT1) & LAPIC_FRESH) != 0)
		platform_notify(p, 1ull << vcpu, PLATFORM_NOBODY);
}

int platform_pv_ipi(
        struct platform *p, uint64_t bitmap_low, uint64_t bitmap_high, uint32_t min, uint32_t icr)
{
	struct lapic_message m = {.delivery = icr & APIC_DELIVERY_MASK, .vector = (uint8_t)icr};
	uint64_t fresh = 0, targets, accepted;
	int count = 0;

	(void)bitmap_high; /* ids from min + 64: there are none */
	if ((icr & (APIC_ICR_LOGICAL | APIC_ICR_SHORTHAND_MASK)) != 0 ||
	        (m.delivery != APIC_DELIVERY_FIXED && m.delivery != APIC_DELIVERY_NMI))
		return KVM_EINVAL;
	targets = min < PLATFORM_MAX_VCPUS ? bitmap_low << min & lapic_all(p) : 0;
	accepted = lapic_deliver_to(p, targets, &m, &fresh);
	platform_notify(p, fresh, PLATFORM_NOBODY);
	for (; accepted != 0; accepted &= accepted - 1)
		count++;
	return count;
}

static bool has_extint(const struct platform *p, const struct lapic *l)
{
	return __atomic_load_n(&p->pic.output, __ATOMIC_ACQUIRE) && lapic_takes_extint(l);
}

enum platform_event platform_next_event(struct platform *p, unsigned vcpu, uint8_t *vector)
{
	const struct lapic *l = &p->lapic[vcpu];
	uint32_t events = __atomic_load_n(&l->events, __ATOMIC_ACQUIRE);
	int pending;

	if ((events & LAPIC_EVENT_INIT) != 0)
		return PLATFORM_EVENT_INIT;
	if (l->wait_sipi) {
		*vector = (uint8_t)(events >> LAPIC_EVENT_SIPI_SHIFT);
		return (events & LAPIC_EVENT_SIPI) != 0 ? PLATFORM_EVENT_SIPI : PLATFORM_EVENT_NONE;
	}
	if ((events & LAPIC_EVENT_NMI_MASK) != 0)
		return PLATFORM_EVENT_NMI;
	if (has_extint(p, l)) {
		platform_lock(p);
		*vector = pic_peek(&p->pic);
		platform_unlock(p, vcpu);
		return PLATFORM_EVENT_INTR;
	}
	pending = lapic_pending(l);
	if (pending < 0)
		return PLATFORM_EVENT_NONE;
	*vector = (uint8_t)pending;
	return PLATFORM_EVENT_INTR;
}

static void accept_init(struct lapic *l)
{
	/* A SIPI in the word came after the INIT (which wiped older ones): it stays. */
	__atomic_fetch_and(
	        &l->events, ~(LAPIC_EVENT_INIT | LAPIC_EVENT_NMI_MASK), __ATOMIC_ACQ_REL);
	lapic_init(l);
}

/* If an INIT came meanwhile, a SIPI in the word belongs to it and stays; the vCPU starts, and
 * starts again. */
static uint8_t accept_sipi(struct lapic *l)
{
	uint32_t old = LAPIC_LOAD(l->events);

	while ((old & LAPIC_EVENT_INIT) == 0 &&
	        !__atomic_compare_exchange_n(&l->events, &old, old & ~LAPIC_EVENT_SIPI, true,
	                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
	l->wait_sipi = false;
	return (uint8_t)(old >> LAPIC_EVENT_SIPI_SHIFT);
}

static void accept_nmi(struct lapic *l)
{
	uint32_t old = LAPIC_LOAD(l->events);

	while ((old & LAPIC_EVENT_NMI_MASK) != 0 &&
	        !__atomic_compare_exchange_n(&l->events, &old, old - (1u << LAPIC_EVENT_NMI_SHIFT),
	                true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
}

/* SDM vol. 3 §10.9: an interrupt that is gone by now gives the spurious vector, without an ISR bit.
 */
static uint8_t accept_interrupt(struct platform *p, struct lapic *l)
{
	uint8_t vector;
	int taken;

	if (has_extint(p, l)) {
		platform_lock(p);
		vector = pic_acknowledge(p);
		platform_unlock(p, l->id);
		return vector;
	}
	taken = lapic_take(l);
	return (uint8_t)(taken >= 0 ? (uint32_t)taken : l->svr & 0xff);
}

uint8_t platform_accept(struct platform *p, unsigned vcpu, enum platform_event event)
{
	struct lapic *l = &p->lapic[vcpu];

	switch (event) {
	case PLATFORM_EVENT_INIT: accept_init(l); return 0;
	case PLATFORM_EVENT_SIPI: return accept_sipi(l);
	case PLATFORM_EVENT_NMI: accept_nmi(l); return 2;
	case PLATFORM_EVENT_INTR: return accept_interrupt(p, l);
	default: return 0;
	}
}

/* CR8 is TPR's upper half; the lower one, which only the register shows, goes when CR8 is written
 * (SDM vol. 3 §10.8.6.1). */
void platform_set_tpr(struct platform *p, unsigned vcpu, unsigned cr8)
{
	struct lapic *l = &p->lapic[vcpu];

	if (l->tpr >> 4 != (cr8 & 15))
		LAPIC_STORE(l->tpr, (uint32_t)(cr8 & 15) << 4);
}

unsigned platform_get_tpr(const struct platform *p, unsigned vcpu)
{
	return p->lapic[vcpu].tpr >> 4;
}

unsigned platform_tpr_threshold(const struct platform *p, unsigned vcpu)
{
	const struct lapic *l = &p->lapic[vcpu];
	int irr = lapic_highest(l->irr), isr;

	if (irr < 0 || !lapic_is_on(l) || l->wait_sipi || (uint32_t)irr >> 4 > l->tpr >> 4)
		return 0;
	isr = lapic_highest(l->isr);
	return isr >= 0 && isr >> 4 >= irr >> 4 ? 0 : (unsigned)irr >> 4;
}

/* PV EOI is offered for edges only; one that turns out to be level is told to the IOAPIC all the
 * same, without its brake. */
void platform_eoi(struct platform *p, unsigned vcpu)
{
	struct lapic *l = &p->lapic[vcpu];
	int vector = lapic_end(l);

	if (vector < 0 || !lapic_is_level(l, (unsigned)vector))
		return;
	platform_lock(p);
	ioapic_eoi(p, (uint8_t)vector, 0);
	platform_unlock(p, vcpu);
}

bool platform_pv_eoi_possible(const struct platform *p, unsigned vcpu)
{
	const struct lapic *l = &p->lapic[vcpu];
	int vector = lapic_highest(l->isr);

	if (vector < 0 || lapic_is_level(l, (unsigned)vector) || lapic_highest(l->irr) >= 0)
		return false;
	for (unsigned i = 0; i < 4; i++)
		if ((l->isr[i] & ~(i == (unsigned)vector >> 6 ? 1ull << (vector & 63) : 0)) != 0)
			return false;
	return true;
}
