/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of any content, cut into buffers in any way: what is run is within the disk and the
 * buffers, what is not run touches nothing but its status byte (virtio 1.2 §5.2.6). */
/* sources: engine/iov.c engine/blk_req.c */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/blk_req.h"
#include "engine/iov.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA   16384u
#define BUFFERS 40u

/* The head of an input; then a byte pair for each buffer's length; the rest is what the readable
 * ones hold. */
struct head {
	uint8_t readable, writable; /* how many buffers */
	uint8_t flags;
	uint8_t fault;
	uint8_t sectors_log;
	uint8_t step; /* between buffers: 0 makes them touch */
};

static uint8_t arena[ARENA];

/* Gives out buffers from the arena until it is used up. The bytes in them. */
static uint64_t buffers_make(struct iovec *iov, unsigned *count, unsigned wanted, size_t *at,
        unsigned step, const uint8_t **data, size_t *size)
{
	uint64_t sum = 0;

	for (*count = 0; *count < wanted && *size >= 2; ++*count) {
		size_t bytes = ((*data)[0] | (size_t)(*data)[1] << 8) % 4097 + 1;

		if (bytes + step > ARENA - *at)
			break;
		iov[*count] = (struct iovec){arena + *at, bytes};
		*at += bytes + step;
		*data += 2;
		*size -= 2;
		sum += bytes;
	}
	return sum;
}

static void check_run(
        const struct blk_req *req, const struct blk_limits *limits, const struct vring_chain *chain)
{
	assert(req->status == chain->last_byte);
	if (req->op == BLK_READ || req->op == BLK_WRITE) {
		uint64_t head = req->op == BLK_WRITE ? 16 : 1;
		uint64_t all = req->op == BLK_WRITE ? chain->readable_bytes : chain->writable_bytes;

		assert(req->length && req->length % 512 == 0 && req->length == all - head);
		assert(req->offset % 512 == 0 && req->offset / 512 <= limits->sectors);
		assert(req->length / 512 <= limits->sectors - req->offset / 512);
		assert(!limits->read_only || req->op == BLK_READ);
		assert(iov_total(req->iov, req->iov_count) == req->length);
		for (unsigned i = 0; i < req->iov_count; i++) {
			const uint8_t *from = req->iov[i].iov_base;

			assert(from >= arena && from + req->iov[i].iov_len <= arena + ARENA);
			assert(req->status < from || req->status >= from + req->iov[i].iov_len);
		}
		return;
	}
	if (req->op == BLK_FLUSH)
		return;
	assert(req->op == BLK_DISCARD ? limits->discard : limits->write_zeroes);
	assert(!limits->read_only && req->range_count && req->range_count <= BLK_RANGE_MAX);
	for (unsigned i = 0; i < req->range_count; i++) {
		const struct virtio_blk_range *r = &req->ranges[i];

		assert(r->sector <= limits->sectors &&
		        r->num_sectors <= limits->sectors - r->sector);
		assert(!(r->flags & ~(req->op == BLK_ZERO ? 1u : 0u)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t before[ARENA];
	struct iovec iov[2 * BUFFERS];
	struct vring_chain chain = {.head = 7, .iov = iov};
	struct blk_limits limits = {.serial = "0123456789012345678"};
	enum blk_verdict verdict;
	struct blk_req req;
	struct head head;
	size_t at = 0;

	if (size < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	size -= sizeof(head);
	limits.sectors = (1ull << head.sectors_log % 64) + (head.flags & 1);
	limits.read_only = head.flags & 2;
	limits.discard = head.flags & 4;
	limits.write_zeroes = head.flags & 8;
	chain.readable_bytes = buffers_make(
	        iov, &chain.readable_count, head.readable % BUFFERS, &at, head.step, &data, &size);
	memset(arena, 0xa5, sizeof(arena));
	/* Through the buffers, so that the head and ranges are the input's however they are cut. */
	iov_copy_to(iov, chain.readable_count, 0, data, size);
	chain.writable_bytes = buffers_make(iov + chain.readable_count, &chain.writable_count,
	        head.writable % BUFFERS, &at, head.step, &data, &size);
	if (chain.writable_count) {
		const struct iovec *last = &iov[chain.readable_count + chain.writable_count - 1];

		chain.last_byte = (uint8_t *)last->iov_base + last->iov_len - 1;
	}
	chain.fault = (enum vring_fault)(
	        head.fault % 11 > VRING_FAULT_INDIRECT ? 0 : head.fault % 11);
	memcpy(before, arena, sizeof(arena));
	verdict = blk_req_parse(&req, &chain, &limits);
	if (verdict == BLK_DROP)
		assert(!chain.last_byte || chain.fault);
	else
		assert(req.head == 7 && req.status == chain.last_byte &&
		        req.used_bytes == chain.writable_bytes);
	if (verdict == BLK_RUN) {
		check_run(&req, &limits, &chain);
		blk_req_free(&req);
	}
	/* Only GET_ID writes while parsing, and at most its 20 bytes, never the status. */
	if (verdict != BLK_ANSWER || req.result != VIRTIO_BLK_S_OK) {
		assert(!memcmp(before, arena, sizeof(arena)));
	} else {
		unsigned changed = 0;

		for (unsigned i = 0; i < ARENA; i++)
			changed += before[i] != arena[i];
		assert(changed <= VIRTIO_BLK_ID_BYTES && *req.status == before[req.status - arena]);
	}
	return 0;
}
