/* SPDX-License-Identifier: BSD-2-Clause */
/* Translation of guest-physical ranges, with every bound checked. */
#include "engine/memtable.h"

#include <errno.h>

static const struct memtable_region *region_find(const struct memtable *mem, uint64_t gpa)
{
	for (unsigned i = 0; i < mem->count; i++) {
		const struct memtable_region *r = &mem->regions[i];

		if (gpa >= r->gpa && gpa - r->gpa < r->size_bytes)
			return r;
	}
	return NULL;
}

void *memtable_map(const struct memtable *mem, uint64_t gpa, uint64_t size_bytes)
{
	const struct memtable_region *r = region_find(mem, gpa);

	if (!r || !size_bytes || size_bytes > r->size_bytes - (gpa - r->gpa))
		return NULL;
	return r->host + (gpa - r->gpa);
}

int memtable_to_iov(const struct memtable *mem, uint64_t gpa, uint64_t size_bytes,
        struct iovec *iov, unsigned iov_max)
{
	unsigned count = 0;

	if (gpa + size_bytes < gpa)
		return -EFAULT;
	while (size_bytes) {
		const struct memtable_region *r = region_find(mem, gpa);
		uint64_t part;

		if (!r)
			return -EFAULT;
		if (count == iov_max)
			return -ENOSPC;
		part = r->size_bytes - (gpa - r->gpa);
		if (part > size_bytes)
			part = size_bytes;
		iov[count].iov_base = r->host + (gpa - r->gpa);
		iov[count].iov_len = part;
		count++;
		gpa += part;
		size_bytes -= part;
	}
	return (int)count;
}
