/* SPDX-License-Identifier: BSD-2-Clause */
/* Verified load for a disk: random reads and writes of 4 KiB, in patterns that tell stale, torn and
 * misplaced data. */
#pragma once

#include "tests/unit/engine/blk_rig.h"

#define LOAD_DEPTH  40u
#define LOAD_BLOCKS 1024u

struct load {
	uint32_t random;
	unsigned in_flight, next_slot;
	bool slot_busy[LOAD_DEPTH], slot_write[LOAD_DEPTH];
	unsigned slot_block[LOAD_DEPTH];
	unsigned slot_of[1024]; /* by head */
	bool block_busy[LOAD_BLOCKS];
	uint32_t version[LOAD_BLOCKS]; /* the word that fills it; 0: as rig_file made it */
};

static inline uint32_t load_random(struct load *l)
{
	l->random = l->random * 1664525u + 1013904223u;
	return l->random >> 8;
}

static inline uint32_t load_word(const struct load *l, unsigned block, unsigned k)
{
	return l->version[block] ? l->version[block] : block * 8 + k / 128;
}

/* Adds one request, without a kick. False: it drew a block or slot that is busy, or the ring is
 * full. */
static inline bool load_submit(struct load *l, struct rig *r)
{
	unsigned block = load_random(l) % LOAD_BLOCKS, slot = l->next_slot++ % LOAD_DEPTH;
	bool write = load_random(l) & 1;
	struct virtio_blk_req_head req = {
	        write ? VIRTIO_BLK_T_OUT : VIRTIO_BLK_T_IN, 0, block * 8ull};
	uint8_t *data = rig_data(r) + slot * 4096;
	struct guest_buf bufs[3] = {{guest_gpa(r->head_at + slot * 16), 16, false},
	        {rig_gpa(r, slot * 4096), 4096, !write}, {guest_gpa(r->status_at + slot), 1, true}};
	int head;

	if (l->slot_busy[slot] || l->block_busy[block] || r->ring.free_count < 3)
		return false;
	memcpy(r->mem.arena + r->head_at + slot * 16, &req, sizeof(req));
	r->mem.arena[r->status_at + slot] = 0xee;
	memset(data, 0xcc, 4096);
	if (write)
		l->version[block] = load_random(l) << 10 | block;
	for (unsigned k = 0; write && k < 1024; k++)
		memcpy(data + k * 4, &l->version[block], 4);
	head = guest_add(&r->ring, bufs, 3);
	l->slot_of[head] = slot;
	l->slot_block[slot] = block;
	l->slot_write[slot] = write;
	l->slot_busy[slot] = l->block_busy[block] = true;
	l->in_flight++;
	return true;
}

/* Checks the answer to a request. */
static inline void load_complete(struct load *l, struct rig *r, int head)
{
	unsigned slot, block;

	assert_true(head >= 0);
	slot = l->slot_of[head];
	block = l->slot_block[slot];
	assert_true(l->slot_busy[slot]);
	assert_int_equal(r->mem.arena[r->status_at + slot], VIRTIO_BLK_S_OK);
	for (unsigned k = 0; k < 1024 && !l->slot_write[slot]; k++) {
		uint32_t word;

		memcpy(&word, rig_data(r) + slot * 4096 + k * 4, 4);
		assert_int_equal(word, load_word(l, block, k));
	}
	l->slot_busy[slot] = l->block_busy[block] = false;
	l->in_flight--;
}

/* Compares the storage itself with what was written. Needs: nothing in flight. */
static inline void load_verify_file(const struct load *l, const char *path)
{
	int fd = open(path, O_RDONLY);
	uint32_t words[1024];

	for (unsigned block = 0; block < LOAD_BLOCKS; block++) {
		assert_int_equal(pread(fd, words, 4096, (off_t)block * 4096), 4096);
		for (unsigned k = 0; k < 1024; k++)
			assert_int_equal(words[k], load_word(l, block, k));
	}
	close(fd);
}
