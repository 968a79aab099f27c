/* SPDX-License-Identifier: BSD-2-Clause */
/* A disk's rate limits: the rate kept, a burst allowed, queues in turns, and nobody busy waiting.
 */
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
#include <time.h>

#include "engine/blk_throttle.h"
#include "tests/unit/engine/blk_rig.h"

#define OK     VIRTIO_BLK_S_OK
#define IN     VIRTIO_BLK_T_IN
#define SECOND 1000000000ull

static uint64_t clock_of(clockid_t which)
{
	struct timespec now;

	clock_gettime(which, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* ---- the arithmetic -------------------------------------------------------------------------- */

static void test_rate(void **state)
{
	struct blk_throttle t = {.iops = 1000};
	uint64_t now = 77 * SECOND, start = 0;

	(void)state;
	/* A burst of a tenth of a second, then one a millisecond. */
	for (unsigned i = 0; i <= 100; i++)
		assert_int_equal(blk_throttle_take(&t, now, 1 << 20), now);
	for (unsigned i = 1; i <= 1000; i++)
		assert_int_equal(blk_throttle_take(&t, now, 4096), now + i * 1000000);
	/* Whoever comes late loses nothing. */
	now += 2 * SECOND;
	for (unsigned i = 0; i <= 100; i++)
		start = blk_throttle_take(&t, now, 0);
	assert_int_equal(start, now);
	assert_true(blk_throttle_take(&t, now, 0) > now);
}

static void test_bytes(void **state)
{
	struct blk_throttle t = {.bandwidth = 1 << 20};
	uint64_t now = 5 * SECOND;

	(void)state;
	/* Larger than the burst: let through, and paid for by those behind. */
	assert_int_equal(blk_throttle_take(&t, now, 4 << 20), now);
	assert_int_equal(blk_throttle_take(&t, now, 512), now + 4 * SECOND - BLK_THROTTLE_BURST_NS);
	/* Of no bytes: not limited. */
	assert_int_equal(blk_throttle_take(&t, now, 0), now);
	/* The stricter of two limits counts. */
	t = (struct blk_throttle){.bandwidth = 1 << 20, .iops = 1};
	assert_int_equal(blk_throttle_take(&t, now, 1 << 20), now);
	assert_int_equal(blk_throttle_take(&t, now, 1), now + SECOND - BLK_THROTTLE_BURST_NS);
	assert_int_equal(blk_throttle_take(&t, now, 1), now + 2 * SECOND - BLK_THROTTLE_BURST_NS);
}

static void test_no_limit(void **state)
{
	struct blk_throttle t = {0};

	(void)state;
	for (unsigned i = 0; i < 100000; i++)
		assert_int_equal(blk_throttle_take(&t, 9, UINT32_MAX), 9);
}

/* ---- a disk ---------------------------------------------------------------------------------- */

static void start(struct rig *r, uint64_t iops, uint64_t bandwidth)
{
	struct blk_config c;

	memset(r, 0, sizeof(*r));
	snprintf(r->path, sizeof(r->path), "null:64");
	c = rig_config(r);
	c.iops_max = iops;
	c.bandwidth_max = bandwidth;
	assert_int_equal(rig_start(r, &c, 256, RIG_FEATURES), 0);
}

static bool add_read(struct rig *r, uint32_t bytes)
{
	struct guest_buf bufs[3] = {{guest_gpa(r->head_at), 16, false},
	        {rig_gpa(r, 0), bytes, true}, {guest_gpa(r->status_at), 1, true}};

	return r->ring.free_count >= 3 && guest_add(&r->ring, bufs, 3) >= 0;
}

/* Reads, many at once. How long they took. */
static uint64_t read_many(struct rig *r, unsigned count, uint32_t bytes)
{
	uint64_t begin = clock_of(CLOCK_MONOTONIC);
	unsigned begun = 0;
	uint32_t len;

	rig_head(r, IN, 0);
	for (unsigned done = 0; done < count; done++) {
		while (begun < count && begun - done < 64 && add_read(r, bytes))
			begun++;
		rig_kick(r);
		assert_true(rig_wait(r, &len) >= 0);
		assert_int_equal(len, bytes + 1);
	}
	return clock_of(CLOCK_MONOTONIC) - begin;
}

static void test_disk_rate(void **state)
{
	uint64_t cpu, took;
	struct blk_stats s;
	struct rig r;

	(void)state;
	start(&r, 500, 0);
	cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
	took = read_many(&r, 450, 4096);
	cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	blk_stats_read(r.blk, &s);
	print_message("    450 at 500 a second: %.2f s, %.3f s of CPU, %lu held, %lu waits\n",
	        (double)took / 1e9, (double)cpu / 1e9, s.held, s.waits);
	/* 50 and one at once, then 2 ms each. */
	assert_true(took >= 399 * (SECOND / 500));
	assert_true(took < 5 * SECOND);
	assert_true(cpu < took / 2);
	assert_true(s.held >= 300 && s.waits < 5000);
	rig_stop(&r);
	start(&r, 0, 8 << 20);
	took = read_many(&r, 96, 65536);
	/* 6 MiB at 8 MiB a second, less the burst. */
	assert_true(took >= SECOND * 6 / 8 - SECOND / 8);
	assert_true(took < 5 * SECOND);
	rig_stop(&r);
}

/* A flush passes those that wait, and stopping waits for storage alone. */
static void test_disk_stop(void **state)
{
	uint64_t begin = clock_of(CLOCK_MONOTONIC);
	unsigned count = 0;
	struct rig r;
	uint32_t len;

	(void)state;
	start(&r, 1, 0);
	rig_head(&r, IN, 0);
	while (count < 50 && add_read(&r, 4096))
		count++;
	rig_kick(&r);
	assert_true(rig_wait(&r, &len) >= 0);
	assert_int_equal(rig_do(&r, VIRTIO_BLK_T_FLUSH, 0, NULL, 0, false, &len), OK);
	assert_int_equal(blk_queue_stop(r.blk, 0, RIG_WAIT_MS), 0);
	for (unsigned i = 1; i < count; i++)
		assert_true(rig_wait(&r, &len) >= 0);
	assert_true(clock_of(CLOCK_MONOTONIC) - begin < 20 * SECOND);
	rig_stop(&r);
}

/* ---- two queues ------------------------------------------------------------------------------ */

struct lane {
	struct rig r;
	unsigned depth, done;
	pthread_t thread;
};

static struct lane lanes[2];
static atomic_bool lanes_end;

static void lane_call(void *owner, unsigned queue)
{
	(void)owner;
	rig_call(&lanes[queue].r, queue);
}

static void *lane_drive(void *arg)
{
	struct lane *l = arg;
	unsigned in_flight = 0;
	uint32_t len;

	rig_head(&l->r, IN, 0);
	while (!atomic_load(&lanes_end) || in_flight) {
		while (!atomic_load(&lanes_end) && in_flight < l->depth && add_read(&l->r, 4096))
			in_flight++;
		rig_kick(&l->r);
		assert_true(rig_wait(&l->r, &len) >= 0);
		in_flight--;
		__atomic_store_n(&l->done, l->done + 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void lane_start(struct lane *l, struct blk *blk, unsigned index, unsigned depth)
{
	struct engine_queue q = {.index = index};
	struct rig *r = &l->r;

	l->depth = depth;
	guest_mem_init(&r->mem, 1 << 20);
	guest_ring_init(&r->ring, &r->mem, 256, RIG_FEATURES);
	r->head_at = guest_alloc(&r->mem, 16, 16);
	r->status_at = guest_alloc(&r->mem, 1, 1);
	r->data_at = guest_alloc(&r->mem, 4096, 4096);
	r->kick_fd = eventfd(0, EFD_NONBLOCK);
	r->call_fd = eventfd(0, EFD_NONBLOCK);
	q.kick_fd = r->kick_fd;
	q.ring = guest_ring_config(&r->ring);
	assert_int_equal(blk_queue_start(blk, &q), 0);
}

/* A queue with one request at a time beside one with 64: each gets its half of what there is. */
static void test_turns(void **state)
{
	struct rig disk = {.path = "null:64"};
	struct blk_config c = rig_config(&disk);
	unsigned shallow = 0, deep = 0;
	struct blk *blk;
	char error[256];

	(void)state;
	c.queue_count = 2;
	c.iops_max = 400;
	c.events.call = lane_call;
	assert_int_equal(blk_open(&blk, &c, error, sizeof(error)), 0);
	lane_start(&lanes[0], blk, 0, 1);
	lane_start(&lanes[1], blk, 1, 64);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&lanes[i].thread, NULL, lane_drive, &lanes[i]);
	while (shallow + deep < 500) {
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		shallow = __atomic_load_n(&lanes[0].done, __ATOMIC_RELAXED);
		deep = __atomic_load_n(&lanes[1].done, __ATOMIC_RELAXED);
	}
	atomic_store(&lanes_end, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(lanes[i].thread, NULL);
	print_message("    %u with one at a time, %u with 64\n", shallow, deep);
	assert_true(shallow > 125);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(blk_queue_stop(blk, i, RIG_WAIT_MS), 0);
		guest_ring_free(&lanes[i].r.ring);
		guest_mem_free(&lanes[i].r.mem);
		close(lanes[i].r.kick_fd);
		close(lanes[i].r.call_fd);
	}
	blk_close(blk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_rate),
	        cmocka_unit_test(test_bytes),
	        cmocka_unit_test(test_no_limit),
	        cmocka_unit_test(test_disk_rate),
	        cmocka_unit_test(test_disk_stop),
	        cmocka_unit_test(test_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
