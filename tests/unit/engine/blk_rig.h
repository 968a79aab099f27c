/* SPDX-License-Identifier: BSD-2-Clause */
/* A disk with a guest's driver in front of it, for tests of the block engine. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/blk.h"
#include "tests/unit/engine/guest_ring.h"

#define RIG_FEATURES                                                                               \
	(VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC) | VIRTIO_BIT(VIRTIO_F_EVENT_IDX) |                     \
	        VIRTIO_BIT(VIRTIO_BLK_F_FLUSH) | VIRTIO_BIT(VIRTIO_BLK_F_DISCARD) |                \
	        VIRTIO_BIT(VIRTIO_BLK_F_WRITE_ZEROES))
#define RIG_WAIT_MS 20000

struct rig {
	char path[256];
	struct blk *blk;
	struct guest_mem mem;
	struct guest_ring ring;
	int kick_fd, call_fd;
	size_t head_at, status_at, data_at,
	        table_at; /* one slot a descriptor for head and status */
	size_t data_bytes;
	unsigned kicks;
	atomic_uint broken, logged;
	char last_log[512];
};

static inline void rig_call(void *owner, unsigned queue)
{
	struct rig *r = owner;
	uint64_t one = 1;

	(void)queue;
	if (write(r->call_fd, &one, sizeof(one)) < 0)
		abort();
}

static inline void rig_broken(void *owner, unsigned queue, const char *why)
{
	struct rig *r = owner;

	(void)queue;
	(void)why;
	atomic_fetch_add(&r->broken, 1);
}

static inline void rig_log(void *owner, const char *line)
{
	struct rig *r = owner;

	snprintf(r->last_log, sizeof(r->last_log), "%s", line);
	atomic_fetch_add(&r->logged, 1);
}

static inline struct blk_config rig_config(struct rig *r)
{
	return (struct blk_config){
	        .path = r->path,
	        .serial = "keel-serial-number-1",
	        .queue_count = 1,
	        .watch_ns = BLK_WATCH_NS,
	        .events = {r, rig_call, rig_broken, rig_log},
	};
}

/* A file of that size in the folder, each sector filled with its number. */
static inline void rig_file(struct rig *r, const char *folder, size_t sectors)
{
	uint32_t words[128];
	int fd;

	snprintf(r->path, sizeof(r->path), "%s/keel-test-disk-XXXXXX", folder);
	fd = mkstemp(r->path);
	if (fd < 0)
		abort();
	for (uint32_t i = 0; i < sectors; i++) {
		for (unsigned k = 0; k < 128; k++)
			words[k] = i;
		if (write(fd, words, 512) != 512)
			abort();
	}
	close(fd);
}

static inline int rig_start(
        struct rig *r, const struct blk_config *config, unsigned size, uint64_t features)
{
	struct engine_queue q = {0};
	char error[512];
	int rc = blk_open(&r->blk, config, error, sizeof(error));

	if (rc) {
		printf("    %s\n", error);
		return rc;
	}
	guest_mem_init(&r->mem, 8 << 20);
	guest_ring_init(&r->ring, &r->mem, size, features);
	r->head_at = guest_alloc(&r->mem, 16 * 1024, 16);
	r->status_at = guest_alloc(&r->mem, 1024, 1);
	r->table_at = guest_alloc(&r->mem, 1100 * 16, 16);
	r->data_bytes = 4 << 20;
	r->data_at = guest_alloc(&r->mem, r->data_bytes, 4096);
	r->kick_fd = eventfd(0, EFD_NONBLOCK);
	r->call_fd = eventfd(0, EFD_NONBLOCK);
	q.kick_fd = r->kick_fd;
	q.ring = guest_ring_config(&r->ring);
	return blk_queue_start(r->blk, &q);
}

static inline void rig_stop(struct rig *r)
{
	if (!r->blk)
		return;
	if (blk_queue_stop(r->blk, 0, RIG_WAIT_MS))
		abort();
	blk_close(r->blk);
	guest_ring_free(&r->ring);
	guest_mem_free(&r->mem);
	close(r->kick_fd);
	close(r->call_fd);
	r->blk = NULL;
}

static inline void rig_kick(struct rig *r)
{
	uint64_t one = 1;

	if (!guest_wants_kick(&r->ring))
		return;
	r->kicks++;
	if (write(r->kick_fd, &one, sizeof(one)) < 0)
		abort();
}

/* Waits as a driver does: asks for an interrupt, looks, sleeps. The head that came, or -2. */
static inline int rig_wait(struct rig *r, uint32_t *len)
{
	int head;

	for (;;) {
		struct pollfd p = {r->call_fd, POLLIN, 0};
		uint64_t count;

		if (guest_take(&r->ring, &head, len))
			return head;
		if (guest_want_call(&r->ring))
			continue;
		if (poll(&p, 1, RIG_WAIT_MS) != 1)
			return -2;
		if (read(r->call_fd, &count, sizeof(count)) < 0)
			continue;
	}
}

static inline uint8_t *rig_data(struct rig *r)
{
	return r->mem.arena + r->data_at;
}

static inline uint64_t rig_gpa(struct rig *r, size_t offset)
{
	return guest_gpa(r->data_at + offset);
}

static inline uint8_t *rig_status(struct rig *r)
{
	return r->mem.arena + r->status_at;
}

static inline void rig_head(struct rig *r, uint32_t type, uint64_t sector)
{
	struct virtio_blk_req_head head = {type, 0, sector};

	memcpy(r->mem.arena + r->head_at, &head, sizeof(head));
	*rig_status(r) = 0xee;
}

/* Head, the given data buffers, status; direct, or through the table. Returns the status, 0xee if
 * it was not written, -2 if nothing came. */
static inline int rig_do(struct rig *r, uint32_t type, uint64_t sector,
        const struct guest_buf *data, unsigned count, bool indirect, uint32_t *len)
{
	struct guest_buf bufs[1100];
	uint32_t ignored;
	int head;

	rig_head(r, type, sector);
	bufs[0] = (struct guest_buf){guest_gpa(r->head_at), 16, false};
	if (count)
		memcpy(&bufs[1], data, count * sizeof(*data));
	bufs[count + 1] = (struct guest_buf){guest_gpa(r->status_at), 1, true};
	head = indirect ? guest_add_indirect(&r->ring, r->table_at, bufs, count + 2)
	                : guest_add(&r->ring, bufs, count + 2);
	if (head < 0)
		return -3;
	rig_kick(r);
	if (rig_wait(r, len ? len : &ignored) != head)
		return -2;
	return *rig_status(r);
}

static inline int rig_rw(struct rig *r, uint32_t type, uint64_t sector, size_t at, uint32_t bytes)
{
	struct guest_buf buf = {rig_gpa(r, at), bytes, type == VIRTIO_BLK_T_IN};

	return rig_do(r, type, sector, &buf, 1, false, NULL);
}
