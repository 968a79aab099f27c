/* SPDX-License-Identifier: BSD-2-Clause */
/* Filling the ring, taking answers, and checking what they say. */
#include "bench/ring/load.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STATUS_NOT_WRITTEN 0xee
#define TABLE_ENTRIES      3u

static uint64_t random_next(struct load *l)
{
	l->random ^= l->random << 13;
	l->random ^= l->random >> 7;
	l->random ^= l->random << 17;
	return l->random;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

/* Head, data, status: what does not change between requests is written here. */
static void slot_describe(struct load *l, unsigned i)
{
	struct load_slot *s = &l->slots[i];
	struct vring_desc *d = l->q->indirect ? s->table : &l->q->desc[i * l->heads_step];
	unsigned base = l->q->indirect ? 0 : i * l->heads_step;

	d[0] = (struct vring_desc){
	        front_gpa(l->front, s->head), 16, VRING_DESC_F_NEXT, (uint16_t)(base + 1)};
	d[1] = (struct vring_desc){
	        front_gpa(l->front, s->data), l->c.bytes, VRING_DESC_F_NEXT, (uint16_t)(base + 2)};
	d[2] = (struct vring_desc){front_gpa(l->front, s->status), 1, VRING_DESC_F_WRITE, 0};
	if (l->q->indirect)
		l->q->desc[i] = (struct vring_desc){front_gpa(l->front, d),
		        TABLE_ENTRIES * sizeof(*d), VRING_DESC_F_INDIRECT, 0};
}

static int slot_init(struct load *l, unsigned i)
{
	struct load_slot *s = &l->slots[i];

	s->head = front_alloc(l->front, sizeof(*s->head), 64);
	s->status = front_alloc(l->front, 1, 64);
	s->table = front_alloc(l->front, TABLE_ENTRIES * sizeof(*s->table), 64);
	s->data = front_alloc(l->front, l->c.bytes, 4096);
	if (!s->head || !s->status || !s->table || !s->data)
		return -1;
	slot_describe(l, i);
	l->free_slots[l->free_count++] = (uint16_t)i;
	return 0;
}

/* Needs: the front end is connected, so that the features are agreed. */
int load_init(struct load *l, struct front *f, unsigned queue, const struct load_config *c)
{
	memset(l, 0, sizeof(*l));
	l->front = f;
	l->q = &f->queues[queue];
	l->c = *c;
	l->random = c->seed * 0x9e3779b97f4a7c15ull + 1;
	l->heads_step = l->q->indirect ? 1 : TABLE_ENTRIES;
	l->slots = calloc(c->depth, sizeof(*l->slots));
	l->free_slots = calloc(c->depth, sizeof(*l->free_slots));
	if (c->verify) {
		l->version = calloc(c->block_count, sizeof(*l->version));
		l->is_block_busy = calloc(c->block_count, 1);
	}
	if (!l->slots || !l->free_slots || (c->verify && (!l->version || !l->is_block_busy)) ||
	        c->depth * l->heads_step > l->q->size) {
		snprintf(l->error, sizeof(l->error), "no memory, or too small a ring");
		return -1;
	}
	for (unsigned i = 0; i < c->depth; i++)
		if (slot_init(l, i)) {
			snprintf(l->error, sizeof(l->error), "guest memory is too small");
			return -1;
		}
	return 0;
}

void load_free(struct load *l)
{
	free(l->slots);
	free(l->free_slots);
	free(l->version);
	free(l->is_block_busy);
}

unsigned load_in_flight(const struct load *l)
{
	return l->c.depth - l->free_count;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* What stands in word k of a block in that version: tells stale, torn and misplaced data. */
static uint64_t word_of(uint64_t block, uint32_t version, unsigned k)
{
	return (block * 0x9e3779b97f4a7c15ull) ^ ((uint64_t)version << 32) ^ k;
}

static void data_fill(struct load *l, struct load_slot *s)
{
	uint32_t version = ++l->version[s->block - l->c.first_block];
	uint64_t *words = (uint64_t *)(void *)s->data;

	for (unsigned k = 0; k < l->c.bytes / 8; k++)
		words[k] = word_of(s->block, version, k);
}

static int data_check(struct load *l, uint64_t block, const uint8_t *data)
{
	uint32_t version = l->version[block - l->c.first_block];

	if (!version)
		return 0;
	for (unsigned k = 0; k < l->c.bytes / 8; k++) {
		uint64_t word;

		memcpy(&word, data + k * 8, 8);
		if (word == word_of(block, version, k))
			continue;
		snprintf(l->error, sizeof(l->error),
		        "block %llu version %u word %u: %016llx, not %016llx",
		        (unsigned long long)block, version, k, (unsigned long long)word,
		        (unsigned long long)word_of(block, version, k));
		return -1;
	}
	l->verified++;
	return 0;
}

int load_verify_file(struct load *l, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	uint8_t *data = malloc(l->c.bytes);

	if (fd < 0 || !data)
		rc = -1;
	for (uint64_t i = 0; i < l->c.block_count && !rc; i++) {
		uint64_t block = l->c.first_block + i;

		if (!l->version[i])
			continue;
		if (pread(fd, data, l->c.bytes, (off_t)(block * l->c.bytes)) != (ssize_t)l->c.bytes)
			rc = -1;
		else
			rc = data_check(l, block, data);
	}
	free(data);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint64_t block_next(struct load *l)
{
	uint64_t at;

	if (!l->c.is_sequential)
		return l->c.first_block + random_next(l) % l->c.block_count;
	at = l->next_block++;
	if (l->next_block == l->c.block_count)
		l->next_block = 0;
	return l->c.first_block + at;
}

static void slot_submit(struct load *l, unsigned i, uint64_t block)
{
	struct load_slot *s = &l->slots[i];
	struct vring_desc *d = l->q->indirect ? s->table : &l->q->desc[i * l->heads_step];

	s->block = block;
	s->is_write = l->c.read_percent < 100 && random_next(l) % 100 >= l->c.read_percent;
	s->is_busy = true;
	s->head->type = s->is_write ? VIRTIO_BLK_T_OUT : VIRTIO_BLK_T_IN;
	s->head->sector = block * (l->c.bytes / 512);
	*s->status = STATUS_NOT_WRITTEN;
	d[1].flags = (uint16_t)(VRING_DESC_F_NEXT | (s->is_write ? 0 : VRING_DESC_F_WRITE));
	if (l->c.verify) {
		l->is_block_busy[block - l->c.first_block] = 1;
		if (s->is_write)
			data_fill(l, s);
		else
			memset(s->data, 0xcc, l->c.bytes);
	}
	s->start_ns = clock_ns();
	queue_add(l->q, (uint16_t)(i * l->heads_step));
	l->submitted++;
}

void load_fill_to(struct load *l, unsigned depth)
{
	while (load_in_flight(l) < depth && (!l->limit || l->submitted < l->limit)) {
		uint64_t block = block_next(l);

		/* Two requests for one block at once have no order that could be checked. */
		if (l->c.verify && l->is_block_busy[block - l->c.first_block]) {
			if (l->c.block_count <= 2ull * l->c.depth)
				break;
			continue;
		}
		slot_submit(l, l->free_slots[--l->free_count], block);
	}
	queue_publish(l->q);
}

void load_fill(struct load *l)
{
	load_fill_to(l, l->c.depth);
}

static int answer_check(struct load *l, const struct vring_used_elem *e, uint64_t now_ns)
{
	unsigned i = e->id / l->heads_step;
	struct load_slot *s = &l->slots[i];

	if (e->id % l->heads_step || i >= l->c.depth || !s->is_busy) {
		snprintf(l->error, sizeof(l->error),
		        "queue %u: head %u came back, which is not in flight", l->q->index, e->id);
		return -1;
	}
	if (*s->status != VIRTIO_BLK_S_OK || e->len != (s->is_write ? 1 : l->c.bytes + 1)) {
		snprintf(l->error, sizeof(l->error), "%s of block %llu: status %u, used length %u",
		        s->is_write ? "write" : "read", (unsigned long long)s->block, *s->status,
		        e->len);
		return -1;
	}
	if (l->c.verify && !s->is_write && data_check(l, s->block, s->data))
		return -1;
	if (l->c.verify)
		l->is_block_busy[s->block - l->c.first_block] = 0;
	if (__atomic_load_n(&l->is_timed, __ATOMIC_RELAXED))
		hist_add(&l->latency, now_ns - s->start_ns);
	s->is_busy = false;
	l->free_slots[l->free_count++] = (uint16_t)i;
	l->done++;
	return 0;
}

int load_take(struct load *l)
{
	struct vring_used_elem e;
	uint64_t now_ns = 0;
	int count = 0;

	while (queue_take(l->q, &e)) {
		if (!count)
			now_ns = clock_ns();
		if (answer_check(l, &e, now_ns))
			return -1;
		count++;
	}
	return count;
}
