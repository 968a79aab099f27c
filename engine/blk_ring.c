/* SPDX-License-Identifier: BSD-2-Clause */
/* The back end that asks the kernel by io_uring: a queue's ring, and its registered memory. */
#include "engine/blk_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define FIXED_PART_BYTES (1ull << 30)
/* So many polled at once, of a queue. A polled request that finds the device's queue full does not
 * sleep: a worker of the kernel tries it again and again. Deeper queues gain nothing by polling. */
#define POLL_DEPTH 8u

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
	blk_tell(q->blk,
	        "guest memory cannot be registered (%s; the limit is RLIMIT_MEMLOCK): each request "
	        "pins its own",
	        strerror(-rc));
}

static void tell_unpolled(const struct blk_queue *q, int error)
{
	blk_tell(q->blk, "queue %u: polling is refused: by interrupts (%s)", q->index,
	        strerror(error));
}

static void poll_ring_make(struct blk_queue *q)
{
	struct io_uring_params params = {.flags = IORING_SETUP_IOPOLL};
	int rc = io_uring_queue_init_params(POLL_DEPTH, &q->poll_ring, &params);

	q->poll_ring_is_made = q->polls = !rc;
	if (rc)
		tell_unpolled(q, -rc);
}

int blk_ring_begin(struct blk_queue *q)
{
	int rc = ring_make(q);

	if (rc)
		return rc;
	io_uring_register_ring_fd(&q->ring);
	/* With workers the ring only waits. */
	if (q->blk->workers)
		return 0;
	if (q->blk->polls)
		poll_ring_make(q);
	if (q->blk->config.fixed_buffers)
		memory_register(q);
	return 0;
}

void blk_ring_end(struct blk_queue *q)
{
	/* So that no memory is held when the thread is gone. */
	if (q->fixed_count)
		io_uring_unregister_buffers(&q->ring);
	if (q->poll_ring_is_made)
		io_uring_queue_exit(&q->poll_ring);
	io_uring_queue_exit(&q->ring);
}

/* ---- requests -------------------------------------------------------------------------------- */

struct io_uring_sqe *blk_ring_sqe(struct blk_queue *q)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);

	while (!sqe) {
		io_uring_submit(&q->ring);
		sqe = io_uring_get_sqe(&q->ring);
	}
	return sqe;
}

/* The registered buffer that holds the range whole, or -1. */
static int fixed_find(const struct blk_queue *q, const struct iovec *iov)
{
	uintptr_t at = (uintptr_t)iov->iov_base;

	for (unsigned i = 0; i < q->fixed_count; i++) {
		uintptr_t base = (uintptr_t)q->fixed[i].iov_base;

		if (at >= base && at - base <= q->fixed[i].iov_len &&
		        iov->iov_len <= q->fixed[i].iov_len - (at - base))
			return (int)i;
	}
	return -1;
}

static void rw_prepare(const struct blk_queue *q, struct io_uring_sqe *sqe, const struct blk_sys *s)
{
	unsigned bytes = s->iov->iov_len < INT_MAX ? (unsigned)s->iov->iov_len : INT_MAX;
	int fixed = s->count == 1 ? fixed_find(q, s->iov) : -1;
	bool write = s->kind == BLK_SYS_WRITE;

	if (fixed >= 0 && write)
		io_uring_prep_write_fixed(sqe, 0, s->iov->iov_base, bytes, s->at, fixed);
	else if (fixed >= 0)
		io_uring_prep_read_fixed(sqe, 0, s->iov->iov_base, bytes, s->at, fixed);
	else if (s->count == 1 && write)
		io_uring_prep_write(sqe, 0, s->iov->iov_base, bytes, s->at);
	else if (s->count == 1)
		io_uring_prep_read(sqe, 0, s->iov->iov_base, bytes, s->at);
	else if (write)
		io_uring_prep_writev(sqe, 0, s->iov, s->count, s->at);
	else
		io_uring_prep_readv(sqe, 0, s->iov, s->count, s->at);
	sqe->rw_flags = s->flags;
}

/* Synchronous writes are more than the one answer that is polled for. */
static bool may_poll(const struct blk_sys *s)
{
	return s->kind <= BLK_SYS_WRITE && !s->flags && s->file == BLK_FILE_MAIN && s->count == 1 &&
	       s->at % BLK_POLL_BYTES + s->iov->iov_len <= BLK_POLL_BYTES;
}

static bool poll_issue(struct blk_queue *q, struct blk_req *req)
{
	const struct blk_sys *s = &req->sys;
	struct io_uring_sqe *sqe;

	if (!q->polls || q->polled == POLL_DEPTH || !may_poll(s))
		return false;
	sqe = io_uring_get_sqe(&q->poll_ring);
	if (!sqe)
		return false;
	if (s->kind == BLK_SYS_WRITE)
		io_uring_prep_write(
		        sqe, q->blk->file.fd, s->iov->iov_base, (unsigned)s->iov->iov_len, s->at);
	else
		io_uring_prep_read(
		        sqe, q->blk->file.fd, s->iov->iov_base, (unsigned)s->iov->iov_len, s->at);
	io_uring_sqe_set_data(sqe, req);
	q->polled++;
	return true;
}

/* The device cannot, whatever it said. */
static void poll_refused(struct blk_queue *q, struct blk_req *req)
{
	if (q->polls)
		tell_unpolled(q, EOPNOTSUPP);
	q->polls = false;
	blk_ring_issue(q, req);
}

bool blk_ring_poll(struct blk_queue *q)
{
	struct io_uring_cqe *cqe;
	bool any = false;

	if (io_uring_sq_ready(&q->poll_ring))
		io_uring_submit(&q->poll_ring);
	/* With such a ring this asks the device if there is nothing. */
	while (q->polled && !io_uring_peek_cqe(&q->poll_ring, &cqe)) {
		struct blk_req *req = io_uring_cqe_get_data(cqe);
		int result = cqe->res;

		io_uring_cqe_seen(&q->poll_ring, cqe);
		q->polled--;
		blk_count(&q->stats.polled, result != -EOPNOTSUPP);
		if (!any)
			q->now_ns = engine_clock_ns();
		any = true;
		if (result == -EOPNOTSUPP)
			poll_refused(q, req);
		else
			blk_io_complete(q, req, result);
	}
	return any;
}

/*
 * The file is not registered with the ring: when the process is killed, the kernel lets go of
 * registered files, and of their locks, only some 40 ms later (a grace period of RCU), and its
 * successor cannot begin before.
 */
void blk_ring_issue(struct blk_queue *q, struct blk_req *req)
{
	const struct blk_sys *s = &req->sys;
	struct io_uring_sqe *sqe;

	if (poll_issue(q, req))
		return;
	sqe = blk_ring_sqe(q);
	switch (s->kind) {
	case BLK_SYS_READ:
	case BLK_SYS_WRITE: rw_prepare(q, sqe, s); break;
	case BLK_SYS_SYNC: io_uring_prep_fsync(sqe, 0, IORING_FSYNC_DATASYNC); break;
	default: io_uring_prep_fallocate(sqe, 0, s->flags, (off_t)s->at, (off_t)s->length);
	}
	sqe->fd = s->file == BLK_FILE_MAIN ? q->blk->file.fd : q->blk->file.paged_fd;
	io_uring_sqe_set_data(sqe, req);
}
