/* SPDX-License-Identifier: BSD-2-Clause */
/* The pool of workers on storage that blocks and that fails, and the choice between it and
 * io_uring. */
/* sources: engine/blk.c engine/blk_file.c engine/blk_settled.c engine/blk_req.c */
/* sources: engine/blk_io.c engine/blk_queue.c engine/blk_ring.c */
/* sources: engine/blk_held.c engine/blk_throttle.c engine/blk_poll.c */
/* sources: engine/watch.c engine/vring.c engine/memtable.c engine/iov.c */
/* libs: -luring */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <liburing.h>
#include <pthread.h>
#include <sys/uio.h>
#include <time.h>

#include "tests/unit/engine/blk_load.h"

#define OK    VIRTIO_BLK_S_OK
#define IOERR VIRTIO_BLK_S_IOERR
#define IN    VIRTIO_BLK_T_IN
#define OUT   VIRTIO_BLK_T_OUT

/* ---- storage with faults: what the engine's two files call instead of the kernel ------------- */

static struct {
	int error;     /* of each read, write and flush; 0: none */
	ssize_t most;  /* bytes that one call moves; 0: all */
	unsigned gate; /* calls wait until so many are inside; 0: none */
	unsigned inside, most_inside, calls;
	unsigned submit_us; /* what the ring's submission costs a request */
	unsigned read_us;   /* what a read costs a thread */
	pthread_mutex_t lock;
	pthread_cond_t come;
} fault = {.lock = PTHREAD_MUTEX_INITIALIZER, .come = PTHREAD_COND_INITIALIZER};

static void sleep_us(unsigned us)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

/* True: this call fails. */
static bool fault_enter(void)
{
	pthread_mutex_lock(&fault.lock);
	fault.calls++;
	if (++fault.inside > fault.most_inside)
		fault.most_inside = fault.inside;
	pthread_cond_broadcast(&fault.come);
	while (fault.gate && fault.most_inside < fault.gate)
		pthread_cond_wait(&fault.come, &fault.lock);
	pthread_mutex_unlock(&fault.lock);
	if (fault.read_us)
		sleep_us(fault.read_us);
	pthread_mutex_lock(&fault.lock);
	fault.inside--;
	pthread_mutex_unlock(&fault.lock);
	errno = fault.error;
	return fault.error;
}

/* The first buffer alone, cut: a call that moves less than was asked for. */
static struct iovec iov_cut(const struct iovec *iov)
{
	struct iovec cut = *iov;

	if (cut.iov_len > (size_t)fault.most)
		cut.iov_len = (size_t)fault.most;
	return cut;
}

static ssize_t fault_preadv2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	struct iovec cut = iov_cut(iov);

	if (fault_enter())
		return -1;
	return fault.most ? preadv2(fd, &cut, 1, at, flags) : preadv2(fd, iov, count, at, flags);
}

static ssize_t fault_pwritev2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	struct iovec cut = iov_cut(iov);

	if (fault_enter())
		return -1;
	return fault.most ? pwritev2(fd, &cut, 1, at, flags) : pwritev2(fd, iov, count, at, flags);
}

static int fault_fdatasync(int fd)
{
	return fault_enter() ? -1 : fdatasync(fd);
}

static int fault_fallocate(int fd, int mode, off_t at, off_t bytes)
{
	return fault_enter() ? -1 : fallocate(fd, mode, at, bytes);
}

static int fault_submit(struct io_uring *ring)
{
	sleep_us(fault.submit_us * io_uring_sq_ready(ring));
	return io_uring_submit(ring);
}

#define preadv2   fault_preadv2
#define pwritev2  fault_pwritev2
#define fdatasync fault_fdatasync
#define fallocate fault_fallocate
#include "engine/blk_workers.c"
#undef preadv2
#undef pwritev2
#undef fdatasync
#undef fallocate

#define io_uring_submit fault_submit
#include "engine/blk_probe.c"
#undef io_uring_submit

static void fault_clear(void)
{
	fault.error = 0;
	fault.most = 0;
	fault.gate = fault.most_inside = fault.calls = fault.submit_us = fault.read_us = 0;
}

static int setup_as(void **state, enum blk_backend backend, bool cached)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct blk_config c;

	fault_clear();
	rig_file(r, "/var/tmp", 8192);
	c = rig_config(r);
	c.backend = backend;
	c.cached = cached;
	*state = r;
	return rig_start(r, &c, 128, RIG_FEATURES);
}

static int setup(void **state)
{
	return setup_as(state, BLK_BACKEND_WORKERS, false);
}

static int setup_cached(void **state)
{
	return setup_as(state, BLK_BACKEND_WORKERS, true);
}

static int teardown(void **state)
{
	struct rig *r = *state;

	rig_stop(r);
	unlink(r->path);
	free(r);
	return 0;
}

/* ---- the pool -------------------------------------------------------------------------------- */

/* Storage that lets nobody go before all requests are there: a worker each. */
static void test_all_at_once(void **state)
{
	struct rig *r = *state;
	struct load *l = calloc(1, sizeof(*l));
	struct blk_stats s;
	uint32_t len;

	/* Known to be slow, as it would be after the first few. */
	fault.read_us = 1000;
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(rig_rw(r, IN, 0, 0, 4096), OK);
	fault.read_us = 0;
	fault.most_inside = 0;
	fault.gate = BLK_WORKERS_MAX;
	while (l->in_flight < BLK_WORKERS_MAX + 4)
		load_submit(l, r);
	rig_kick(r);
	while (l->in_flight)
		load_complete(l, r, rig_wait(r, &len));
	assert_int_equal(fault.most_inside, BLK_WORKERS_MAX);
	blk_stats_read(r->blk, &s);
	assert_int_equal(s.errors, 0);
	load_verify_file(l, r->path);
	free(l);
}

/* Storage that answers at once gets few threads, however many requests there are. */
static void test_fast_storage(void **state)
{
	struct rig *r = *state;
	struct load *l = calloc(1, sizeof(*l));
	unsigned begun = 0;
	uint32_t len;

	for (unsigned done = 0; done < 20000; done++) {
		while (begun < 20000 && l->in_flight < LOAD_DEPTH)
			begun += load_submit(l, r);
		rig_kick(r);
		load_complete(l, r, rig_wait(r, &len));
	}
	load_verify_file(l, r->path);
	free(l);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void assert_fails(struct rig *r, uint32_t type, int error, const char *words)
{
	struct virtio_blk_range range = {64, 8, 0};
	struct guest_buf data = {rig_gpa(r, 0), 4096, type == IN};
	unsigned lines = atomic_load(&r->logged);
	struct blk_stats before, after;

	if (type == VIRTIO_BLK_T_DISCARD || type == VIRTIO_BLK_T_WRITE_ZEROES) {
		memcpy(rig_data(r), &range, sizeof(range));
		data.len = sizeof(range);
	}
	blk_stats_read(r->blk, &before);
	/* A second without a line has passed, so that this one is not dropped. */
	r->blk->queues[0].log_next_ns = 0;
	fault.error = error;
	assert_int_equal(rig_do(r, type, 8, &data, type != VIRTIO_BLK_T_FLUSH, false, NULL), IOERR);
	fault.error = 0;
	blk_stats_read(r->blk, &after);
	assert_int_equal(after.errors, before.errors + 1);
	assert_int_equal(atomic_load(&r->logged), lines + 1);
	assert_non_null(strstr(r->last_log, words));
	assert_non_null(strstr(r->last_log, r->path));
	assert_null(strchr(r->last_log, '\n'));
	assert_int_equal(
	        rig_do(r, IN, 8, &(struct guest_buf){rig_gpa(r, 0), 4096, true}, 1, false, NULL),
	        OK);
}

static void test_errors(void **state)
{
	static const struct {
		int error;
		const char *words;
	} errors[] = {{EIO, "Input/output error"}, {ENOSPC, "No space left on device"},
	        {EDQUOT, "Disk quota exceeded"}, {ENODEV, "No such device"},
	        {ESTALE, "Stale file handle"}, {ENOMEM, "Cannot allocate memory"},
	        {EREMOTEIO, "Remote I/O error"}};
	static const uint32_t types[] = {
	        IN, OUT, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_WRITE_ZEROES};

	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		for (unsigned k = 0; k < sizeof(types) / sizeof(types[0]); k++)
			assert_fails(*state, types[k], errors[i].error, errors[i].words);
}

/* A thousand errors are a line now and then, not a thousand lines. */
static void test_error_flood(void **state)
{
	struct rig *r = *state;
	unsigned lines = atomic_load(&r->logged);

	fault.error = EIO;
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(rig_rw(r, IN, 8, 0, 4096), IOERR);
	assert_in_range(atomic_load(&r->logged) - lines, 1, 60);
}

/* Busy for a moment is tried again; busy for ever is an error. */
static void test_busy(void **state)
{
	struct rig *r = *state;
	unsigned before = fault.calls;

	fault.error = EAGAIN;
	assert_int_equal(rig_rw(r, IN, 8, 0, 4096), IOERR);
	assert_in_range(fault.calls - before, 2, 64);
}

/* Storage that moves less than it was asked for is asked again for the rest. */
static void test_short(void **state)
{
	struct rig *r = *state;

	fault.most = 512;
	memset(rig_data(r), 0x3c, 65536);
	assert_int_equal(rig_rw(r, OUT, 64, 0, 65536), OK);
	assert_int_equal(rig_rw(r, IN, 64, 1 << 20, 65536), OK);
	assert_memory_equal(rig_data(r), rig_data(r) + (1 << 20), 65536);
	assert_true(fault.calls >= 256);
}

/* ---- the choice ------------------------------------------------------------------------------ */

static void assert_choice(unsigned submit_us, unsigned read_us, bool workers)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct blk_config c;
	char error[512];

	fault_clear();
	fault.submit_us = submit_us;
	fault.read_us = read_us;
	rig_file(r, "/var/tmp", 8192);
	c = rig_config(r);
	assert_int_equal(blk_open(&r->blk, &c, error, sizeof(error)), 0);
	print_message("    %s\n", r->last_log);
	assert_int_equal(atomic_load(&r->logged), 1);
	assert_string_equal(blk_backend_name(r->blk), workers ? "workers" : "io_uring");
	assert_non_null(strstr(r->last_log, blk_backend_name(r->blk)));
	assert_non_null(strstr(r->last_log, " us"));
	blk_close(r->blk);
	unlink(r->path);
	free(r);
}

static void test_choice(void **state)
{
	(void)state;
	/* As it is here: the kernel takes reads and answers later. */
	assert_choice(0, 0, false);
	/* It stands still in each submission; threads wait side by side. */
	assert_choice(4000, 4000, true);
	/* It does, but threads are no faster, since the storage does one at a time. */
	assert_choice(4000, 100000, false);
}

static void test_choice_rule(void **state)
{
	struct blk_probe p = {true, 1000000, 1000000, 500000};

	(void)state;
	assert_true(blk_probe_wants_workers(&p));
	p.threads_ns = 900000; /* not faster by a fifth */
	assert_false(blk_probe_wants_workers(&p));
	p = (struct blk_probe){true, 400000, 1000000, 100000}; /* mostly waiting for answers */
	assert_false(blk_probe_wants_workers(&p));
	p = (struct blk_probe){true, 100000, 110000, 50000}; /* 6 us each: computing, not waiting */
	assert_false(blk_probe_wants_workers(&p));
	p = (struct blk_probe){false, 1000000, 1000000, 500000};
	assert_false(blk_probe_wants_workers(&p));
}

/* Measuring must not keep a disk from being opened that cannot be read, or is too small. */
static void test_not_measured(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct blk_config c;
	char error[512];

	(void)state;
	fault_clear();
	rig_file(r, "/var/tmp", 8);
	c = rig_config(r);
	assert_int_equal(blk_open(&r->blk, &c, error, sizeof(error)), 0);
	assert_non_null(strstr(r->last_log, "not measured"));
	assert_string_equal(blk_backend_name(r->blk), "io_uring");
	blk_close(r->blk);
	unlink(r->path);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(fn, how) {#fn " " #how, fn, how, teardown, NULL}
	        CASE(test_all_at_once, setup),
	        CASE(test_all_at_once, setup_cached),
	        CASE(test_fast_storage, setup),
	        CASE(test_fast_storage, setup_cached),
	        CASE(test_errors, setup),
	        CASE(test_errors, setup_cached),
	        CASE(test_error_flood, setup),
	        CASE(test_busy, setup),
	        CASE(test_short, setup),
	        CASE(test_short, setup_cached),
	        cmocka_unit_test(test_choice),
	        cmocka_unit_test(test_choice_rule),
	        cmocka_unit_test(test_not_measured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
