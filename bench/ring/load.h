/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests that one queue is kept busy with, and whether the right data comes back. */
#pragma once

#include <linux/virtio_blk.h>

#include "bench/lib/clock.h"
#include "bench/lib/hist.h"
#include "bench/ring/front.h"

struct load_config {
	unsigned depth;
	uint32_t bytes; /* of each request, a multiple of 512 */
	unsigned read_percent;
	bool is_sequential;
	bool verify;          /* every byte read is compared with what was last written there */
	uint64_t first_block; /* blocks are of `bytes`; this queue alone uses these */
	uint64_t block_count;
	uint64_t seed;
};

struct load_slot {
	struct virtio_blk_outhdr *head;
	uint8_t *status;
	uint8_t *data;
	struct vring_desc *table; /* with indirect descriptors */
	uint64_t block;
	uint64_t start_ns;
	bool is_busy;
	bool is_write;
};

struct load {
	struct front *front;
	struct queue *q;
	struct load_config c;
	struct load_slot *slots; /* by the number in the head: depth of them */
	uint16_t *free_slots;
	unsigned free_count;
	unsigned heads_step; /* descriptors of the ring that a request takes */
	uint64_t random, next_block;
	uint32_t *version; /* of each block, 0: not written by us; with verify */
	uint8_t *is_block_busy;
	uint64_t done, verified;
	uint64_t limit; /* stop submitting after so many; 0: never */
	uint64_t submitted;
	bool is_timed; /* set by another thread: latencies count from now */
	struct hist latency;
	char error[256];
};

/* Takes its memory from the front end's. -1: too little. */
int load_init(struct load *l, struct front *f, unsigned queue, const struct load_config *c);
void load_free(struct load *l);
/* Adds requests up to the depth; published, and the device kicked. */
void load_fill(struct load *l);
/* The same, up to so many in flight. */
void load_fill_to(struct load *l, unsigned depth);
/* Takes and checks all answers. How many, or -1 with l->error set. */
int load_take(struct load *l);
unsigned load_in_flight(const struct load *l);
/* Compares the storage itself with what was written. Needs: verify, nothing in flight. */
int load_verify_file(struct load *l, const char *path);
