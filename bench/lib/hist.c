/* SPDX-License-Identifier: BSD-2-Clause */
/* Buckets: the power of two, and the six bits after its first. */
#include "bench/lib/hist.h"

static unsigned bucket_of(uint64_t ns)
{
	unsigned log, i;

	if (ns < HIST_SUB)
		return (unsigned)ns;
	log = 63u - (unsigned)__builtin_clzll(ns) - 6u;
	i = (log + 1) * HIST_SUB + (unsigned)((ns >> log) & (HIST_SUB - 1));
	return i < HIST_BUCKETS ? i : HIST_BUCKETS - 1;
}

static double middle_of(unsigned bucket)
{
	unsigned log = bucket / HIST_SUB;

	if (!log)
		return bucket;
	return ((double)(HIST_SUB + bucket % HIST_SUB) + 0.5) * (double)(1ull << (log - 1));
}

void hist_add(struct hist *h, uint64_t ns)
{
	h->count++;
	h->sum_ns += ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->buckets[bucket_of(ns)]++;
}

void hist_merge(struct hist *to, const struct hist *from)
{
	to->count += from->count;
	to->sum_ns += from->sum_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
}

double hist_quantile_us(const struct hist *h, double part)
{
	uint64_t want = (uint64_t)(part * (double)h->count), seen = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen > want)
			return middle_of(i) / 1000;
	}
	return (double)h->max_ns / 1000;
}
