/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that serves one disk queue: complete, publish, take, submit, watch, wait. */
#include "engine/blk_impl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCH_SPINS      16u
#define FIXED_PART_BYTES (1ull << 30)

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * BLK_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* ---- answers --------------------------------------------------------------------------------- */

struct io_uring_sqe *blk_queue_sqe(struct blk_queue *q)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);

	while (!sqe) {
		io_uring_submit(&q->ring);
		sqe = io_uring_get_sqe(&q->ring);
	}
	return sqe;
}

void blk_queue_finish(struct blk_queue *q, struct blk_req *req, uint8_t result)
{
	struct blk_stats *stats = &q->stats;

	*(volatile uint8_t *)req->status = result;
	if (result == VIRTIO_BLK_S_OK) {
		blk_count(&stats->requests[req->op], 1);
		blk_count(&stats->bytes[req->op], req->length);
		blk_count(&stats->latency_ns[req->op], q->now_ns - req->start_ns);
	} else {
		blk_count(&stats->errors, 1);
	}
	blk_req_free(req);
	q->in_flight--;
	vring_put(&q->vr, req->head, req->used_bytes);
}

void blk_queue_complain(struct blk_queue *q, const struct blk_req *req, int error)
{
	static const char *const names[BLK_OPS] = {
	        "read", "write", "flush", "discard", "write zeroes", "request"};
	const struct engine_events *events = &q->blk->config.events;
	char line[512];

	if (q->now_ns < q->log_next_ns) {
		q->log_dropped++;
		return;
	}
	q->log_next_ns = q->now_ns + BLK_NS_PER_SECOND;
	snprintf(line, sizeof(line),
	        "disk %s: %s at %llu failed: %s; the guest gets an I/O error (%u more before)",
	        q->blk->path, names[req->op], (unsigned long long)(req->offset + req->done),
	        strerror(error), q->log_dropped);
	q->log_dropped = 0;
	events->log(events->owner, line);
}

/* Lets the guest see what is done, and calls it if it wants that. */
static bool publish(struct blk_queue *q)
{
	const struct engine_events *events = &q->blk->config.events;

	vring_publish(&q->vr);
	__atomic_store_n(&q->stats.in_flight, q->in_flight, __ATOMIC_RELAXED);
	if (!vring_take_call(&q->vr))
		return false;
	blk_count(&q->stats.calls, 1);
	events->call(events->owner, q->index);
	return true;
}

/* ---- what the kernel says -------------------------------------------------------------------- */

static void poll_arm(struct blk_queue *q, int fd, uint64_t tag)
{
	struct io_uring_sqe *sqe = blk_queue_sqe(q);

	io_uring_prep_poll_multishot(sqe, fd, POLLIN);
	sqe->user_data = tag;
}

/* A poll counts signals by itself, so nobody needs to read the descriptor. */
static void poll_complete(struct blk_queue *q, const struct io_uring_cqe *cqe)
{
	bool kick = cqe->user_data == BLK_TAG_KICK;

	if (kick)
		blk_count(&q->stats.kicks, 1);
	else
		q->stopping = true;
	if (cqe->flags & IORING_CQE_F_MORE)
		return;
	if (kick)
		q->rearm_kick = true;
	else
		q->rearm_stop = true;
}

/* Takes all completions. True: there were some. */
static bool reap(struct blk_queue *q)
{
	struct io_uring_cqe *cqe;
	unsigned before = q->in_flight;
	bool any = false;

	while (!io_uring_peek_cqe(&q->ring, &cqe)) {
		struct io_uring_cqe copy = *cqe;

		io_uring_cqe_seen(&q->ring, cqe);
		if (!any)
			q->now_ns = clock_ns();
		any = true;
		if (copy.user_data <= BLK_TAG_STOP)
			poll_complete(q, &copy);
		else
			blk_io_complete(q, (struct blk_req *)(uintptr_t)copy.user_data, copy.res);
	}
	if (q->rearm_kick)
		poll_arm(q, q->kick_fd, BLK_TAG_KICK);
	if (q->rearm_stop)
		poll_arm(q, q->stop_fd, BLK_TAG_STOP);
	q->rearm_kick = q->rearm_stop = false;
	if (q->in_flight == before)
		return any;
	publish(q);
	if (q->blk->config.watch_ns)
		q->watch_until_ns = q->now_ns + q->blk->config.watch_ns;
	return true;
}

/* ---- what the guest says --------------------------------------------------------------------- */

static void tell_broken(struct blk_queue *q)
{
	const struct engine_events *events = &q->blk->config.events;

	if (q->told_broken)
		return;
	q->told_broken = true;
	events->broken(events->owner, q->index, q->vr.broken);
}

static void limits_fill(const struct blk_queue *q, struct blk_limits *limits)
{
	limits->sectors = atomic_load_explicit(&q->blk->sectors, memory_order_relaxed);
	limits->read_only = q->blk->config.read_only;
	limits->discard = q->features & VIRTIO_BIT(VIRTIO_BLK_F_DISCARD);
	limits->write_zeroes = q->features & VIRTIO_BIT(VIRTIO_BLK_F_WRITE_ZEROES);
	memcpy(limits->serial, q->blk->serial, sizeof(limits->serial));
}

/* Takes all there is. Returns how many. */
static unsigned take(struct blk_queue *q)
{
	struct vring_chain chain;
	struct blk_limits limits;
	unsigned count = 0;
	int rc = 0;

	if (q->stopping || !vring_pending(&q->vr))
		return 0;
	limits_fill(q, &limits);
	q->now_ns = clock_ns();
	while ((rc = vring_pop(&q->vr, &chain)) > 0) {
		struct blk_req *req = &q->reqs[chain.head];
		enum blk_verdict verdict = blk_req_parse(req, &chain, &limits);

		req->start_ns = q->now_ns;
		q->in_flight++;
		count++;
		if (verdict == BLK_RUN) {
			blk_io_start(q, req);
		} else if (verdict == BLK_ANSWER) {
			blk_queue_finish(q, req, req->result);
		} else {
			blk_count(&q->stats.bad_chains, 1);
			q->in_flight--;
			vring_put(&q->vr, req->head, 0);
		}
	}
	if (rc < 0)
		tell_broken(q);
	publish(q);
	/* All answered at once is a completion as any other. */
	if (count && !q->in_flight && q->blk->config.watch_ns)
		q->watch_until_ns = q->now_ns + q->blk->config.watch_ns;
	return count;
}

/* ---- watching and waiting -------------------------------------------------------------------- */

static bool completion_waits(struct blk_queue *q)
{
	return io_uring_cq_ready(&q->ring) ||
	       (__atomic_load_n(q->ring.sq.kflags, __ATOMIC_RELAXED) & IORING_SQ_TASKRUN);
}

/* Looks at the ring for a while after something was completed. Kicks are off. True: there is work.
 */
static bool watch(struct blk_queue *q)
{
	bool hit = false, done = false;

	if (q->stopping || q->vr.broken || !watch_enter(&q->watch)) {
		q->watch_until_ns = 0;
		return false;
	}
	while (!hit && !done && clock_ns() < q->watch_until_ns) {
		for (unsigned i = 0; i < WATCH_SPINS && !hit && !done; i++) {
			hit = vring_pending(&q->vr);
			done = completion_waits(q);
			__builtin_ia32_pause();
		}
	}
	q->watch_until_ns = 0;
	watch_leave(&q->watch, hit || done);
	if (hit)
		blk_count(&q->stats.watch_hits, 1);
	else if (!done)
		blk_count(&q->stats.watch_misses, 1);
	return hit || done;
}

/* Hands everything to the kernel and sleeps until it or the guest has something to say. */
static void wait_for_work(struct blk_queue *q)
{
	if (!q->stopping && vring_notify_on(&q->vr)) {
		io_uring_submit(&q->ring);
	} else {
		blk_count(&q->stats.waits, 1);
		io_uring_submit_and_wait(&q->ring, 1);
	}
	vring_notify_off(&q->vr);
}

static void serve(struct blk_queue *q)
{
	if (q->vr.inflight)
		blk_count(&q->stats.resumed, q->vr.inflight);
	publish(q);
	for (;;) {
		unsigned taken;

		reap(q);
		if (q->stopping && !q->in_flight)
			return;
		taken = take(q);
		if (q->watch_until_ns && (!taken || !q->in_flight)) {
			if (io_uring_sq_ready(&q->ring))
				io_uring_submit(&q->ring);
			if (watch(q))
				continue;
		}
		wait_for_work(q);
	}
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* One issuer and deferred completions (Linux 6.1) where the kernel has them, else what it has. */
static int ring_make(struct blk_queue *q)
{
	static const unsigned flags[] = {
	        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
	        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
	        0,
	};
	unsigned entries = q->vr.size < 8 ? 8 : q->vr.size;
	int rc = -EINVAL;

	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]) && rc == -EINVAL; i++) {
		struct io_uring_params params = {.flags = flags[i]};

		rc = io_uring_queue_init_params(entries, &q->ring, &params);
	}
	return rc;
}

/* Guest memory in parts that one registered buffer can have. All or nothing. */
static void memory_register(struct blk_queue *q)
{
	const struct memtable *mem = q->vr.mem;
	const struct engine_events *events = &q->blk->config.events;
	char line[512];
	int rc;
	unsigned count = 0;

	for (unsigned i = 0; i < mem->count; i++) {
		const struct memtable_region *r = &mem->regions[i];

		for (uint64_t at = 0; at < r->size_bytes; at += FIXED_PART_BYTES) {
			uint64_t left = r->size_bytes - at;

			if (count == BLK_FIXED_MAX)
				return;
			q->fixed[count].iov_base = r->host + at;
			q->fixed[count].iov_len = left < FIXED_PART_BYTES ? left : FIXED_PART_BYTES;
			count++;
		}
	}
	rc = io_uring_register_buffers(&q->ring, q->fixed, count);
	if (!rc) {
		q->fixed_count = count;
		return;
	}
	snprintf(line, sizeof(line),
	        "disk %s: guest memory cannot be registered (%s; the limit is RLIMIT_MEMLOCK): "
	        "each request pins its own",
	        q->blk->path, strerror(-rc));
	events->log(events->owner, line);
}

static int thread_begin(struct blk_queue *q)
{
	int files[BLK_FILES] = {q->blk->file.fd, q->blk->file.paged_fd};
	int rc = ring_make(q);

	if (rc)
		return rc;
	io_uring_register_ring_fd(&q->ring);
	q->fixed_files = !io_uring_register_files(&q->ring, files, BLK_FILES);
	if (q->blk->config.fixed_buffers)
		memory_register(q);
	poll_arm(q, q->kick_fd, BLK_TAG_KICK);
	poll_arm(q, q->stop_fd, BLK_TAG_STOP);
	return 0;
}

static void thread_end(struct blk_queue *q)
{
	/* So that nothing of the files is held when the thread is gone. */
	if (q->fixed_count)
		io_uring_unregister_buffers(&q->ring);
	if (q->fixed_files)
		io_uring_unregister_files(&q->ring);
	io_uring_queue_exit(&q->ring);
	blk_io_free(q);
}

void *blk_queue_main(void *arg)
{
	struct blk_queue *q = arg;
	char name[16];
	int rc;

	/* By the thread itself: for another one glibc would have to open a file. */
	snprintf(name, sizeof(name), "disk-q%u", q->index);
	pthread_setname_np(pthread_self(), name);
	rc = thread_begin(q);
	pthread_mutex_lock(&q->lock);
	q->start_error = rc;
	q->started = true;
	pthread_cond_signal(&q->started_cond);
	pthread_mutex_unlock(&q->lock);
	if (rc)
		return NULL;
	serve(q);
	thread_end(q);
	return NULL;
}
