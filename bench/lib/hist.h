/* SPDX-License-Identifier: BSD-2-Clause */
/* A histogram of times with buckets 1.6 % wide. */
#pragma once

#include <stdint.h>

#define HIST_SUB     64u
#define HIST_BUCKETS (40u * HIST_SUB)

struct hist {
	uint64_t count, sum_ns, max_ns;
	uint32_t buckets[HIST_BUCKETS];
};

void hist_add(struct hist *h, uint64_t ns);
void hist_merge(struct hist *to, const struct hist *from);
/* The time that this part (0 to 1) of all stay within. */
double hist_quantile_us(const struct hist *h, double part);
