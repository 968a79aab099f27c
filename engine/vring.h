/* SPDX-License-Identifier: BSD-2-Clause */
/* The device's side of a split virtqueue, with the in-flight log that makes its death harmless. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "abi/types.h"
#include "engine/memtable.h"
#include "hw/virtio_ring.h"

/*
 * How a queue lives through the death of its process
 *
 * Three things describe a queue: the ring in guest memory (avail, used), the in-flight region
 * (`log`, in memory that outlives the process), and what this process remembers. The third is
 * never needed: vring_attach() rebuilds it from the other two, and is the only way to start.
 *
 * The region is that of the vhost-user protocol (QEMU docs/interop/vhost-user.rst, "Inflight I/O
 * tracking", split virtqueue), and so is the order of the stores:
 *
 *   taking head i                          publishing a batch
 *     desc[i].counter = counter++            per head: used.ring[…] = {i, len}
 *     desc[i].inflight = 1     (taken)                 desc[i].next = last_batch_head
 *     … the request is acted on …                      last_batch_head = i
 *                                            used.idx += batch          (the guest sees it)
 *                                            per head: desc[i].inflight = 0
 *                                            used_idx = used.idx        (batch closed)
 *
 * Killed anywhere, what is left is one of: not taken (avail has it still), taken (submitted again
 * on attach, in the order of the counters), or published with the batch not closed, seen by
 * used_idx differing from used.idx; then the last (used.idx - used_idx) heads from last_batch_head
 * on are done, and closing the batch is repeated. That repair is itself only repeated stores of the
 * same values, so a kill inside it changes nothing.
 *
 * Where taking starts again needs no store of its own: everything taken is published or in flight,
 * so last_avail = used.idx + (number in flight).
 *
 * For the order of these stores to be what a kill leaves behind they need only be issued in program
 * order; each is a release store, so the compiler keeps it. The guest's view needs more:
 *
 *   store                       load it pairs with, in the driver
 *   used.idx      (release)     its load of used.idx, before it reads used.ring
 *   avail.idx     (ours: acquire) its release of avail.idx, after it wrote avail.ring and desc
 *   avail_event / used.flags, then full fence, then load avail.idx      (vring_notify_on)
 *                               its store avail.idx, full fence, load avail_event / used.flags
 *   used.idx, then full fence, then load used_event / avail.flags       (vring_take_call)
 *                               its store used_event / avail.flags, full fence, load used.idx
 *
 * What the guest wrote is copied once (C-14) and every index, length and count in it is bounded.
 * A chain that breaks the rules is still given to the device with `fault` set, since its head must
 * come back in the used ring (C-19). A broken ring (an avail.idx too far ahead, a head that is none
 * or is in flight already) leaves nothing to go on with: the vring stops for good and says why;
 * the device then asks for a reset.
 *
 * Threads: one thread at a time uses a vring.
 */

/* Descriptors in one chain: two more than the most segments that any device offers. */
#define VRING_CHAIN_MAX 1026u
/* Buffers in one chain after translation: a few may lie across two regions. */
#define VRING_IOV_MAX  (VRING_CHAIN_MAX + 14u)
#define VRING_SIZE_MAX 1024u

/* DescStateSplit */
struct inflight_desc {
	uint8_t inflight;
	uint8_t padding[5];
	uint16_t next;
	uint64_t counter;
};
KEEL_ASSERT_SIZE(struct inflight_desc, 16);
KEEL_ASSERT_OFFSET(struct inflight_desc, inflight, 0);
KEEL_ASSERT_OFFSET(struct inflight_desc, padding, 1);
KEEL_ASSERT_OFFSET(struct inflight_desc, next, 6);
KEEL_ASSERT_OFFSET(struct inflight_desc, counter, 8);

/* QueueRegionSplit. All zero: no queue has run on it since the device was reset. */
struct inflight_region {
	uint64_t features;
	uint16_t version; /* 0: fresh; INFLIGHT_VERSION is stored last when it is formatted */
	uint16_t desc_num;
	uint16_t last_batch_head;
	uint16_t used_idx;
	struct inflight_desc desc[];
};
KEEL_ASSERT_SIZE(struct inflight_region, 16);
KEEL_ASSERT_OFFSET(struct inflight_region, features, 0);
KEEL_ASSERT_OFFSET(struct inflight_region, version, 8);
KEEL_ASSERT_OFFSET(struct inflight_region, desc_num, 10);
KEEL_ASSERT_OFFSET(struct inflight_region, last_batch_head, 12);
KEEL_ASSERT_OFFSET(struct inflight_region, used_idx, 14);
KEEL_ASSERT_OFFSET(struct inflight_region, desc, 16);

#define INFLIGHT_VERSION 1u

enum vring_fault {
	VRING_FAULT_NONE,
	VRING_FAULT_BUFFER,   /* a buffer is outside guest memory; the others are in iov */
	VRING_FAULT_INDEX,    /* next is past the table */
	VRING_FAULT_LENGTH,   /* a loop, or too many descriptors or bytes */
	VRING_FAULT_ORDER,    /* a readable descriptor after a writable one */
	VRING_FAULT_INDIRECT, /* not negotiated, nested, with next, or a table that is none */
};

/*
 * One request as the driver described it, buffers joined where they touch. iov is valid until the
 * next vring_pop. With a fault other than VRING_FAULT_BUFFER the walk stopped there: only head is
 * of use.
 */
struct vring_chain {
	uint16_t head;
	enum vring_fault fault;
	unsigned readable_count; /* iov[0 .. readable_count) */
	unsigned writable_count; /* the next ones */
	uint64_t readable_bytes; /* both sums count refused buffers too and fit a uint32_t */
	uint64_t writable_bytes;
	uint8_t *last_byte; /* of the writable part; NULL if there is none or it was refused */
	struct iovec *iov;
};

struct vring_config {
	const struct memtable *mem; /* outlives the vring */
	unsigned size;
	uint64_t desc_gpa;
	uint64_t avail_gpa;
	uint64_t used_gpa;
	uint64_t features; /* as negotiated: INDIRECT_DESC and EVENT_IDX are looked at */
	void *inflight;    /* 8-byte aligned, outlives the process */
	size_t inflight_bytes;
	uint16_t start_idx; /* where both rings start when the region is fresh: 0 after a reset */
};

struct vring {
	const struct memtable *mem;
	const struct virtq_desc *desc;
	struct virtq_avail *avail;
	struct virtq_used *used;
	struct inflight_region *log;
	const char *broken; /* why it stopped for good; NULL while it works */
	uint16_t size;
	bool event_idx;
	bool indirect;
	bool notify_is_off;
	bool resubmit_begun;
	bool call_due;       /* a call is owed whatever the driver's suppression says */
	uint16_t last_avail; /* the next entry of avail.ring to take */
	uint16_t avail_seen; /* avail.idx as last loaded */
	uint16_t used_idx;   /* as published */
	uint16_t batch;      /* put, not yet published */
	uint16_t signalled;  /* used_idx when the driver was last called or chose not to be */
	uint16_t inflight;   /* taken, not yet published */
	uint16_t resubmit_left;
	uint16_t resubmit_head; /* the last one given out again, with its counter: the order goes on
	                         */
	uint64_t resubmit_counter; /* behind (counter, head) */
	uint64_t counter;
	/* Popped and not put. The log may lie in the front end's memory (vhost-user): what is said
	 * there is for a successor, and never what this process's own memory depends on. */
	bool taken[VRING_SIZE_MAX];
	struct iovec iov[VRING_IOV_MAX];
};

/* What a region for a queue of that size needs. */
size_t vring_inflight_bytes(unsigned size);

/*
 * Starts on a fresh or a left region. 0; -EINVAL: size or alignment; -EFAULT: a ring is outside
 * guest memory; -EPROTO: the region is of another queue size or version, or damaged.
 * The device then calls vring_take_call() once and looks at the ring (vring_pop) before it waits.
 */
int vring_attach(struct vring *vr, const struct vring_config *config);

/*
 * Takes the next request: first those found in flight, in their old order, then new ones. Each is
 * in the log when this returns 1. 0: nothing there; -1: the ring is broken (vr->broken says how).
 */
int vring_pop(struct vring *vr, struct vring_chain *chain);

/* Writes a used entry, which the driver sees after vring_publish. Needs: head was popped. */
void vring_put(struct vring *vr, uint16_t head, uint32_t written_bytes);
void vring_publish(struct vring *vr);

/* True if the driver is to be called for what was published since the last time. */
bool vring_take_call(struct vring *vr);

/* Asks the driver for no kicks; a stray one may come all the same. */
void vring_notify_off(struct vring *vr);
/* Asks for kicks again. True: there is something to take already, so do not wait. */
bool vring_notify_on(struct vring *vr);

/* Whether vring_pop would find something (or the first time, a broken ring). Cheap enough for a
 * polling loop. */
bool vring_pending(struct vring *vr);
