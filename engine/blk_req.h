/* SPDX-License-Identifier: BSD-2-Clause */
/* One virtio-blk request: read from its chain, checked, and then only used from here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "engine/blk.h"
#include "engine/vring.h"

/* What the kernel is asked next for a request, by whichever back end. */
enum blk_sys_kind { BLK_SYS_READ, BLK_SYS_WRITE, BLK_SYS_SYNC, BLK_SYS_ALLOCATE };

struct blk_sys {
	const struct iovec *iov; /* READ and WRITE */
	unsigned count;
	uint8_t kind; /* enum blk_sys_kind */
	uint8_t file; /* the engine's number of the description */
	int flags;    /* RWF_* or FALLOC_FL_* */
	int result;   /* a worker's answer: bytes or a negative errno */
	uint64_t at;
	uint64_t length;  /* ALLOCATE */
	struct iovec one; /* for whom a single buffer is enough */
};

/* How many buffers and ranges a request holds without an allocation. */
#define BLK_INLINE_IOV 4u

struct blk_req {
	struct blk_req *next;    /* in a list: waits for a bounce buffer, or is with the workers */
	struct blk_queue *queue; /* the back end's own */
	uint8_t *status;         /* the last device-writable byte */
	uint64_t offset;         /* bytes on the disk */
	uint64_t length;
	uint64_t done;
	uint64_t start_ns;
	struct iovec *iov;      /* data that is not yet moved */
	struct iovec *iov_heap; /* what to free; NULL if inline_iov or ranges_inline serve */
	struct virtio_blk_range *ranges;
	struct virtio_blk_range *ranges_heap;
	uint8_t *bounce;
	unsigned iov_count;
	unsigned range_count;
	unsigned range_at;
	uint32_t used_bytes; /* the length for the used entry */
	uint16_t head;
	uint8_t op;     /* enum blk_op */
	uint8_t result; /* VIRTIO_BLK_S_* */
	uint8_t step;   /* the back end's own */
	uint8_t method; /* the back end's own */
	uint8_t paged;  /* the back end's own: use the page cache for the rest */
	uint8_t retries;
	struct iovec inline_iov[BLK_INLINE_IOV];
	struct virtio_blk_range inline_range;
	struct blk_sys sys; /* the back end's own */
};

/* What the disk is at this moment, as the requests of a queue see it. */
struct blk_limits {
	uint64_t sectors;
	bool read_only;
	bool discard; /* negotiated */
	bool write_zeroes;
	char serial[VIRTIO_BLK_ID_BYTES];
};

enum blk_verdict {
	BLK_DROP,   /* nowhere to put a status: back with length 0 */
	BLK_ANSWER, /* result is the answer; there is nothing to do */
	BLK_RUN,    /* READ, WRITE, FLUSH, DISCARD or ZERO, all bounds checked */
};

/*
 * Fills req (all of it but start_ns) from a chain. No assumption on how the driver cut it into
 * descriptors (virtio 1.2 §2.7.4): the first 16 readable bytes are the head, the last writable byte
 * is the status. blk_req_free frees what a BLK_RUN holds.
 */
enum blk_verdict blk_req_parse(
        struct blk_req *req, const struct vring_chain *chain, const struct blk_limits *limits);
void blk_req_free(struct blk_req *req);
