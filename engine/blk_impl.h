/* SPDX-License-Identifier: BSD-2-Clause */
/* What the block engine's own files share: a disk, its queues, and the steps of a request. */
#pragma once

#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/blk_file.h"
#include "engine/blk_probe.h"
#include "engine/blk_req.h"
#include "engine/blk_throttle.h"
#include "engine/blk_workers.h"
#include "engine/clock.h"
#include "engine/watch.h"

#define BLK_BOUNCE_BYTES   65536u
#define BLK_BOUNCE_BUFFERS 4u
#define BLK_FIXED_MAX      64u
#define BLK_NS_PER_SECOND  1000000000ull

/* blk_sys.file */
enum { BLK_FILE_MAIN, BLK_FILE_PAGED };

/* user_data of the polls; requests have their address. */
#define BLK_TAG_KICK 1u
#define BLK_TAG_STOP 2u
#define BLK_TAG_DONE 3u /* a worker has answered while the queue's thread slept */
#define BLK_TAG_TIME 4u /* the first of those that wait for the rate limit is due */
#define BLK_TAG_LAST 4u

/*
 * Fields are the queue's thread's own once it runs, but for
 *   [c] counters: written by the thread, read by anyone; relaxed
 *   [s] start and stop: under lock
 *   [w] shared with the workers, where there are any
 */
struct blk_queue {
	struct blk *blk;
	unsigned index;
	bool running; /* the owner's: there is a thread to join */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t started_cond;
	bool started;    /* [s] */
	int start_error; /* [s] */
	int kick_fd;
	int stop_fd;
	bool stopping;
	bool told_broken;
	unsigned rearm; /* a bit for each BLK_TAG_* whose poll has ended */
	uint64_t features;
	struct vring vr;
	struct io_uring ring;
	struct io_uring poll_ring; /* made if blk.polls */
	bool polls;                /* small reads and writes go there */
	bool poll_ring_is_made;
	unsigned polled;      /* requests that are there */
	struct blk_req *reqs; /* by head */
	unsigned in_flight;
	uint64_t now_ns;
	uint64_t watch_until_ns;
	struct watch watch;
	uint64_t log_next_ns;
	unsigned log_dropped;
	uint8_t *bounce[BLK_BOUNCE_BUFFERS];
	unsigned bounce_free; /* a bit for each that is free */
	struct blk_req *bounce_first, **bounce_last;
	struct blk_req *held_first, **held_last; /* wait for the rate limit */
	uint64_t held_until_ns;                  /* when the first of them is due */
	bool timer_runs;
	struct __kernel_timespec timer_at;
	struct blk_req *hand_first, **hand_last; /* prepared for the workers, not yet handed over */
	unsigned hand_count;
	_Atomic(struct blk_req *) done; /* [w] run by workers; the last one first */
	atomic_bool sleeps;             /* [w] wants a signal on done_fd */
	atomic_uint delivering;         /* [w] workers that still touch this queue */
	int done_fd;
	unsigned fixed_count;
	struct iovec fixed[BLK_FIXED_MAX];
	struct blk_stats stats; /* [c] */
};

struct blk {
	struct blk_config config;
	char *path;
	char serial[VIRTIO_BLK_ID_BYTES];
	struct blk_file file;
	bool polls; /* config.iopoll, and the device can */
	struct blk_throttle throttle;
	struct blk_probe probe;
	struct blk_workers *workers; /* NULL: the queues' rings do the I/O */
	uint8_t *zeroes;             /* BLK_ZERO_BYTES of the zero page */
	_Atomic uint64_t sectors;
	atomic_bool writeback;
	atomic_bool unsettled; /* each write is synchronous: config.guest_outlives, and its data
	                          might not be found again */
	atomic_bool no_punch;  /* the storage said once that it cannot */
	atomic_bool no_zero_range;
	struct blk_queue *queues; /* config.queue_count */
};

#define BLK_ZERO_BYTES (256u << 10)

/* A line in the owner's log, if it has one: "disk PATH: " and what is given. */
void blk_tell(const struct blk *blk, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline void blk_count(uint64_t *counter, uint64_t by)
{
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

/* blk_queue.c */
void *blk_queue_main(void *queue);
/* Answers a request: status byte, used entry, counters. It is published later. */
void blk_queue_finish(struct blk_queue *q, struct blk_req *req, uint8_t result);
/* A line for the operator about a failed request, at most one a second. */
void blk_queue_complain(struct blk_queue *q, const struct blk_req *req, int error);

/* Has a request's system request (req->sys) done, by the ring or a worker. */
void blk_queue_issue(struct blk_queue *q, struct blk_req *req);
/* A worker's thread: req->sys.result is there. */
void blk_queue_deliver(struct blk_queue *q, struct blk_req *req);

/* blk_held.c */
/* Begins a request that was taken, now or when the disk's rate limits let it. */
void blk_held_admit(struct blk_queue *q, struct blk_req *req);
/* Begins those that are due (all if the queue is to stop), and sets the timer for the next. */
void blk_held_run(struct blk_queue *q);

/* blk_ring.c */
int blk_ring_begin(struct blk_queue *q);
void blk_ring_end(struct blk_queue *q);
/* A submission entry; hands what is prepared to the kernel if the ring is full. */
struct io_uring_sqe *blk_ring_sqe(struct blk_queue *q);
void blk_ring_issue(struct blk_queue *q, struct blk_req *req);
/* Looks for answers of the device's poll queues. True: there were some. */
bool blk_ring_poll(struct blk_queue *q);

/* blk_io.c: a request is a sequence of system requests, one at a time. */
/* Prepares the next one, or finishes the request, or puts it in wait for a bounce buffer. */
void blk_io_start(struct blk_queue *q, struct blk_req *req);
/* The result of the one prepared; goes on with the next. */
void blk_io_complete(struct blk_queue *q, struct blk_req *req, int result);
void blk_io_free(struct blk_queue *q);
