/* SPDX-License-Identifier: BSD-2-Clause */
/* The disk's process is killed again and again under verified load; the guest must not notice. */
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

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/unit/engine/blk_load.h"

#define KILLS 120u

static void *shared(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

/* Guest memory and the in-flight region in memory that outlives the process that serves. */
static void rig_share(struct rig *r, uint64_t features)
{
	size_t size = 8 << 20;

	r->mem.arena = shared(size);
	r->mem.size = size;
	r->mem.table.count = 1;
	r->mem.table.regions[0] = (struct memtable_region){GUEST_BASE, size, r->mem.arena};
	guest_ring_init(&r->ring, &r->mem, 64, features);
	free(r->ring.inflight);
	r->ring.inflight = shared(vring_inflight_bytes(64));
	r->head_at = guest_alloc(&r->mem, 16 * 1024, 16);
	r->status_at = guest_alloc(&r->mem, 1024, 1);
	r->data_bytes = LOAD_DEPTH * 4096;
	/* Room to put it at an odd place. */
	r->data_at = guest_alloc(&r->mem, r->data_bytes + 4096, 4096);
	r->kick_fd = eventfd(0, EFD_NONBLOCK);
	r->call_fd = eventfd(0, EFD_NONBLOCK);
}

/* The process that serves: attaches, and does nothing else until it is killed. */
static void serve_until_killed(struct rig *r, enum blk_backend backend)
{
	struct engine_queue q = {.kick_fd = r->kick_fd, .ring = guest_ring_config(&r->ring)};
	struct blk_config c = rig_config(r);
	char error[512];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	c.lock_wait_ms = 10000;
	c.backend = backend;
	if (blk_open(&r->blk, &c, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		_exit(1);
	}
	if (blk_queue_start(r->blk, &q))
		_exit(2);
	for (;;)
		pause();
}

static pid_t spawn(struct rig *r, enum blk_backend backend)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child)
		serve_until_killed(r, backend);
	return child;
}

static void kill_and_reap(struct rig *r, pid_t child)
{
	uint64_t lost;
	int status;

	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* Kicks of this time are forgotten (C-49). */
	if (read(r->kick_fd, &lost, sizeof(lost)) < 0)
		assert_int_equal(errno, EAGAIN);
}

static void run_kills(uint64_t features, size_t misalign, enum blk_backend backend)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct load *l = calloc(1, sizeof(*l));
	unsigned done = 0;
	uint32_t len;
	pid_t child;

	rig_file(r, "/var/tmp", LOAD_BLOCKS * 8);
	rig_share(r, features);
	r->data_at += misalign;
	for (unsigned kills = 0; kills < KILLS; kills++) {
		unsigned target = done + load_random(l) % 100;
		unsigned spin = load_random(l) % 4 ? 0 : load_random(l) % 3000000;

		child = spawn(r, backend);
		/* At times before it is even up; else after some answers. */
		for (volatile unsigned i = 0; i < spin; i++)
			;
		while (!spin && done < target) {
			while (l->in_flight < LOAD_DEPTH / 2)
				load_submit(l, r);
			rig_kick(r);
			load_complete(l, r, rig_wait(r, &len));
			done++;
		}
		for (unsigned i = 0; i < 20; i++)
			load_submit(l, r);
		rig_kick(r);
		kill_and_reap(r, child);
	}
	child = spawn(r, backend);
	while (l->in_flight) {
		load_complete(l, r, rig_wait(r, &len));
		done++;
	}
	kill_and_reap(r, child);
	load_verify_file(l, r->path);
	print_message("    %u requests, %u kills\n", done, KILLS);
	assert_true(done > KILLS * 10);
	unlink(r->path);
	munmap(r->mem.arena, r->mem.size);
	munmap(r->ring.inflight, vring_inflight_bytes(64));
	close(r->kick_fd);
	close(r->call_fd);
	free(l);
	free(r);
}

static void test_kills_event(void **state)
{
	(void)state;
	run_kills(RIG_FEATURES, 0, BLK_BACKEND_RING);
}

static void test_kills_flags(void **state)
{
	(void)state;
	run_kills(VIRTIO_BIT(VIRTIO_BLK_F_FLUSH), 0, BLK_BACKEND_MEASURE);
}

static void test_kills_bounced(void **state)
{
	(void)state;
	run_kills(RIG_FEATURES, 17, BLK_BACKEND_RING);
}

static void test_kills_workers(void **state)
{
	(void)state;
	run_kills(RIG_FEATURES, 0, BLK_BACKEND_WORKERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_kills_event),
	        cmocka_unit_test(test_kills_flags),
	        cmocka_unit_test(test_kills_bounced),
	        cmocka_unit_test(test_kills_workers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
