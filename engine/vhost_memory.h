/* SPDX-License-Identifier: BSD-2-Clause */
/* Guest memory as a vhost-user front end shares it: mapped, and found by its three addresses. */
#pragma once

#include "engine/memtable.h"
#include "engine/vhost_proto.h"

struct vhost_mapping {
	uint64_t user_addr;
	void *base;
	size_t bytes;
};

/* table is for the queues; maps[i] belongs to table.regions[i]. */
struct vhost_memory {
	struct memtable table;
	struct vhost_mapping maps[MEMTABLE_MAX];
};

/*
 * Maps a region. The descriptor stays the caller's. 0; -EINVAL: an address or a size that cannot
 * be, or a region over another; -ENOSPC: no slot is left; or mmap's errno. Needs, like all that
 * change the memory: no queue runs on it.
 */
int vhost_memory_add(struct vhost_memory *mem, const struct vhost_region *region, int fd);
/* -ENOENT: there is no such region. */
int vhost_memory_remove(struct vhost_memory *mem, const struct vhost_region *region);
void vhost_memory_clear(struct vhost_memory *mem);

/* The guest-physical address of the front end's. -EFAULT: it has none. */
int vhost_memory_find(const struct vhost_memory *mem, uint64_t user_addr, uint64_t *gpa);
