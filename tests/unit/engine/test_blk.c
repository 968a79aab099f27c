/* SPDX-License-Identifier: BSD-2-Clause */
/* The disk as a guest sees it: every request, rightly and wrongly made, on a real file. */
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

#include "engine/blk_impl.h"
#include "tests/unit/engine/blk_load.h"

#define SECTORS 8192u
#define OK      VIRTIO_BLK_S_OK
#define IOERR   VIRTIO_BLK_S_IOERR
#define UNSUPP  VIRTIO_BLK_S_UNSUPP
#define IN      VIRTIO_BLK_T_IN
#define OUT     VIRTIO_BLK_T_OUT

static int start_as(void **state, const char *folder, uint64_t features, bool read_only,
        bool cached, enum blk_backend backend)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct blk_config c;

	rig_file(r, folder, SECTORS);
	c = rig_config(r);
	c.read_only = read_only;
	c.cached = cached;
	c.backend = backend;
	*state = r;
	return rig_start(r, &c, 128, features);
}

static int setup(void **state)
{
	return start_as(state, "/var/tmp", RIG_FEATURES, false, false, BLK_BACKEND_RING);
}

static int setup_cached(void **state)
{
	return start_as(state, "/var/tmp", RIG_FEATURES, false, true, BLK_BACKEND_RING);
}

static int setup_tmpfs(void **state)
{
	return start_as(state, "/dev/shm", RIG_FEATURES, false, false, BLK_BACKEND_RING);
}

static int setup_read_only(void **state)
{
	return start_as(state, "/var/tmp", RIG_FEATURES, true, false, BLK_BACKEND_RING);
}

/* No event index, no FLUSH: write-through. */
static int setup_plain(void **state)
{
	return start_as(state, "/var/tmp",
	        VIRTIO_BIT(VIRTIO_BLK_F_DISCARD) | VIRTIO_BIT(VIRTIO_BLK_F_WRITE_ZEROES), false,
	        false, BLK_BACKEND_RING);
}

static int setup_workers(void **state)
{
	return start_as(state, "/var/tmp", RIG_FEATURES, false, false, BLK_BACKEND_WORKERS);
}

static int setup_workers_tmpfs(void **state)
{
	return start_as(state, "/dev/shm", RIG_FEATURES, false, false, BLK_BACKEND_WORKERS);
}

static int teardown(void **state)
{
	struct rig *r = *state;

	rig_stop(r);
	unlink(r->path);
	free(r);
	return 0;
}

static void assert_sector(const uint8_t *at, uint32_t number)
{
	uint32_t word;

	for (unsigned k = 0; k < 512; k += 4) {
		memcpy(&word, at + k, 4);
		assert_int_equal(word, number);
	}
}

static void assert_filled(const uint8_t *at, size_t bytes, uint8_t with)
{
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(at[i], with);
}

static uint64_t file_blocks(struct rig *r)
{
	struct stat st;

	assert_int_equal(stat(r->path, &st), 0);
	return (uint64_t)st.st_blocks;
}

/* What the storage holds, read by someone else. */
static void file_read(struct rig *r, void *out, size_t bytes, off_t at)
{
	int fd = open(r->path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, out, bytes, at), bytes);
	close(fd);
}

/* ---- the right things ------------------------------------------------------------------------ */

static void test_read_write(void **state)
{
	struct rig *r = *state;
	uint8_t *file = malloc(65536);
	struct blk_stats s;
	uint32_t len;
	struct guest_buf buf = {rig_gpa(r, 0), 4096, true};

	assert_int_equal(rig_do(r, IN, 8, &buf, 1, false, &len), OK);
	assert_int_equal(len, 4097);
	for (unsigned i = 0; i < 8; i++)
		assert_sector(rig_data(r) + i * 512, 8 + i);
	memset(rig_data(r) + 8192, 0x5a, 65536);
	assert_int_equal(rig_rw(r, OUT, 100, 8192, 65536), OK);
	assert_int_equal(rig_do(r, VIRTIO_BLK_T_FLUSH, 0, NULL, 0, false, &len), OK);
	assert_int_equal(len, 1);
	file_read(r, file, 65536, 100 * 512);
	assert_filled(file, 65536, 0x5a);
	file_read(r, file, 512, 99 * 512);
	assert_sector(file, 99);
	file_read(r, file, 512, 228 * 512);
	assert_sector(file, 228);
	/* The last sector, and not one more. */
	assert_int_equal(rig_rw(r, IN, SECTORS - 1, 0, 512), OK);
	assert_sector(rig_data(r), SECTORS - 1);
	assert_int_equal(rig_rw(r, IN, SECTORS, 0, 512), IOERR);
	assert_int_equal(rig_rw(r, IN, SECTORS - 1, 0, 1024), IOERR);
	assert_int_equal(rig_rw(r, OUT, UINT64_MAX, 0, 512), IOERR);
	assert_int_equal(rig_rw(r, IN, UINT64_MAX / 512 + 1, 0, 512), IOERR);
	blk_stats_read(r->blk, &s);
	assert_int_equal(s.requests[BLK_READ], 2);
	assert_int_equal(s.bytes[BLK_READ], 4096 + 512);
	assert_int_equal(s.requests[BLK_WRITE], 1);
	assert_int_equal(s.bytes[BLK_WRITE], 65536);
	assert_int_equal(s.requests[BLK_FLUSH], 1);
	assert_true(s.latency_ns[BLK_READ] > 0 && s.latency_ns[BLK_FLUSH] > 0);
	assert_int_equal(s.errors, 4);
	assert_int_equal(s.in_flight, 0);
	assert_true(s.calls >= 1 && s.kicks >= 1);
	free(file);
}

static void test_get_id(void **state)
{
	struct rig *r = *state;
	struct guest_buf buf = {rig_gpa(r, 0), 20, true};

	memset(rig_data(r), 'x', 64);
	assert_int_equal(rig_do(r, VIRTIO_BLK_T_GET_ID, 0, &buf, 1, false, NULL), OK);
	assert_memory_equal(rig_data(r), "keel-serial-number-1xxxx", 24);
	memset(rig_data(r), 'x', 64);
	buf.len = 7;
	assert_int_equal(rig_do(r, VIRTIO_BLK_T_GET_ID, 0, &buf, 1, false, NULL), OK);
	assert_memory_equal(rig_data(r), "keel-sexx", 9);
	buf.len = 64;
	assert_int_equal(rig_do(r, VIRTIO_BLK_T_GET_ID, 0, &buf, 1, false, NULL), OK);
	assert_memory_equal(rig_data(r) + 20, "xxxx", 4);
}

static void test_unknown_types(void **state)
{
	struct rig *r = *state;
	const uint32_t types[] = {2, 3, 5, 7, 9, 10, 12, 14, 15, 0x80000000, 0xffffffff};

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		assert_int_equal(rig_rw(r, types[i], 0, 0, 512), UNSUPP);
}

static void test_config_space(void **state)
{
	struct rig *r = *state;
	struct virtio_blk_config c;

	blk_config_space(r->blk, &c);
	assert_int_equal(c.capacity, SECTORS);
	assert_int_equal(c.blk_size, 512);
	assert_int_equal(c.seg_max, 254);
	assert_int_equal(c.num_queues, 1);
	assert_int_equal(c.writeback, 1);
	assert_true(c.max_discard_sectors && c.max_discard_seg && c.discard_sector_alignment);
	assert_true(c.max_write_zeroes_sectors && c.max_write_zeroes_seg);
	assert_int_equal(c.unused0, 0);
}

/* ---- framing (C-17, C-19, C-22) -------------------------------------------------------------- */

static int add_and_wait(struct rig *r, const struct guest_buf *bufs, unsigned count, uint32_t *len)
{
	int head = guest_add(&r->ring, bufs, count);

	rig_kick(r);
	assert_int_equal(rig_wait(r, len), head);
	return *rig_status(r);
}

static void test_framing(void **state)
{
	struct rig *r = *state;
	uint64_t head = guest_gpa(r->head_at), status = guest_gpa(r->status_at);
	struct guest_buf bufs[40];
	uint32_t len;

	/* The head in three pieces, the data in two that are no whole sectors. */
	rig_head(r, IN, 5);
	memcpy(bufs,
	        ((struct guest_buf[]){{head, 3, false}, {head + 3, 9, false}, {head + 12, 4, false},
	                {rig_gpa(r, 0), 448, true}, {rig_gpa(r, 1000), 64, true},
	                {status, 1, true}}),
	        6 * sizeof(*bufs));
	assert_int_equal(add_and_wait(r, bufs, 6, &len), OK);
	assert_int_equal(len, 513);
	memmove(rig_data(r) + 448, rig_data(r) + 1000, 64);
	assert_sector(rig_data(r), 5);
	/* A head of 4096 bytes: the first 16 count. */
	rig_head(r, IN, 6);
	memcpy(bufs,
	        ((struct guest_buf[]){
	                {head, 4096, false}, {rig_gpa(r, 0), 512, true}, {status, 1, true}}),
	        3 * sizeof(*bufs));
	assert_int_equal(add_and_wait(r, bufs, 3, &len), OK);
	assert_sector(rig_data(r), 6);
	/* Head and data in one descriptor. */
	rig_head(r, OUT, 7);
	memset(r->mem.arena + r->head_at + 16, 0x77, 512);
	memcpy(bufs, ((struct guest_buf[]){{head, 528, false}, {status, 1, true}}),
	        2 * sizeof(*bufs));
	assert_int_equal(add_and_wait(r, bufs, 2, &len), OK);
	assert_int_equal(rig_rw(r, IN, 7, 0, 512), OK);
	assert_filled(rig_data(r), 512, 0x77);
	/* Data and status in one: the last writable byte is the status. */
	rig_head(r, IN, 9);
	memset(rig_data(r), 0xee, 600);
	memcpy(bufs, ((struct guest_buf[]){{head, 16, false}, {rig_gpa(r, 0), 513, true}}),
	        2 * sizeof(*bufs));
	add_and_wait(r, bufs, 2, &len);
	assert_sector(rig_data(r), 9);
	assert_int_equal(rig_data(r)[512], OK);
	assert_int_equal(rig_data(r)[513], 0xee);
	/* A status descriptor of 512 bytes: 511 of them are data, which is no whole sector. */
	rig_head(r, IN, 9);
	memset(rig_data(r) + 4096, 0xee, 600);
	memcpy(bufs,
	        ((struct guest_buf[]){{head, 16, false}, {rig_gpa(r, 0), 512, true},
	                {rig_gpa(r, 4096), 512, true}}),
	        3 * sizeof(*bufs));
	add_and_wait(r, bufs, 3, &len);
	assert_int_equal(rig_data(r)[4096 + 511], IOERR);
	/* A status descriptor of no bytes is none; a read's data then ends in the status. */
	rig_head(r, OUT, 9);
	memcpy(bufs,
	        ((struct guest_buf[]){
	                {head, 16, false}, {rig_gpa(r, 0), 512, false}, {status, 0, true}}),
	        3 * sizeof(*bufs));
	assert_int_equal(add_and_wait(r, bufs, 3, &len), 0xee);
	assert_int_equal(len, 0);
	rig_head(r, IN, 9);
	memset(rig_data(r), 0xee, 512);
	assert_int_equal((bufs[1].write = true, add_and_wait(r, bufs, 3, &len)), 0xee);
	assert_int_equal(rig_data(r)[511], IOERR);
	/* A head of 4 bytes. */
	rig_head(r, IN, 0);
	memcpy(bufs,
	        ((struct guest_buf[]){
	                {head, 4, false}, {rig_gpa(r, 0), 512, true}, {status, 1, true}}),
	        3 * sizeof(*bufs));
	assert_int_equal(add_and_wait(r, bufs, 3, &len), IOERR);
}

static void test_one_byte_segments(void **state)
{
	struct rig *r = *state;
	struct guest_buf bufs[515];
	uint32_t len;

	/* Every second byte of guest memory, so that none can be joined. */
	for (unsigned i = 0; i < 512; i++)
		bufs[i] = (struct guest_buf){rig_gpa(r, 1 + 2 * i), 1, true};
	assert_int_equal(rig_do(r, IN, 11, bufs, 512, true, &len), OK);
	for (unsigned i = 0; i < 512; i++)
		rig_data(r)[i] = rig_data(r)[1 + 2 * i];
	assert_sector(rig_data(r), 11);
	/* 13 sectors as 3952 + 2704 bytes. */
	bufs[0] = (struct guest_buf){rig_gpa(r, 0), 3952, true};
	bufs[1] = (struct guest_buf){rig_gpa(r, 8192), 2704, true};
	assert_int_equal(rig_do(r, IN, 20, bufs, 2, false, NULL), OK);
	memmove(rig_data(r) + 3952, rig_data(r) + 8192, 2704);
	for (unsigned i = 0; i < 13; i++)
		assert_sector(rig_data(r) + i * 512, 20 + i);
}

/* More segments than seg_max says, and totals that are no whole sectors. */
static void test_segments(void **state)
{
	struct rig *r = *state;
	struct guest_buf bufs[1000];

	for (unsigned i = 0; i < 1000; i++)
		bufs[i] = (struct guest_buf){rig_gpa(r, i * 1024), 512, true};
	assert_int_equal(rig_do(r, IN, 0, bufs, 515, true, NULL), OK);
	for (unsigned i = 0; i < 515; i++)
		assert_sector(rig_data(r) + i * 1024, i);
	assert_int_equal(rig_do(r, IN, 50, bufs, 1000, true, NULL), OK);
	for (unsigned i = 0; i < 1000; i++)
		assert_sector(rig_data(r) + i * 1024, 50 + i);
	assert_int_equal(rig_rw(r, IN, 0, 0, 513), IOERR);
	assert_int_equal(rig_rw(r, OUT, 0, 0, 511), IOERR);
	assert_int_equal(rig_do(r, IN, 0, NULL, 0, false, NULL), IOERR);
	assert_int_equal(rig_do(r, OUT, 0, NULL, 0, false, NULL), IOERR);
}

static void test_no_status(void **state)
{
	struct rig *r = *state;
	struct blk_stats s;
	uint32_t len;
	int heads = 0;

	rig_head(r, IN, 0);
	/* A ring full of heads without a status, and of heads with data that is only readable. */
	for (unsigned i = 0; i < 64; i++) {
		struct guest_buf bufs[2] = {
		        {guest_gpa(r->head_at), 16, false}, {rig_gpa(r, 0), 512, false}};

		guest_add(&r->ring, bufs, 1 + i % 2);
	}
	rig_kick(r);
	for (; heads < 64; heads++) {
		assert_true(rig_wait(r, &len) >= 0);
		assert_int_equal(len, 0);
	}
	assert_int_equal(rig_rw(r, IN, 3, 0, 512), OK);
	assert_sector(rig_data(r), 3);
	blk_stats_read(r->blk, &s);
	assert_int_equal(s.bad_chains, 64);
}

/* Buffers that are no guest memory (C-15). */
static void test_outside(void **state)
{
	struct rig *r = *state;
	struct guest_buf outside = {0xfe000000, 512, true};
	struct guest_buf bufs[3] = {{guest_gpa(r->head_at), 16, false}, {rig_gpa(r, 0), 512, true},
	        {0xfe000000, 1, true}};
	uint32_t len;

	assert_int_equal(rig_do(r, IN, 0, &outside, 1, false, NULL), IOERR);
	outside.write = false;
	assert_int_equal(rig_do(r, OUT, 0, &outside, 1, false, NULL), IOERR);
	rig_head(r, IN, 0);
	assert_int_equal(add_and_wait(r, bufs, 3, &len), 0xee);
	assert_int_equal(len, 0);
	bufs[0].gpa = 0xfe000000;
	bufs[2].gpa = guest_gpa(r->status_at);
	assert_int_equal(add_and_wait(r, bufs, 3, &len), IOERR);
	assert_int_equal(rig_rw(r, IN, 3, 0, 512), OK);
}

static void test_broken_ring(void **state)
{
	struct rig *r = *state;
	uint64_t one = 1;

	assert_int_equal(rig_rw(r, IN, 3, 0, 512), OK);
	guest_publish_head(&r->ring, 999);
	assert_int_equal(write(r->kick_fd, &one, 8), 8);
	while (!atomic_load(&r->broken))
		sched_yield();
	assert_int_equal(blk_queue_stop(r->blk, 0, RIG_WAIT_MS), 0);
	assert_int_equal(atomic_load(&r->broken), 1);
}

/* ---- discard and write zeroes (C-21) --------------------------------------------------------- */

static int do_ranges(
        struct rig *r, uint32_t type, const struct virtio_blk_range *ranges, unsigned count)
{
	struct guest_buf buf = {rig_gpa(r, 1 << 20), count * 16, false};

	memcpy(rig_data(r) + (1 << 20), ranges, count * sizeof(*ranges));
	return rig_do(r, type, 0, &buf, 1, false, NULL);
}

static int do_range(struct rig *r, uint32_t type, uint64_t sector, uint32_t num, uint32_t flags)
{
	struct virtio_blk_range range = {sector, num, flags};

	return do_ranges(r, type, &range, 1);
}

static void test_discard(void **state)
{
	struct rig *r = *state;
	struct virtio_blk_range two[2] = {{0, 8, 0}, {SECTORS, 1, 0}};
	uint64_t before = file_blocks(r);
	uint8_t sector[512];

	assert_int_equal(do_range(r, VIRTIO_BLK_T_DISCARD, UINT64_MAX, 8, 0), IOERR);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_DISCARD, SECTORS - 7, 8, 0), IOERR);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_DISCARD, 0, 8, 1u << 31), UNSUPP);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_DISCARD, 0, 8, 1), UNSUPP);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_DISCARD, 0, 0, 0), OK);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_DISCARD, 0, UINT32_MAX, 0), IOERR);
	assert_int_equal(do_ranges(r, VIRTIO_BLK_T_DISCARD, two, 2), IOERR);
	file_read(r, sector, 512, 0);
	assert_sector(sector, 0);
	assert_int_equal(rig_do(r, VIRTIO_BLK_T_DISCARD, 0, NULL, 0, false, NULL), IOERR);
	assert_int_equal(file_blocks(r), before);
	two[1] = (struct virtio_blk_range){4096, 2048, 0};
	assert_int_equal(do_ranges(r, VIRTIO_BLK_T_DISCARD, two, 2), OK);
	assert_true(file_blocks(r) < before);
	file_read(r, sector, 512, 4095 * 512);
	assert_sector(sector, 4095);
	file_read(r, sector, 512, 6144 * 512);
	assert_sector(sector, 6144);
}

static void test_too_many_ranges(void **state)
{
	struct rig *r = *state;
	struct virtio_blk_range many[33] = {{0, 0, 0}};
	struct guest_buf buf = {rig_gpa(r, 0), 24, false};

	for (unsigned i = 0; i < 33; i++)
		many[i] = (struct virtio_blk_range){i * 100, 1, 0};
	assert_int_equal(do_ranges(r, VIRTIO_BLK_T_WRITE_ZEROES, many, 33), IOERR);
	assert_int_equal(do_ranges(r, VIRTIO_BLK_T_WRITE_ZEROES, many, 32), OK);
	assert_int_equal(rig_rw(r, IN, 3100, 0, 1024), OK);
	assert_filled(rig_data(r), 512, 0);
	assert_sector(rig_data(r) + 512, 3101);
	assert_int_equal(rig_do(r, VIRTIO_BLK_T_DISCARD, 0, &buf, 1, false, NULL), IOERR);
}

static void test_write_zeroes(void **state)
{
	struct rig *r = *state;

	/* 700 KiB and a bit, at odd places: more than one piece for storage that only writes. */
	for (uint32_t unmap = 0; unmap < 2; unmap++) {
		uint64_t at = 1001 + 3000 * unmap;

		assert_int_equal(do_range(r, VIRTIO_BLK_T_WRITE_ZEROES, at, 1403, unmap), OK);
		assert_int_equal(rig_rw(r, IN, at - 1, 0, 1405 * 512), OK);
		assert_sector(rig_data(r), (uint32_t)at - 1);
		assert_filled(rig_data(r) + 512, 1403 * 512, 0);
		assert_sector(rig_data(r) + 1404 * 512, (uint32_t)at + 1403);
	}
	assert_int_equal(do_range(r, VIRTIO_BLK_T_WRITE_ZEROES, 0, 8, 2), UNSUPP);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_WRITE_ZEROES, SECTORS, 1, 0), IOERR);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_WRITE_ZEROES, UINT64_MAX, 8, 0), IOERR);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_WRITE_ZEROES, SECTORS, 0, 0), OK);
}

static void test_read_only(void **state)
{
	struct rig *r = *state;
	struct virtio_blk_config c;
	uint8_t sector[512];

	assert_true(blk_features(r->blk) & VIRTIO_BIT(VIRTIO_BLK_F_RO));
	assert_false(blk_features(r->blk) & VIRTIO_BIT(VIRTIO_BLK_F_DISCARD));
	blk_config_space(r->blk, &c);
	assert_int_equal(c.max_discard_sectors, 0);
	assert_int_equal(rig_rw(r, IN, 3, 0, 512), OK);
	assert_sector(rig_data(r), 3);
	assert_int_equal(rig_rw(r, OUT, 4, 0, 512), IOERR);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_DISCARD, 4, 8, 0), IOERR);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_WRITE_ZEROES, 4, 8, 0), IOERR);
	assert_int_equal(rig_do(r, VIRTIO_BLK_T_FLUSH, 0, NULL, 0, false, NULL), OK);
	file_read(r, sector, 512, 4 * 512);
	assert_sector(sector, 4);
}

static void test_discard_not_negotiated(void **state)
{
	struct rig *r = *state;

	assert_int_equal(blk_queue_stop(r->blk, 0, RIG_WAIT_MS), 0);
	{
		struct engine_queue q = {
		        .kick_fd = r->kick_fd, .ring = guest_ring_config(&r->ring)};

		q.ring.features &= ~(
		        VIRTIO_BIT(VIRTIO_BLK_F_DISCARD) | VIRTIO_BIT(VIRTIO_BLK_F_WRITE_ZEROES));
		assert_int_equal(blk_queue_start(r->blk, &q), 0);
	}
	assert_int_equal(do_range(r, VIRTIO_BLK_T_DISCARD, 4, 8, 0), UNSUPP);
	assert_int_equal(do_range(r, VIRTIO_BLK_T_WRITE_ZEROES, 4, 8, 0), UNSUPP);
}

/* ---- size and errors ------------------------------------------------------------------------- */

static void test_resize(void **state)
{
	struct rig *r = *state;
	struct virtio_blk_config c;

	assert_false(blk_refresh(r->blk));
	assert_int_equal(truncate(r->path, 2 * SECTORS * 512), 0);
	assert_int_equal(rig_rw(r, IN, SECTORS, 0, 512), IOERR);
	assert_true(blk_refresh(r->blk));
	assert_int_equal(rig_rw(r, IN, SECTORS, 0, 512), OK);
	blk_config_space(r->blk, &c);
	assert_int_equal(c.capacity, 2 * SECTORS);
}

/* The size changes again and again while the queue is full (C-25). */
static void test_resize_under_load(void **state)
{
	struct rig *r = *state;
	struct load *l = calloc(1, sizeof(*l));
	unsigned started = 0, changes = 0;
	uint32_t len;

	for (unsigned done = 0; done < 10000; done++) {
		while (l->in_flight < LOAD_DEPTH && started < 10000)
			started += load_submit(l, r);
		rig_kick(r);
		if (done % 50 == 0) {
			assert_int_equal(truncate(r->path, (SECTORS + done % 7 * 512) * 512), 0);
			changes += blk_refresh(r->blk) == 1;
		}
		load_complete(l, r, rig_wait(r, &len));
	}
	assert_true(changes > 100);
	assert_int_equal(truncate(r->path, LOAD_BLOCKS * 4096), 0);
	load_verify_file(l, r->path);
	free(l);
}

/* The file shrinks under the disk: an error and a line, no hang, and what is left works. */
static void test_shrunk_file(void **state)
{
	struct rig *r = *state;

	assert_int_equal(truncate(r->path, 1024 * 512), 0);
	assert_int_equal(rig_rw(r, IN, 1020, 0, 8 * 512), IOERR);
	assert_int_equal(rig_rw(r, IN, 4096, 0, 4096), IOERR);
	assert_true(atomic_load(&r->logged) >= 1);
	assert_non_null(strstr(r->last_log, r->path));
	assert_int_equal(rig_rw(r, IN, 1016, 0, 4096), OK);
}

static void test_unlinked_file(void **state)
{
	struct rig *r = *state;

	unlink(r->path);
	memset(rig_data(r), 0x11, 4096);
	assert_int_equal(rig_rw(r, OUT, 8, 0, 4096), OK);
	assert_int_equal(rig_rw(r, IN, 8, 8192, 4096), OK);
	assert_filled(rig_data(r) + 8192, 4096, 0x11);
}

/* A device that is said to have poll queues and has none: by interrupts after all, with a line;
 * some kernels (6.1) refuse nothing and take it as polled. */
static void test_polling_refused(void **state)
{
	struct rig *r = *state;
	struct load *l = calloc(1, sizeof(*l));
	struct blk_stats stats;
	unsigned started = 0;
	uint32_t len;

	assert_int_equal(blk_queue_stop(r->blk, 0, RIG_WAIT_MS), 0);
	r->blk->polls = true;
	{
		struct engine_queue q = {
		        .kick_fd = r->kick_fd, .ring = guest_ring_config(&r->ring)};

		assert_int_equal(blk_queue_start(r->blk, &q), 0);
	}
	for (unsigned done = 0; done < 5000; done++) {
		while (l->in_flight < LOAD_DEPTH && started < 5000)
			started += load_submit(l, r);
		rig_kick(r);
		load_complete(l, r, rig_wait(r, &len));
	}
	load_verify_file(l, r->path);
	blk_stats_read(r->blk, &stats);
	assert_true(stats.polled || strstr(r->last_log, "polling is refused: by interrupts"));
	free(l);
}

/* Memory has no poll queues: by interrupts, which is said. (The lab has a device with them.) */
static void test_polling_asked_for(void **state)
{
	struct rig r = {0};
	struct blk_config c;
	char error[256];

	(void)state;
	rig_file(&r, "/dev/shm", 512);
	c = rig_config(&r);
	c.iopoll = true;
	assert_int_equal(blk_open(&r.blk, &c, error, sizeof(error)), 0);
	assert_non_null(strstr(r.last_log, "it cannot be polled"));
	assert_false(blk_file_can_poll(&r.blk->file));
	blk_close(r.blk);
	unlink(r.path);
}

/* ---- many at once ---------------------------------------------------------------------------- */

static void test_many(void **state)
{
	struct rig *r = *state;
	struct load *l = calloc(1, sizeof(*l));
	unsigned started = 0;
	struct blk_stats s;
	uint32_t len;

	for (unsigned done = 0; done < 20000; done++) {
		while (l->in_flight < LOAD_DEPTH && started < 20000)
			started += load_submit(l, r);
		rig_kick(r);
		load_complete(l, r, rig_wait(r, &len));
	}
	blk_stats_read(r->blk, &s);
	print_message("    kicks sent %u seen %lu, calls %lu, waits %lu, watches %lu/%lu\n",
	        r->kicks, s.kicks, s.calls, s.waits, s.watch_hits, s.watch_hits + s.watch_misses);
	assert_int_equal(s.requests[BLK_READ] + s.requests[BLK_WRITE], 20000);
	assert_true(r->kicks < 20000);
	load_verify_file(l, r->path);
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(fn, how) {#fn " " #how, fn, how, teardown, NULL}
	        CASE(test_read_write, setup),
	        CASE(test_read_write, setup_cached),
	        CASE(test_read_write, setup_tmpfs),
	        CASE(test_read_write, setup_plain),
	        CASE(test_read_write, setup_workers),
	        CASE(test_get_id, setup),
	        CASE(test_unknown_types, setup),
	        CASE(test_config_space, setup),
	        CASE(test_framing, setup),
	        CASE(test_framing, setup_cached),
	        CASE(test_one_byte_segments, setup),
	        CASE(test_one_byte_segments, setup_workers),
	        CASE(test_segments, setup),
	        CASE(test_segments, setup_workers),
	        CASE(test_no_status, setup),
	        CASE(test_no_status, setup_plain),
	        CASE(test_outside, setup),
	        CASE(test_outside, setup_workers),
	        CASE(test_broken_ring, setup),
	        CASE(test_broken_ring, setup_workers),
	        CASE(test_discard, setup),
	        CASE(test_discard, setup_plain),
	        CASE(test_discard, setup_tmpfs),
	        CASE(test_discard, setup_workers),
	        CASE(test_too_many_ranges, setup),
	        CASE(test_too_many_ranges, setup_workers),
	        CASE(test_write_zeroes, setup),
	        CASE(test_write_zeroes, setup_plain),
	        CASE(test_write_zeroes, setup_tmpfs),
	        CASE(test_write_zeroes, setup_workers),
	        CASE(test_read_only, setup_read_only),
	        CASE(test_discard_not_negotiated, setup),
	        CASE(test_resize, setup),
	        CASE(test_resize, setup_workers),
	        CASE(test_resize_under_load, setup),
	        CASE(test_resize_under_load, setup_workers),
	        CASE(test_shrunk_file, setup),
	        CASE(test_shrunk_file, setup_cached),
	        CASE(test_shrunk_file, setup_workers),
	        CASE(test_unlinked_file, setup),
	        CASE(test_unlinked_file, setup_workers),
	        CASE(test_polling_refused, setup),
	        cmocka_unit_test(test_polling_asked_for),
	        CASE(test_many, setup),
	        CASE(test_many, setup_plain),
	        CASE(test_many, setup_tmpfs),
	        CASE(test_many, setup_workers),
	        CASE(test_many, setup_workers_tmpfs),
	        CASE(test_write_zeroes, setup_workers_tmpfs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
