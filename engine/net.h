/* SPDX-License-Identifier: BSD-2-Clause */
/* The network engine: a pair of virtio-net queues on a tap device. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/queue.h"
#include "hw/virtio_net.h"

/*
 * Threads. Queue 0 (to the guest) and queue 1 (from the guest) have a thread each, since a tap is
 * read and written independently and both directions are busy in a bulk transfer. Nothing but the
 * tap's descriptor is shared. All calls below are made on the owner's thread, one at a time.
 *
 * To the guest: buffers are taken from the ring ahead of the frames (as many as one frame may need)
 * and the tap writes into them. A frame longer than the buffers at hand ends in a private overflow
 * buffer and is copied on from there into more buffers. If there are none yet, it waits until the
 * guest has posted them, and the tap's queue behind it: a frame lost to a guest that is late for a
 * moment would cost its stream far more. It is dropped and counted after a second,
 * if all that can be posted is too little, or if the guest did not accept mergeable buffers; a
 * frame that waits when the queue is stopped is lost, as one on a wire. Buffers that were taken and
 * not used are in the in-flight log, so a successor gets them again.
 *
 * From the guest: the header is copied once, checked against what was negotiated, and written from
 * the copy; payload goes to the tap from guest memory. A frame that breaks a rule, or that the tap
 * refuses, is given back with length 0 and counted.
 *
 * There is no control queue: the guest gets every frame that the bridge sends to its port, whatever
 * its VLAN or group. What the tap does for the guest (checksums, segmentation) follows the features
 * that the guest accepted, each time queue 0 starts.
 *
 * When queue 1 starts on a region that was in use, a reverse ARP request with the guest's address
 * goes into the tap, so that the bridges learn anew where it lives.
 */
struct net;

enum { NET_QUEUE_RX, NET_QUEUE_TX, NET_QUEUES };

struct net_config {
	const char *tap; /* the name of a tap device that exists */
	uint8_t mac[6];
	uint32_t watch_ns;     /* how long to watch the ring after a frame from the guest */
	uint32_t lock_wait_ms; /* how long to wait for a predecessor to let the tap go */
	struct engine_events events;
};

#define NET_WATCH_NS 32000u

struct net_stats {
	uint64_t rx_frames; /* to the guest */
	uint64_t rx_bytes;
	uint64_t rx_dropped_size; /* longer than a buffer, without mergeable buffers */
	uint64_t rx_dropped_full; /* longer than all buffers that the guest posted in time */
	uint64_t rx_bad_chains;
	uint64_t tx_frames;
	uint64_t tx_bytes;
	uint64_t tx_dropped_size;   /* shorter than header and Ethernet head, or too long */
	uint64_t tx_dropped_header; /* a header that breaks the rules or what was negotiated */
	uint64_t tx_dropped_tap;    /* refused by the tap */
	uint64_t tx_bad_chains;
	uint64_t kicks;
	uint64_t calls;
	uint64_t waits;
	uint64_t watch_hits;
	uint64_t watch_misses;
	uint64_t announced;
};

/* 0, or a negative errno with one line in error. */
int net_open(struct net **out, const struct net_config *config, char *error, size_t error_bytes);
/* Needs: both queues stopped. */
void net_close(struct net *net);

uint64_t net_features(const struct net *net);
void net_config_space(const struct net *net, struct virtio_net_config *out);

/* queue->index is NET_QUEUE_*. 0, or a negative errno: vring_attach's, or of making the thread. */
int net_queue_start(struct net *net, const struct engine_queue *queue);
/* Ends both queues' threads. Buffers that were taken and not used stay in flight. */
void net_stop(struct net *net);

void net_stats_read(const struct net *net, struct net_stats *out);
