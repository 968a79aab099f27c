/* SPDX-License-Identifier: BSD-2-Clause */
/* A driver as Linux's: frames to send lie in one buffer with their header, frames to receive come
 * in pages (mergeable buffers), and what was sent is taken back before the next is sent. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/lib/queue.h"
#include "bench/net/port.h"
#include "engine/memtable.h"
#include "engine/net.h"

#define SIZE       256u
#define PAGE       4096u
#define RING_BYTES (64u << 10) /* one ring with room around its parts */
#define GUEST_BASE 0x100000ull
#define FEATURES                                                                                   \
	(VIRTIO_BIT(VIRTIO_F_VERSION_1) | VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC) |                     \
	        VIRTIO_BIT(VIRTIO_F_EVENT_IDX) | VIRTIO_BIT(VIRTIO_NET_F_CSUM) |                   \
	        VIRTIO_BIT(VIRTIO_NET_F_GUEST_CSUM) | VIRTIO_BIT(VIRTIO_NET_F_HOST_TSO4) |         \
	        VIRTIO_BIT(VIRTIO_NET_F_GUEST_TSO4) | VIRTIO_BIT(VIRTIO_NET_F_MRG_RXBUF))

struct card {
	struct port port;
	struct net *net;
	struct memtable table;
	uint8_t *mem;
	size_t mem_bytes;
	struct queue queues[NET_QUEUES];
	void *inflight[NET_QUEUES];
	int call_fd; /* one for both: the thread sleeps on it */
	uint8_t *rx_pages, *tx_rooms;
	size_t room_bytes;
	uint16_t tx_free[SIZE], rx_held[PORT_IOVS];
	unsigned tx_free_count, rx_held_count;
};

static struct card *card_of(struct port *p)
{
	return (struct card *)(void *)p;
}

static uint64_t gpa_of(const struct card *c, const void *at)
{
	return GUEST_BASE + (uint64_t)((const uint8_t *)at - c->mem);
}

/* ---- to send --------------------------------------------------------------------------------- */

static uint8_t *card_room(struct port *p)
{
	struct card *c = card_of(p);
	struct vring_used_elem used;

	while (queue_take(&c->queues[NET_QUEUE_TX], &used))
		c->tx_free[c->tx_free_count++] = (uint16_t)used.id;
	if (!c->tx_free_count)
		return NULL;
	return c->tx_rooms + c->tx_free[c->tx_free_count - 1] * c->room_bytes;
}

static void card_send(struct port *p, uint32_t frame_bytes)
{
	struct card *c = card_of(p);
	struct queue *q = &c->queues[NET_QUEUE_TX];
	uint16_t id = c->tx_free[--c->tx_free_count];

	q->desc[id] = (struct vring_desc){.addr = gpa_of(c, c->tx_rooms + id * c->room_bytes),
	        .len = PORT_HDR_BYTES + frame_bytes};
	queue_add(q, id);
}

/* ---- to receive ------------------------------------------------------------------------------ */

static void rx_give(struct card *c, uint16_t id)
{
	struct queue *q = &c->queues[NET_QUEUE_RX];

	q->desc[id] = (struct vring_desc){.addr = gpa_of(c, c->rx_pages + (size_t)id * PAGE),
	        .len = PAGE,
	        .flags = VRING_DESC_F_WRITE};
	queue_add(q, id);
}

/* The frame taken last is looked at no more. */
static void rx_give_back(struct card *c)
{
	while (c->rx_held_count)
		rx_give(c, c->rx_held[--c->rx_held_count]);
}

static unsigned card_take(struct port *p, struct iovec iov[PORT_IOVS])
{
	struct card *c = card_of(p);
	struct queue *q = &c->queues[NET_QUEUE_RX];
	struct vring_used_elem used;
	unsigned count = 0, want = 1;

	rx_give_back(c);
	/* The device publishes a frame's buffers all at once (virtio 1.2 §5.1.6.4). */
	while (count < want && queue_take(q, &used)) {
		uint8_t *at = c->rx_pages + (size_t)used.id * PAGE;

		if (!count)
			want = ((const struct virtio_net_hdr *)(const void *)at)->num_buffers;
		if (want > PORT_IOVS)
			want = PORT_IOVS;
		iov[count++] = (struct iovec){at, used.len};
		c->rx_held[c->rx_held_count++] = (uint16_t)used.id;
	}
	return count;
}

static void card_flush(struct port *p)
{
	struct card *c = card_of(p);

	rx_give_back(c);
	for (unsigned i = 0; i < NET_QUEUES; i++)
		queue_publish(&c->queues[i]);
	p->kicks = c->queues[0].kicks + c->queues[1].kicks;
}

static bool card_rest(struct port *p, int timeout_ms)
{
	struct card *c = card_of(p);

	if (queue_want_call(&c->queues[NET_QUEUE_RX]))
		return true;
	if (!queue_wait(&c->queues[NET_QUEUE_RX], timeout_ms))
		return false;
	p->calls = c->queues[NET_QUEUE_RX].calls;
	return true;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void on_call(void *owner, unsigned queue)
{
	struct card *c = owner;
	uint64_t one = 1;

	(void)queue;
	/* Full is as good. */
	if (write(c->call_fd, &one, sizeof(one)) < 0)
		return;
}

static void on_broken(void *owner, unsigned queue, const char *why)
{
	(void)owner;
	fprintf(stderr, "bench-net: queue %u is broken: %s\n", queue, why);
}

static void on_log(void *owner, const char *line)
{
	(void)owner;
	fprintf(stderr, "bench-net: %s\n", line);
}

static void card_close(struct port *p)
{
	struct card *c = card_of(p);

	if (c->net) {
		net_stop(c->net);
		net_close(c->net);
	}
	for (unsigned i = 0; i < NET_QUEUES; i++) {
		if (c->queues[i].kick_fd > 0)
			close(c->queues[i].kick_fd);
		free(c->inflight[i]);
	}
	if (c->call_fd > 0)
		close(c->call_fd);
	if (c->mem)
		munmap(c->mem, c->mem_bytes);
	free(c);
}

static int memory_make(struct card *c, uint32_t frame_bytes)
{
	c->room_bytes = (PORT_HDR_BYTES + frame_bytes + 63u) & ~63u;
	c->mem_bytes = NET_QUEUES * RING_BYTES + SIZE * (PAGE + c->room_bytes);
	c->mem = mmap(
	        NULL, c->mem_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c->mem == MAP_FAILED) {
		c->mem = NULL;
		return -1;
	}
	c->table = (struct memtable){.count = 1, .regions = {{GUEST_BASE, c->mem_bytes, c->mem}}};
	c->rx_pages = c->mem + NET_QUEUES * RING_BYTES;
	c->tx_rooms = c->rx_pages + SIZE * PAGE;
	return 0;
}

static int queue_begin(struct card *c, unsigned index)
{
	struct queue *q = &c->queues[index];
	uint8_t *at = c->mem + index * RING_BYTES;
	struct engine_queue given = {.index = index};

	*q = (struct queue){.index = index,
	        .size = SIZE,
	        .event_idx = true,
	        .desc = (struct vring_desc *)(void *)at,
	        .avail = (struct vring_avail *)(void *)(at + RING_BYTES / 2),
	        .used = (struct vring_used *)(void *)(at + RING_BYTES / 4 * 3),
	        .kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
	        .call_fd = c->call_fd};
	c->inflight[index] = calloc(1, vring_inflight_bytes(SIZE));
	if (q->kick_fd < 0 || !c->inflight[index])
		return -ENOMEM;
	given.kick_fd = q->kick_fd;
	given.ring = (struct vring_config){.mem = &c->table,
	        .size = SIZE,
	        .desc_gpa = gpa_of(c, q->desc),
	        .avail_gpa = gpa_of(c, q->avail),
	        .used_gpa = gpa_of(c, q->used),
	        .features = FEATURES,
	        .inflight = c->inflight[index],
	        .inflight_bytes = vring_inflight_bytes(SIZE)};
	return net_queue_start(c->net, &given);
}

struct port *port_open_engine(const struct port_config *config, char *error, size_t error_bytes)
{
	struct card *c = calloc(1, sizeof(*c));
	struct net_config nc = {.tap = config->tap,
	        .watch_ns = config->watch_ns,
	        .events = {c, on_call, on_broken, on_log}};

	if (!c)
		return NULL;
	c->port = (struct port){.room = card_room,
	        .send = card_send,
	        .take = card_take,
	        .flush = card_flush,
	        .rest = card_rest,
	        .close = card_close};
	memcpy(nc.mac, config->mac, sizeof(nc.mac));
	c->call_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (c->call_fd < 0 || memory_make(c, config->frame_bytes)) {
		snprintf(error, error_bytes, "memory: %s", strerror(errno));
		goto wrong;
	}
	if (net_open(&c->net, &nc, error, error_bytes))
		goto wrong;
	if (queue_begin(c, NET_QUEUE_RX) || queue_begin(c, NET_QUEUE_TX)) {
		snprintf(error, error_bytes, "the engine does not take the queues");
		goto wrong;
	}
	for (unsigned i = 0; i < SIZE; i++) {
		rx_give(c, (uint16_t)i);
		c->tx_free[c->tx_free_count++] = (uint16_t)i;
	}
	card_flush(&c->port);
	return &c->port;
wrong:
	card_close(&c->port);
	return NULL;
}
