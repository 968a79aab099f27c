/* SPDX-License-Identifier: BSD-2-Clause */
/* The guest's side of a queue, for tests: a driver that keeps the rules unless told to break them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <stdlib.h>

#include "engine/memtable.h"
#include "engine/vring.h"
#include "hw/virtio_ring.h"

#define GUEST_BASE 0x100000ull /* the guest-physical address of arena[0] */

/* Memory that the guest and the device share; copying the arena copies the guest. */
struct guest_mem {
	uint8_t *arena;
	size_t size;
	size_t used; /* bump allocator */
	struct memtable table;
};

struct guest_ring {
	struct guest_mem *mem;
	unsigned size;
	uint64_t features;
	size_t desc_at, avail_at, used_at; /* offsets in the arena */
	uint16_t avail_idx, used_seen;
	uint16_t kicks_old; /* avail_idx at the last kick decision */
	uint16_t free_list[1024];
	unsigned free_count;
	uint16_t chain_next[1024]; /* the driver's private copy: descriptors of a chain */
	bool busy[1024];
	void *inflight;
};

static inline void guest_mem_init(struct guest_mem *m, size_t size)
{
	memset(m, 0, sizeof(*m));
	m->arena = aligned_alloc(4096, size);
	memset(m->arena, 0, size);
	m->size = size;
	m->table.count = 1;
	m->table.regions[0] = (struct memtable_region){GUEST_BASE, size, m->arena};
}

static inline void guest_mem_free(struct guest_mem *m)
{
	free(m->arena);
}

/* Returns the offset in the arena. */
static inline size_t guest_alloc(struct guest_mem *m, size_t size, size_t align)
{
	size_t at = (m->used + align - 1) / align * align;

	m->used = at + size;
	if (m->used > m->size)
		abort();
	return at;
}

static inline uint64_t guest_gpa(size_t at)
{
	return GUEST_BASE + at;
}

static inline struct virtq_desc *ring_desc(struct guest_ring *g)
{
	return (struct virtq_desc *)(void *)(g->mem->arena + g->desc_at);
}

static inline struct virtq_avail *ring_avail(struct guest_ring *g)
{
	return (struct virtq_avail *)(void *)(g->mem->arena + g->avail_at);
}

static inline struct virtq_used *ring_used(struct guest_ring *g)
{
	return (struct virtq_used *)(void *)(g->mem->arena + g->used_at);
}

/* Descriptors above `heads` stay out of use. */
static inline void guest_ring_init(
        struct guest_ring *g, struct guest_mem *m, unsigned size, uint64_t features)
{
	memset(g, 0, sizeof(*g));
	g->mem = m;
	g->size = size;
	g->features = features;
	g->desc_at = guest_alloc(m, VIRTQ_DESC_BYTES(size), 16);
	g->avail_at = guest_alloc(m, VIRTQ_AVAIL_BYTES(size), 2);
	g->used_at = guest_alloc(m, VIRTQ_USED_BYTES(size), 4);
	g->inflight = calloc(1, vring_inflight_bytes(size));
	for (unsigned i = 0; i < size; i++)
		g->free_list[g->free_count++] = (uint16_t)(size - 1 - i);
}

static inline void guest_ring_free(struct guest_ring *g)
{
	free(g->inflight);
}

static inline struct vring_config guest_ring_config(struct guest_ring *g)
{
	return (struct vring_config){
	        .mem = &g->mem->table,
	        .size = g->size,
	        .desc_gpa = guest_gpa(g->desc_at),
	        .avail_gpa = guest_gpa(g->avail_at),
	        .used_gpa = guest_gpa(g->used_at),
	        .features = g->features,
	        .inflight = g->inflight,
	        .inflight_bytes = vring_inflight_bytes(g->size),
	};
}

struct guest_buf {
	uint64_t gpa;
	uint32_t len;
	bool write;
};

static inline void guest_publish_head(struct guest_ring *g, uint16_t head)
{
	struct virtq_avail *a = ring_avail(g);

	a->ring[g->avail_idx & (g->size - 1)] = head;
	g->avail_idx++;
	__atomic_store_n(&a->idx, g->avail_idx, __ATOMIC_RELEASE);
}

/* Direct chain. Returns the head, -1 when there are too few descriptors. */
static inline int guest_add(struct guest_ring *g, const struct guest_buf *bufs, unsigned count)
{
	struct virtq_desc *d = ring_desc(g);
	uint16_t ids[1024];

	if (!count || count > g->free_count)
		return -1;
	for (unsigned i = 0; i < count; i++)
		ids[i] = g->free_list[--g->free_count];
	for (unsigned i = 0; i < count; i++) {
		d[ids[i]] = (struct virtq_desc){bufs[i].gpa, bufs[i].len,
		        (uint16_t)((bufs[i].write ? VIRTQ_DESC_F_WRITE : 0) |
		                   (i + 1 < count ? VIRTQ_DESC_F_NEXT : 0)),
		        i + 1 < count ? ids[i + 1] : 0};
		g->chain_next[ids[i]] = i + 1 < count ? ids[i + 1] : UINT16_MAX;
	}
	g->busy[ids[0]] = true;
	guest_publish_head(g, ids[0]);
	return ids[0];
}

/* One descriptor that points to a table at table_at (room for count entries). */
static inline int guest_add_indirect(
        struct guest_ring *g, size_t table_at, const struct guest_buf *bufs, unsigned count)
{
	uint8_t *t = g->mem->arena + table_at;
	uint16_t id;

	if (!g->free_count)
		return -1;
	id = g->free_list[--g->free_count];
	for (unsigned i = 0; i < count; i++) {
		struct virtq_desc d = {bufs[i].gpa, bufs[i].len,
		        (uint16_t)((bufs[i].write ? VIRTQ_DESC_F_WRITE : 0) |
		                   (i + 1 < count ? VIRTQ_DESC_F_NEXT : 0)),
		        (uint16_t)(i + 1)};

		memcpy(t + i * sizeof(d), &d, sizeof(d));
	}
	ring_desc(g)[id] = (struct virtq_desc){
	        guest_gpa(table_at), count * 16u, VIRTQ_DESC_F_INDIRECT, 0};
	g->chain_next[id] = UINT16_MAX;
	g->busy[id] = true;
	guest_publish_head(g, id);
	return id;
}

static inline bool guest_event_passed(uint16_t event, uint16_t idx, uint16_t old)
{
	return (uint16_t)(idx - event - 1) < (uint16_t)(idx - old);
}

/* Whether the driver would kick now for what it added since the last call. */
static inline bool guest_wants_kick(struct guest_ring *g)
{
	struct virtq_used *u = ring_used(g);
	uint16_t old = g->kicks_old;

	g->kicks_old = g->avail_idx;
	if (old == g->avail_idx)
		return false;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (g->features & VIRTIO_BIT(VIRTIO_F_EVENT_IDX))
		return guest_event_passed(
		        __atomic_load_n((uint16_t *)(void *)&u->ring[g->size], __ATOMIC_RELAXED),
		        g->avail_idx, old);
	return !(__atomic_load_n(&u->flags, __ATOMIC_RELAXED) & VIRTQ_USED_F_NO_NOTIFY);
}

/* Takes one used entry. False: none. A head that is not busy gives *head = -1. */
static inline bool guest_take(struct guest_ring *g, int *head, uint32_t *len)
{
	struct virtq_used *u = ring_used(g);
	struct virtq_used_elem e;
	uint16_t id;

	if (__atomic_load_n(&u->idx, __ATOMIC_ACQUIRE) == g->used_seen)
		return false;
	e = u->ring[g->used_seen & (g->size - 1)];
	g->used_seen++;
	*len = e.len;
	*head = -1;
	if (e.id >= g->size || !g->busy[e.id])
		return true;
	*head = (int)e.id;
	g->busy[e.id] = false;
	for (id = (uint16_t)e.id; id != UINT16_MAX; id = g->chain_next[id])
		g->free_list[g->free_count++] = id;
	return true;
}

/* Asks for an interrupt at the next used entry. True: there is one already. */
static inline bool guest_want_call(struct guest_ring *g)
{
	if (g->features & VIRTIO_BIT(VIRTIO_F_EVENT_IDX))
		__atomic_store_n(&ring_avail(g)->ring[g->size], g->used_seen, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&ring_avail(g)->flags, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&ring_used(g)->idx, __ATOMIC_ACQUIRE) != g->used_seen;
}
