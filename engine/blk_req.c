/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsing virtio-blk requests by virtio 1.2 §5.2.6. */
#include "engine/blk_req.h"

#include <stdlib.h>
#include <string.h>

#include "engine/iov.h"

static enum blk_verdict answer(struct blk_req *req, uint8_t result)
{
	req->result = result;
	return BLK_ANSWER;
}

static bool range_fits(const struct blk_limits *limits, uint64_t sector, uint64_t count)
{
	return sector <= limits->sectors && count <= limits->sectors - sector;
}

/* Takes the buffers iov[0 .. count), without their first skip bytes, cut to size bytes. */
static bool data_take(
        struct blk_req *req, const struct iovec *iov, unsigned count, size_t skip, size_t size)
{
	struct iovec *to = req->inline_iov;

	for (; count && skip >= iov->iov_len; count--)
		skip -= iov++->iov_len;
	if (count && size <= iov->iov_len - skip) {
		*to = (struct iovec){(char *)iov->iov_base + skip, size};
		req->iov = to;
		req->iov_count = 1;
		return true;
	}
	if (count > BLK_INLINE_IOV) {
		to = req->iov_heap = malloc(count * sizeof(*to));
		if (!to)
			return false;
	}
	memcpy(to, iov, count * sizeof(*to));
	count = iov_advance(&to, count, skip);
	req->iov = to;
	req->iov_count = iov_truncate(to, count, size);
	return true;
}

static enum blk_verdict parse_rw(struct blk_req *req, const struct vring_chain *chain,
        const struct blk_limits *limits, uint64_t sector)
{
	bool write = req->op == BLK_WRITE;
	uint64_t size = write ? chain->readable_bytes - sizeof(struct virtio_blk_req_head)
	                      : chain->writable_bytes - 1;
	bool taken;

	/* virtio 1.2 §5.2.6.2: a write to a read-only disk fails and writes nothing. */
	if (write && limits->read_only)
		return answer(req, VIRTIO_BLK_S_IOERR);
	if (!size || size % VIRTIO_BLK_SECTOR_BYTES ||
	        !range_fits(limits, sector, size / VIRTIO_BLK_SECTOR_BYTES))
		return answer(req, VIRTIO_BLK_S_IOERR);
	req->offset = sector * VIRTIO_BLK_SECTOR_BYTES;
	req->length = size;
	if (write)
		taken = data_take(req, chain->iov, chain->readable_count,
		        sizeof(struct virtio_blk_req_head), size);
	else
		taken = data_take(
		        req, chain->iov + chain->readable_count, chain->writable_count, 0, size);
	return taken ? BLK_RUN : answer(req, VIRTIO_BLK_S_IOERR);
}

static uint8_t range_check(
        const struct virtio_blk_range *r, bool discard, const struct blk_limits *limits)
{
	uint32_t most = discard ? BLK_DISCARD_SECTORS : BLK_ZERO_SECTORS;

	/* virtio 1.2 §5.2.6.2: an unknown flag, and unmap on a discard, are not supported. */
	if (r->flags & ~VIRTIO_BLK_WRITE_ZEROES_F_UNMAP)
		return VIRTIO_BLK_S_UNSUPP;
	if (discard && r->flags)
		return VIRTIO_BLK_S_UNSUPP;
	if (r->num_sectors > most || !range_fits(limits, r->sector, r->num_sectors))
		return VIRTIO_BLK_S_IOERR;
	return VIRTIO_BLK_S_OK;
}

/* All ranges are checked before the first has an effect. */
static enum blk_verdict parse_ranges(
        struct blk_req *req, const struct vring_chain *chain, const struct blk_limits *limits)
{
	uint64_t size = chain->readable_bytes - sizeof(struct virtio_blk_req_head);
	bool discard = req->op == BLK_DISCARD;
	uint8_t result;

	if (limits->read_only)
		return answer(req, VIRTIO_BLK_S_IOERR);
	if (!(discard ? limits->discard : limits->write_zeroes))
		return answer(req, VIRTIO_BLK_S_UNSUPP);
	if (!size || size % sizeof(*req->ranges) || size > BLK_RANGE_MAX * sizeof(*req->ranges))
		return answer(req, VIRTIO_BLK_S_IOERR);
	req->range_count = (unsigned)(size / sizeof(*req->ranges));
	req->ranges = &req->inline_range;
	if (req->range_count > 1)
		req->ranges = req->ranges_heap = malloc(size);
	if (!req->ranges)
		return answer(req, VIRTIO_BLK_S_IOERR);
	iov_copy_from(chain->iov, chain->readable_count, sizeof(struct virtio_blk_req_head),
	        req->ranges, size);
	for (unsigned i = 0; i < req->range_count; i++) {
		result = range_check(&req->ranges[i], discard, limits);
		if (result != VIRTIO_BLK_S_OK)
			return answer(req, result);
		req->length += (uint64_t)req->ranges[i].num_sectors * VIRTIO_BLK_SECTOR_BYTES;
	}
	return BLK_RUN;
}

/* virtio 1.2 §5.2.6.1: the driver gives 20 bytes; what it gives is filled, never more. */
static enum blk_verdict parse_id(
        struct blk_req *req, const struct vring_chain *chain, const struct blk_limits *limits)
{
	uint64_t size = chain->writable_bytes - 1;

	if (size > VIRTIO_BLK_ID_BYTES)
		size = VIRTIO_BLK_ID_BYTES;
	iov_copy_to(
	        chain->iov + chain->readable_count, chain->writable_count, 0, limits->serial, size);
	return answer(req, VIRTIO_BLK_S_OK);
}

static enum blk_verdict parse_by_type(struct blk_req *req, const struct vring_chain *chain,
        const struct blk_limits *limits, const struct virtio_blk_req_head *head)
{
	switch (head->type) {
	case VIRTIO_BLK_T_IN: req->op = BLK_READ; return parse_rw(req, chain, limits, head->sector);
	case VIRTIO_BLK_T_OUT:
		req->op = BLK_WRITE;
		return parse_rw(req, chain, limits, head->sector);
	case VIRTIO_BLK_T_FLUSH: req->op = BLK_FLUSH; return BLK_RUN;
	case VIRTIO_BLK_T_DISCARD: req->op = BLK_DISCARD; return parse_ranges(req, chain, limits);
	case VIRTIO_BLK_T_WRITE_ZEROES: req->op = BLK_ZERO; return parse_ranges(req, chain, limits);
	case VIRTIO_BLK_T_GET_ID: return parse_id(req, chain, limits);
	default: return answer(req, VIRTIO_BLK_S_UNSUPP);
	}
}

enum blk_verdict blk_req_parse(
        struct blk_req *req, const struct vring_chain *chain, const struct blk_limits *limits)
{
	struct virtio_blk_req_head head;
	enum blk_verdict verdict;

	memset(req, 0, offsetof(struct blk_req, inline_iov));
	req->head = chain->head;
	req->op = BLK_OTHER;
	if (chain->fault != VRING_FAULT_NONE && chain->fault != VRING_FAULT_BUFFER)
		return BLK_DROP;
	if (!chain->last_byte)
		return BLK_DROP;
	req->status = chain->last_byte;
	req->used_bytes = (uint32_t)chain->writable_bytes;
	/* A buffer outside guest memory (C-15). */
	if (chain->fault)
		return answer(req, VIRTIO_BLK_S_IOERR);
	if (chain->readable_count && chain->iov->iov_len >= sizeof(head))
		memcpy(&head, chain->iov->iov_base, sizeof(head));
	else if (iov_copy_from(chain->iov, chain->readable_count, 0, &head, sizeof(head)) !=
	         sizeof(head))
		return answer(req, VIRTIO_BLK_S_IOERR);
	/* The copy is what is used: guest memory is not looked at again (C-14). */
	__asm__ volatile("" ::: "memory");
	verdict = parse_by_type(req, chain, limits, &head);
	if (verdict != BLK_RUN)
		blk_req_free(req);
	return verdict;
}

void blk_req_free(struct blk_req *req)
{
	free(req->iov_heap);
	free(req->ranges_heap);
	req->iov_heap = NULL;
	req->ranges_heap = NULL;
}
