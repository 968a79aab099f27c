/* SPDX-License-Identifier: BSD-2-Clause */
/* The arithmetic of a disk's rate limits (blk_throttle.h). */
#include "engine/blk_throttle.h"

#define NS_PER_SECOND 1000000000ull

static uint64_t bucket_take(_Atomic uint64_t *until_ns, uint64_t now_ns, uint64_t cost_ns)
{
	uint64_t old = atomic_load_explicit(until_ns, memory_order_relaxed), next;

	do
		next = (old > now_ns ? old : now_ns) + cost_ns;
	while (!atomic_compare_exchange_weak_explicit(
	        until_ns, &old, next, memory_order_relaxed, memory_order_relaxed));
	return old > now_ns + BLK_THROTTLE_BURST_NS ? old - BLK_THROTTLE_BURST_NS : now_ns;
}

uint64_t blk_throttle_take(struct blk_throttle *t, uint64_t now_ns, uint64_t bytes)
{
	uint64_t start = now_ns, other;

	if (t->iops)
		start = bucket_take(&t->requests_until_ns, now_ns, NS_PER_SECOND / t->iops);
	if (!t->bandwidth || !bytes)
		return start;
	/* At most 4 GiB in a request: no overflow. */
	other = bucket_take(&t->bytes_until_ns, now_ns, bytes * NS_PER_SECOND / t->bandwidth);
	return other > start ? other : start;
}
