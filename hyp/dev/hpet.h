/* SPDX-License-Identifier: BSD-2-Clause */
/* The HPET (IA-PC HPET 1.0a): a 64-bit counter of 100 MHz and three timers, periodic or not, with
 * legacy replacement. */
#pragma once

#include "hyp/dev/platform.h"

#define HPET_HZ        100000000u
#define HPET_PERIOD_FS 10000000u /* 1e15 / HPET_HZ, without a rest */
#define HPET_TIMERS    3u
_Static_assert(
        (uint64_t)HPET_HZ *HPET_PERIOD_FS == 1000000000000000ull, "HPET's rate and period match");

/* Everything under the platform's lock. */
struct hpet_timer {
	uint64_t config;
	uint64_t comparator;
	uint64_t period;
	uint64_t match;    /* count of the HPET's clock since TSC 0 at which it fires next;
	                      PLATFORM_NEVER */
	uint64_t deadline; /* the same as TSC */
	uint8_t pin;       /* the pin it holds high, if pin_high */
	bool pin_high;
};

struct hpet {
	uint64_t config;
	uint64_t status;
	uint64_t counter; /* while disabled: the count; while enabled: the count at clock 0 (modulo
	                     2^64) */
	struct hpet_timer timer[HPET_TIMERS];
};

void hpet_reset(struct hpet *h);
uint64_t hpet_read(struct platform *p, uint32_t offset, unsigned size, uint64_t now);
void hpet_write(struct platform *p, uint32_t offset, unsigned size, uint64_t value, uint64_t now);
bool hpet_is_legacy(const struct hpet *h); /* timers 0 and 1 have taken over from PIT and RTC */
void hpet_run(struct platform *p, uint64_t now);
uint64_t hpet_deadline(const struct hpet *h);
