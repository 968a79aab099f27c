/* SPDX-License-Identifier: BSD-2-Clause */
/* The real-time clock and CMOS memory (MC146818A), ports 70h and 71h. */
#pragma once

#include "hyp/dev/platform.h"

#define RTC_HZ         32768u
#define RTC_CMOS_BYTES 128u

/* Everything under the platform's lock. Counts are of the 32768 Hz clock since TSC 0. */
struct rtc {
	int64_t base_s;       /* time of day (seconds since 1970) at count base_count */
	int64_t base_count;   /* start of a second; may lie before 0 */
	int64_t wall_clock_s; /* at guest TSC 0, as configured */
	uint64_t seen_count;  /* up to where flags were worked out */
	uint64_t deadline;    /* TSC of the next interrupt; PLATFORM_NEVER */
	uint8_t index;
	uint8_t cmos[RTC_CMOS_BYTES]; /* alarm, A, B, C and memory; the time bytes only while the
	                                 clock is held */
};

/* Sizes of RAM go to the memory bytes. keep: a reset, not a power-on; time as set and memory stay.
 */
void rtc_reset(struct platform *p, const struct platform_config *config, bool keep);
uint8_t rtc_read(struct platform *p, uint16_t port, uint64_t now);
void rtc_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now);
void rtc_run(struct platform *p, uint64_t now);
