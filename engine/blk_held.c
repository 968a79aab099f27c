/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that wait for their disk's rate limits: a list a queue, and a timer for its first. */
#include "engine/blk_impl.h"

static bool is_limited(const struct blk_queue *q, const struct blk_req *req)
{
	const struct blk_throttle *t = &q->blk->throttle;

	return (t->iops || t->bandwidth) && req->op != BLK_FLUSH && !q->stopping;
}

static uint64_t due_of(struct blk_queue *q, const struct blk_req *req, uint64_t now_ns)
{
	bool moves = req->op == BLK_READ || req->op == BLK_WRITE;

	return blk_throttle_take(&q->blk->throttle, now_ns, moves ? req->length : 0);
}

static void timer_set(struct blk_queue *q)
{
	struct io_uring_sqe *sqe;

	if (q->timer_runs)
		return;
	q->timer_runs = true;
	q->timer_at.tv_sec = (int64_t)(q->held_until_ns / BLK_NS_PER_SECOND);
	q->timer_at.tv_nsec = (int64_t)(q->held_until_ns % BLK_NS_PER_SECOND);
	sqe = blk_ring_sqe(q);
	io_uring_prep_timeout(sqe, &q->timer_at, 0, IORING_TIMEOUT_ABS);
	sqe->user_data = BLK_TAG_TIME;
}

void blk_held_admit(struct blk_queue *q, struct blk_req *req)
{
	if (!q->held_first && is_limited(q, req)) {
		q->held_until_ns = due_of(q, req, q->now_ns);
		if (q->held_until_ns <= q->now_ns) {
			blk_io_start(q, req);
			return;
		}
	} else if (!q->held_first || req->op == BLK_FLUSH) {
		/* A flush is for what has been answered, and passes those that have not. */
		blk_io_start(q, req);
		return;
	}
	blk_count(&q->stats.held, 1);
	req->next = NULL;
	*q->held_last = req;
	q->held_last = &req->next;
	if (q->held_first == req)
		timer_set(q);
}

void blk_held_run(struct blk_queue *q)
{
	uint64_t now_ns = engine_clock_ns();

	q->now_ns = now_ns;
	while (q->held_first && (q->stopping || q->held_until_ns <= now_ns)) {
		struct blk_req *req = q->held_first;

		q->held_first = req->next;
		if (!q->held_first)
			q->held_last = &q->held_first;
		else if (!q->stopping)
			q->held_until_ns = due_of(q, q->held_first, now_ns);
		blk_io_start(q, req);
	}
	if (q->held_first)
		timer_set(q);
}
