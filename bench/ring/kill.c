/* SPDX-License-Identifier: BSD-2-Clause */
/* Each death, timed; the data are checked as ever. */
#include "bench/ring/kill.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#define CONNECT_MS 30000
#define WAIT_MS    10
#define LOOK_NS    100000
#define LOAD_NS    50000000ull /* and up to as much again */
#define STUCK_NS   30000000000ull

/* Keeps the queue busy until then, or until an answer came (until: 0). */
static int load_until(struct load *l, uint64_t until)
{
	uint64_t start = clock_ns();

	for (;;) {
		int count;

		load_fill(l);
		count = load_take(l);
		if (count < 0)
			return -1;
		if (until ? clock_ns() >= until : count > 0)
			return 0;
		if (clock_ns() - start > STUCK_NS) {
			snprintf(l->error, sizeof(l->error), "no answer, %u in flight",
			        load_in_flight(l));
			return -1;
		}
		if (!count && !queue_want_call(l->q))
			queue_wait(l->q, WAIT_MS);
	}
}

static void rest(void)
{
	nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

/* To the successor. A connection that the dead one's listener still took is closed by the kernel.
 */
static int connect_again(struct front *f)
{
	uint64_t end = clock_ns() + STUCK_NS;
	int rc;

	do {
		front_drop(f);
		rest();
		rc = front_connect(f, CONNECT_MS);
	} while (rc && clock_ns() < end);
	return rc;
}

static int one_death(struct front *f, struct load *l, double *wait_ms)
{
	uint64_t start = clock_ns();

	if (load_until(l, start + LOAD_NS + start % LOAD_NS))
		return -1;
	start = clock_ns();
	if (kill(f->peer, SIGKILL)) {
		snprintf(l->error, sizeof(l->error), "process %d cannot be ended", (int)f->peer);
		return -1;
	}
	/* What was answered before it died does not count. */
	while (!front_is_gone(f))
		rest();
	if (load_take(l) < 0)
		return -1;
	if (connect_again(f)) {
		snprintf(l->error, sizeof(l->error), "%s", f->error);
		return -1;
	}
	if (load_until(l, 0))
		return -1;
	*wait_ms = (double)(clock_ns() - start) / 1e6;
	return 0;
}

int kill_run(struct front *f, struct load *l, unsigned kills)
{
	printf("{\"waits_ms\": [");
	for (unsigned i = 0; i < kills; i++) {
		double wait_ms;

		if (one_death(f, l, &wait_ms)) {
			fprintf(stderr, "bench-ring: death %u: %s\n", i + 1, l->error);
			return -1;
		}
		printf("%s%.3f", i ? ", " : "", wait_ms);
	}
	printf("], \"done\": %" PRIu64 ", \"verified\": %" PRIu64 "}\n", l->done, l->verified);
	return 0;
}
