/* SPDX-License-Identifier: BSD-2-Clause */
/* The virtio devices behind a transport that only counts: configuration, life of the queues, what
 * is kept across the death of a process. */
/* sources: vmm/dev/virtio_blk.c vmm/dev/virtio_rng.c vmm/dev/engine_glue.c */
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

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "hw/virtio_blk.h"
#include "tests/unit/engine/guest_ring.h"
#include "vmm/dev/devices.h"
#include "vmm/log.h"

#define SECTORS 256u
#define WAIT_MS 20000

/* ---- the transport that only counts ---------------------------------------------------------- */

static int signal_fd = -1;
static atomic_uint broken, config_signals;

void virtio_signal_queue(struct virtio_device *dev, unsigned queue)
{
	uint64_t one = 1;

	(void)dev;
	(void)queue;
	if (write(signal_fd, &one, sizeof(one)) < 0)
		abort();
}

void virtio_signal_config(struct virtio_device *dev)
{
	(void)dev;
	atomic_fetch_add(&config_signals, 1);
}

void virtio_set_broken(struct virtio_device *dev)
{
	(void)dev;
	atomic_fetch_add(&broken, 1);
}

void log_line(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("    ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

/* ---- a machine ------------------------------------------------------------------------------- */

struct machine {
	struct guest_mem mem;
	struct guest_ring ring;
	struct gmem gmem;
	uint8_t uuid[16];
	struct device_env env;
	struct definition_disk disk;
	struct virtio_device *dev;
	void *inflight;
	int kick_fd;
};

static int setup(void **state)
{
	struct machine *m = calloc(1, sizeof(*m));
	uint8_t sector[512] = {0};
	int fd;

	snprintf(m->disk.path, sizeof(m->disk.path), "/var/tmp/keel-test-dev-XXXXXX");
	snprintf(m->disk.serial, sizeof(m->disk.serial), "root-disk");
	fd = mkstemp(m->disk.path);
	for (unsigned i = 0; i < SECTORS; i++)
		if (write(fd, sector, 512) != 512)
			return -1;
	close(fd);
	guest_mem_init(&m->mem, 1 << 20);
	m->gmem.count = 1;
	m->gmem.regions[0] = (struct gmem_region){GUEST_BASE, m->mem.size, m->mem.arena};
	m->env = (struct device_env){&m->gmem, 4, m->uuid};
	m->kick_fd = eventfd(0, EFD_NONBLOCK);
	signal_fd = eventfd(0, EFD_NONBLOCK);
	atomic_store(&broken, 0);
	atomic_store(&config_signals, 0);
	*state = m;
	return 0;
}

static int teardown(void **state)
{
	struct machine *m = *state;

	if (m->dev)
		m->dev->ops->reset(m->dev);
	unlink(m->disk.path);
	free(m->inflight);
	guest_ring_free(&m->ring);
	guest_mem_free(&m->mem);
	close(m->kick_fd);
	close(signal_fd);
	free(m);
	return 0;
}

/* What the transport does at DRIVER_OK, or (resumed) on attach. */
static int start(struct machine *m, unsigned size, uint64_t features, bool resumed)
{
	struct virtio_queue_setup s = {
	        .size = size, .features = features, .kick_fd = m->kick_fd, .resumed = resumed};

	if (!resumed) {
		guest_ring_free(&m->ring);
		guest_ring_init(&m->ring, &m->mem, size, features);
	}
	s.inflight_bytes = m->dev->ops->inflight_bytes(m->dev, 0, size);
	if (!m->inflight) {
		m->inflight = aligned_alloc(64, (s.inflight_bytes + 63) / 64 * 64);
		memset(m->inflight, 0, s.inflight_bytes);
	}
	s.inflight = m->inflight;
	s.desc_gpa = guest_gpa(m->ring.desc_at);
	s.driver_gpa = guest_gpa(m->ring.avail_at);
	s.device_gpa = guest_gpa(m->ring.used_at);
	return m->dev->ops->queue_start(m->dev, &s);
}

static int exchange(struct machine *m, const struct guest_buf *bufs, unsigned count, uint32_t *len)
{
	int head = guest_add(&m->ring, bufs, count), got;
	uint64_t one = 1;

	if (guest_wants_kick(&m->ring) && write(m->kick_fd, &one, 8) < 0)
		return -1;
	while (!guest_take(&m->ring, &got, len)) {
		struct pollfd p = {signal_fd, POLLIN, 0};

		if (guest_want_call(&m->ring))
			continue;
		if (poll(&p, 1, WAIT_MS) != 1)
			return -2;
		if (read(signal_fd, &one, 8) < 0)
			continue;
	}
	return got == head ? 0 : -3;
}

/* Devices live as long as their process: none is ever freed, all stay known. */
static struct virtio_device *made[16];
static unsigned made_count;

static void keep(struct virtio_device *dev)
{
	made[made_count++] = dev;
}

/* ---- the disk -------------------------------------------------------------------------------- */

static void disk_make(struct machine *m)
{
	char error[512] = "";

	m->dev = virtio_blk_create(&m->disk, 0, &m->env, error, sizeof(error));
	if (!m->dev)
		fail_msg("%s", error);
	keep(m->dev);
}

static uint8_t writeback_of(struct machine *m)
{
	uint8_t value;

	m->dev->ops->config_read(m->dev, offsetof(struct virtio_blk_config, writeback), &value, 1);
	return value;
}

static void test_blk_device(void **state)
{
	struct machine *m = *state;
	uint64_t capacity;
	uint32_t half[2];
	uint16_t queues;

	disk_make(m);
	assert_int_equal(m->dev->device_id, 2);
	assert_int_equal(m->dev->queues, 4);
	assert_string_equal(m->dev->name, "disk0");
	m->dev->ops->config_read(m->dev, 0, &capacity, 8);
	assert_int_equal(capacity, SECTORS);
	m->dev->ops->config_read(m->dev, 0, &half[0], 4);
	m->dev->ops->config_read(m->dev, 4, &half[1], 4);
	assert_int_equal(half[0], SECTORS);
	assert_int_equal(half[1], 0);
	m->dev->ops->config_read(m->dev, 34, &queues, 2);
	assert_int_equal(queues, 4);
	/* The device's bits below 24, and of the reserved ones only the ring's. */
	assert_int_equal(m->dev->features >> 24, 1ull << 4 | 1ull << 5);
	assert_true(m->dev->config_bytes >= 57 && m->dev->config_bytes <= 64);
}

static int disk_write(struct machine *m)
{
	size_t at = guest_alloc(&m->mem, 1024, 512);
	struct virtio_blk_req_head head = {VIRTIO_BLK_T_OUT, 0, 3};
	struct guest_buf bufs[3] = {{guest_gpa(at), 16, false}, {guest_gpa(at) + 512, 512, false},
	        {guest_gpa(at) + 100, 1, true}};
	uint32_t len;

	memcpy(m->mem.arena + at, &head, sizeof(head));
	m->mem.arena[at + 100] = 0xee;
	assert_int_equal(exchange(m, bufs, 3, &len), 0);
	return m->mem.arena[at + 100];
}

static void test_blk_life(void **state)
{
	struct machine *m = *state;
	struct virtio_device_stats s;
	uint64_t features;

	disk_make(m);
	features = m->dev->features;
	m->dev->ops->reset(m->dev);
	for (unsigned round = 1; round <= 3; round++) {
		assert_int_equal(start(m, 64, features, false), 0);
		assert_int_equal(disk_write(m), VIRTIO_BLK_S_OK);
		/* A queue runs once until a reset. */
		assert_int_not_equal(start(m, 64, features, true), 0);
		m->dev->ops->stats(m->dev, &s);
		assert_int_equal(s.requests, round);
		assert_int_equal(s.bytes_out, round * 512);
		assert_true(s.time_ns > 0 && s.calls >= round);
		assert_int_equal(s.errors, 0);
		m->dev->ops->reset(m->dev);
		m->dev->ops->reset(m->dev);
		memset(m->inflight, 0, m->dev->ops->inflight_bytes(m->dev, 0, 64));
	}
}

/* A second process, on what the first left. The first's disk is a copy, for the lock's sake. */
static void successor(struct machine *m, unsigned sectors)
{
	struct virtio_device *first = m->dev;
	void *left = aligned_alloc(64, 4096), *live = m->inflight;
	int fd;

	unlink(m->disk.path);
	snprintf(m->disk.path, sizeof(m->disk.path), "/var/tmp/keel-test-dev-XXXXXX");
	fd = mkstemp(m->disk.path);
	assert_int_equal(ftruncate(fd, (off_t)sectors * 512), 0);
	close(fd);
	disk_make(m);
	memcpy(left, live, first->ops->inflight_bytes(first, 0, 64));
	first->ops->reset(first);
	m->inflight = left;
	free(live);
}

static uint64_t capacity_of(struct machine *m)
{
	uint64_t capacity;

	m->dev->ops->config_read(m->dev, 0, &capacity, 8);
	return capacity;
}

static void assert_resized(struct machine *m, unsigned sectors, int changed, unsigned signals)
{
	uint64_t bytes = 0;

	assert_int_equal(truncate(m->disk.path, (off_t)sectors * 512), 0);
	assert_int_equal(m->dev->ops->resize(m->dev, &bytes), changed);
	assert_int_equal(bytes, sectors * 512);
	assert_int_equal(capacity_of(m), sectors);
	assert_int_equal(atomic_load(&config_signals), signals);
}

/* A disk that grows, grows again, shrinks, grows while no process is there (C-25): the driver is
 * told once each time, and never for nothing. */
static void test_blk_resize(void **state)
{
	struct machine *m = *state;
	uint64_t features;

	disk_make(m);
	features = m->dev->features;
	/* Before a driver is there, too. */
	assert_resized(m, SECTORS * 2, 1, 1);
	assert_int_equal(start(m, 64, features, false), 0);
	assert_int_equal(disk_write(m), VIRTIO_BLK_S_OK);
	assert_resized(m, SECTORS * 2, 0, 1);
	assert_resized(m, SECTORS * 4, 1, 2);
	assert_resized(m, SECTORS * 8, 1, 3);
	assert_resized(m, SECTORS, 1, 4);
	assert_int_equal(disk_write(m), VIRTIO_BLK_S_OK);
	/* Its successor opens a larger disk than the driver knows, the one after that the same. */
	successor(m, SECTORS * 16);
	assert_int_equal(start(m, 64, features, true), 0);
	assert_int_equal(atomic_load(&config_signals), 5);
	assert_int_equal(capacity_of(m), SECTORS * 16);
	successor(m, SECTORS * 16);
	assert_int_equal(start(m, 64, features, true), 0);
	assert_int_equal(atomic_load(&config_signals), 5);
	assert_int_equal(disk_write(m), VIRTIO_BLK_S_OK);
}

/* The cache mode that a driver chose holds in the process that comes after. */
static void test_blk_cache_mode(void **state)
{
	struct machine *m = *state;
	uint64_t features;
	uint8_t off = 0, on = 1;

	disk_make(m);
	features = m->dev->features;
	/* Nobody said what it is: every write is made stable. */
	assert_int_equal(start(m, 64, features, false), 0);
	assert_int_equal(writeback_of(m), 0);
	m->dev->ops->reset(m->dev);
	assert_int_equal(writeback_of(m), 1);
	memset(m->inflight, 0, m->dev->ops->inflight_bytes(m->dev, 0, 64));
	assert_int_equal(start(m, 64, features, false), 0);
	assert_int_equal(writeback_of(m), 1);
	m->dev->ops->config_write(m->dev, 32, &off, 1);
	assert_int_equal(writeback_of(m), 0);
	/* Not the field's width, not its place: ignored. */
	m->dev->ops->config_write(m->dev, 32, "\1\1", 2);
	m->dev->ops->config_write(m->dev, 0, &on, 1);
	assert_int_equal(writeback_of(m), 0);
	assert_int_equal(disk_write(m), VIRTIO_BLK_S_OK);
	successor(m, SECTORS);
	assert_int_equal(start(m, 64, features, true), 0);
	assert_int_equal(writeback_of(m), 0);
	assert_int_equal(disk_write(m), VIRTIO_BLK_S_OK);
}

static void test_blk_refused(void **state)
{
	struct machine *m = *state;
	struct virtio_device *second;
	char error[512];

	disk_make(m);
	second = virtio_blk_create(&m->disk, 1, &m->env, error, sizeof(error));
	assert_null(second);
	assert_non_null(strstr(error, m->disk.path));
	unlink(m->disk.path);
	snprintf(m->disk.path, sizeof(m->disk.path), "/nowhere/x");
	assert_null(virtio_blk_create(&m->disk, 1, &m->env, error, sizeof(error)));
	assert_non_null(strstr(error, "/nowhere/x"));
}

static void test_blk_broken(void **state)
{
	struct machine *m = *state;
	uint64_t one = 1;

	disk_make(m);
	assert_int_equal(start(m, 64, m->dev->features, false), 0);
	guest_publish_head(&m->ring, 64);
	assert_int_equal(write(m->kick_fd, &one, 8), 8);
	while (!atomic_load(&broken))
		;
	m->dev->ops->reset(m->dev);
	memset(m->inflight, 0, m->dev->ops->inflight_bytes(m->dev, 0, 64));
	assert_int_equal(start(m, 64, m->dev->features, false), 0);
	assert_int_equal(disk_write(m), VIRTIO_BLK_S_OK);
	assert_int_equal(atomic_load(&broken), 1);
}

/* ---- random numbers -------------------------------------------------------------------------- */

static void rng_make(struct machine *m)
{
	char error[512];

	m->dev = virtio_rng_create(&m->env, error, sizeof(error));
	assert_non_null(m->dev);
	keep(m->dev);
	assert_int_equal(m->dev->config_bytes, 0);
	assert_int_equal(start(m, 64, m->dev->features, false), 0);
}

static void test_rng(void **state)
{
	struct machine *m = *state;
	size_t at = guest_alloc(&m->mem, 4096, 1);
	struct guest_buf bufs[2] = {
	        {guest_gpa(at) + 1, 100, true}, {guest_gpa(at) + 200, 1000, true}};
	unsigned zeroes = 0;
	uint32_t len;

	rng_make(m);
	assert_int_equal(exchange(m, bufs, 2, &len), 0);
	assert_int_equal(len, 1100);
	assert_int_equal(m->mem.arena[at], 0);
	assert_int_equal(m->mem.arena[at + 101], 0);
	assert_int_equal(m->mem.arena[at + 1200], 0);
	for (unsigned i = 0; i < 1000; i++)
		zeroes += m->mem.arena[at + 200 + i] == 0;
	/* About 4 of 1000; 40 has a chance below 1e-25. */
	assert_true(zeroes < 40);
}

static void test_rng_bad(void **state)
{
	struct machine *m = *state;
	size_t at = guest_alloc(&m->mem, 4096, 1);
	struct guest_buf readable = {guest_gpa(at), 16, false}, outside = {0x10, 16, true};
	struct guest_buf good = {guest_gpa(at), 16, true};
	struct virtio_device_stats s;
	uint32_t len;

	rng_make(m);
	assert_int_equal(exchange(m, &readable, 1, &len), 0);
	assert_int_equal(len, 0);
	assert_int_equal(exchange(m, &outside, 1, &len), 0);
	assert_int_equal(len, 0);
	assert_int_equal(exchange(m, &good, 1, &len), 0);
	assert_int_equal(len, 16);
	m->dev->ops->stats(m->dev, &s);
	assert_int_equal(s.errors, 2);
	assert_int_equal(s.requests, 1);
	assert_int_equal(s.bytes_in, 16);
}

/* Half a megabyte: the burst at once, the rest at a megabyte a second. */
static void test_rng_rate(void **state)
{
	struct machine *m = *state;
	size_t at = guest_alloc(&m->mem, 65536, 1);
	struct guest_buf buf = {guest_gpa(at), 65536, true};
	struct timespec begin, end;
	uint64_t bytes = 0;
	double seconds;
	uint32_t len;

	rng_make(m);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (bytes < 512 << 10) {
		assert_int_equal(exchange(m, &buf, 1, &len), 0);
		assert_true(len >= 1);
		bytes += len;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	print_message("    %.3f s\n", seconds);
	/* (512 - 64) KiB at 1 MiB/s take 0.4375 s; never less. */
	assert_true(seconds > 0.43);
}

/* Requests found in flight, and one that nobody was kicked for (C-49). */
static void test_rng_resumed(void **state)
{
	struct machine *m = *state;
	size_t at = guest_alloc(&m->mem, 64, 1);
	struct guest_buf buf = {guest_gpa(at), 16, true};
	struct inflight_region *log;
	struct pollfd p = {-1, POLLIN, 0};
	uint32_t len;
	int head;

	rng_make(m);
	assert_int_equal(exchange(m, &buf, 1, &len), 0);
	m->dev->ops->reset(m->dev);
	/* As if killed with the next one taken; and one more is added. */
	head = guest_add(&m->ring, &buf, 1);
	log = m->inflight;
	log->desc[head].inflight = 1;
	log->desc[head].counter = 1;
	guest_add(&m->ring, &buf, 1);
	assert_int_equal(start(m, 64, m->dev->features, true), 0);
	p.fd = signal_fd;
	for (unsigned got = 0; got < 2;) {
		int which;

		while (guest_take(&m->ring, &which, &len)) {
			assert_int_not_equal(which, -1);
			assert_int_equal(len, 16);
			got++;
		}
		if (got < 2 && !guest_want_call(&m->ring))
			assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	        CASE(test_blk_device),
	        CASE(test_blk_life),
	        CASE(test_blk_resize),
	        CASE(test_blk_cache_mode),
	        CASE(test_blk_refused),
	        CASE(test_blk_broken),
	        CASE(test_rng),
	        CASE(test_rng_bad),
	        CASE(test_rng_rate),
	        CASE(test_rng_resumed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
