/* SPDX-License-Identifier: BSD-2-Clause */
/* A network card as its owner sees it: opened, described to the guest, its queues started and
 * stopped. */
#include "engine/net.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/net_impl.h"

#define STACK_BYTES (128u << 10)

/* ---- for the threads ------------------------------------------------------------------------- */

void net_queue_publish(struct net_queue *q)
{
	const struct engine_events *events = &q->net->config.events;

	vring_publish(&q->vr);
	if (vring_take_call(&q->vr)) {
		net_count(&q->stats.calls, 1);
		events->call(events->owner, q->index);
	}
	if (q->vr.broken && !q->told_broken) {
		q->told_broken = true;
		events->broken(events->owner, q->index, q->vr.broken);
	}
}

void net_queue_wait(struct net_queue *q, short tap_events, int timeout_ms)
{
	struct pollfd fds[] = {
	        {q->stop_fd, POLLIN, 0},
	        {q->kick_fd, POLLIN, 0},
	        {tap_events ? q->net->tap_fd : -1, tap_events, 0},
	};
	uint64_t count;

	if (timeout_ms)
		net_count(&q->stats.waits, 1);
	if (poll(fds, 3, timeout_ms) <= 0)
		return;
	if (fds[1].revents && read(q->kick_fd, &count, sizeof(count)) == sizeof(count))
		net_count(&q->stats.kicks, count);
}

/* ---- the card -------------------------------------------------------------------------------- */

int net_open(struct net **out, const struct net_config *config, char *error, size_t error_bytes)
{
	struct net *net = calloc(1, sizeof(*net));
	int rc;

	*out = NULL;
	if (!net) {
		snprintf(error, error_bytes, "network %s: no memory", config->tap);
		return -ENOMEM;
	}
	net->config = *config;
	net->config.tap = NULL;
	snprintf(net->tap_name, sizeof(net->tap_name), "%s", config->tap);
	for (unsigned i = 0; i < NET_QUEUES; i++) {
		net->queues[i].net = net;
		net->queues[i].index = i;
	}
	rc = net_tap_open(net, error, error_bytes);
	if (rc) {
		free(net);
		return rc;
	}
	*out = net;
	return 0;
}

void net_close(struct net *net)
{
	if (!net)
		return;
	close(net->tap_fd);
	free(net);
}

uint64_t net_features(const struct net *net)
{
	static const uint8_t bits[] = {VIRTIO_F_INDIRECT_DESC, VIRTIO_F_EVENT_IDX, VIRTIO_NET_F_MAC,
	        VIRTIO_NET_F_STATUS, VIRTIO_NET_F_MTU, VIRTIO_NET_F_CSUM, VIRTIO_NET_F_GUEST_CSUM,
	        VIRTIO_NET_F_HOST_TSO4, VIRTIO_NET_F_HOST_TSO6, VIRTIO_NET_F_HOST_ECN,
	        VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6, VIRTIO_NET_F_GUEST_ECN,
	        VIRTIO_NET_F_MRG_RXBUF};
	uint64_t features = 0;

	(void)net;
	for (unsigned i = 0; i < sizeof(bits); i++)
		features |= VIRTIO_BIT(bits[i]);
	return features;
}

void net_config_space(const struct net *net, struct virtio_net_config *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->mac, net->config.mac, sizeof(out->mac));
	out->status = VIRTIO_NET_S_LINK_UP;
	out->max_virtqueue_pairs = 1;
	out->mtu = net->mtu;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static void queue_release(struct net_queue *q)
{
	if (q->stop_fd >= 0)
		close(q->stop_fd);
	q->stop_fd = -1;
	free(q->rx);
	free(q->tx);
	q->rx = NULL;
	q->tx = NULL;
}

/* All but the counters, which live as long as the card. */
static int queue_prepare(struct net_queue *q, const struct engine_queue *queue)
{
	struct net_stats stats = q->stats;
	struct net *net = q->net;
	int rc;

	memset(q, 0, offsetof(struct net_queue, vr));
	q->net = net;
	q->index = queue->index;
	q->stats = stats;
	q->kick_fd = queue->kick_fd;
	q->stop_fd = -1;
	q->features = queue->ring.features;
	q->watch = WATCH_START;
	rc = vring_attach(&q->vr, &queue->ring);
	if (!rc && q->index == NET_QUEUE_RX)
		rc = net_tap_offload(net->tap_fd, q->features);
	if (rc)
		return rc;
	if (q->index == NET_QUEUE_RX)
		q->rx = calloc(1, sizeof(*q->rx));
	else
		q->tx = calloc(1, sizeof(*q->tx));
	if (!q->rx && !q->tx)
		return -ENOMEM;
	q->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return q->stop_fd < 0 ? -errno : 0;
}

/* Signals go to the owner's threads. */
static int thread_create(struct net_queue *q)
{
	bool rx = q->index == NET_QUEUE_RX;
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&q->thread, &attr, rx ? net_rx_main : net_tx_main, q);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (!rc)
		pthread_setname_np(q->thread, rx ? "net-rx" : "net-tx");
	return -rc;
}

int net_queue_start(struct net *net, const struct engine_queue *queue)
{
	struct net_queue *q;
	int rc;

	if (queue->index >= NET_QUEUES)
		return -EINVAL;
	q = &net->queues[queue->index];
	if (q->running)
		return -EBUSY;
	rc = queue_prepare(q, queue);
	if (!rc)
		rc = thread_create(q);
	if (rc)
		queue_release(q);
	q->running = !rc;
	return rc;
}

void net_stop(struct net *net)
{
	uint64_t one = 1;

	for (unsigned i = 0; i < NET_QUEUES; i++) {
		struct net_queue *q = &net->queues[i];

		if (!q->running)
			continue;
		__atomic_store_n(&q->stopping, true, __ATOMIC_RELAXED);
		while (write(q->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
		pthread_join(q->thread, NULL);
		q->running = false;
		queue_release(q);
	}
}

/* ---- counters -------------------------------------------------------------------------------- */

void net_stats_read(const struct net *net, struct net_stats *out)
{
	uint64_t *sum = (uint64_t *)out;

	_Static_assert(sizeof(*out) % sizeof(*sum) == 0, "only counters");
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < NET_QUEUES; i++) {
		const uint64_t *from = (const uint64_t *)&net->queues[i].stats;

		for (unsigned k = 0; k < sizeof(*out) / sizeof(*sum); k++)
			sum[k] += __atomic_load_n(&from[k], __ATOMIC_RELAXED);
	}
}
