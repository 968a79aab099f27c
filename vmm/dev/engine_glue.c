/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the transport's queue and the engine's. */
#include "vmm/dev/engine_glue.h"

#include <assert.h>
#include <string.h>

#include "vmm/log.h"

static_assert(GMEM_MAX_REGIONS <= MEMTABLE_MAX, "the engine's table holds the machine's");
static_assert(VIRTIO_MAX_QUEUE_SIZE <= VRING_SIZE_MAX, "the engine runs what a driver may choose");

void glue_memtable(const struct gmem *gmem, struct memtable *out)
{
	out->count = gmem->count;
	for (unsigned i = 0; i < gmem->count; i++) {
		const struct gmem_region *r = &gmem->regions[i];

		out->regions[i] = (struct memtable_region){r->gpa, r->bytes, r->hva};
	}
}

void glue_queue(const struct virtio_queue_setup *setup, const struct memtable *mem,
        struct engine_queue *out)
{
	*out = (struct engine_queue){
	        .index = setup->index,
	        .kick_fd = setup->kick_fd,
	        .ring =
	                {
	                        .mem = mem,
	                        .size = setup->size,
	                        .desc_gpa = setup->desc_gpa,
	                        .avail_gpa = setup->driver_gpa,
	                        .used_gpa = setup->device_gpa,
	                        .features = setup->features,
	                        .inflight = setup->inflight,
	                        .inflight_bytes = setup->inflight_bytes,
	                },
	};
}

static void on_call(void *owner, unsigned queue)
{
	virtio_signal_queue(owner, queue);
}

static void on_broken(void *owner, unsigned queue, const char *why)
{
	struct virtio_device *dev = owner;

	log_line("%s: queue %u stopped until the guest resets the device: %s", dev->name, queue,
	        why);
	virtio_set_broken(dev);
}

static void on_log(void *owner, const char *line)
{
	(void)owner;
	log_line("%s", line);
}

struct engine_events glue_events(struct virtio_device *dev)
{
	return (struct engine_events){dev, on_call, on_broken, on_log};
}

void glue_config_copy(const void *config, unsigned offset, void *out, unsigned bytes)
{
	memcpy(out, (const uint8_t *)config + offset, bytes);
}
