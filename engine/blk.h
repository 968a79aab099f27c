/* SPDX-License-Identifier: BSD-2-Clause */
/* The block engine: serves virtio-blk queues from a file or block device by io_uring. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/queue.h"
#include "hw/virtio_blk.h"

/*
 * Threads. Each started queue has a thread of its own with an io_uring of its own; nothing is
 * shared between queues but the opened storage, the counters (read by others without a lock) and
 * the token that lets one thread watch at a time. All calls below are made on the owner's thread,
 * one at a time.
 *
 * A queue's thread: take what completed, publish it and call the guest, then take new requests,
 * then hand them to the kernel and wait for it in one system call. After completing something it
 * does not wait at once but leaves kicks off and watches the ring for watch_ns; it leaves the watch
 * by turning kicks on and looking once more. One thread of the process watches at a time; a queue
 * whose watches are in vain stops trying but for a probe now and then.
 *
 * Back ends. io_uring, by each queue's own ring; or, for storage that makes who asks wait, a pool
 * of up to BLK_WORKERS threads for the disk (blk_workers.h). blk_open measures which one suits
 * (blk_probe.h) and tells it in a line of the log; the configuration may say it instead.
 *
 * Polling. Where it is asked for and the device has poll queues, small direct reads and writes go
 * by a second ring whose answers are looked for: a queue's thread does not sleep while one of them
 * is under way. At most 8 of a queue go that way at once. A device without says so in a line, and
 * is served by interrupts.
 *
 * Locks. Byte ranges of the open file description (OFD), QEMU's own bytes among them, so that a
 * disk has one writer, or readers, of keelOS's or QEMU's. The kernel drops such a lock only when
 * the last request on the description is over, so having got the lock also means: no read or write
 * that a dead predecessor left in the kernel will land any more. That is why blk_open comes before
 * any vring_attach.
 *
 * Direct I/O. Requests that are aligned as the storage wants go straight between guest memory and
 * the device. Guest buffers that are not are copied through bounce buffers; ranges of the disk that
 * are not (512-byte sectors on a 4096-byte device) go through the page cache, written through to
 * the device. Storage that cannot do direct I/O at all is used through the page cache.
 */
struct blk;

enum blk_backend { BLK_BACKEND_MEASURE, BLK_BACKEND_RING, BLK_BACKEND_WORKERS };
#define BLK_WORKERS 32u

struct blk_config {
	const char *path;
	const char *serial; /* at most 20 bytes; NULL: none */
	bool read_only;
	bool cached; /* no direct I/O even where it works */
	/*
	 * The guest outlives a crash of this kernel (it runs on hyp), so to it a crash is no power
	 * failure: what was answered must be there afterwards, though no flush was asked for.
	 */
	bool guest_outlives;
	enum blk_backend backend;
	bool iopoll;      /* look for the device's answers instead of waiting for its interrupts */
	unsigned workers; /* at most so many; 0: BLK_WORKERS */
	bool fixed_buffers;     /* register guest memory with each queue's ring; pins it */
	unsigned queue_count;   /* 1.. */
	uint32_t block_bytes;   /* what the guest is told: 512 or 4096; 0: what the device has, 512
	                           for a file */
	uint64_t iops_max;      /* reads, writes, discards and zeroes a second; 0: no limit */
	uint64_t bandwidth_max; /* bytes read and written a second; 0: no limit */
	uint32_t watch_ns;      /* BLK_WATCH_NS; 0: no watch */
	uint32_t lock_wait_ms;  /* how long to wait for a predecessor to be gone */
	uint64_t lock_id; /* tells a read-only disk's user from others; the same after its restart.
	                     0: none */
	struct engine_events events;
};

#define BLK_WATCH_NS 32000u
/* As many segments as a request may have, and ranges of a discard or write-zeroes request. */
#define BLK_SEG_MAX         254u
#define BLK_RANGE_MAX       32u
#define BLK_DISCARD_SECTORS (1u << 22)
#define BLK_ZERO_SECTORS    (1u << 19)
#define BLK_QUEUE_MAX       64u

enum blk_op { BLK_READ, BLK_WRITE, BLK_FLUSH, BLK_DISCARD, BLK_ZERO, BLK_OTHER, BLK_OPS };

struct blk_stats {
	uint64_t requests[BLK_OPS]; /* answered with VIRTIO_BLK_S_OK */
	uint64_t bytes[BLK_OPS];
	uint64_t latency_ns[BLK_OPS]; /* sums, from taken to answered */
	uint64_t errors;              /* answered with IOERR or UNSUPP */
	uint64_t bad_chains;          /* given back with length 0 for want of a status byte */
	uint64_t kicks;
	uint64_t calls;
	uint64_t waits; /* times that a queue's thread went to sleep */
	uint64_t watch_hits;
	uint64_t watch_misses;
	uint64_t bounced;   /* pieces copied for alignment */
	uint64_t polled;    /* answers that the device was asked for */
	uint64_t held;      /* requests that waited for the disk's rate limits */
	uint64_t resumed;   /* requests found in flight at the start of a queue */
	uint64_t in_flight; /* now */
};

/* 0, or a negative errno with one line in error that names the path and the reason. Nothing has
 * been written to the storage. */
int blk_open(struct blk **out, const struct blk_config *config, char *error, size_t error_bytes);
/* Needs: all queues stopped. */
void blk_close(struct blk *blk);

/* Feature bits to offer, device's and ring's. */
uint64_t blk_features(const struct blk *blk);
/* The configuration space as it is now. */
void blk_config_space(const struct blk *blk, struct virtio_blk_config *out);
/* The driver's write of the field `writeback` (with VIRTIO_BLK_F_CONFIG_WCE). True after a reset.
 */
void blk_set_writeback(struct blk *blk, bool writeback);
/* Looks at the storage's size again. 1: the capacity changed, and the driver is to be told; 0: it
 * is the same; a negative errno: the storage does not say. */
int blk_refresh(struct blk *blk);

/* Starts a queue's thread. 0, or a negative errno: vring_attach's, or that of making the ring. */
int blk_queue_start(struct blk *blk, const struct engine_queue *queue);
/*
 * Stops taking, waits until nothing is in flight, ends the thread. What is done is published. Not
 * started: 0. -ETIMEDOUT: a request hangs; the thread goes on draining, the queue counts as
 * started, and stopping can be tried again.
 */
int blk_queue_stop(struct blk *blk, unsigned index, unsigned timeout_ms);

/* "io_uring" or "workers". */
const char *blk_backend_name(const struct blk *blk);
void blk_stats_read(const struct blk *blk, struct blk_stats *out);
