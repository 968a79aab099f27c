/* SPDX-License-Identifier: BSD-2-Clause */
/* The ACPI PM timer is the time base and nothing else: it cannot lose ticks (HAND C-01, C-02). */
#include "hyp/dev/pmtimer.h"
#include "hyp/dev/platform_state.h"

uint32_t pmtimer_count(const struct platform *p, uint64_t now)
{
	return (uint32_t)timebase_count(&p->pm_clock, now);
}

uint8_t pmtimer_read(struct platform *p, uint16_t port, uint64_t now)
{
	return (uint8_t)(pmtimer_count(p, now) >> (port - PLATFORM_PM_TIMER_PORT) * 8);
}
