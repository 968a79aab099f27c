/* SPDX-License-Identifier: BSD-2-Clause */
/* A guest that writes what it likes into ring, descriptors and requests: nothing outside its memory
 * is ever given out, every chain comes back, and what is run is within the disk. */
/* sources: engine/vring.c engine/memtable.c engine/iov.c engine/blk_req.c */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/blk_req.h"
#include "engine/iov.h"
#include "engine/vring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEM_BYTES 8192u
#define GPA_LOW   0x1000ull
#define GPA_HIGH  0x100000000ull
#define SECTORS   1000u

/* The head of an input; the rest is guest memory from the first byte on. */
struct head {
	uint8_t size_log;
	uint8_t flags;
	uint8_t kill_after;
	uint8_t reserved;
	uint16_t desc_at, avail_at, used_at;
	uint16_t used_idx; /* of the in-flight region */
};

static uint8_t low[MEM_BYTES], high[MEM_BYTES];
static uint8_t disk[64];

static int is_inside(const struct iovec *iov)
{
	const uint8_t *at = iov->iov_base;

	return (at >= low && at + iov->iov_len <= low + MEM_BYTES) ||
	       (at >= high && at + iov->iov_len <= high + MEM_BYTES);
}

static void check_request(const struct vring_chain *chain)
{
	struct blk_limits limits = {SECTORS, disk[0] & 1, true, true, "serial"};
	struct blk_req req;
	enum blk_verdict verdict = blk_req_parse(&req, chain, &limits);

	if (verdict == BLK_DROP)
		return;
	assert(is_inside(&(struct iovec){req.status, 1}));
	if (verdict != BLK_RUN)
		return;
	if (req.op == BLK_READ || req.op == BLK_WRITE) {
		assert(iov_total(req.iov, req.iov_count) == req.length);
		assert(req.length && req.length % 512 == 0 && req.offset % 512 == 0);
		assert(req.offset + req.length <= SECTORS * 512ull);
		assert(!limits.read_only || req.op == BLK_READ);
		for (unsigned i = 0; i < req.iov_count; i++)
			assert(is_inside(&req.iov[i]));
	}
	for (unsigned i = 0; i < req.range_count; i++)
		assert(req.ranges[i].sector + req.ranges[i].num_sectors <= SECTORS);
	blk_req_free(&req);
}

static void check_chain(const struct vring_chain *c, unsigned size)
{
	unsigned count = c->readable_count + c->writable_count;

	assert(c->head < size);
	if (c->fault && c->fault != VRING_FAULT_BUFFER)
		return;
	assert(count <= VRING_IOV_MAX);
	assert(c->readable_bytes + c->writable_bytes <= UINT32_MAX);
	for (unsigned i = 0; i < count; i++)
		assert(is_inside(&c->iov[i]));
	if (!c->fault)
		assert(iov_total(c->iov, count) == c->readable_bytes + c->writable_bytes);
	if (c->last_byte)
		assert(is_inside(&(struct iovec){c->last_byte, 1}));
}

/* Serves until there is nothing more, or after as many requests as the input says. */
static void serve(struct vring *vr, unsigned most)
{
	struct vring_chain chain;
	unsigned held[VRING_SIZE_MAX], count = 0;

	vring_take_call(vr);
	for (unsigned i = 0; i < most && vring_pop(vr, &chain) > 0; i++) {
		check_chain(&chain, vr->size);
		check_request(&chain);
		held[count++] = chain.head;
		assert(count <= vr->size);
		if (i % 3 == 2)
			vring_put(vr, (uint16_t)held[--count], 0);
		if (i % 5 == 4)
			vring_publish(vr);
		vring_take_call(vr);
		vring_notify_on(vr);
		vring_notify_off(vr);
	}
	/* Given back only when it all came: else the process died with it. */
	while (most == UINT32_MAX && count)
		vring_put(vr, (uint16_t)held[--count], 0);
	vring_publish(vr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t inflight[(16 + 16 * 64) / 8];
	static struct vring vr;
	struct memtable mem = {2, {{GPA_LOW, MEM_BYTES, low}, {GPA_HIGH, MEM_BYTES, high}}};
	struct inflight_region *log = (void *)inflight;
	struct vring_config c = {
	        .mem = &mem, .inflight = inflight, .inflight_bytes = sizeof(inflight)};
	struct head head;

	if (size < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	size -= sizeof(head);
	memset(low, 0, sizeof(low));
	memset(high, 0, sizeof(high));
	memset(inflight, 0, sizeof(inflight));
	memcpy(low, data, size < MEM_BYTES ? size : MEM_BYTES);
	if (size > MEM_BYTES)
		memcpy(high, data + MEM_BYTES, size < 2 * MEM_BYTES ? size - MEM_BYTES : MEM_BYTES);
	disk[0] = head.flags >> 2;
	c.size = 1u << (head.size_log % 7);
	c.desc_gpa = GPA_LOW + (head.desc_at & 0x3ff0u);
	c.avail_gpa = GPA_LOW + (head.avail_at & 0x3ffeu);
	c.used_gpa = GPA_LOW + (head.used_at & 0x3ffcu);
	c.features = (head.flags & 1 ? VIRTIO_BIT(VIRTIO_F_EVENT_IDX) : 0) |
	             (head.flags & 2 ? VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC) : 0);
	if (head.flags & 8) {
		/* Left by a predecessor, with a used.idx that the guest may have changed. */
		log->version = INFLIGHT_VERSION;
		log->desc_num = (uint16_t)c.size;
		log->used_idx = head.used_idx;
		for (unsigned i = 0; i < c.size; i++)
			log->desc[i] = (struct inflight_desc){
			        (uint8_t)(head.used_idx >> i % 16 & 1), {0}, (uint16_t)(i * 5),
			        i / 2};
	}
	if (vring_attach(&vr, &c))
		return 0;
	serve(&vr, head.kill_after);
	if (!vring_attach(&vr, &c))
		serve(&vr, UINT32_MAX);
	return 0;
}
