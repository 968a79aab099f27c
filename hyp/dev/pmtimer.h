/* SPDX-License-Identifier: BSD-2-Clause */
/* The ACPI PM timer (ACPI 6.4 §4.8.3.3): 32 bits at PLATFORM_PM_TIMER_PORT. It has no state but the
 * time base. */
#pragma once

#include "hyp/dev/platform.h"

#define PM_TIMER_HZ 3579545u

uint32_t pmtimer_count(const struct platform *p, uint64_t now);
uint8_t pmtimer_read(struct platform *p, uint16_t port, uint64_t now);
