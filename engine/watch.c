/* SPDX-License-Identifier: BSD-2-Clause */
/* The watcher's token, and the memory of whether watching paid. */
#include "engine/watch.h"

#include <stdatomic.h>

#define SCORE_MAX 8u
#define SCORE_HIT 2u
/* Where it did not pay, one chance in so many tries whether it does now. */
#define PROBE 32u

static atomic_flag taken = ATOMIC_FLAG_INIT;

bool watch_enter(struct watch *watch)
{
	if (!watch->score && ++watch->skips % PROBE)
		return false;
	return !atomic_flag_test_and_set_explicit(&taken, memory_order_acquire);
}

void watch_leave(struct watch *watch, bool found_work)
{
	atomic_flag_clear_explicit(&taken, memory_order_release);
	if (found_work)
		watch->score = watch->score + SCORE_HIT > SCORE_MAX ? SCORE_MAX
		                                                    : watch->score + SCORE_HIT;
	else if (watch->score)
		watch->score--;
}
