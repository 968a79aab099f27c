/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that brings frames from the tap to the guest. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>

#include "engine/iov.h"
#include "engine/net_impl.h"

/* Frames between two looks at whether the guest wants a call. */
#define BURST       32u
#define FIRST_GUESS 2048u
/* How often to look at a tap that is gone or was taken down. */
#define TAP_RETRY_MS 1000
/* How long a frame waits for a guest to post what it needs. A driver that keeps too few buffers for
 * any such frame would else never get another one. */
#define HOLD_MS 1000

enum rx_end { RX_MORE, RX_TAP_EMPTY, RX_NO_BUFFERS, RX_TAP_FAILED };

/* ---- buffers at hand ------------------------------------------------------------------------- */

/* Makes room behind the buffers for one more chain of any length. */
static bool iov_make_room(struct net_rx *rx)
{
	if (rx->iov_first + rx->iov_count + VRING_IOV_MAX <= NET_RX_IOVS)
		return true;
	memmove(rx->iov, rx->iov + rx->iov_first, rx->iov_count * sizeof(*rx->iov));
	rx->iov_first = 0;
	return rx->iov_count + VRING_IOV_MAX <= NET_RX_IOVS;
}

static void slot_add(struct net_queue *q, const struct vring_chain *chain)
{
	struct net_rx *rx = q->rx;
	struct net_slot *slot = &rx->slots[(rx->slot_first + rx->slot_count) % NET_RX_SLOTS];

	/* A frame's buffers and the overflow go to the tap in one call. */
	if (chain->fault || chain->writable_bytes < NET_HDR_BYTES ||
	        chain->writable_count >= IOV_MAX) {
		net_count(&q->stats.rx_bad_chains, 1);
		vring_put(&q->vr, chain->head, 0);
		return;
	}
	slot->head = chain->head;
	slot->bytes = (uint32_t)chain->writable_bytes;
	slot->iov_count = (uint16_t)chain->writable_count;
	memcpy(rx->iov + rx->iov_first + rx->iov_count, chain->iov + chain->readable_count,
	        chain->writable_count * sizeof(*rx->iov));
	rx->iov_count += slot->iov_count;
	rx->bytes += slot->bytes;
	rx->slot_count++;
}

/* Takes buffers until there are `bytes`, or one chain if frames may not be spread. */
static void slots_fill(struct net_queue *q, uint64_t bytes)
{
	struct net_rx *rx = q->rx;
	struct vring_chain chain;

	if (!net_has(q, VIRTIO_NET_F_MRG_RXBUF))
		bytes = 1;
	while (rx->bytes < bytes && rx->slot_count < NET_RX_SLOTS && iov_make_room(rx) &&
	        vring_pop(&q->vr, &chain) > 0)
		slot_add(q, &chain);
}

/* Gives the first slot to the guest with that many bytes in it. */
static void slot_use(struct net_queue *q, uint32_t bytes)
{
	struct net_rx *rx = q->rx;
	struct net_slot *slot = &rx->slots[rx->slot_first];

	vring_put(&q->vr, slot->head, bytes);
	rx->slot_first = (rx->slot_first + 1) % NET_RX_SLOTS;
	rx->slot_count--;
	rx->bytes -= slot->bytes;
	rx->iov_first += slot->iov_count;
	rx->iov_count -= slot->iov_count;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The slots that a frame of the expected size goes to: their bytes and buffers. */
static void span_choose(const struct net_queue *q, uint64_t *bytes, unsigned *iovs)
{
	const struct net_rx *rx = q->rx;
	uint64_t want = 2ull * rx->last_size > FIRST_GUESS ? 2ull * rx->last_size : FIRST_GUESS;

	*bytes = 0;
	*iovs = 0;
	for (unsigned i = 0; i < rx->slot_count; i++) {
		const struct net_slot *slot = &rx->slots[(rx->slot_first + i) % NET_RX_SLOTS];

		if (i && (*bytes >= want || *iovs + slot->iov_count >= IOV_MAX))
			return;
		*bytes += slot->bytes;
		*iovs += slot->iov_count;
		if (!net_has(q, VIRTIO_NET_F_MRG_RXBUF))
			return;
	}
}

/* One read into guest buffers, and behind them into the overflow. */
static ssize_t tap_read(struct net_queue *q, unsigned iovs)
{
	struct net_rx *rx = q->rx;
	struct iovec *iov = rx->iov + rx->iov_first;
	struct iovec saved = iov[iovs];
	ssize_t got;

	iov[iovs] = (struct iovec){rx->overflow, sizeof(rx->overflow)};
	got = readv(q->net->tap_fd, iov, (int)iovs + 1);
	iov[iovs] = saved;
	return got;
}

static void frame_deliver(struct net_queue *q, uint64_t size)
{
	struct net_rx *rx = q->rx;
	uint16_t buffers = 0;
	uint64_t left = size;

	for (unsigned i = 0; left; i++) {
		uint32_t bytes = rx->slots[(rx->slot_first + i) % NET_RX_SLOTS].bytes;

		left -= left < bytes ? left : bytes;
		buffers++;
	}
	/* virtio 1.2 §5.1.6.4.1: 1 without mergeable buffers. The tap leaves the field alone. */
	iov_copy_to(rx->iov + rx->iov_first, rx->iov_count,
	        offsetof(struct virtio_net_hdr, num_buffers), &buffers, sizeof(buffers));
	for (left = size; left;) {
		uint32_t bytes = rx->slots[rx->slot_first].bytes;

		bytes = left < bytes ? (uint32_t)left : bytes;
		slot_use(q, bytes);
		left -= bytes;
	}
	net_count(&q->stats.rx_frames, 1);
	net_count(&q->stats.rx_bytes, size - NET_HDR_BYTES);
}

/* Nothing that the guest may still post would help. */
static bool is_all_at_hand(const struct net_queue *q)
{
	const struct net_rx *rx = q->rx;

	return rx->slot_count == NET_RX_SLOTS || rx->slot_count == q->vr.size ||
	       rx->iov_count + VRING_IOV_MAX > NET_RX_IOVS;
}

/* Copies what the tap wrote behind the guest's buffers into more of them. */
static enum rx_end held_deliver(struct net_queue *q)
{
	struct net_rx *rx = q->rx;
	uint32_t size = rx->held_size, direct = rx->held_direct;

	slots_fill(q, size);
	if (rx->bytes < size && !is_all_at_hand(q) && engine_clock_ns() < rx->held_until_ns)
		return RX_NO_BUFFERS;
	rx->held_size = 0;
	if (rx->bytes < size) {
		net_count(&q->stats.rx_dropped_full, 1);
		return RX_MORE;
	}
	iov_copy_to(rx->iov + rx->iov_first, rx->iov_count, direct, rx->overflow, size - direct);
	frame_deliver(q, size);
	return RX_MORE;
}

static enum rx_end frame_take(struct net_queue *q)
{
	struct net_rx *rx = q->rx;
	uint64_t direct;
	unsigned iovs;
	ssize_t got;

	if (rx->held_size)
		return held_deliver(q);
	slots_fill(q, 2ull * rx->last_size > FIRST_GUESS ? 2ull * rx->last_size : FIRST_GUESS);
	if (!rx->slot_count)
		return RX_NO_BUFFERS;
	span_choose(q, &direct, &iovs);
	got = tap_read(q, iovs);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? RX_TAP_EMPTY : RX_TAP_FAILED;
	if ((size_t)got <= NET_HDR_BYTES)
		return RX_MORE;
	rx->last_size = (uint32_t)got;
	if ((uint64_t)got <= direct) {
		frame_deliver(q, (uint64_t)got);
		return RX_MORE;
	}
	if (!net_has(q, VIRTIO_NET_F_MRG_RXBUF)) {
		net_count(&q->stats.rx_dropped_size, 1);
		return RX_MORE;
	}
	rx->held_size = (uint32_t)got;
	rx->held_direct = (uint32_t)direct;
	rx->held_until_ns = engine_clock_ns() + HOLD_MS * 1000000ull;
	return held_deliver(q);
}

static enum rx_end burst(struct net_queue *q)
{
	enum rx_end end = RX_MORE;

	for (unsigned i = 0; i < BURST && end == RX_MORE; i++)
		end = frame_take(q);
	net_queue_publish(q);
	return end;
}

void *net_rx_main(void *queue)
{
	struct net_queue *q = queue;

	net_queue_publish(q);
	while (!net_is_stopping(q)) {
		switch (burst(q)) {
		case RX_MORE: net_queue_wait(q, POLLIN, 0); break;
		case RX_TAP_EMPTY: net_queue_wait(q, POLLIN, -1); break;
		case RX_TAP_FAILED: net_queue_wait(q, 0, TAP_RETRY_MS); break;
		case RX_NO_BUFFERS:
			if (!vring_notify_on(&q->vr))
				net_queue_wait(q, 0, q->rx->held_size ? HOLD_MS + 1 : -1);
			vring_notify_off(&q->vr);
			break;
		}
	}
	return NULL;
}
