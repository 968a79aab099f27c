/* SPDX-License-Identifier: BSD-2-Clause */
/* From TSC to a clock's count and back, by one multiplication and one shift each, exact over any
 * time. */
#pragma once

#include "lib/muldiv.h"

/*
 * Essay: why no clock drifts.
 *
 * A clock of R ticks a second beside a TSC of T is, at TSC value t, at count floor(t * R / T),
 * always from the common base t = 0. R / T is held as mult / 2^shift with a mult of 64 significant
 * bits, rounded up, so the count is never less than the exact one, exact on tick edges, and too
 * large by at most count * 2^-63, which stays under a millionth of a tick for a century at 1 GHz.
 * Nothing is ever added up, so nothing is ever lost: how often a clock is read does not matter. The
 * way back (when does the clock reach a count) uses the inverse ratio as a first guess and then
 * asks the forward ratio, so that a timer is due exactly when the clock that the guest reads gets
 * there, not a TSC tick earlier or later.
 */
struct timebase {
	uint64_t mult;
	uint64_t inverse_mult;
	uint8_t shift;
	uint8_t inverse_shift;
};

/* Needs: both rates from 1 to 2^40. */
void timebase_init(struct timebase *t, uint64_t clock_hz, uint64_t tsc_hz);

static inline uint64_t timebase_count(const struct timebase *t, uint64_t tsc)
{
	return muldiv_mul_shift(tsc, t->mult, t->shift);
}

/* The first TSC value at which timebase_count gives at least count; UINT64_MAX if there is none. */
uint64_t timebase_when(const struct timebase *t, uint64_t count);
