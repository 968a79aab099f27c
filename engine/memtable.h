/* SPDX-License-Identifier: BSD-2-Clause */
/* The engines' one door to guest memory: guest-physical ranges become host addresses, or nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* As many as vhost-user's VHOST_USER_ADD_MEM_REG is used with in practice. */
#define MEMTABLE_MAX 32u

struct memtable_region {
	uint64_t gpa;
	uint64_t size_bytes;
	uint8_t *host;
};

/* Regions do not overlap. Whoever fills it keeps it unchanged while a queue runs on it. */
struct memtable {
	unsigned count;
	struct memtable_region regions[MEMTABLE_MAX];
};

/* The same, for who does it for each buffer. Needs: size_bytes is not 0. */
static inline uint8_t *memtable_find(const struct memtable *mem, uint64_t gpa, uint64_t size_bytes)
{
	for (unsigned i = 0; i < mem->count; i++) {
		const struct memtable_region *r = &mem->regions[i];
		uint64_t at = gpa - r->gpa;

		if (at < r->size_bytes && size_bytes <= r->size_bytes - at)
			return r->host + at;
	}
	return NULL;
}

/* The host address of a range that lies whole in one region; NULL for any other, or size 0. */
void *memtable_map(const struct memtable *mem, uint64_t gpa, uint64_t size_bytes);

/*
 * Writes the range as iovecs, one a region touched. Returns how many entries of iov were filled,
 * -EFAULT if any byte is outside the regions, -ENOSPC if more than iov_max entries are needed. A
 * size of 0 gives 0.
 */
int memtable_to_iov(const struct memtable *mem, uint64_t gpa, uint64_t size_bytes,
        struct iovec *iov, unsigned iov_max);
