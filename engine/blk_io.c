/* SPDX-License-Identifier: BSD-2-Clause */
/* What a disk request becomes for the kernel: which file, which buffers, in how many pieces. */
#include "engine/blk_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>

#include "engine/iov.h"

/* blk_req.step: what the system request under way is. */
enum { STEP_PLAIN, STEP_BOUNCED, STEP_SYNC };
/* blk_req.method: how the present range of a ZERO is done; falls to the next if it is refused. */
enum { ZERO_PUNCH, ZERO_RANGE, ZERO_WRITE };

#define RETRIES_MAX 16u

/* Without VIRTIO_BLK_F_FLUSH a write is stable when it is answered; so it is if the driver turned
 * the cache to write-through (virtio 1.2 §5.2.6.2), and on unsettled storage under a guest that
 * outlives us. */
static bool is_write_through(const struct blk_queue *q)
{
	return !(q->features & VIRTIO_BIT(VIRTIO_BLK_F_FLUSH)) ||
	       !atomic_load_explicit(&q->blk->writeback, memory_order_relaxed) ||
	       atomic_load_explicit(&q->blk->unsettled, memory_order_relaxed);
}

/* ---- reads and writes ------------------------------------------------------------------------ */

/* align: a power of two. */
static bool is_multiple(uint64_t n, uint32_t align)
{
	return !(n & (align - 1));
}

static bool iov_is_aligned(const struct blk_file *file, const struct iovec *iov, unsigned count)
{
	uintptr_t bases = 0, lengths = 0;

	for (unsigned i = 0; i < count; i++) {
		bases |= (uintptr_t)iov[i].iov_base;
		lengths |= iov[i].iov_len;
	}
	return is_multiple(bases, file->memory_align) && is_multiple(lengths, file->offset_align);
}

static void rw_prepare(struct blk_queue *q, struct blk_req *req, int file)
{
	struct blk_sys *sys = &req->sys;
	bool write = req->op == BLK_WRITE;

	sys->kind = write ? BLK_SYS_WRITE : BLK_SYS_READ;
	sys->file = (uint8_t)file;
	sys->iov = req->iov;
	sys->count = req->iov_count < IOV_MAX ? req->iov_count : IOV_MAX;
	sys->at = req->offset + req->done;
	/* What is written through the page cache beside direct I/O never lingers there. */
	sys->flags = write && (is_write_through(q) || file == BLK_FILE_PAGED) ? RWF_DSYNC : 0;
	req->step = STEP_PLAIN;
	blk_queue_issue(q, req);
}

/* A read or write of memory of ours. */
static void buffer_issue(struct blk_queue *q, struct blk_req *req, void *buffer, unsigned bytes,
        uint64_t at, int file, bool write)
{
	struct blk_sys *sys = &req->sys;

	sys->kind = write ? BLK_SYS_WRITE : BLK_SYS_READ;
	sys->file = (uint8_t)file;
	sys->one = (struct iovec){buffer, bytes};
	sys->iov = &sys->one;
	sys->count = 1;
	sys->at = at;
	sys->flags = write && (is_write_through(q) || file == BLK_FILE_PAGED) ? RWF_DSYNC : 0;
	blk_queue_issue(q, req);
}

/* Needs: one is free. NULL: no memory. */
static uint8_t *bounce_take(struct blk_queue *q)
{
	unsigned i = (unsigned)__builtin_ctz(q->bounce_free);
	void *memory;

	if (!q->bounce[i]) {
		if (posix_memalign(&memory, 4096, BLK_BOUNCE_BYTES))
			return NULL;
		q->bounce[i] = memory;
	}
	q->bounce_free &= ~(1u << i);
	return q->bounce[i];
}

static void bounce_give(struct blk_queue *q, uint8_t *bounce)
{
	for (unsigned i = 0; i < BLK_BOUNCE_BUFFERS; i++)
		if (q->bounce[i] == bounce)
			q->bounce_free |= 1u << i;
}

/* A piece through a bounce buffer. With none free the request waits in line. */
static void bounce_prepare(struct blk_queue *q, struct blk_req *req)
{
	uint64_t left = req->length - req->done;
	unsigned bytes = left < BLK_BOUNCE_BYTES ? (unsigned)left : BLK_BOUNCE_BYTES;

	if (!req->bounce && q->bounce_free) {
		req->bounce = bounce_take(q);
		if (!req->bounce) {
			blk_queue_complain(q, req, ENOMEM);
			blk_queue_finish(q, req, VIRTIO_BLK_S_IOERR);
			return;
		}
	}
	if (!req->bounce) {
		req->next = NULL;
		*q->bounce_last = req;
		q->bounce_last = &req->next;
		return;
	}
	blk_count(&q->stats.bounced, 1);
	req->step = STEP_BOUNCED;
	if (req->op == BLK_WRITE)
		iov_copy_from(req->iov, req->iov_count, 0, req->bounce, bytes);
	buffer_issue(q, req, req->bounce, bytes, req->offset + req->done, BLK_FILE_MAIN,
	        req->op == BLK_WRITE);
}

static void rw_start(struct blk_queue *q, struct blk_req *req)
{
	const struct blk_file *file = &q->blk->file;

	if (req->done == req->length)
		blk_queue_finish(q, req, VIRTIO_BLK_S_OK);
	else if (!file->direct)
		rw_prepare(q, req, BLK_FILE_MAIN);
	else if (req->paged || !is_multiple(req->offset + req->done, file->offset_align) ||
	         !is_multiple(req->length - req->done, file->offset_align))
		rw_prepare(q, req, BLK_FILE_PAGED);
	else if (req->bounce || !iov_is_aligned(file, req->iov, req->iov_count))
		bounce_prepare(q, req);
	else
		rw_prepare(q, req, BLK_FILE_MAIN);
}

static void rw_complete(struct blk_queue *q, struct blk_req *req, int result)
{
	const struct blk_file *file = &q->blk->file;

	/* Some storage refuses direct I/O only when it is tried. */
	if (result == -EINVAL && file->direct && !req->paged) {
		req->paged = 1;
		rw_start(q, req);
		return;
	}
	/* 0: the storage ends here, whatever its size was. */
	if (result <= 0) {
		blk_queue_complain(q, req, result ? -result : ENODATA);
		blk_queue_finish(q, req, VIRTIO_BLK_S_IOERR);
		return;
	}
	if (req->step == STEP_BOUNCED && req->op == BLK_READ)
		iov_copy_to(req->iov, req->iov_count, 0, req->bounce, (size_t)result);
	req->done += (uint64_t)result;
	req->iov_count = iov_advance(&req->iov, req->iov_count, (size_t)result);
	rw_start(q, req);
}

/* ---- discard and write zeroes ---------------------------------------------------------------- */

static void fsync_prepare(struct blk_queue *q, struct blk_req *req)
{
	req->sys.kind = BLK_SYS_SYNC;
	req->sys.file = BLK_FILE_MAIN;
	blk_queue_issue(q, req);
}

static void zeroes_prepare(struct blk_queue *q, struct blk_req *req, uint64_t at, uint64_t left)
{
	const struct blk_file *file = &q->blk->file;
	unsigned bytes = left < BLK_ZERO_BYTES ? (unsigned)left : BLK_ZERO_BYTES;
	bool paged = file->direct && (at % file->offset_align || bytes % file->offset_align);

	buffer_issue(
	        q, req, q->blk->zeroes, bytes, at, paged ? BLK_FILE_PAGED : BLK_FILE_MAIN, true);
}

static uint8_t zero_first_method(const struct blk_queue *q, const struct virtio_blk_range *r)
{
	if ((r->flags & VIRTIO_BLK_WRITE_ZEROES_F_UNMAP) && !atomic_load(&q->blk->no_punch))
		return ZERO_PUNCH;
	return atomic_load(&q->blk->no_zero_range) ? ZERO_WRITE : ZERO_RANGE;
}

static void ranges_start(struct blk_queue *q, struct blk_req *req)
{
	const struct virtio_blk_range *r = &req->ranges[req->range_at];
	uint64_t at, bytes;

	while (req->range_at < req->range_count && !r->num_sectors)
		r = &req->ranges[++req->range_at];
	if (req->range_at == req->range_count) {
		if (req->step == STEP_SYNC || !is_write_through(q)) {
			blk_queue_finish(q, req, VIRTIO_BLK_S_OK);
			return;
		}
		req->step = STEP_SYNC;
		fsync_prepare(q, req);
		return;
	}
	at = r->sector * VIRTIO_BLK_SECTOR_BYTES + req->done;
	bytes = (uint64_t)r->num_sectors * VIRTIO_BLK_SECTOR_BYTES - req->done;
	if (req->op == BLK_ZERO && !req->done && req->method < zero_first_method(q, r))
		req->method = zero_first_method(q, r);
	if (req->op == BLK_ZERO && req->method == ZERO_WRITE) {
		zeroes_prepare(q, req, at, bytes);
		return;
	}
	/* What is given back or marked as zeroes is written anew through the file's map. */
	if (q->blk->config.guest_outlives && !q->blk->file.is_device)
		atomic_store(&q->blk->unsettled, true);
	req->sys.kind = BLK_SYS_ALLOCATE;
	req->sys.file = BLK_FILE_MAIN;
	req->sys.flags = FALLOC_FL_KEEP_SIZE |
	                 (req->op == BLK_ZERO && req->method == ZERO_RANGE ? FALLOC_FL_ZERO_RANGE
	                                                                   : FALLOC_FL_PUNCH_HOLE);
	req->sys.at = at;
	req->sys.length = bytes;
	blk_queue_issue(q, req);
}

static void range_done(struct blk_queue *q, struct blk_req *req)
{
	req->range_at++;
	req->done = 0;
	req->method = ZERO_PUNCH;
	ranges_start(q, req);
}

/* A refused way of zeroing leads to the next one; a refused discard was only advice. */
static bool range_refused(struct blk_queue *q, struct blk_req *req, int result)
{
	bool unsupported = result == -EOPNOTSUPP || result == -ENOSYS;

	if (!unsupported && result != -EINVAL)
		return false;
	if (req->op == BLK_DISCARD) {
		range_done(q, req);
		return true;
	}
	if (req->method == ZERO_WRITE)
		return false;
	if (unsupported)
		atomic_store(req->method == ZERO_PUNCH ? &q->blk->no_punch : &q->blk->no_zero_range,
		        true);
	req->method++;
	ranges_start(q, req);
	return true;
}

static void ranges_complete(struct blk_queue *q, struct blk_req *req, int result)
{
	if (req->step == STEP_PLAIN && result < 0 && range_refused(q, req, result))
		return;
	if (result < 0) {
		blk_queue_complain(q, req, -result);
		blk_queue_finish(q, req, VIRTIO_BLK_S_IOERR);
		return;
	}
	if (req->step == STEP_SYNC) {
		blk_queue_finish(q, req, VIRTIO_BLK_S_OK);
		return;
	}
	if (req->op == BLK_ZERO && req->method == ZERO_WRITE) {
		req->done += (uint64_t)result;
		if (req->done < (uint64_t)req->ranges[req->range_at].num_sectors *
		                        VIRTIO_BLK_SECTOR_BYTES) {
			ranges_start(q, req);
			return;
		}
	}
	range_done(q, req);
}

/* ---- both ------------------------------------------------------------------------------------ */

void blk_io_start(struct blk_queue *q, struct blk_req *req)
{
	if (q->blk->file.is_null) {
		blk_queue_finish(q, req, VIRTIO_BLK_S_OK);
		return;
	}
	switch (req->op) {
	case BLK_READ:
	case BLK_WRITE: rw_start(q, req); return;
	case BLK_FLUSH: fsync_prepare(q, req); return;
	case BLK_DISCARD:
	case BLK_ZERO: ranges_start(q, req); return;
	default: blk_queue_finish(q, req, VIRTIO_BLK_S_UNSUPP);
	}
}

static void flush_complete(struct blk_queue *q, struct blk_req *req, int result)
{
	if (result < 0)
		blk_queue_complain(q, req, -result);
	blk_queue_finish(q, req, (uint8_t)(result < 0 ? VIRTIO_BLK_S_IOERR : VIRTIO_BLK_S_OK));
}

void blk_io_complete(struct blk_queue *q, struct blk_req *req, int result)
{
	uint8_t *bounce = req->bounce;
	unsigned before = q->in_flight;

	if ((result == -EAGAIN || result == -EINTR) && req->retries < RETRIES_MAX) {
		req->retries++;
		blk_io_start(q, req);
		return;
	}
	if (req->op == BLK_READ || req->op == BLK_WRITE)
		rw_complete(q, req, result);
	else if (req->op == BLK_FLUSH)
		flush_complete(q, req, result);
	else
		ranges_complete(q, req, result);
	if (!bounce || q->in_flight == before)
		return;
	/* It is over, and its bounce buffer is for the next in line. */
	bounce_give(q, bounce);
	if (q->bounce_first) {
		req = q->bounce_first;
		q->bounce_first = req->next;
		if (!q->bounce_first)
			q->bounce_last = &q->bounce_first;
		blk_io_start(q, req);
	}
}

void blk_io_free(struct blk_queue *q)
{
	for (unsigned i = 0; i < BLK_BOUNCE_BUFFERS; i++) {
		free(q->bounce[i]);
		q->bounce[i] = NULL;
	}
}
