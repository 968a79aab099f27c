/* SPDX-License-Identifier: BSD-2-Clause */
/* What the loads of keel-load share: the clock, the order to stop, and what each of them saw. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern atomic_bool over; /* set by SIGTERM: each load ends what it has begun and returns */

/* What a load saw; printed as JSON. The longest operation is the stall that its user felt. */
struct seen {
	uint64_t records, checked, bad, errors;
	uint64_t packets, doubled,
	        late; /* of datagrams: these may be lost and doubled, records not */
	uint64_t longest_ns;
};

/* Runs until `over`, and then verifies. argv: what stands behind the load's name. */
typedef void load_fn(int argc, char **argv, struct seen *seen);

load_fn load_idle, load_records, load_verify, load_fsync, load_send, load_receive, load_storm;
load_fn load_hear;

uint64_t now_ns(void);
void sleep_ns(uint64_t ns);
/* Keeps the time since start_ns if it is the longest. */
void seen_time(struct seen *seen, uint64_t start_ns);
/* Adds what a thread of the load saw. */
void seen_add(struct seen *to, const struct seen *from);
/* Counts an error and says which, on standard error, the first few times. */
void seen_error(struct seen *seen, const char *what);
/* The same for a record that is not what was written. */
void seen_bad(struct seen *seen, const char *what, uint64_t number);
/* Ends the program with a line; for what has to work before any event. */
_Noreturn void give_up(const char *what);

/* Words that follow from a seed; returns their sum, which also covers the seed. */
uint64_t pattern_fill(uint64_t *words, size_t count, uint64_t seed);
uint64_t random_next(uint64_t *state);
