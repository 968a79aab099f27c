/* SPDX-License-Identifier: BSD-2-Clause */
/* The back end for storage that makes who asks wait: threads that ask instead of the queues'. */
#pragma once

#include "engine/blk_req.h"

/*
 * Threads. One pool a disk, for all its queues. A queue's thread hands prepared requests over (a
 * list by `next`) and goes on; a worker runs req->sys and gives the request to blk_queue_deliver.
 * Workers come as they are needed, up to the most, and stay until the pool is freed. One that waits
 * is woken for what was handed over, and wakes the next one while there is more; so storage that
 * answers at once is served by few, and storage that blocks by as many as there are requests.
 */
#define BLK_WORKERS_MAX 32u

struct blk_file;
struct blk_workers;

/* NULL: no memory. */
struct blk_workers *blk_workers_new(const struct blk_file *file, unsigned most);
/* Needs: nothing handed over that is not delivered. */
void blk_workers_free(struct blk_workers *w);
/* Takes the list of count requests, whose last `next` is end. False: there is no thread to run it
 * and none can be made; the list is still the caller's. */
bool blk_workers_hand(
        struct blk_workers *w, struct blk_req *first, struct blk_req **end, unsigned count);
/* How many threads there are. */
unsigned blk_workers_count(struct blk_workers *w);

/* What a worker does for a request, on this thread: sets sys.result. */
void blk_workers_run(const struct blk_file *file, struct blk_sys *sys);
