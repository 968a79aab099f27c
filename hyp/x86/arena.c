/* SPDX-License-Identifier: BSD-2-Clause */
/* A bump pointer over pages that belong to one partition. */

#include "hyp/x86/arena.h"
#include "hyp/x86/x86.h"
#include "lib/string.h"

void *arena_pages(struct arena *a, size_t count)
{
	uint8_t *p = a->next;

	if (count > a->pages_left)
		return a->heap_fallback ? heap_alloc_pages(count) : NULL;
	a->next += count * PAGE_BYTES;
	a->pages_left -= count;
	memset(p, 0, count * PAGE_BYTES);
	return p;
}

void *arena_object(struct arena *a, size_t bytes)
{
	return arena_pages(a, (bytes + PAGE_BYTES - 1) / PAGE_BYTES);
}
