/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that brings frames from the guest to the tap. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "engine/iov.h"
#include "engine/net_impl.h"

#define BURST       64u
#define WATCH_SPINS 16u

/* ---- one frame ------------------------------------------------------------------------------- */

static bool gso_is_sound(const struct net_queue *q, const struct virtio_net_hdr *hdr)
{
	bool ecn = hdr->gso_type & VIRTIO_NET_HDR_GSO_ECN;

	if (!hdr->gso_size || !(hdr->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM))
		return false;
	if (ecn && !net_has(q, VIRTIO_NET_F_HOST_ECN))
		return false;
	switch (hdr->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_TCPV4: return net_has(q, VIRTIO_NET_F_HOST_TSO4);
	case VIRTIO_NET_HDR_GSO_TCPV6: return net_has(q, VIRTIO_NET_F_HOST_TSO6);
	default: return false;
	}
}

/* virtio 1.2 §5.1.6.2: what a driver may ask for, by what was negotiated. Fields that mean nothing
 * are cleared, so that the tap sees only what was checked. */
static bool header_check(
        const struct net_queue *q, struct virtio_net_hdr *hdr, uint64_t frame_bytes)
{
	/* Flags that a device does not know are ignored. */
	hdr->flags &= VIRTIO_NET_HDR_F_NEEDS_CSUM;
	hdr->num_buffers = 0;
	if (hdr->flags) {
		if (!net_has(q, VIRTIO_NET_F_CSUM))
			return false;
		if (hdr->csum_start + hdr->csum_offset + 2ull > frame_bytes)
			return false;
	} else {
		hdr->csum_start = hdr->csum_offset = 0;
	}
	if (hdr->gso_type != VIRTIO_NET_HDR_GSO_NONE) {
		if (hdr->hdr_len > frame_bytes)
			hdr->hdr_len = (uint16_t)frame_bytes;
		return gso_is_sound(q, hdr);
	}
	hdr->gso_size = hdr->hdr_len = 0;
	return true;
}

/* The private header, then the frame as it lies; gathered first if it lies in too many pieces. */
static unsigned frame_list(
        struct net_queue *q, const struct vring_chain *chain, uint64_t frame_bytes)
{
	struct net_tx *tx = q->tx;
	struct iovec *from = chain->iov;
	unsigned count = iov_advance(&from, chain->readable_count, NET_HDR_BYTES);

	tx->iov[0] = (struct iovec){&tx->hdr, NET_HDR_BYTES};
	if (count <= NET_TX_IOVS) {
		memcpy(&tx->iov[1], from, count * sizeof(*from));
		return count + 1;
	}
	iov_copy_from(from, count, 0, tx->frame, frame_bytes);
	tx->iov[1] = (struct iovec){tx->frame, frame_bytes};
	return 2;
}

static void frame_send(struct net_queue *q, const struct vring_chain *chain)
{
	struct net_stats *stats = &q->stats;
	uint64_t frame_bytes = chain->readable_bytes - NET_HDR_BYTES;
	unsigned count;

	if (chain->fault) {
		net_count(&stats->tx_bad_chains, 1);
		return;
	}
	if (chain->readable_bytes < NET_HDR_BYTES + NET_ETHER_BYTES ||
	        frame_bytes > NET_FRAME_MAX) {
		net_count(&stats->tx_dropped_size, 1);
		return;
	}
	iov_copy_from(chain->iov, chain->readable_count, 0, &q->tx->hdr, NET_HDR_BYTES);
	/* The copy is what is checked and sent (C-14). */
	__asm__ volatile("" ::: "memory");
	if (!header_check(q, &q->tx->hdr, frame_bytes)) {
		net_count(&stats->tx_dropped_header, 1);
		return;
	}
	count = frame_list(q, chain, frame_bytes);
	if (writev(q->net->tap_fd, q->tx->iov, (int)count) < 0) {
		net_count(&stats->tx_dropped_tap, 1);
		return;
	}
	net_count(&stats->tx_frames, 1);
	net_count(&stats->tx_bytes, frame_bytes);
}

/* ---- the guest's whereabouts ----------------------------------------------------------------- */

/* RFC 903: a reverse ARP request from the guest's address to everyone. */
static void announce(struct net_queue *q)
{
	const uint8_t *mac = q->net->config.mac;
	struct {
		struct virtio_net_hdr hdr;
		uint8_t frame[60];
	} packet = {0};
	static const uint8_t arp[] = {0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3};
	uint8_t *at = packet.frame;

	memset(at, 0xff, 6);
	memcpy(at + 6, mac, 6);
	memcpy(at + 12, arp, sizeof(arp));
	memcpy(at + 22, mac, 6);
	memcpy(at + 32, mac, 6);
	if (writev(q->net->tap_fd, &(struct iovec){&packet, sizeof(packet)}, 1) > 0)
		net_count(&q->stats.announced, 1);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static unsigned burst(struct net_queue *q)
{
	struct vring_chain chain;
	unsigned count = 0;

	while (count < BURST && vring_pop(&q->vr, &chain) > 0) {
		frame_send(q, &chain);
		vring_put(&q->vr, chain.head, 0);
		count++;
	}
	net_queue_publish(q);
	return count;
}

/* Looks at the ring for a while after it had something. Kicks are off. True: there is more. */
static bool watch(struct net_queue *q)
{
	uint64_t end;
	bool hit = false;

	if (!q->net->config.watch_ns || q->vr.broken || !watch_enter(&q->watch))
		return false;
	end = engine_clock_ns() + q->net->config.watch_ns;
	while (!hit && engine_clock_ns() < end) {
		for (unsigned i = 0; i < WATCH_SPINS && !hit; i++) {
			hit = vring_pending(&q->vr);
			__builtin_ia32_pause();
		}
	}
	watch_leave(&q->watch, hit);
	net_count(hit ? &q->stats.watch_hits : &q->stats.watch_misses, 1);
	return hit;
}

void *net_tx_main(void *queue)
{
	struct net_queue *q = queue;

	if (q->vr.call_due)
		announce(q);
	net_queue_publish(q);
	while (!net_is_stopping(q)) {
		unsigned count = burst(q);

		if (count == BURST) {
			net_queue_wait(q, 0, 0);
			continue;
		}
		if (count && watch(q))
			continue;
		if (!vring_notify_on(&q->vr))
			net_queue_wait(q, 0, -1);
		vring_notify_off(&q->vr);
	}
	return NULL;
}
