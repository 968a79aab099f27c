/* SPDX-License-Identifier: BSD-2-Clause */
/* How messages reach LAPICs, from any CPU and without a lock, and how the owner takes them out. */
#include "hyp/dev/lapic.h"
#include "hyp/dev/platform_state.h"

#define VECTOR_FIRST 16u /* below: illegal in a message (SDM vol. 3 §10.5.2) */

int lapic_highest(const uint64_t *words)
{
	for (unsigned i = 4; i-- > 0;) {
		uint64_t word = LAPIC_LOAD(words[i]);

		if (word != 0)
			return (int)(i * 64) + 63 - __builtin_clzll(word);
	}
	return -1;
}

bool lapic_is_level(const struct lapic *l, unsigned vector)
{
	return (LAPIC_LOAD(l->tmr[vector >> 6]) >> (vector & 63) & 1) != 0;
}

static void set_trigger(struct lapic *l, uint8_t vector, bool level)
{
	uint64_t bit = 1ull << (vector & 63);
	uint64_t *word = &l->tmr[vector >> 6];

	if (level == lapic_is_level(l, vector))
		return;
	if (level)
		__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED);
}

unsigned lapic_post(struct lapic *l, uint8_t vector, bool level)
{
	uint64_t bit = 1ull << (vector & 63);
	uint64_t old;

	set_trigger(l, vector, level);
	/* Release: whoever sees the bit sees its trigger mode. */
	old = __atomic_fetch_or(&l->irr[vector >> 6], bit, __ATOMIC_ACQ_REL);
	return (old & bit) != 0 ? LAPIC_ACCEPTED : LAPIC_ACCEPTED | LAPIC_FRESH;
}

unsigned lapic_post_nmi(struct lapic *l)
{
	uint32_t old = LAPIC_LOAD(l->events), new;

	do {
		if (((old & LAPIC_EVENT_NMI_MASK) >> LAPIC_EVENT_NMI_SHIFT) == 2)
			return LAPIC_ACCEPTED;
		new = old + (1u << LAPIC_EVENT_NMI_SHIFT);
	} while (!__atomic_compare_exchange_n(
	        &l->events, &old, new, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return LAPIC_ACCEPTED | LAPIC_FRESH;
}

static unsigned post_event(struct lapic *l, uint32_t clear, uint32_t set)
{
	uint32_t old = LAPIC_LOAD(l->events);

	while (!__atomic_compare_exchange_n(
	        &l->events, &old, (old & ~clear) | set, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
	return LAPIC_ACCEPTED | LAPIC_FRESH;
}

/* SDM vol. 3 §10.5.3: an error whose own LVT entry has an illegal vector is only recorded. */
void lapic_error(struct lapic *l, uint32_t bit)
{
	uint32_t lvt = LAPIC_LOAD(l->lvt[LAPIC_LVT_ERROR]);
	uint8_t vector = (uint8_t)(lvt & APIC_LVT_VECTOR_MASK);

	__atomic_fetch_or(&l->esr_pending, bit, __ATOMIC_RELAXED);
	if ((lvt & APIC_LVT_MASKED) == 0 && vector >= VECTOR_FIRST)
		lapic_post(l, vector, false);
}

/* NMI, INIT and SIPI pass a LAPIC that software disabled in SVR; fixed interrupts do not (SDM vol.
 * 3 §10.4.7.2). */
static unsigned accept(struct lapic *l, uint32_t delivery, uint8_t vector, bool level)
{
	switch (delivery) {
	case APIC_DELIVERY_FIXED:
	case APIC_DELIVERY_LOWEST:
		if ((LAPIC_LOAD(l->svr) & APIC_SVR_ENABLE) == 0)
			return 0;
		if (vector < VECTOR_FIRST) {
			lapic_error(l, LAPIC_ESR_RECEIVE_ILLEGAL);
			return LAPIC_FRESH;
		}
		return lapic_post(l, vector, level);
	case APIC_DELIVERY_NMI: return lapic_post_nmi(l);
	case APIC_DELIVERY_INIT: return post_event(l, LAPIC_EVENT_SIPI, LAPIC_EVENT_INIT);
	case APIC_DELIVERY_SIPI:
		return post_event(l, LAPIC_EVENT_SIPI_VECTOR,
		        LAPIC_EVENT_SIPI | (uint32_t)vector << LAPIC_EVENT_SIPI_SHIFT);
	default: return 0; /* SMI: no SMM here. ExtINT: the 8259s' INTR goes by its wire. */
	}
}

unsigned lapic_local(struct lapic *l, enum lapic_lvt which)
{
	uint32_t lvt = LAPIC_LOAD(l->lvt[which]);
	uint32_t delivery = lvt & APIC_DELIVERY_MASK;

	if (!lapic_is_on(l))
		/* Without a LAPIC the pins are the CPU's INTR and NMI (SDM vol. 3 §10.4.3). */
		return which == LAPIC_LVT_LINT1   ? lapic_post_nmi(l)
		       : which == LAPIC_LVT_LINT0 ? LAPIC_FRESH
		                                  : 0;
	if ((lvt & APIC_LVT_MASKED) != 0)
		return 0;
	if (which == LAPIC_LVT_TIMER || which == LAPIC_LVT_ERROR)
		delivery = APIC_DELIVERY_FIXED;
	if (delivery == APIC_DELIVERY_EXTINT)
		return which == LAPIC_LVT_LINT0 ? LAPIC_FRESH : 0;
	if (delivery == APIC_DELIVERY_LOWEST || delivery == APIC_DELIVERY_SIPI)
		return 0; /* not possible in an LVT entry */
	return accept(l, delivery, (uint8_t)(lvt & APIC_LVT_VECTOR_MASK), false);
}

bool lapic_takes_extint(const struct lapic *l)
{
	uint32_t lvt = LAPIC_LOAD(l->lvt[LAPIC_LVT_LINT0]);

	return !lapic_is_on(l) ||
	       (lvt & (APIC_LVT_MASKED | APIC_DELIVERY_MASK)) == APIC_DELIVERY_EXTINT;
}

static bool is_target(const struct lapic *l, const struct lapic_message *m)
{
	uint32_t ldr = LAPIC_LOAD(l->ldr), mine;

	if (!lapic_is_on(l))
		return false;
	if (m->dest == m->broadcast)
		return true;
	if (!m->logical)
		return m->dest == l->id;
	if (lapic_is_x2apic(l))
		return ldr >> 16 == m->dest >> 16 && (ldr & m->dest & 0xffff) != 0;
	mine = ldr >> 24;
	if (m->dest > 0xff)
		return false;
	if (LAPIC_LOAD(l->dfr) >> 28 == 0xf)
		return (mine & m->dest) != 0;
	return mine >> 4 == m->dest >> 4 && (mine & m->dest & 0xf) != 0;
}

static uint64_t find_targets(struct platform *p, const struct lapic_message *m)
{
	uint64_t mask = 0;

	if (!m->logical && m->dest != m->broadcast)
		return m->dest < p->vcpus && is_target(&p->lapic[m->dest], m) ? 1ull << m->dest : 0;
	for (unsigned i = 0; i < p->vcpus; i++)
		if (is_target(&p->lapic[i], m))
			mask |= 1ull << i;
	return mask;
}

uint64_t lapic_all(const struct platform *p)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < p->vcpus; i++)
		if (lapic_is_on(&p->lapic[i]))
			mask |= 1ull << i;
	return mask;
}

/* The arbitration priority: the highest class of TPR, ISR and IRR (SDM vol. 3 §10.6.2.4). */
static unsigned arbitration_class(const struct lapic *l)
{
	unsigned class = LAPIC_LOAD(l->tpr) >> 4;
	int isr = lapic_highest(l->isr), irr = lapic_highest(l->irr);

	if (isr >= 0 && (unsigned)isr >> 4 > class)
		class = (unsigned)isr >> 4;
	if (irr >= 0 && (unsigned)irr >> 4 > class)
		class = (unsigned)irr >> 4;
	return class;
}

/* One of the targets; equals take turns. */
static uint64_t arbitrate(struct platform *p, uint64_t targets)
{
	unsigned start, best = 0, best_class = ~0u;

	if ((targets & (targets - 1)) == 0)
		return targets;
	start = __atomic_fetch_add(&p->arbiter, 1u, __ATOMIC_RELAXED) % p->vcpus;
	for (unsigned n = 0, i = start; n < p->vcpus; n++, i = i + 1 == p->vcpus ? 0 : i + 1) {
		const struct lapic *l = &p->lapic[i];
		unsigned class;

		if ((targets >> i & 1) == 0 || (LAPIC_LOAD(l->svr) & APIC_SVR_ENABLE) == 0)
			continue;
		class = arbitration_class(l);
		if (class < best_class) {
			best = i;
			best_class = class;
		}
	}
	return best_class == ~0u ? 0 : 1ull << best;
}

uint64_t lapic_deliver_to(
        struct platform *p, uint64_t targets, const struct lapic_message *m, uint64_t *fresh)
{
	uint64_t accepted = 0;

	if (m->delivery == APIC_DELIVERY_LOWEST ||
	        (m->lowest && m->delivery == APIC_DELIVERY_FIXED))
		targets = arbitrate(p, targets);
	for (; targets != 0; targets &= targets - 1) {
		unsigned i = (unsigned)__builtin_ctzll(targets);
		unsigned result = accept(&p->lapic[i], m->delivery, m->vector, m->level);

		if ((result & LAPIC_ACCEPTED) != 0)
			accepted |= 1ull << i;
		if ((result & LAPIC_FRESH) != 0)
			*fresh |= 1ull << i;
	}
	return accepted;
}

uint64_t lapic_deliver(struct platform *p, const struct lapic_message *m, uint64_t *fresh)
{
	return lapic_deliver_to(p, find_targets(p, m), m, fresh);
}

/* SDM vol. 3 §10.8.3.1: TPR if its class is at least that of the highest interrupt in service, else
 * that class. */
uint32_t lapic_ppr(const struct lapic *l)
{
	uint32_t tpr = LAPIC_LOAD(l->tpr);
	int isr = lapic_highest(l->isr);
	uint32_t class = isr < 0 ? 0 : (uint32_t)isr & 0xf0;

	return (tpr & 0xf0) >= class ? tpr : class;
}

int lapic_pending(const struct lapic *l)
{
	int irr = lapic_highest(l->irr);

	if (irr < 0 || !lapic_is_on(l))
		return -1;
	return (uint32_t)irr >> 4 > lapic_ppr(l) >> 4 ? irr : -1;
}

int lapic_take(struct lapic *l)
{
	int vector = lapic_pending(l);
	unsigned word = (unsigned)vector >> 6;

	if (vector < 0)
		return -1;
	__atomic_fetch_and(&l->irr[word], ~(1ull << (vector & 63)), __ATOMIC_ACQ_REL);
	LAPIC_STORE(l->isr[word], l->isr[word] | 1ull << (vector & 63));
	return vector;
}

int lapic_end(struct lapic *l)
{
	int vector = lapic_highest(l->isr);
	unsigned word = (unsigned)vector >> 6;

	if (vector >= 0)
		LAPIC_STORE(l->isr[word], l->isr[word] & ~(1ull << (vector & 63)));
	return vector;
}
