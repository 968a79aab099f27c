/* SPDX-License-Identifier: BSD-2-Clause */
/* How many requests and bytes a second a disk may take: two token buckets for all its queues. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/*
 * A bucket is one number, the time until which what was let through fills its rate (the virtual
 * time of the generic cell rate algorithm, ITU-T I.371 annex A). A request may start once that is
 * no more than a burst ahead of now, and moves it on by what it costs. So a disk that was idle may
 * begin with a burst at full speed; a request larger than the burst is let through, and those
 * behind it pay; lateness of a timer costs no throughput, and nothing polls.
 *
 * Fairness. A queue asks for the first of its waiting requests alone. So queues that want more than
 * there is take turns, whatever their depths; within a queue the order stays.
 */
#define BLK_THROTTLE_BURST_NS      100000000ull
#define BLK_THROTTLE_IOPS_MIN      1u
#define BLK_THROTTLE_BANDWIDTH_MIN 4096u

struct blk_throttle {
	uint64_t iops;      /* a second; 0: no limit */
	uint64_t bandwidth; /* bytes a second; 0: no limit */
	_Atomic uint64_t requests_until_ns;
	_Atomic uint64_t bytes_until_ns;
};

/* When a request of that many bytes may start, now_ns at the earliest. It is counted as started.
 * Times are of one clock of the caller's. */
uint64_t blk_throttle_take(struct blk_throttle *t, uint64_t now_ns, uint64_t bytes);
