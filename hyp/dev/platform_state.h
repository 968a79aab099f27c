/* SPDX-License-Identifier: BSD-2-Clause */
/* struct platform itself: the devices of one VM, their lock, and what they may ask of each other.
 */
#pragma once

#include "hyp/dev/hpet.h"
#include "hyp/dev/ioapic.h"
#include "hyp/dev/kbc.h"
#include "hyp/dev/lapic.h"
#include "hyp/dev/pic.h"
#include "hyp/dev/pit.h"
#include "hyp/dev/platform.h"
#include "hyp/dev/pmtimer.h"
#include "hyp/dev/reset.h"
#include "hyp/dev/rtc.h"
#include "hyp/dev/uart.h"
#include "lib/spinlock.h"
#include "lib/timebase.h"

/* No periodic timer is run more often than this: what comes faster is merged, as on a busy PC. */
#define PLATFORM_PERIODIC_MAX_HZ 50000u

/* What was found to do under the lock and is done after it: callbacks may come back into the
 * platform. */
struct platform_work {
	uint64_t notify;
	bool reset;
	bool console_ready;
};

/* Legend: (c) constant after platform_init, (l) under lock, (a) atomic, (d) each device's or
 * LAPIC's own legend. */
struct platform {
	const struct platform_ops *ops; /* (c) */
	void *ctx;                      /* (c) */
	unsigned vcpus;                 /* (c) */
	unsigned phys_bits;             /* (c) */
	uint64_t tsc_hz;                /* (c) */
	uint64_t min_period_tsc;        /* (c) TSC ticks of 1 / PLATFORM_PERIODIC_MAX_HZ */
	struct timebase lapic_clock;    /* (c) */
	struct timebase pit_clock;      /* (c) */
	struct timebase pm_clock;       /* (c) */
	struct timebase hpet_clock;     /* (c) */
	struct timebase rtc_clock;      /* (c) */

	struct spinlock lock;
	struct platform_work work; /* (l) */
	uint32_t reset_cause;      /* (l) enum platform_reset_cause; not NONE: asked already */
	uint64_t shared_deadline;  /* (a) written under lock */
	uint32_t arbiter;          /* (a) where the search for the lowest priority begins */

	struct ioapic ioapic;                   /* (d) */
	struct pic pic;                         /* (d) */
	struct pit pit;                         /* (d) */
	struct hpet hpet;                       /* (d) */
	struct rtc rtc;                         /* (d) */
	struct uart uart;                       /* (d) */
	struct kbc kbc;                         /* (d) */
	struct reset reset;                     /* (d) */
	struct lapic lapic[PLATFORM_MAX_VCPUS]; /* (d) */
};

/* What lies decades ahead is never: so the core may add its offset to a deadline without a wrap,
 * whatever a guest asked for. */
static inline uint64_t platform_clamp_deadline(uint64_t tsc)
{
	return tsc > INT64_MAX ? PLATFORM_NEVER : tsc;
}

#define PLATFORM_NOBODY PLATFORM_MAX_VCPUS /* no vCPU is the cause */

void platform_lock(struct platform *p);
/* Works out the next shared deadline, lets go, then calls back. self: the vCPU whose access it is;
 * it looks by itself. */
void platform_unlock(struct platform *p, unsigned self);
void platform_notify(struct platform *p, uint64_t mask, unsigned self);

/* For devices, under the lock. A pin's wire goes to the IOAPIC and, for ISA interrupts, to the
 * 8259s. */
#define PLATFORM_PIN_PIT      2u
#define PLATFORM_PIN_KEYBOARD 1u
#define PLATFORM_PIN_UART     4u
#define PLATFORM_PIN_RTC      8u
#define PLATFORM_SOURCE_OWN   0u
#define PLATFORM_SOURCE_HPET  4u /* + timer */
#define PLATFORM_SOURCES      7u
void platform_drive(struct platform *p, unsigned pin, unsigned source, bool high);
void platform_pulse(struct platform *p, unsigned pin, unsigned source);
void platform_request_reset(struct platform *p, enum platform_reset_cause cause);
void platform_set_intr(struct platform *p, bool high); /* the 8259s' INTR changed */
