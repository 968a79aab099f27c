/* SPDX-License-Identifier: BSD-2-Clause */
/* One local APIC (SDM vol. 3 ch. 10 in older prints, 11 in newer; APM 24593 ch. 16): its state, and
 * how messages reach it. */
#pragma once

#include "hw/apic.h"
#include "hyp/dev/platform.h"

/*
 * Essay: who may touch a LAPIC.
 *
 * A LAPIC belongs to the CPU on which its vCPU runs (or that looks after the vCPU while it sleeps).
 * Everybody else only posts: bits into irr (tmr before it, so that a level interrupt is never taken
 * for an edge), bits into events, error bits. The owner takes them out atomically. So IPIs, MSIs
 * and pins need no lock, and the owner's hot paths (EOI, ICR, timer, next event) have none.
 *
 * INIT and SIPI are latched in one word: a posted INIT wipes a SIPI posted before it, a SIPI keeps
 * its vector in the same word. The owner takes INIT first, then waits for SIPI, and drops no SIPI
 * that came after that INIT. So each INIT+SIPI pair gives one restart, and a SIPI to a vCPU that
 * does not wait is ignored (it stays in the word until the next INIT wipes it).
 *
 * Legend: (a) posted by any CPU, taken by the owner, atomic; (p) written by the owner, read by any
 * CPU, relaxed; (o) owner only.
 */

/* Words of struct lapic.events. */
#define LAPIC_EVENT_INIT (1u << 0)
#define LAPIC_EVENT_SIPI (1u << 1)
#define LAPIC_EVENT_NMI_SHIFT                                                                      \
	2u /* two bits: 0..2 NMIs, one in service and one latched (SDM vol. 3 "Handling Multiple   \
	      NMIs") */
#define LAPIC_EVENT_NMI_MASK    (3u << LAPIC_EVENT_NMI_SHIFT)
#define LAPIC_EVENT_SIPI_SHIFT  8u
#define LAPIC_EVENT_SIPI_VECTOR (0xffu << LAPIC_EVENT_SIPI_SHIFT)

enum lapic_lvt {
	LAPIC_LVT_TIMER,
	LAPIC_LVT_THERMAL,
	LAPIC_LVT_PERF,
	LAPIC_LVT_LINT0,
	LAPIC_LVT_LINT1,
	LAPIC_LVT_ERROR,
	LAPIC_LVT_COUNT,
};

/* Error status bits. */
#define LAPIC_ESR_SEND_ILLEGAL    (1u << 5)
#define LAPIC_ESR_RECEIVE_ILLEGAL (1u << 6)
#define LAPIC_ESR_REGISTER        (1u << 7)

struct lapic {
	_Alignas(64) uint64_t irr[4]; /* (a) */
	uint64_t tmr[4];              /* (a) */
	uint32_t events;              /* (a) LAPIC_EVENT_* */
	uint32_t esr_pending;         /* (a) LAPIC_ESR_* since the last write of ESR */

	_Alignas(64) uint64_t isr[4];  /* (p) */
	uint64_t base;                 /* (p) IA32_APIC_BASE */
	uint64_t deadline;             /* (p) guest TSC at which the timer must be run */
	uint32_t svr;                  /* (p) */
	uint32_t ldr;                  /* (p) */
	uint32_t dfr;                  /* (p) */
	uint32_t tpr;                  /* (p) */
	uint32_t lvt[LAPIC_LVT_COUNT]; /* (p) */

	uint32_t id;            /* constant */
	uint32_t esr;           /* (o) what a read gives */
	uint32_t icr_low;       /* (o) */
	uint32_t icr_high;      /* (o) */
	uint32_t timer_initial; /* (o) TMICT */
	uint32_t timer_divide;  /* (o) TDCR */
	uint64_t timer_start;   /* (o) count of the LAPIC clock at which the present period began */
	uint64_t timer_tsc;     /* (o) IA32_TSC_DEADLINE, 0: disarmed */
	bool timer_armed;       /* (o) one-shot or periodic count runs */
	bool wait_sipi;         /* (o) */
};

/* A message on the (imagined) APIC bus. */
struct lapic_message {
	uint32_t dest;
	uint32_t broadcast; /* the dest that means everybody: FFh, or FFFFFFFFh from an x2APIC's ICR
	                     */
	uint32_t delivery;  /* APIC_DELIVERY_* */
	uint8_t vector;
	bool logical;
	bool level;  /* goes to TMR: EOI is told to the IOAPIC */
	bool lowest; /* redirection hint of an MSI: one of the targets */
};

#define LAPIC_ACCEPTED (1u << 0) /* a LAPIC took it */
#define LAPIC_FRESH    (1u << 1) /* and it was not there before: notify */

#define LAPIC_LOAD(field)         __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define LAPIC_STORE(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

static inline bool lapic_is_on(const struct lapic *l)
{
	return (LAPIC_LOAD(l->base) & (1u << 11)) != 0;
}

static inline bool lapic_is_x2apic(const struct lapic *l)
{
	return (LAPIC_LOAD(l->base) & (3u << 10)) == (3u << 10);
}

/* lapic.c: registers. */
void lapic_reset(struct lapic *l, uint32_t id);
void lapic_init(struct lapic *l); /* what INIT leaves: mode and id stay */
bool lapic_mmio(struct platform *p, unsigned vcpu, uint32_t offset, unsigned size, bool write,
        uint64_t *value, uint64_t now);
enum platform_msr_result lapic_rdmsr(
        struct platform *p, unsigned vcpu, uint32_t msr, uint64_t *value, uint64_t now);
enum platform_msr_result lapic_wrmsr(
        struct platform *p, unsigned vcpu, uint32_t msr, uint64_t value, uint64_t now);

/* lapic_irq.c: messages in, interrupts out. */
uint64_t lapic_deliver(struct platform *p, const struct lapic_message *m, uint64_t *fresh);
uint64_t lapic_deliver_to(
        struct platform *p, uint64_t targets, const struct lapic_message *m, uint64_t *fresh);
uint64_t lapic_all(const struct platform *p); /* those that are enabled in IA32_APIC_BASE */
unsigned lapic_local(struct lapic *l,
        enum lapic_lvt which); /* a local source raised its line: LAPIC_ACCEPTED | LAPIC_FRESH */
unsigned lapic_post(struct lapic *l, uint8_t vector, bool level);
unsigned lapic_post_nmi(struct lapic *l);
void lapic_error(struct lapic *l, uint32_t bit);
bool lapic_takes_extint(const struct lapic *l); /* would the 8259's INTR reach the CPU */
uint32_t lapic_ppr(const struct lapic *l);
int lapic_highest(const uint64_t *words); /* highest bit set of 256, or -1 */
int lapic_pending(const struct lapic *l); /* vector above PPR, or -1 */
int lapic_take(struct lapic *l);          /* moves it from IRR to ISR */
int lapic_end(struct lapic *l);           /* clears the highest ISR bit: its vector, or -1 */
bool lapic_is_level(const struct lapic *l, unsigned vector);

/* lapic_timer.c. */
uint32_t lapic_timer_current(const struct platform *p, const struct lapic *l, uint64_t now);
void lapic_timer_write_initial(struct platform *p, struct lapic *l, uint32_t value, uint64_t now);
void lapic_timer_write_divide(struct platform *p, struct lapic *l, uint32_t value, uint64_t now);
void lapic_timer_write_lvt(struct platform *p, struct lapic *l, uint32_t value, uint64_t now);
void lapic_timer_write_tsc(struct platform *p, struct lapic *l, uint64_t value, uint64_t now);
uint64_t lapic_timer_read_tsc(const struct lapic *l, uint64_t now);
void lapic_timer_rearm(struct platform *p, struct lapic *l, uint64_t now);
void lapic_timer_run(struct platform *p, struct lapic *l, uint64_t now);
