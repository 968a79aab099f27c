/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages for one partition's own structures: taken when it is created, given back all at once. */
#pragma once

#include "abi/types.h"

/*
 * Root's arena stands on hyp's heap; a VM's stands on 2 MiB pages of the pool that belong to hyp
 * while the VM lives (never mapped to root). A bump pointer: nothing is freed singly.
 */
struct arena {
	uint8_t *next; /* page-aligned, in the direct map */
	size_t pages_left;
	bool heap_fallback; /* root: takes single pages from hyp's heap when used up */
};

/* count zeroed, contiguous pages, or NULL. */
void *arena_pages(struct arena *a, size_t count);
/* A zeroed object of bytes, page-aligned. */
void *arena_object(struct arena *a, size_t bytes);
