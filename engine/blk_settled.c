/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a disk's file needs nothing but the write itself for its data to be found again after
 * this kernel has crashed. */
#include "engine/blk_file.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

#define EXTENTS_ONCE 64u
#define EXTENTS_MAX  (1u << 20)

/* What makes a write there change the file's map: unwritten, not yet allocated, shared with another
 * file, packed, unknown. */
#define UNSETTLED                                                                                  \
	(FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED |                  \
	        FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_SHARED)

/* File systems that write in place. Others (copy on write, logs, memory) change their maps with
 * each write. */
static bool writes_in_place(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC);
}

/* The map from *at on, as far as one call gives it. False: a hole, something unsettled, or no map.
 */
static bool extents_are_settled(int fd, uint64_t *at, uint64_t end)
{
	/* The head, and the extents behind it. */
	uint64_t space[(sizeof(struct fiemap) + EXTENTS_ONCE * sizeof(struct fiemap_extent)) / 8];
	struct fiemap *map = (struct fiemap *)space;

	memset(space, 0, sizeof(space));
	map->fm_start = *at;
	map->fm_length = end - *at;
	map->fm_flags = FIEMAP_FLAG_SYNC;
	map->fm_extent_count = EXTENTS_ONCE;
	if (ioctl(fd, FS_IOC_FIEMAP, map) != 0 || map->fm_mapped_extents == 0)
		return false;
	for (unsigned i = 0; i < map->fm_mapped_extents; i++) {
		const struct fiemap_extent *e = &map->fm_extents[i];

		if (e->fe_logical > *at || (e->fe_flags & UNSETTLED))
			return false;
		*at = e->fe_logical + e->fe_length;
	}
	return true;
}

bool blk_file_is_settled(const struct blk_file *file)
{
	uint64_t at = 0;

	if (file->is_null)
		return true;
	if (!file->direct)
		return false; /* the page cache goes with the kernel */
	if (file->is_device)
		return true;
	if (!writes_in_place(file->fd))
		return false;
	for (unsigned i = 0; i < EXTENTS_MAX / EXTENTS_ONCE && at < file->size_bytes; i++)
		if (!extents_are_settled(file->fd, &at, file->size_bytes))
			return false;
	return at >= file->size_bytes;
}
