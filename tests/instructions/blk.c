/* SPDX-License-Identifier: BSD-2-Clause */
/* One disk queue and its driver in one thread, for callgrind to count the queue's instructions. */
#include <valgrind/callgrind.h>

#include "engine/blk.c"
#include "engine/blk_queue.c"
#include "tests/unit/engine/blk_rig.h"

/* Usage: blk read|write DEPTH ROUNDS. In each round DEPTH requests of 4 KiB are made at once, from
 * within the call to the driver, and are answered at once, since the file is in the page cache. */

static struct rig rig;
static unsigned depth, rounds_left;
static uint32_t type;

static void requests_make(void)
{
	for (unsigned i = 0; i < depth; i++) {
		struct virtio_blk_req_head head = {type, 0, i * 8};
		struct guest_buf bufs[3] = {{guest_gpa(rig.head_at + i * 16), 16, false},
		        {rig_gpa(&rig, i * 4096), 4096, type == VIRTIO_BLK_T_IN},
		        {guest_gpa(rig.status_at + i), 1, true}};

		memcpy(rig.mem.arena + rig.head_at + i * 16, &head, sizeof(head));
		/* Tables as Linux makes them, one a request. */
		if (guest_add_indirect(&rig.ring, rig.table_at + i * 48, bufs, 3) < 0)
			abort();
	}
}

/* The driver: takes the answers, makes new requests or lets the queue end. */
static void on_call(void *owner, unsigned queue)
{
	uint32_t len;
	int head;

	(void)owner;
	(void)queue;
	CALLGRIND_TOGGLE_COLLECT;
	for (unsigned i = 0; i < depth; i++)
		if (!guest_take(&rig.ring, &head, &len) || head < 0 ||
		        rig.mem.arena[rig.status_at + i] != VIRTIO_BLK_S_OK)
			abort();
	guest_want_call(&rig.ring);
	if (--rounds_left)
		requests_make();
	else
		rig.blk->queues[0].stopping = true;
	CALLGRIND_TOGGLE_COLLECT;
}

/* As rig_start, without the queue's thread: valgrind runs one thread at a time, and knows nothing
 * of io_uring's waiting. */
static int rig_prepare(struct blk_config *c)
{
	char error[512];

	c->events.call = on_call;
	if (blk_open(&rig.blk, c, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return -1;
	}
	guest_mem_init(&rig.mem, 8 << 20);
	guest_ring_init(&rig.ring, &rig.mem, 256, RIG_FEATURES);
	rig.head_at = guest_alloc(&rig.mem, 16 * 1024, 16);
	rig.status_at = guest_alloc(&rig.mem, 1024, 1);
	rig.table_at = guest_alloc(&rig.mem, 1100 * 16, 16);
	rig.data_at = guest_alloc(&rig.mem, 4 << 20, 4096);
	rig.kick_fd = eventfd(0, EFD_NONBLOCK);
	return 0;
}

int main(int argc, char **argv)
{
	struct blk_config c = rig_config(&rig);
	struct engine_queue queue = {0};
	struct blk_queue *q;

	if (argc != 4)
		return 2;
	type = strcmp(argv[1], "read") ? VIRTIO_BLK_T_OUT : VIRTIO_BLK_T_IN;
	depth = (unsigned)atoi(argv[2]);
	rounds_left = (unsigned)atoi(argv[3]);
	rig_file(&rig, "/var/tmp", 8192);
	c.cached = true;
	c.watch_ns = 0;
	if (rig_prepare(&c))
		return 1;
	q = &rig.blk->queues[0];
	queue.kick_fd = rig.kick_fd;
	queue.ring = guest_ring_config(&rig.ring);
	if (queue_prepare(q, &queue))
		return 1;
	if (thread_begin(q))
		return 1;
	vring_take_call(&q->vr);
	requests_make();
	CALLGRIND_TOGGLE_COLLECT;
	serve(q);
	CALLGRIND_TOGGLE_COLLECT;
	thread_end(q);
	unlink(rig.path);
	printf("%u requests\n", depth * (unsigned)atoi(argv[3]));
	return 0;
}
