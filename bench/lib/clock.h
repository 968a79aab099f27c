/* SPDX-License-Identifier: BSD-2-Clause */
/* Time for those who measure. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_of(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_ns(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

static inline void sleep_s(double s)
{
	struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

	nanosleep(&t, NULL);
}
