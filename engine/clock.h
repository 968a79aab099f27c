/* SPDX-License-Identifier: BSD-2-Clause */
/* The engines' one clock: nothing sets it, and it starts anywhere. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t engine_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}
