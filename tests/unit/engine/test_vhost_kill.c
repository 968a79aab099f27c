/* SPDX-License-Identifier: BSD-2-Clause */
/* keel-blk is killed at any moment under verified load; the front end reconnects and goes on. */
/* sources: blkd/daemon.c blkd/options.c blkd/listen.c engine/vhost_server.c */
/* sources: engine/vhost_ring.c */
/* sources: engine/vhost_inflight.c engine/vhost_memory.c engine/vhost_msg.c */
/* sources: engine/blk.c engine/blk_file.c engine/blk_settled.c engine/blk_req.c */
/* sources: engine/blk_io.c engine/blk_queue.c engine/blk_ring.c */
/* sources: engine/blk_held.c engine/blk_throttle.c engine/blk_poll.c */
/* sources: engine/blk_workers.c engine/blk_probe.c */
/* sources: engine/watch.c engine/vring.c engine/memtable.c engine/iov.c */
/* sources: bench/ring/front.c bench/lib/queue.c bench/ring/load.c bench/lib/hist.c */
/* libs: -luring */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/unit/engine/vhost_rig.h"

/* KEEL_KILLS in the environment asks for more. */
#define KILLS_DEFAULT 60u
#define QUEUES        2u
#define DEPTH         24u
#define BLOCKS        512u
#define KILL_US_MAX   60000u
#define IDLE_MAX      10000u /* rounds of some milliseconds */

struct rig {
	struct vhost_rig v;
	struct front f;
	struct load loads[QUEUES];
	uint64_t done, stranded; /* answers got, and requests in flight when it was killed */
	const char *option;      /* of the daemon's; NULL: none */
	unsigned connects;
	bool sleeps[QUEUES]; /* waits for a call, also over the death of who has to make it */
};

static unsigned kills_wanted(void)
{
	const char *text = getenv("KEEL_KILLS");
	unsigned n = text ? (unsigned)atoi(text) : 0;

	return n ? n : KILLS_DEFAULT;
}

/* A process that kills the daemon after a while, whatever it is doing then. */
static pid_t killer_spawn(pid_t victim, unsigned us)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		usleep(us);
		kill(victim, SIGKILL);
		_exit(0);
	}
	return child;
}

/* As a driver does: after it has asked for a call it looks at the ring only when one comes. False:
 * no answers yet. */
static bool answers_take(struct rig *r, unsigned i)
{
	struct load *l = &r->loads[i];
	int count;

	if (r->sleeps[i] && !queue_wait(l->q, 1))
		return false;
	r->sleeps[i] = false;
	do {
		count = load_take(l);
		if (count < 0)
			fail_msg("%s", l->error);
		r->done += (unsigned)count;
	} while (queue_want_call(l->q));
	r->sleeps[i] = true;
	return true;
}

/* Serves both queues until all is answered (fills: never) or the daemon is gone. */
static void load_run(struct rig *r, bool fills)
{
	for (unsigned idle = 0; !front_is_gone(&r->f);) {
		unsigned in_flight = 0;

		idle++;
		for (unsigned i = 0; i < QUEUES; i++) {
			if (fills)
				load_fill(&r->loads[i]);
			if (answers_take(r, i))
				idle = 0;
			in_flight += load_in_flight(&r->loads[i]);
		}
		if (!fills && !in_flight)
			return;
		if (idle > IDLE_MAX)
			fail_msg("%u requests in flight, and no call", in_flight);
	}
}

static void loads_make(struct rig *r)
{
	struct load_config c = {.depth = DEPTH, .bytes = 4096, .read_percent = 50, .verify = true};

	for (unsigned i = 0; i < QUEUES; i++) {
		c.block_count = BLOCKS;
		c.first_block = i * BLOCKS;
		c.seed = i + 1;
		assert_int_equal(load_init(&r->loads[i], &r->f, i, &c), 0);
	}
}

static void life(struct rig *r, unsigned us)
{
	pid_t killer;
	int status;

	vhost_rig_spawn(&r->v, r->option);
	killer = killer_spawn(r->v.child, us);
	if (!front_connect(&r->f, 30)) {
		r->connects++;
		load_run(r, true);
	}
	assert_int_equal(waitpid(killer, &status, 0), killer);
	assert_int_equal(waitpid(r->v.child, &status, 0), r->v.child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	front_drop(&r->f);
	for (unsigned i = 0; i < QUEUES; i++) {
		uint64_t lost;
		r->stranded += load_in_flight(&r->loads[i]);
		/* The guest goes on meanwhile, and its kicks are forgotten (C-49). */
		load_fill(&r->loads[i]);
		if (read(r->loads[i].q->kick_fd, &lost, sizeof(lost)) < 0)
			assert_int_equal(errno, EAGAIN);
	}
}

static void run_kills(uint64_t refuse, const char *option)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct front_config c = {
	        .queue_count = QUEUES, .queue_size = 128, .mem_bytes = 8 << 20, .refuse = refuse};
	unsigned kills = kills_wanted();

	r->option = option;
	vhost_rig_init(&r->v, QUEUES * BLOCKS * 4096);
	c.path = r->v.socket;
	assert_int_equal(front_init(&r->f, &c), 0);
	vhost_rig_spawn(&r->v, r->option);
	assert_int_equal(front_connect(&r->f, RIG_CONNECT_MS), 0);
	loads_make(r);
	front_drop(&r->f);
	vhost_rig_end(&r->v, SIGKILL);
	for (unsigned i = 0; i < kills; i++)
		life(r, (unsigned)rand() % KILL_US_MAX);
	vhost_rig_spawn(&r->v, r->option);
	if (front_connect(&r->f, RIG_CONNECT_MS))
		fail_msg("%s", r->f.error);
	load_run(r, false);
	for (unsigned i = 0; i < QUEUES; i++)
		assert_int_equal(load_in_flight(&r->loads[i]), 0);
	if (front_stop(&r->f))
		fail_msg("%s", r->f.error);
	assert_int_equal(vhost_rig_end(&r->v, SIGTERM), 0);
	for (unsigned i = 0; i < QUEUES; i++) {
		if (load_verify_file(&r->loads[i], r->v.disk))
			fail_msg("%s", r->loads[i].error);
		load_free(&r->loads[i]);
	}
	print_message("    %u kills, %u of them with a front end, %llu requests, %llu in flight "
	              "when killed\n",
	        kills, r->connects, (unsigned long long)r->done, (unsigned long long)r->stranded);
	assert_true(r->connects && r->stranded && r->done > kills);
	front_free(&r->f);
	vhost_rig_free(&r->v);
	free(r);
}

static void test_kills_event(void **state)
{
	(void)state;
	run_kills(0, NULL);
}

static void test_kills_flags_direct(void **state)
{
	(void)state;
	run_kills(1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC, NULL);
}

static void test_kills_workers(void **state)
{
	(void)state;
	run_kills(0, "--backend=workers");
}

/* Most of what is in flight waits for the rate limit when the daemon dies. */
static void test_kills_limited(void **state)
{
	(void)state;
	run_kills(0, "--iops=2000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_kills_event),
	        cmocka_unit_test(test_kills_flags_direct),
	        cmocka_unit_test(test_kills_workers),
	        cmocka_unit_test(test_kills_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
