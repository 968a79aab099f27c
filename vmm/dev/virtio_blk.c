/* SPDX-License-Identifier: BSD-2-Clause */
/* The virtio disk: the block engine behind a transport. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/blk.h"
#include "vmm/dev/devices.h"
#include "vmm/dev/engine_glue.h"
#include "vmm/log.h"

#define QUEUE_SIZE             256u
#define PCI_CLASS_SCSI_STORAGE 0x010000u

/* A predecessor that was killed holds the disk until its last request is over. */
#define LOCK_WAIT_MS 3000u
#define STOP_STEP_MS 10000u

/* The fields up to virtio 1.2's secure erase, which is not offered. */
#define CONFIG_BYTES (offsetof(struct virtio_blk_config, unused1) + 3)

/* Behind queue 0's in-flight region: what the driver wrote into the configuration space. Zeroed
 * with it when the queue is fresh, which is what the device starts with. */
struct kept_config {
	uint64_t write_through;
	uint64_t sectors; /* as the driver was told last; 0: by a predecessor that kept none */
};

struct virtio_blk {
	struct virtio_device dev;
	struct memtable mem;
	struct blk *blk;
	struct kept_config *kept; /* once queue 0 was started */
	bool cache_known;         /* a reset, the driver or the vault said what the cache mode is */
	bool write_through;
	char name[16];
};

static struct virtio_blk *of_device(struct virtio_device *dev)
{
	return (struct virtio_blk *)(void *)((char *)dev - offsetof(struct virtio_blk, dev));
}

static void config_read(struct virtio_device *dev, unsigned offset, void *out, unsigned bytes)
{
	struct virtio_blk_config config;

	blk_config_space(of_device(dev)->blk, &config);
	glue_config_copy(&config, offset, out, bytes);
}

static void cache_mode_set(struct virtio_blk *vb, bool write_through)
{
	vb->cache_known = true;
	vb->write_through = write_through;
	if (vb->kept)
		__atomic_store_n(&vb->kept->write_through, write_through, __ATOMIC_RELEASE);
	blk_set_writeback(vb->blk, !write_through);
}

/* virtio 1.2 §5.2.5: writeback is the only field a driver writes. */
static void config_write(struct virtio_device *dev, unsigned offset, const void *in, unsigned bytes)
{
	if (offset == offsetof(struct virtio_blk_config, writeback) && bytes == 1)
		cache_mode_set(of_device(dev), !*(const uint8_t *)in);
}

/* The driver is told if it knows of another size than there is. Config space is read on this
 * thread, so none of its reads sees the new size and the old generation (virtio 1.2 §4.1.4.3.1). */
static void size_tell(struct virtio_blk *vb, uint64_t known_sectors)
{
	struct virtio_blk_config config;

	blk_config_space(vb->blk, &config);
	if (known_sectors && known_sectors != config.capacity)
		virtio_signal_config(&vb->dev);
	if (vb->kept)
		__atomic_store_n(&vb->kept->sectors, config.capacity, __ATOMIC_RELEASE);
}

static int resize(struct virtio_device *dev, uint64_t *bytes)
{
	struct virtio_blk *vb = of_device(dev);
	struct virtio_blk_config before, now;
	int rc;

	blk_config_space(vb->blk, &before);
	rc = blk_refresh(vb->blk);
	if (rc < 0)
		return rc;
	blk_config_space(vb->blk, &now);
	*bytes = now.capacity * VIRTIO_BLK_SECTOR_BYTES;
	if (rc)
		size_tell(vb, before.capacity ? before.capacity : UINT64_MAX);
	return rc;
}

static size_t kept_at(unsigned size)
{
	return (vring_inflight_bytes(size) + 63) & ~(size_t)63;
}

static size_t inflight_bytes(struct virtio_device *dev, unsigned queue, unsigned size)
{
	(void)dev;
	return queue ? vring_inflight_bytes(size) : kept_at(size) + sizeof(struct kept_config);
}

/* The cache mode must survive this process. One that a dead predecessor was told before the queue
 * ran is not known: then every write is made stable, which is right in either mode. */
static void cache_mode_restore(struct virtio_blk *vb, const struct virtio_queue_setup *setup)
{
	void *area = (uint8_t *)setup->inflight + kept_at(setup->size);

	vb->kept = area;
	size_tell(vb, setup->resumed ? vb->kept->sectors : 0);
	if (setup->resumed)
		cache_mode_set(vb, vb->kept->write_through);
	else
		cache_mode_set(vb, vb->cache_known ? vb->write_through : true);
}

static int queue_start(struct virtio_device *dev, const struct virtio_queue_setup *setup)
{
	struct virtio_blk *vb = of_device(dev);
	struct engine_queue queue;

	if (setup->index == 0)
		cache_mode_restore(vb, setup);
	glue_queue(setup, &vb->mem, &queue);
	return blk_queue_start(vb->blk, &queue);
}

static void reset(struct virtio_device *dev)
{
	struct virtio_blk *vb = of_device(dev);

	/* No time limit: the guest's memory is its own again only when nothing is under way. */
	for (unsigned i = 0; i < dev->queues; i++)
		while (blk_queue_stop(vb->blk, i, STOP_STEP_MS))
			log_line("%s: waiting for requests that hang in the storage", dev->name);
	vb->kept = NULL;
	cache_mode_set(vb, false);
}

static void stats(struct virtio_device *dev, struct virtio_device_stats *out)
{
	struct virtio_blk *vb = of_device(dev);
	struct virtio_blk_config config;
	struct blk_stats s;

	blk_stats_read(vb->blk, &s);
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < BLK_OPS; i++) {
		out->requests += s.requests[i];
		out->time_ns += s.latency_ns[i];
	}
	out->kicks = s.kicks;
	out->calls = s.calls;
	out->waits = s.waits;
	out->bytes_in = s.bytes[BLK_READ];
	out->bytes_out = s.bytes[BLK_WRITE];
	out->errors = s.errors + s.bad_chains;
	out->backend = blk_backend_name(vb->blk);
	blk_config_space(vb->blk, &config);
	out->size_bytes = config.capacity * VIRTIO_BLK_SECTOR_BYTES;
	out->reads = s.requests[BLK_READ];
	out->writes = s.requests[BLK_WRITE];
	out->flushes = s.requests[BLK_FLUSH];
	out->polled = s.polled;
	out->held = s.held;
	out->in_flight = s.in_flight;
	out->watch_hits = s.watch_hits;
	out->watch_misses = s.watch_misses;
	out->resumed = s.resumed;
}

static const struct virtio_device_ops ops = {
        .config_read = config_read,
        .config_write = config_write,
        .inflight_bytes = inflight_bytes,
        .queue_start = queue_start,
        .reset = reset,
        .stats = stats,
        .resize = resize,
};

/* The same for a VM's disk after each restart of its process, and for no other VM's by any
 * likelihood.
 */
static uint64_t lock_id(const struct device_env *env, unsigned number)
{
	uint64_t id = 1;

	for (unsigned i = 0; i < 16; i++)
		id = id * 0x100000001b3ull ^ env->uuid[i];
	return (id ^ id >> 40) + number;
}

struct virtio_device *virtio_blk_create(const struct definition_disk *disk, unsigned number,
        const struct device_env *env, char *error, size_t error_bytes)
{
	static const enum blk_backend backends[] = {
	        [DEFINITION_MEASURED] = BLK_BACKEND_MEASURE,
	        [DEFINITION_IO_URING] = BLK_BACKEND_RING,
	        [DEFINITION_WORKERS] = BLK_BACKEND_WORKERS,
	};
	struct virtio_blk *vb = calloc(1, sizeof(*vb));
	struct blk_config config = {
	        .path = disk->path,
	        .serial = disk->serial,
	        .read_only = disk->readonly,
	        .guest_outlives = true,
	        .iops_max = disk->iops,
	        .bandwidth_max = disk->bandwidth,
	        .backend = backends[disk->backend],
	        .fixed_buffers = disk->fixed_buffers,
	        .iopoll = disk->iopoll,
	        .queue_count = env->vcpus < BLK_QUEUE_MAX ? env->vcpus : BLK_QUEUE_MAX,
	        .watch_ns = BLK_WATCH_NS,
	        .lock_wait_ms = LOCK_WAIT_MS,
	        .lock_id = lock_id(env, number),
	};

	if (!vb) {
		snprintf(error, error_bytes, "disk %s: no memory", disk->path);
		return NULL;
	}
	config.events = glue_events(&vb->dev);
	if (blk_open(&vb->blk, &config, error, error_bytes)) {
		free(vb);
		return NULL;
	}
	glue_memtable(env->gmem, &vb->mem);
	snprintf(vb->name, sizeof(vb->name), "disk%u", number);
	vb->dev = (struct virtio_device){
	        .ops = &ops,
	        .name = vb->name,
	        .device_id = VIRTIO_ID_BLOCK,
	        .class_code = PCI_CLASS_SCSI_STORAGE,
	        .queues = config.queue_count,
	        .queue_size_max = QUEUE_SIZE,
	        .features = blk_features(vb->blk),
	        .config_bytes = CONFIG_BYTES,
	};
	return &vb->dev;
}
