/* SPDX-License-Identifier: BSD-2-Clause */
/* Mapping what the front end shares. */
#include "engine/vhost_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGE_BYTES 4096u

static bool is_overlap(uint64_t a, uint64_t b, uint64_t a_bytes, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

/* All sums are within 64 bits, and no byte is in two regions. */
static int region_check(const struct vhost_memory *mem, const struct vhost_region *r)
{
	/* Rings are aligned in guest-physical addresses, and must be so here as well. */
	if ((r->gpa | r->mmap_offset) % PAGE_BYTES || !r->size_bytes ||
	        r->gpa + r->size_bytes < r->gpa || r->user_addr + r->size_bytes < r->user_addr ||
	        r->mmap_offset + r->size_bytes < r->mmap_offset ||
	        r->mmap_offset + r->size_bytes > INT64_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < mem->table.count; i++) {
		const struct memtable_region *t = &mem->table.regions[i];

		if (is_overlap(r->gpa, t->gpa, r->size_bytes, t->size_bytes) ||
		        is_overlap(
		                r->user_addr, mem->maps[i].user_addr, r->size_bytes, t->size_bytes))
			return -EINVAL;
	}
	return 0;
}

int vhost_memory_add(struct vhost_memory *mem, const struct vhost_region *region, int fd)
{
	unsigned i = mem->table.count;
	struct stat st;
	size_t bytes;
	void *base;
	int rc = region_check(mem, region);

	if (rc)
		return rc;
	if (i == MEMTABLE_MAX)
		return -ENOSPC;
	/* From the file's start: with huge pages the offset alone may not be mapped. */
	bytes = region->mmap_offset + region->size_bytes;
	/* A region past the file's end would be a SIGBUS later. */
	if (fstat(fd, &st))
		return -errno;
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < bytes)
		return -EINVAL;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	madvise(base, bytes, MADV_DONTDUMP);
	mem->table.regions[i] = (struct memtable_region){
	        region->gpa, region->size_bytes, (uint8_t *)base + region->mmap_offset};
	mem->maps[i] = (struct vhost_mapping){region->user_addr, base, bytes};
	mem->table.count = i + 1;
	return 0;
}

int vhost_memory_remove(struct vhost_memory *mem, const struct vhost_region *region)
{
	for (unsigned i = 0; i < mem->table.count; i++) {
		struct memtable_region *t = &mem->table.regions[i];
		unsigned last = mem->table.count - 1;

		if (t->gpa != region->gpa || t->size_bytes != region->size_bytes ||
		        mem->maps[i].user_addr != region->user_addr)
			continue;
		munmap(mem->maps[i].base, mem->maps[i].bytes);
		mem->table.regions[i] = mem->table.regions[last];
		mem->maps[i] = mem->maps[last];
		mem->table.count = last;
		return 0;
	}
	return -ENOENT;
}

void vhost_memory_clear(struct vhost_memory *mem)
{
	for (unsigned i = 0; i < mem->table.count; i++)
		munmap(mem->maps[i].base, mem->maps[i].bytes);
	memset(mem, 0, sizeof(*mem));
}

int vhost_memory_find(const struct vhost_memory *mem, uint64_t user_addr, uint64_t *gpa)
{
	for (unsigned i = 0; i < mem->table.count; i++) {
		uint64_t at = user_addr - mem->maps[i].user_addr;

		if (user_addr >= mem->maps[i].user_addr && at < mem->table.regions[i].size_bytes) {
			*gpa = mem->table.regions[i].gpa + at;
			return 0;
		}
	}
	return -EFAULT;
}
