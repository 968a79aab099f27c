/* SPDX-License-Identifier: BSD-2-Clause */
/* hyp's page heap: a bitmap over one range, first fit. Used at boot and when VMs are made, never on
 * the run path. */
#include "hyp/x86/internal.h"

#include "lib/spinlock.h"
#include "lib/string.h"

static struct spinlock heap_lock;
static unsigned char *heap_base; /* (c) */
static size_t heap_pages;        /* (c) */
static uint64_t *used;     /* one bit a page, in the heap's own first pages; under heap_lock */
static size_t lowest_free; /* nothing below it is free; under heap_lock */

static bool is_used(size_t page)
{
	return used[page / 64] >> page % 64 & 1;
}

static void set_used(size_t first, size_t count, bool on)
{
	for (size_t i = first; i < first + count; i++) {
		if (on)
			used[i / 64] |= 1ull << i % 64;
		else
			used[i / 64] &= ~(1ull << i % 64);
	}
}

void heap_init(void *base, size_t pages)
{
	size_t map_bytes = (pages + 63) / 64 * 8;
	size_t map_pages = (map_bytes + PAGE_BYTES - 1) / PAGE_BYTES;

	heap_base = base;
	heap_pages = pages;
	used = base;
	memset(used, 0, map_bytes);
	set_used(0, map_pages, true);
	lowest_free = map_pages;
}

/* The first page of a free run, heap_pages if there is none. */
static size_t find_run(size_t count)
{
	size_t run = 0;

	for (size_t i = lowest_free; i < heap_pages; i++) {
		if (!(i % 64) && used[i / 64] == UINT64_MAX) {
			run = 0;
			i += 63;
			continue;
		}
		run = is_used(i) ? 0 : run + 1;
		if (run == count)
			return i + 1 - count;
	}
	return heap_pages;
}

void *heap_alloc_pages(size_t count)
{
	size_t first;
	void *p;

	if (!count || count > heap_pages)
		return NULL;
	spin_lock(&heap_lock);
	first = find_run(count);
	if (first < heap_pages) {
		set_used(first, count, true);
		while (lowest_free < heap_pages && is_used(lowest_free))
			lowest_free++;
	}
	spin_unlock(&heap_lock);
	if (first == heap_pages)
		return NULL;
	p = heap_base + first * PAGE_BYTES;
	memset(p, 0, count * PAGE_BYTES);
	return p;
}

void heap_free_pages(void *p, size_t count)
{
	size_t first;

	if (!p)
		return;
	first = (size_t)((unsigned char *)p - heap_base) / PAGE_BYTES;
	hyp_assert(first < heap_pages && count <= heap_pages - first);
	spin_lock(&heap_lock);
	for (size_t i = first; i < first + count; i++)
		hyp_assert(is_used(i));
	set_used(first, count, false);
	if (first < lowest_free)
		lowest_free = first;
	spin_unlock(&heap_lock);
}

void heap_count(size_t *pages, size_t *free)
{
	size_t in_use = 0;

	spin_lock(&heap_lock);
	for (size_t i = 0; i < heap_pages; i++)
		in_use += is_used(i);
	spin_unlock(&heap_lock);
	*pages = heap_pages;
	*free = heap_pages - in_use;
}
