/* SPDX-License-Identifier: BSD-2-Clause */
/* What the network engine's own files share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine/clock.h"
#include "engine/net.h"
#include "engine/watch.h"

#define NET_HDR_BYTES   ((unsigned)sizeof(struct virtio_net_hdr))
#define NET_ETHER_BYTES 14u
/* The longest frame that a tap takes or gives: 64 KiB of IP behind an Ethernet head with two VLAN
 * tags. */
#define NET_FRAME_MAX (65535u + NET_ETHER_BYTES + 8u)

#define NET_RX_SLOTS 64u
#define NET_RX_IOVS  (2u * VRING_IOV_MAX)

/* A chain of buffers taken and not yet used; its buffers are the next iov_count ones of rx->iov. */
struct net_slot {
	uint32_t bytes;
	uint16_t head;
	uint16_t iov_count;
};

struct net_rx {
	struct net_slot slots[NET_RX_SLOTS]; /* slot_first .. slot_first + slot_count */
	unsigned slot_first, slot_count;
	unsigned iov_first, iov_count;
	uint64_t bytes;     /* in all slots */
	uint32_t last_size; /* of the frame before: the next is probably no longer */
	/* A frame that waits for buffers: so many bytes of it are in those at hand, the rest in the
	 * overflow. 0: none waits. */
	uint32_t held_size, held_direct;
	uint64_t held_until_ns; /* then it is dropped */
	struct iovec iov[NET_RX_IOVS + 1];
	uint8_t overflow[NET_FRAME_MAX + NET_HDR_BYTES];
};

#define NET_TX_IOVS 64u

struct net_tx {
	struct virtio_net_hdr hdr;
	struct iovec iov[NET_TX_IOVS + 1];
	uint8_t frame[NET_FRAME_MAX]; /* for a frame in too many pieces */
};

/* The queue's thread's own once it runs; the counters of stats it touches are read by anyone. */
struct net_queue {
	struct net *net;
	unsigned index;
	bool running;  /* the owner's: there is a thread to join */
	bool stopping; /* (any) */
	bool told_broken;
	pthread_t thread;
	int kick_fd;
	int stop_fd;
	uint64_t features;
	struct watch watch;
	struct net_stats stats;
	struct net_rx *rx; /* one of them */
	struct net_tx *tx;
	struct vring vr;
};

struct net {
	struct net_config config;
	char tap_name[16];
	int tap_fd;
	uint16_t mtu;
	struct net_queue queues[NET_QUEUES];
};

static inline void net_count(uint64_t *counter, uint64_t by)
{
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

/* A guest that always has more for the thread does not keep it from being stopped. */
static inline bool net_is_stopping(const struct net_queue *q)
{
	return __atomic_load_n(&q->stopping, __ATOMIC_RELAXED);
}

static inline bool net_has(const struct net_queue *q, unsigned feature)
{
	return q->features & VIRTIO_BIT(feature);
}

/* net_tap.c */
/* Opens the tap, brings it up. 0, or a negative errno with one line in error. */
int net_tap_open(struct net *net, char *error, size_t error_bytes);
/* Makes the tap do no more than the guest accepted. 0 or a negative errno. */
int net_tap_offload(int fd, uint64_t features);

/* net.c, for the threads */
/* Publishes, calls, and tells the owner of a broken ring. */
void net_queue_publish(struct net_queue *q);
/* Sleeps until a kick, the end, or (tap_events not 0) the tap. timeout_ms as poll's. */
void net_queue_wait(struct net_queue *q, short tap_events, int timeout_ms);

/* net_rx.c, net_tx.c */
void *net_rx_main(void *queue);
void *net_tx_main(void *queue);
