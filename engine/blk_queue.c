/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that serves one disk queue: complete, publish, take, submit, watch, wait. */
#include "engine/blk_impl.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCH_SPINS 16u

/* ---- answers --------------------------------------------------------------------------------- */

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

	if (q->now_ns < q->log_next_ns) {
		q->log_dropped++;
		return;
	}
	q->log_next_ns = q->now_ns + BLK_NS_PER_SECOND;
	blk_tell(q->blk, "%s at %llu failed: %s; the guest gets an I/O error (%u more before)",
	        names[req->op], (unsigned long long)(req->offset + req->done), strerror(error),
	        q->log_dropped);
	q->log_dropped = 0;
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

/* ---- the back end ---------------------------------------------------------------------------- */

void blk_queue_issue(struct blk_queue *q, struct blk_req *req)
{
	if (!q->blk->workers) {
		blk_ring_issue(q, req);
		return;
	}
	req->queue = q;
	req->next = NULL;
	*q->hand_last = req;
	q->hand_last = &req->next;
	q->hand_count++;
}

/* Has all that was prepared done. */
static void hand_over(struct blk_queue *q)
{
	struct blk_req *first = q->hand_first, *next;
	unsigned count = q->hand_count;

	if (!first)
		return;
	q->hand_first = NULL;
	q->hand_count = 0;
	if (!blk_workers_hand(q->blk->workers, first, q->hand_last, count))
		/* Without any thread this one does the work. */
		for (; first; first = next) {
			next = first->next;
			blk_workers_run(&q->blk->file, &first->sys);
			blk_queue_deliver(q, first);
		}
	q->hand_last = &q->hand_first;
}

void blk_queue_deliver(struct blk_queue *q, struct blk_req *req)
{
	struct blk_req *old = atomic_load_explicit(&q->done, memory_order_relaxed);
	uint64_t one = 1;

	/* Until this ends the queue is not taken down, though the request may be answered. */
	atomic_fetch_add_explicit(&q->delivering, 1, memory_order_relaxed);
	do
		req->next = old;
	while (!atomic_compare_exchange_weak_explicit(
	        &q->done, &old, req, memory_order_seq_cst, memory_order_relaxed));
	/* Pairs with may_sleep: either it sees the answer or this sees that it sleeps
	 * (tests/model/deliver.pml). */
	if (atomic_load_explicit(&q->sleeps, memory_order_seq_cst) &&
	        atomic_exchange(&q->sleeps, false))
		assert(write(q->done_fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
	atomic_fetch_sub_explicit(&q->delivering, 1, memory_order_release);
}

/* False: a worker has answered meanwhile. */
static bool may_sleep(struct blk_queue *q)
{
	if (!q->blk->workers)
		return true;
	atomic_store_explicit(&q->sleeps, true, memory_order_seq_cst);
	return !atomic_load_explicit(&q->done, memory_order_seq_cst);
}

/* ---- what the kernel says -------------------------------------------------------------------- */

static void poll_arm(struct blk_queue *q, uint64_t tag)
{
	const int fds[] = {[BLK_TAG_KICK] = q->kick_fd,
	        [BLK_TAG_STOP] = q->stop_fd,
	        [BLK_TAG_DONE] = q->done_fd};
	struct io_uring_sqe *sqe = blk_ring_sqe(q);

	io_uring_prep_poll_multishot(sqe, fds[tag], POLLIN);
	sqe->user_data = tag;
}

/* A poll counts signals by itself, so nobody needs to read the descriptor. */
static void poll_complete(struct blk_queue *q, const struct io_uring_cqe *cqe)
{
	if (cqe->user_data == BLK_TAG_KICK)
		blk_count(&q->stats.kicks, 1);
	else if (cqe->user_data == BLK_TAG_TIME)
		q->timer_runs = false;
	else if (cqe->user_data == BLK_TAG_STOP)
		q->stopping = true;
	if (!(cqe->flags & IORING_CQE_F_MORE) && cqe->user_data != BLK_TAG_TIME)
		q->rearm |= 1u << cqe->user_data;
}

/* What workers have done, in the order in which they did it. */
static void reap_done(struct blk_queue *q)
{
	struct blk_req *list = atomic_exchange_explicit(&q->done, NULL, memory_order_acquire);
	struct blk_req *first = NULL, *next;

	for (; list; list = next) {
		next = list->next;
		list->next = first;
		first = list;
	}
	for (; first; first = next) {
		next = first->next;
		blk_io_complete(q, first, first->sys.result);
	}
}

/* Takes all completions. True: there were some. */
static bool reap(struct blk_queue *q)
{
	struct io_uring_cqe *cqe;
	unsigned before = q->in_flight;
	bool any = false;

	if (atomic_load_explicit(&q->done, memory_order_relaxed)) {
		q->now_ns = engine_clock_ns();
		any = true;
		reap_done(q);
	}
	if (q->polled)
		any |= blk_ring_poll(q);
	while (!io_uring_peek_cqe(&q->ring, &cqe)) {
		struct io_uring_cqe copy = *cqe;

		io_uring_cqe_seen(&q->ring, cqe);
		if (!any)
			q->now_ns = engine_clock_ns();
		any = true;
		if (copy.user_data <= BLK_TAG_LAST)
			poll_complete(q, &copy);
		else
			blk_io_complete(q, (struct blk_req *)(uintptr_t)copy.user_data, copy.res);
	}
	if (q->held_first)
		blk_held_run(q);
	for (uint64_t tag = BLK_TAG_KICK; q->rearm; tag++) {
		if (q->rearm & 1u << tag)
			poll_arm(q, tag);
		q->rearm &= ~(1u << tag);
	}
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

/* Storage with little to do gets what is prepared before the rest is looked at: as much again as it
 * has, so that a burst costs few system calls and a single request its one. */
static void start_early(struct blk_queue *q)
{
	unsigned ready = q->blk->workers ? q->hand_count : io_uring_sq_ready(&q->ring);

	if (q->polled)
		ready += io_uring_sq_ready(&q->poll_ring);
	if (!ready || 2 * ready < q->in_flight)
		return;
	if (q->blk->workers)
		hand_over(q);
	else
		io_uring_submit(&q->ring);
	if (q->polled && io_uring_sq_ready(&q->poll_ring))
		io_uring_submit(&q->poll_ring);
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
	q->now_ns = engine_clock_ns();
	while ((rc = vring_pop(&q->vr, &chain)) > 0) {
		struct blk_req *req = &q->reqs[chain.head];
		enum blk_verdict verdict = blk_req_parse(req, &chain, &limits);

		if (count)
			start_early(q);
		req->start_ns = q->now_ns;
		q->in_flight++;
		count++;
		if (verdict == BLK_RUN) {
			blk_held_admit(q, req);
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
	       atomic_load_explicit(&q->done, memory_order_relaxed) ||
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
	while (!hit && !done && engine_clock_ns() < q->watch_until_ns) {
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
	if ((!q->stopping && vring_notify_on(&q->vr)) || !may_sleep(q)) {
		io_uring_submit(&q->ring);
	} else {
		blk_count(&q->stats.waits, 1);
		io_uring_submit_and_wait(&q->ring, 1);
	}
	if (q->blk->workers)
		atomic_store_explicit(&q->sleeps, false, memory_order_relaxed);
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
		hand_over(q);
		/* Who looks for answers does not sleep, and needs no kicks. */
		if (q->polled) {
			if (io_uring_sq_ready(&q->ring))
				io_uring_submit(&q->ring);
			continue;
		}
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

static int thread_begin(struct blk_queue *q)
{
	int rc = blk_ring_begin(q);

	if (rc)
		return rc;
	poll_arm(q, BLK_TAG_KICK);
	poll_arm(q, BLK_TAG_STOP);
	if (q->blk->workers)
		poll_arm(q, BLK_TAG_DONE);
	return 0;
}

static void thread_end(struct blk_queue *q)
{
	while (atomic_load_explicit(&q->delivering, memory_order_acquire))
		sched_yield();
	blk_ring_end(q);
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
