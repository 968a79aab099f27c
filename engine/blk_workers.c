/* SPDX-License-Identifier: BSD-2-Clause */
/* The pool of workers: one list of requests, one lock, as many threads as it takes. */
#include "engine/blk_workers.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "engine/blk_impl.h"

#define STACK_BYTES (64u << 10)
/* Storage that answers faster than this is asked for several by one worker, which saves the lock
 * and the wake-ups; else each request has a worker of its own. */
#define FAST_NS    20000u
#define FAST_BATCH 16u

/* All but file, most and threads: under lock. */
struct blk_workers {
	const struct blk_file *file;
	unsigned most;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct blk_req *first, **last;
	unsigned queued;
	unsigned idle;
	unsigned count;
	uint64_t typical_ns; /* how long a request took lately */
	bool ends;
	pthread_t threads[BLK_WORKERS_MAX];
};

void blk_workers_run(const struct blk_file *file, struct blk_sys *s)
{
	int fd = s->file == BLK_FILE_MAIN ? file->fd : file->paged_fd;
	ssize_t rc = 0;

	switch (s->kind) {
	case BLK_SYS_READ: rc = preadv2(fd, s->iov, (int)s->count, (off_t)s->at, s->flags); break;
	case BLK_SYS_WRITE: rc = pwritev2(fd, s->iov, (int)s->count, (off_t)s->at, s->flags); break;
	case BLK_SYS_SYNC: rc = fdatasync(fd); break;
	default: rc = fallocate(fd, s->flags, (off_t)s->at, (off_t)s->length);
	}
	s->result = rc < 0 ? -errno : (int)rc;
}

/* ---- the threads ----------------------------------------------------------------------------- */

/* Needs: lock, queued. A list of up to so many, ended by NULL. */
static struct blk_req *list_take(struct blk_workers *w, unsigned most, unsigned *count)
{
	struct blk_req *first = w->first, *at = first;

	for (*count = 1; *count < most && at->next; ++*count)
		at = at->next;
	w->first = at->next;
	at->next = NULL;
	if (!w->first)
		w->last = &w->first;
	w->queued -= *count;
	return first;
}

static void list_run(struct blk_workers *w, struct blk_req *req)
{
	while (req) {
		struct blk_req *next = req->next;

		blk_workers_run(w->file, &req->sys);
		blk_queue_deliver(req->queue, req);
		req = next;
	}
}

static void *worker_main(void *arg)
{
	struct blk_workers *w = arg;
	unsigned count;

	pthread_setname_np(pthread_self(), "disk-worker");
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct blk_req *list;
		uint64_t start;

		while (!w->queued && !w->ends) {
			w->idle++;
			pthread_cond_wait(&w->more, &w->lock);
			w->idle--;
		}
		if (!w->queued)
			break;
		list = list_take(w, w->typical_ns < FAST_NS ? FAST_BATCH : 1, &count);
		if (w->queued && w->idle)
			pthread_cond_signal(&w->more);
		pthread_mutex_unlock(&w->lock);
		start = engine_clock_ns();
		list_run(w, list);
		start = (engine_clock_ns() - start) / count;
		pthread_mutex_lock(&w->lock);
		w->typical_ns = (w->typical_ns * 7 + start) / 8;
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Needs: lock. Signals go to the owner's threads. */
static bool worker_add(struct blk_workers *w)
{
	pthread_attr_t attr;
	sigset_t all, old;
	bool good;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	good = !pthread_create(&w->threads[w->count], &attr, worker_main, w);
	w->count += good;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return good;
}

/* ---- for the disk ---------------------------------------------------------------------------- */

bool blk_workers_hand(
        struct blk_workers *w, struct blk_req *first, struct blk_req **end, unsigned count)
{
	unsigned queued, wanted;
	bool good;

	pthread_mutex_lock(&w->lock);
	/* Slow storage gets a thread a request at once, fast storage one more each time. */
	queued = w->queued + count;
	wanted = w->typical_ns < FAST_NS ? 1 : count;
	for (; wanted && w->idle < queued && w->count < w->most; wanted--)
		if (!worker_add(w))
			break;
	good = w->count;
	if (good) {
		*w->last = first;
		w->last = end;
		w->queued = queued;
		if (w->idle)
			pthread_cond_signal(&w->more);
	}
	pthread_mutex_unlock(&w->lock);
	return good;
}

unsigned blk_workers_count(struct blk_workers *w)
{
	unsigned count;

	pthread_mutex_lock(&w->lock);
	count = w->count;
	pthread_mutex_unlock(&w->lock);
	return count;
}

struct blk_workers *blk_workers_new(const struct blk_file *file, unsigned most)
{
	struct blk_workers *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->file = file;
	w->most = most && most < BLK_WORKERS_MAX ? most : BLK_WORKERS_MAX;
	w->last = &w->first;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	return w;
}

void blk_workers_free(struct blk_workers *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->ends = true;
	pthread_cond_broadcast(&w->more);
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->count; i++)
		pthread_join(w->threads[i], NULL);
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
