/* SPDX-License-Identifier: BSD-2-Clause */
/* A guest that rewrites its requests while they are read (C-14), and many queues at once. */
/* sources: engine/blk.c engine/blk_file.c engine/blk_settled.c engine/blk_req.c */
/* sources: engine/blk_io.c engine/blk_queue.c engine/blk_ring.c */
/* sources: engine/blk_held.c engine/blk_throttle.c engine/blk_poll.c */
/* sources: engine/blk_workers.c engine/blk_probe.c */
/* sources: engine/watch.c engine/vring.c engine/memtable.c engine/iov.c */
/* libs: -luring */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>

#include "tests/unit/engine/blk_load.h"

#define REQUESTS 100000u
#define QUEUES   4u

struct flipper {
	struct rig *r;
	atomic_bool stop;
};

/* Turns a read of sector 8 into other things and back: never one whose mix would be in bounds. */
static void *flip(void *arg)
{
	struct flipper *p = arg;
	struct rig *r = p->r;
	volatile struct virtio_blk_req_head *head = (void *)(r->mem.arena + r->head_at);
	volatile struct virtq_desc *desc = ring_desc(&r->ring);

	for (uint32_t n = 0; !atomic_load(&p->stop); n++) {
		head->type = n & 1 ? VIRTIO_BLK_T_IN : n & 64 ? VIRTIO_BLK_T_DISCARD : 0x55;
		head->sector = n & 2 ? 8 : UINT64_MAX - 3;
		for (unsigned i = 0; i < r->ring.size; i++) {
			if (desc[i].len == 512 || desc[i].len == 0x7fffffff)
				desc[i].len = n & 4 ? 512 : 0x7fffffff;
			if (desc[i].len == 1 || desc[i].len == 0xffffffff)
				desc[i].len = n & 8 ? 1 : 0xffffffff;
		}
	}
	return NULL;
}

static void test_rewritten_requests(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct flipper p = {.r = r};
	struct blk_stats s;
	struct blk_config c;
	pthread_t thread;
	uint8_t sector[512];
	uint32_t len;
	int fd;

	(void)state;
	rig_file(r, "/var/tmp", 1024);
	c = rig_config(r);
	assert_int_equal(rig_start(r, &c, 16, RIG_FEATURES), 0);
	rig_head(r, VIRTIO_BLK_T_IN, 8);
	pthread_create(&thread, NULL, flip, &p);
	for (unsigned done = 0, begun = 0; done < REQUESTS;) {
		struct guest_buf bufs[3] = {{guest_gpa(r->head_at), 16, false},
		        {rig_gpa(r, 0), 512, true}, {guest_gpa(r->status_at), 1, true}};

		while (begun < REQUESTS && guest_add(&r->ring, bufs, 3) >= 0)
			begun++;
		rig_kick(r);
		assert_true(rig_wait(r, &len) >= 0);
		done++;
	}
	atomic_store(&p.stop, true);
	pthread_join(thread, NULL);
	blk_stats_read(r->blk, &s);
	print_message("    %lu read, %lu discarded, %lu errors, %lu without a status\n",
	        s.requests[BLK_READ], s.requests[BLK_DISCARD], s.errors, s.bad_chains);
	assert_int_equal(
	        s.requests[BLK_READ] + s.requests[BLK_DISCARD] + s.errors + s.bad_chains, REQUESTS);
	assert_true(s.requests[BLK_READ] && s.errors && s.bad_chains);
	assert_int_equal(atomic_load(&r->broken), 0);
	/* Only whole valid requests had an effect; a write was never among them. */
	assert_int_equal(s.requests[BLK_WRITE], 0);
	fd = open(r->path, O_RDONLY);
	for (uint32_t i = 0; i < 1024; i++) {
		uint32_t word;

		assert_int_equal(pread(fd, sector, 512, (off_t)i * 512), 512);
		memcpy(&word, sector, 4);
		assert_true(word == i);
	}
	close(fd);
	rig_stop(r);
	unlink(r->path);
	free(r);
}

/* ---- tables that change ---------------------------------------------------------------------- */

#define TABLE_REQUESTS 100000u
#define SLOTS          8u
#define PAGE           4096u

/* Two pages where data may go, and one byte for the status, each between pages that it may not
 * touch. */
static uint64_t page_gpa(struct rig *r, unsigned which)
{
	return rig_gpa(r, (1 + 2 * which) * PAGE);
}

/* Rewrites addresses, lengths, links and flags of indirect tables and of the ring itself. */
static void *flip_tables(void *arg)
{
	struct flipper *p = arg;
	struct rig *r = p->r;
	volatile struct virtq_desc *ring = ring_desc(&r->ring);

	for (uint32_t n = 0; !atomic_load(&p->stop); n++) {
		volatile struct virtq_desc *table = (void *)(r->mem.arena + r->table_at +
		                                             n % SLOTS * 4 * sizeof(*table));

		table[1].addr = n & 1 ? page_gpa(r, 0) : n & 64 ? 0xfe000000 : page_gpa(r, 1);
		table[1].len = n & 2 ? 512 : 1024;
		table[1].next = n & 4 ? 2 : n & 128 ? 1 : 0xffff;
		table[1].flags = (uint16_t)(VIRTQ_DESC_F_NEXT | (n & 8 ? VIRTQ_DESC_F_WRITE
		                                                        : n & 256 ? 4
		                                                                  : 2));
		table[2].len = n & 16 ? 1 : n & 512 ? 0 : 0x7fffffff;
		for (unsigned i = 0; i < r->ring.size; i++)
			if (ring[i].flags & VIRTQ_DESC_F_INDIRECT)
				ring[i].len = n & 32 ? 48 : n & 1024 ? 47 : 0xfffffff0;
	}
	return NULL;
}

static void table_submit(struct rig *r, unsigned slot)
{
	size_t at = r->table_at + slot * 4 * sizeof(struct virtq_desc);
	struct guest_buf bufs[3] = {{guest_gpa(r->head_at), 16, false}, {page_gpa(r, 0), 512, true},
	        {page_gpa(r, 2), 1, true}};

	assert_true(guest_add_indirect(&r->ring, at, bufs, 3) >= 0);
}

/* Every request comes back once, and no byte changes but in the pages that any of the values
 * named. */
static void test_rewritten_tables(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct flipper p = {.r = r};
	struct blk_stats s;
	struct blk_config c;
	pthread_t thread;
	uint32_t len;

	(void)state;
	rig_file(r, "/var/tmp", 1024);
	c = rig_config(r);
	assert_int_equal(rig_start(r, &c, SLOTS, RIG_FEATURES), 0);
	rig_head(r, VIRTIO_BLK_T_IN, 8);
	memset(rig_data(r), 0xa5, 7 * PAGE);
	for (unsigned i = 0; i < SLOTS / 2; i++)
		table_submit(r, i);
	rig_kick(r);
	pthread_create(&thread, NULL, flip_tables, &p);
	for (unsigned done = 0; done < TABLE_REQUESTS; done++) {
		assert_true(rig_wait(r, &len) >= 0);
		assert_true(len <= 0x7fffffff + 1024u);
		if (done + SLOTS / 2 < TABLE_REQUESTS)
			table_submit(r, done % SLOTS);
		rig_kick(r);
	}
	atomic_store(&p.stop, true);
	pthread_join(thread, NULL);
	blk_stats_read(r->blk, &s);
	print_message("    %lu read, %lu errors, %lu without a status\n", s.requests[BLK_READ],
	        s.errors, s.bad_chains);
	assert_int_equal(s.requests[BLK_READ] + s.errors + s.bad_chains, TABLE_REQUESTS);
	assert_true(s.requests[BLK_READ] && s.errors && s.bad_chains);
	assert_int_equal(atomic_load(&r->broken), 0);
	/* A length of 1024 reaches a quarter of its page, never the next one. */
	for (unsigned page = 0; page < 7; page++)
		for (unsigned i = page % 2 && page < 5 ? 1024 : page == 5 ? 1 : 0; i < PAGE; i++)
			assert_int_equal(rig_data(r)[page * PAGE + i], 0xa5);
	rig_stop(r);
	unlink(r->path);
	free(r);
}

/* ---- many queues ----------------------------------------------------------------------------- */

/* Each queue's driver has a thread, and a quarter of the disk as seen by its own load. */
struct lane {
	struct rig r;
	struct load l;
	pthread_t thread;
};

static struct lane *lanes[QUEUES];

static void lane_call(void *owner, unsigned queue)
{
	(void)owner;
	rig_call(&lanes[queue]->r, queue);
}

static void *lane_drive(void *arg)
{
	struct lane *lane = arg;
	unsigned begun = 0;
	uint32_t len;

	for (unsigned done = 0; done < 5000; done++) {
		while (begun < 5000 && lane->l.in_flight < 10)
			begun += load_submit(&lane->l, &lane->r);
		rig_kick(&lane->r);
		load_complete(&lane->l, &lane->r, rig_wait(&lane->r, &len));
	}
	return NULL;
}

static void lane_init(struct lane *lane, struct blk *blk, unsigned index)
{
	struct rig *r = &lane->r;
	struct engine_queue q = {.index = index};

	r->blk = blk;
	guest_mem_init(&r->mem, 1 << 20);
	guest_ring_init(&r->ring, &r->mem, 64, RIG_FEATURES);
	r->head_at = guest_alloc(&r->mem, 16 * LOAD_DEPTH, 16);
	r->status_at = guest_alloc(&r->mem, LOAD_DEPTH, 1);
	r->data_at = guest_alloc(&r->mem, 4096 * LOAD_DEPTH, 4096);
	r->kick_fd = eventfd(0, EFD_NONBLOCK);
	r->call_fd = eventfd(0, EFD_NONBLOCK);
	q.kick_fd = r->kick_fd;
	q.ring = guest_ring_config(&r->ring);
	lane->l.random = index * 77 + 1;
	/* Blocks of other queues are busy for ever. */
	for (unsigned b = 0; b < LOAD_BLOCKS; b++)
		lane->l.block_busy[b] = b % QUEUES != index;
	assert_int_equal(blk_queue_start(blk, &q), 0);
	assert_int_equal(blk_queue_start(blk, &q), -EBUSY);
}

static void test_queues(void **state)
{
	struct engine_queue beyond = {.index = QUEUES};
	struct rig disk = {0};
	struct blk_config c = rig_config(&disk);
	struct virtio_blk_config space;
	struct blk_stats s;
	struct blk *blk;
	char error[256];

	(void)state;
	rig_file(&disk, "/var/tmp", LOAD_BLOCKS * 8);
	c.queue_count = QUEUES;
	c.fixed_buffers = true;
	c.events.call = lane_call;
	assert_int_equal(blk_open(&blk, &c, error, sizeof(error)), 0);
	assert_true(blk_features(blk) & VIRTIO_BIT(VIRTIO_BLK_F_MQ));
	blk_config_space(blk, &space);
	assert_int_equal(space.num_queues, QUEUES);
	assert_int_equal(blk_queue_start(blk, &beyond), -EINVAL);
	for (unsigned i = 0; i < QUEUES; i++) {
		lanes[i] = calloc(1, sizeof(*lanes[i]));
		lane_init(lanes[i], blk, i);
	}
	for (unsigned i = 0; i < QUEUES; i++)
		pthread_create(&lanes[i]->thread, NULL, lane_drive, lanes[i]);
	for (unsigned i = 0; i < QUEUES; i++)
		pthread_join(lanes[i]->thread, NULL);
	blk_stats_read(blk, &s);
	assert_int_equal(s.requests[BLK_READ] + s.requests[BLK_WRITE], QUEUES * 5000);
	print_message("    calls %lu, kicks %lu, waits %lu, watches %lu/%lu\n", s.calls, s.kicks,
	        s.waits, s.watch_hits, s.watch_hits + s.watch_misses);
	for (unsigned i = 0; i < QUEUES; i++) {
		assert_int_equal(blk_queue_stop(blk, i, RIG_WAIT_MS), 0);
		assert_int_equal(blk_queue_stop(blk, i, RIG_WAIT_MS), 0);
		for (unsigned b = i; b < LOAD_BLOCKS; b += QUEUES)
			lanes[0]->l.version[b] = lanes[i]->l.version[b];
	}
	blk_close(blk);
	load_verify_file(&lanes[0]->l, disk.path);
	for (unsigned i = 0; i < QUEUES; i++) {
		guest_ring_free(&lanes[i]->r.ring);
		guest_mem_free(&lanes[i]->r.mem);
		close(lanes[i]->r.kick_fd);
		close(lanes[i]->r.call_fd);
		free(lanes[i]);
	}
	unlink(disk.path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_rewritten_requests),
	        cmocka_unit_test(test_rewritten_tables),
	        cmocka_unit_test(test_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
