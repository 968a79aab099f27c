/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames made and looked at. They are TCP segments by their heads, since only such are segmented.
 */
#include "bench/net/load.h"

#include "bench/lib/clock.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/virtio_net.h>

#define BURST    16u
#define ACK_ONLY UINT64_MAX

struct frame {
	struct virtio_net_hdr_v1 hdr;
	struct ethhdr ether;
	struct iphdr ip;
	struct tcphdr tcp;
	struct {
		uint64_t number; /* of this frame, or ACK_ONLY */
		uint64_t ack;    /* the number of the next one expected */
		uint64_t sent_ns, echo_ns;
	} note;
	uint8_t data[];
} __attribute__((packed));

_Static_assert(offsetof(struct frame, note) == PORT_HDR_BYTES + LOAD_HEADS, "heads");
_Static_assert(sizeof(((struct frame *)0)->note) == LOAD_BYTES_MIN, "note");

static uint8_t data_byte(uint64_t number, size_t at)
{
	return (uint8_t)(number * 31 + at + (at >> 8) * 7);
}

/* ---- to the peer ----------------------------------------------------------------------------- */

/* RFC 1071 */
static uint16_t ip_check(const struct frame *f)
{
	uint16_t words[sizeof(f->ip) / 2];
	uint32_t sum = 0;

	memcpy(words, (const uint8_t *)f + offsetof(struct frame, ip), sizeof(words));
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

static void heads_fill(const struct load *l, struct frame *f, uint32_t bytes)
{
	memset(f, 0, sizeof(*f));
	f->hdr.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	f->hdr.csum_start = ETH_HLEN + sizeof(f->ip);
	f->hdr.csum_offset = offsetof(struct tcphdr, check);
	if (bytes > LOAD_SEGMENT) {
		f->hdr.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
		f->hdr.gso_size = LOAD_SEGMENT;
		f->hdr.hdr_len = LOAD_HEADS;
	}
	memcpy(f->ether.h_dest, l->peer, ETH_ALEN);
	memcpy(f->ether.h_source, l->mac, ETH_ALEN);
	f->ether.h_proto = htons(ETH_P_IP);
	f->ip.version = 4;
	f->ip.ihl = 5;
	f->ip.ttl = 64;
	f->ip.protocol = IPPROTO_TCP;
	f->ip.tot_len = htons((uint16_t)(sizeof(f->ip) + sizeof(f->tcp) + bytes));
	f->ip.saddr = htonl(0x0a000000u | l->mac[5]);
	f->ip.daddr = htonl(0x0a000000u | l->peer[5]);
	f->ip.check = ip_check(f);
	f->tcp.source = f->tcp.dest = htons(5001);
	f->tcp.doff = 5;
	f->tcp.ack = 1;
	f->tcp.window = htons(0xffff);
}

static bool frame_send(struct load *l, uint64_t number, uint32_t bytes)
{
	struct frame *f = (struct frame *)(void *)l->port->room(l->port);

	if (!f)
		return false;
	heads_fill(l, f, bytes);
	f->note.number = number;
	f->note.ack = l->expected;
	f->note.sent_ns = clock_ns();
	f->note.echo_ns = l->echo_ns;
	for (size_t i = 0; l->verify && i < bytes - LOAD_BYTES_MIN; i++)
		f->data[i] = data_byte(number, i);
	l->port->send(l->port, LOAD_HEADS + bytes);
	l->told = l->expected;
	return true;
}

static unsigned send_all(struct load *l)
{
	unsigned count = 0;

	while (l->sent - l->acked < l->window && frame_send(l, l->sent, l->bytes)) {
		__atomic_store_n(&l->sent, l->sent + 1, __ATOMIC_RELAXED);
		count++;
	}
	/* Data tells it as well. */
	if (l->told != l->expected && frame_send(l, ACK_ONLY, LOAD_BYTES_MIN))
		count++;
	return count;
}

/* ---- from the peer --------------------------------------------------------------------------- */

static bool data_is_right(const struct iovec *iov, unsigned pieces, uint64_t number, uint32_t bytes)
{
	size_t skip = sizeof(struct frame), at = 0, total = bytes - LOAD_BYTES_MIN;

	for (unsigned i = 0; i < pieces; i++, skip = 0) {
		const uint8_t *data = iov[i].iov_base;

		for (size_t k = skip; k < iov[i].iov_len; k++, at++)
			if (at >= total || data[k] != data_byte(number, at))
				return false;
	}
	return at == total;
}

static void data_take(struct load *l, const struct iovec *iov, unsigned pieces)
{
	const struct frame *f = iov[0].iov_base;
	uint64_t number = f->note.number;
	uint32_t bytes = ntohs(f->ip.tot_len) - (LOAD_HEADS - ETH_HLEN);

	if (number < l->expected) {
		snprintf(l->error, sizeof(l->error), "frame %llu came again",
		        (unsigned long long)number);
		return;
	}
	if (l->verify && !data_is_right(iov, pieces, number, bytes)) {
		snprintf(l->error, sizeof(l->error), "frame %llu has other bytes than were sent",
		        (unsigned long long)number);
		return;
	}
	l->verified += l->verify;
	l->lost += number - l->expected;
	l->expected = number + 1;
	l->echo_ns = f->note.sent_ns;
	__atomic_store_n(&l->received, l->received + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&l->received_bytes, l->received_bytes + bytes, __ATOMIC_RELAXED);
}

static unsigned take_all(struct load *l)
{
	struct iovec iov[PORT_IOVS];
	unsigned count = 0, pieces;

	while (count < BURST && (pieces = l->port->take(l->port, iov)) > 0) {
		const struct frame *f = iov[0].iov_base;

		count++;
		/* A bridge floods, and the kernel says things of its own. */
		if (iov[0].iov_len < sizeof(*f) || memcmp(f->ether.h_dest, l->mac, ETH_ALEN) != 0)
			continue;
		if (f->note.ack > l->acked && f->note.ack <= l->sent) {
			__atomic_store_n(&l->acked, f->note.ack, __ATOMIC_RELAXED);
			if (__atomic_load_n(&l->is_timed, __ATOMIC_RELAXED))
				hist_add(l->hist, clock_ns() - f->note.echo_ns);
		}
		if (f->note.number != ACK_ONLY)
			data_take(l, iov, pieces);
	}
	return count;
}

unsigned load_turn(struct load *l)
{
	unsigned count = take_all(l);

	count += send_all(l);
	l->port->flush(l->port);
	return count;
}

void load_give_up(struct load *l)
{
	l->given_up += l->sent - l->acked;
	l->acked = l->sent;
}
