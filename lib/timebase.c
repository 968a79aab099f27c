/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets up a clock's ratio to the TSC and finds the TSC value at which a count is reached. */
#include "lib/timebase.h"

/* to / from as mult / 2^shift, mult in [2^63, 2^64), rounded up: long division, one bit a turn,
 * under 110 turns for rates to 2^40. */
static void find_ratio(uint64_t to, uint64_t from, uint64_t *mult, uint8_t *shift)
{
	uint64_t quotient = to / from, rest = to % from;
	uint8_t bits = 0;

	while ((quotient >> 63) == 0 && bits < 127) {
		rest <<= 1;
		quotient <<= 1;
		if (rest >= from) {
			rest -= from;
			quotient |= 1;
		}
		bits++;
	}
	if (rest != 0 && ++quotient == 0) {
		quotient = 1ull << 63;
		bits--;
	}
	*mult = quotient;
	*shift = bits;
}

void timebase_init(struct timebase *t, uint64_t clock_hz, uint64_t tsc_hz)
{
	find_ratio(clock_hz, tsc_hz, &t->mult, &t->shift);
	find_ratio(tsc_hz, clock_hz, &t->inverse_mult, &t->inverse_shift);
}

uint64_t timebase_when(const struct timebase *t, uint64_t count)
{
	uint64_t tsc = muldiv_mul_shift(count, t->inverse_mult, t->inverse_shift);

	if (tsc >= UINT64_MAX - 4)
		return UINT64_MAX;
	/* Never too late: the inverse times count is under the next whole TSC tick. Too early by
	 * the part that was cut off. */
	for (unsigned i = 0; i < 4 && timebase_count(t, tsc) < count; i++)
		tsc++;
	return tsc;
}
