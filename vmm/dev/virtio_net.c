/* SPDX-License-Identifier: BSD-2-Clause */
/* The virtio network card: the network engine behind a transport. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/net.h"
#include "vmm/dev/devices.h"
#include "vmm/dev/engine_glue.h"

#define QUEUE_SIZE         256u
#define PCI_CLASS_ETHERNET 0x020000u

/* A predecessor that was killed lets the tap go when the kernel is done with it. */
#define LOCK_WAIT_MS 3000u

struct virtio_net {
	struct virtio_device dev;
	struct memtable mem;
	struct net *net;
	char name[16];
};

static struct virtio_net *of_device(struct virtio_device *dev)
{
	return (struct virtio_net *)(void *)((char *)dev - offsetof(struct virtio_net, dev));
}

static void config_read(struct virtio_device *dev, unsigned offset, void *out, unsigned bytes)
{
	struct virtio_net_config config;

	net_config_space(of_device(dev)->net, &config);
	glue_config_copy(&config, offset, out, bytes);
}

static size_t inflight_bytes(struct virtio_device *dev, unsigned queue, unsigned size)
{
	(void)dev;
	(void)queue;
	return vring_inflight_bytes(size);
}

static int queue_start(struct virtio_device *dev, const struct virtio_queue_setup *setup)
{
	struct virtio_net *vn = of_device(dev);
	struct engine_queue queue;

	glue_queue(setup, &vn->mem, &queue);
	return net_queue_start(vn->net, &queue);
}

static void reset(struct virtio_device *dev)
{
	net_stop(of_device(dev)->net);
}

static void stats(struct virtio_device *dev, struct virtio_device_stats *out)
{
	struct net_stats s;

	net_stats_read(of_device(dev)->net, &s);
	*out = (struct virtio_device_stats){
	        .requests = s.rx_frames + s.tx_frames,
	        .bytes_in = s.rx_bytes,
	        .bytes_out = s.tx_bytes,
	        .kicks = s.kicks,
	        .calls = s.calls,
	        .waits = s.waits,
	        .errors = s.rx_dropped_size + s.rx_dropped_full + s.rx_bad_chains +
	                  s.tx_dropped_size + s.tx_dropped_header + s.tx_dropped_tap +
	                  s.tx_bad_chains,
	};
}

static const struct virtio_device_ops ops = {
        .config_read = config_read,
        .inflight_bytes = inflight_bytes,
        .queue_start = queue_start,
        .reset = reset,
        .stats = stats,
};

struct virtio_device *virtio_net_create(const struct definition_net *net, unsigned number,
        const struct device_env *env, char *error, size_t error_bytes)
{
	struct virtio_net *vn = calloc(1, sizeof(*vn));
	struct net_config config = {
	        .tap = net->tap,
	        .watch_ns = NET_WATCH_NS,
	        .lock_wait_ms = LOCK_WAIT_MS,
	};

	if (!vn) {
		snprintf(error, error_bytes, "network %s: no memory", net->tap);
		return NULL;
	}
	memcpy(config.mac, net->mac, sizeof(config.mac));
	config.events = glue_events(&vn->dev);
	if (net_open(&vn->net, &config, error, error_bytes)) {
		free(vn);
		return NULL;
	}
	glue_memtable(env->gmem, &vn->mem);
	snprintf(vn->name, sizeof(vn->name), "net%u", number);
	vn->dev = (struct virtio_device){
	        .ops = &ops,
	        .name = vn->name,
	        .device_id = VIRTIO_ID_NET,
	        .class_code = PCI_CLASS_ETHERNET,
	        .queues = NET_QUEUES,
	        .queue_size_max = QUEUE_SIZE,
	        .features = net_features(vn->net),
	        .config_bytes = sizeof(struct virtio_net_config),
	};
	return &vn->dev;
}
