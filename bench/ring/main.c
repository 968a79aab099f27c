/* SPDX-License-Identifier: BSD-2-Clause */
/* bench-ring: drives a vhost-user-blk device as a guest's driver would, and says what it cost. */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/ring/kill.h"
#include "bench/ring/load.h"
#include "bench/ring/usage.h"

#define WAIT_MS      1000
#define CONNECT_MS   10000
#define MEM_MIN      (8ull << 20)
#define STUCK_WAITS  30u
#define SIZE_DEFAULT 256u

struct options {
	struct front_config front;
	struct load_config load;
	double seconds, warmup;
	uint64_t range_bytes;
	uint64_t requests; /* 0: by time */
	bool poll;
	bool lockstep; /* the next requests only when all have been answered */
	bool fill;
	unsigned kills; /* of the device's process, and nothing else is measured */
	const char *label;
	const char *verify_file;
};

/* What the threads of the queues share. */
struct run {
	const struct options *o;
	struct front front;
	struct load loads[FRONT_QUEUES_MAX];
	pthread_t threads[FRONT_QUEUES_MAX];
	atomic_bool ends, failed;
	atomic_uint finished; /* queues that reached their number of requests */
};

/* ---- one queue ------------------------------------------------------------------------------- */

static int answers_await(struct run *r, struct load *l)
{
	unsigned waits = 0;
	int count;

	for (;;) {
		count = load_take(l);
		if (count || !load_in_flight(l))
			return count;
		if (r->o->poll) {
			__builtin_ia32_pause();
			if (atomic_load_explicit(&r->failed, memory_order_relaxed))
				return -1;
			continue;
		}
		if (queue_want_call(l->q))
			continue;
		if (queue_wait(l->q, WAIT_MS))
			continue;
		if (front_is_gone(&r->front) || ++waits == STUCK_WAITS) {
			snprintf(l->error, sizeof(l->error),
			        "queue %u: no answer, %u requests in flight", l->q->index,
			        load_in_flight(l));
			return -1;
		}
	}
}

static void *queue_main(void *arg)
{
	struct load *l = arg;
	struct run *r = (struct run *)(void *)((char *)l->front - offsetof(struct run, front));
	bool ends = false;

	while (!ends || load_in_flight(l)) {
		ends = atomic_load_explicit(&r->ends, memory_order_relaxed) ||
		       (l->limit && l->submitted >= l->limit);
		if (!ends && (!r->o->lockstep || !load_in_flight(l)))
			load_fill(l);
		if (answers_await(r, l) < 0) {
			fprintf(stderr, "bench-ring: %s\n", l->error);
			atomic_store(&r->failed, true);
			break;
		}
	}
	atomic_fetch_add(&r->finished, 1);
	return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

struct sums {
	uint64_t done, verified, kicks, calls;
};

static struct sums sums_take(struct run *r)
{
	struct sums s = {0};

	for (unsigned i = 0; i < r->front.queue_count; i++) {
		s.done += __atomic_load_n(&r->loads[i].done, __ATOMIC_RELAXED);
		s.verified += __atomic_load_n(&r->loads[i].verified, __ATOMIC_RELAXED);
		s.kicks += __atomic_load_n(&r->front.queues[i].kicks, __ATOMIC_RELAXED);
		s.calls += __atomic_load_n(&r->front.queues[i].calls, __ATOMIC_RELAXED);
	}
	return s;
}

static int loads_make(struct run *r)
{
	struct load_config c = r->o->load;
	uint64_t bytes = r->front.capacity * 512;

	if (r->o->range_bytes && r->o->range_bytes < bytes)
		bytes = r->o->range_bytes;
	c.block_count = bytes / c.bytes / r->front.queue_count;
	if (!c.block_count) {
		fprintf(stderr, "bench-ring: the disk is too small\n");
		return -1;
	}
	for (unsigned i = 0; i < r->front.queue_count; i++) {
		c.first_block = i * c.block_count;
		c.seed = i + 1;
		if (load_init(&r->loads[i], &r->front, i, &c)) {
			fprintf(stderr, "bench-ring: %s\n", r->loads[i].error);
			return -1;
		}
		r->loads[i].limit = r->o->requests / r->front.queue_count;
	}
	return 0;
}

/* Each block once, so that what is read is known (and the file has its blocks). */
static int disk_fill(struct run *r)
{
	for (unsigned i = 0; i < r->front.queue_count; i++) {
		struct load *l = &r->loads[i];
		struct load_config c = l->c;
		uint64_t limit = l->limit;

		l->c.is_sequential = true;
		l->c.read_percent = 0;
		l->limit = c.block_count;
		queue_main(l);
		l->c = c;
		l->limit = limit;
		l->submitted = l->done = l->verified = l->next_block = 0;
	}
	return atomic_load(&r->failed) ? -1 : 0;
}

static void report(struct run *r, const struct sums *a, const struct sums *b, double seconds,
        const struct usage *before, const struct usage *after)
{
	double n = (double)(b->done - a->done);
	struct hist all = {0};

	for (unsigned i = 0; i < r->front.queue_count; i++)
		hist_merge(&all, &r->loads[i].latency);
	printf("{\"label\": \"%s\", \"queues\": %u, \"depth\": %u, \"bytes\": %u, "
	       "\"read_percent\": %u, \"sequential\": %s, \"poll\": %s, \"seconds\": %.3f, "
	       "\"requests\": %.0f, \"iops\": %.0f, \"mb_s\": %.1f, \"lat_us_mean\": %.2f, "
	       "\"lat_us_p50\": %.2f, \"lat_us_p90\": %.2f, \"lat_us_p99\": %.2f, "
	       "\"lat_us_p999\": %.2f, \"lat_us_max\": %.1f, \"verified\": %llu, ",
	        r->o->label, r->front.queue_count, r->o->load.depth, r->o->load.bytes,
	        r->o->load.read_percent, r->o->load.is_sequential ? "true" : "false",
	        r->o->poll ? "true" : "false", seconds, n, n / seconds,
	        n * r->o->load.bytes / seconds / 1e6,
	        all.count ? (double)all.sum_ns / (double)all.count / 1000 : 0,
	        hist_quantile_us(&all, 0.5), hist_quantile_us(&all, 0.9),
	        hist_quantile_us(&all, 0.99), hist_quantile_us(&all, 0.999),
	        (double)all.max_ns / 1000, (unsigned long long)b->verified);
	n = n > 0 ? n : 1;
	printf("\"device_cpu_us_per_request\": %.3f, \"device_cpus\": %.3f, "
	       "\"device_switches_per_request\": %.4f, \"kicks_per_request\": %.4f, "
	       "\"calls_per_request\": %.4f, \"other_cpus\": %.2f}\n",
	        (double)(after->device_ns - before->device_ns) / n / 1000,
	        (double)(after->device_ns - before->device_ns) / seconds / 1e9,
	        (double)(after->device_switches - before->device_switches) / n,
	        (double)(b->kicks - a->kicks) / n, (double)(b->calls - a->calls) / n,
	        usage_others(before, after, seconds));
}

static int run(struct run *r)
{
	struct usage before, after;
	struct sums a, b;
	double start;

	if (front_init(&r->front, &r->o->front) || front_connect(&r->front, CONNECT_MS)) {
		fprintf(stderr, "bench-ring: %s\n", r->front.error);
		return 1;
	}
	if (loads_make(r) || (r->o->fill && disk_fill(r)))
		return 1;
	if (r->o->kills)
		return kill_run(&r->front, &r->loads[0], r->o->kills) ? 1 : 0;
	atomic_store(&r->finished, 0);
	for (unsigned i = 0; i < r->front.queue_count; i++)
		r->loads[i].is_timed = r->o->warmup <= 0;
	for (unsigned i = 0; i < r->front.queue_count; i++)
		pthread_create(&r->threads[i], NULL, queue_main, &r->loads[i]);
	sleep_s(r->o->warmup);
	for (unsigned i = 0; i < r->front.queue_count; i++)
		__atomic_store_n(&r->loads[i].is_timed, true, __ATOMIC_RELAXED);
	usage_take(&before, r->front.peer);
	a = sums_take(r);
	start = (double)clock_ns() / 1e9;
	if (!r->o->requests)
		sleep_s(r->o->seconds);
	while (r->o->requests && atomic_load(&r->finished) < r->front.queue_count)
		sleep_s(0.001);
	b = sums_take(r);
	start = (double)clock_ns() / 1e9 - start;
	usage_take(&after, r->front.peer);
	atomic_store(&r->ends, true);
	for (unsigned i = 0; i < r->front.queue_count; i++)
		pthread_join(r->threads[i], NULL);
	if (atomic_load(&r->failed))
		return 1;
	if (front_stop(&r->front)) {
		fprintf(stderr, "bench-ring: %s\n", r->front.error);
		return 1;
	}
	for (unsigned i = 0; i < r->front.queue_count && r->o->verify_file; i++)
		if (load_verify_file(&r->loads[i], r->o->verify_file)) {
			fprintf(stderr, "bench-ring: %s: %s\n", r->o->verify_file,
			        r->loads[i].error);
			return 1;
		}
	report(r, &a, &b, start, &before, &after);
	return 0;
}

/* ---- the command line ------------------------------------------------------------------------ */

static const char usage_text[] =
        "usage: bench-ring --socket=PATH [options]\n"
        "  --queues=N --depth=N --bytes=N    1 queue, 32 requests in flight on each, of 4096 "
        "bytes\n"
        "  --read-percent=N --sequential     100, at random\n"
        "  --seconds=S --warmup=S            5, after 0.5 that do not count\n"
        "  --requests=N                      so many instead, from the first\n"
        "  --poll                            look for answers all the time, no interrupts\n"
        "  --lockstep                        the next requests only when all have been answered\n"
        "  --verify --fill                   check data; write all of the range first\n"
        "  --verify-file=PATH                and compare the storage at the end\n"
        "  --range=BYTES                     of the disk that is used\n"
        "  --kills=N                         end the device's process so often, and time its "
        "successor\n"
        "  --ring=N --no-event-idx --no-indirect --label=TEXT\n";

enum {
	O_SOCKET = 1,
	O_QUEUES,
	O_DEPTH,
	O_BYTES,
	O_READ,
	O_SEQ,
	O_SECONDS,
	O_WARMUP,
	O_REQUESTS,
	O_POLL,
	O_LOCKSTEP,
	O_VERIFY,
	O_FILL,
	O_FILE,
	O_RANGE,
	O_KILLS,
	O_RING,
	O_NO_EVENT,
	O_NO_INDIRECT,
	O_LABEL
};

static const struct option table[] = {{"socket", 1, NULL, O_SOCKET}, {"queues", 1, NULL, O_QUEUES},
        {"depth", 1, NULL, O_DEPTH}, {"bytes", 1, NULL, O_BYTES}, {"read-percent", 1, NULL, O_READ},
        {"sequential", 0, NULL, O_SEQ}, {"seconds", 1, NULL, O_SECONDS},
        {"warmup", 1, NULL, O_WARMUP}, {"requests", 1, NULL, O_REQUESTS}, {"poll", 0, NULL, O_POLL},
        {"lockstep", 0, NULL, O_LOCKSTEP}, {"verify", 0, NULL, O_VERIFY}, {"fill", 0, NULL, O_FILL},
        {"verify-file", 1, NULL, O_FILE}, {"range", 1, NULL, O_RANGE}, {"kills", 1, NULL, O_KILLS},
        {"ring", 1, NULL, O_RING}, {"no-event-idx", 0, NULL, O_NO_EVENT},
        {"no-indirect", 0, NULL, O_NO_INDIRECT}, {"label", 1, NULL, O_LABEL}, {NULL, 0, NULL, 0}};

static bool option_take(struct options *o, int which)
{
	uint64_t n = optarg ? strtoull(optarg, NULL, 10) : 0;

	switch (which) {
	case O_SOCKET: o->front.path = optarg; return true;
	case O_QUEUES: o->front.queue_count = (unsigned)n; return n && n <= FRONT_QUEUES_MAX;
	case O_DEPTH: o->load.depth = (unsigned)n; return n && n <= FRONT_SIZE_MAX;
	case O_BYTES: o->load.bytes = (uint32_t)n; return n && n % 512 == 0 && n <= 64u << 20;
	case O_READ: o->load.read_percent = (unsigned)n; return n <= 100;
	case O_SEQ: o->load.is_sequential = true; return true;
	case O_SECONDS: o->seconds = atof(optarg); return true;
	case O_WARMUP: o->warmup = atof(optarg); return true;
	case O_REQUESTS: o->requests = n; return n;
	case O_POLL: o->poll = true; return true;
	case O_LOCKSTEP: o->lockstep = true; return true;
	case O_VERIFY: o->load.verify = true; return true;
	case O_FILL: o->fill = true; return true;
	case O_FILE: o->verify_file = optarg; return true;
	case O_RANGE: o->range_bytes = n; return n;
	case O_KILLS: o->kills = (unsigned)n; return n;
	case O_RING: o->front.queue_size = (unsigned)n; return n && n <= FRONT_SIZE_MAX;
	case O_NO_EVENT: o->front.refuse |= 1ull << VIRTIO_RING_F_EVENT_IDX; return true;
	case O_NO_INDIRECT: o->front.refuse |= 1ull << VIRTIO_RING_F_INDIRECT_DESC; return true;
	case O_LABEL: o->label = optarg; return true;
	default: return false;
	}
}

int main(int argc, char **argv)
{
	static struct run r;
	struct options o = {.front = {.queue_count = 1, .queue_size = SIZE_DEFAULT},
	        .load = {.depth = 32, .bytes = 4096, .read_percent = 100},
	        .seconds = 5,
	        .warmup = 0.5,
	        .label = ""};
	int which;

	while ((which = getopt_long(argc, argv, "", table, NULL)) != -1)
		if (!option_take(&o, which))
			goto wrong;
	if (optind < argc || !o.front.path || ((o.verify_file || o.fill) && !o.load.verify))
		goto wrong;
	if (o.requests)
		o.warmup = 0;
	while (o.front.queue_size < o.load.depth)
		o.front.queue_size *= 2;
	o.front.mem_bytes = MEM_MIN +
	                    o.front.queue_count * (uint64_t)o.load.depth * (o.load.bytes + 8192);
	o.front.mem_bytes = (o.front.mem_bytes + (2u << 20)) & ~((2ull << 20) - 1);
	r.o = &o;
	return run(&r);
wrong:
	fputs(usage_text, stderr);
	return 2;
}
