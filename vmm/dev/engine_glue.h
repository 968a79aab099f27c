/* SPDX-License-Identifier: BSD-2-Clause */
/* What all devices that stand on an engine share: turning the transport's words into the engine's.
 */
#pragma once

#include "engine/queue.h"
#include "vmm/virtio.h"

/* The machine's RAM as the engine's memory table. */
void glue_memtable(const struct gmem *gmem, struct memtable *out);

/* A started queue as the engine takes it. mem outlives the queue. */
void glue_queue(const struct virtio_queue_setup *setup, const struct memtable *mem,
        struct engine_queue *out);

/* The events of an engine whose owner is a struct virtio_device: a vector, DEVICE_NEEDS_RESET, the
 * log. */
struct engine_events glue_events(struct virtio_device *dev);

/* Copies a piece of a configuration space. Needs: it lies inside. */
void glue_config_copy(const void *config, unsigned offset, void *out, unsigned bytes);
