/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the device under a disk can be asked for its answers. */
#include "engine/blk_file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Of the device's queue; a partition's is its disk's. 0: there is no such value. */
static unsigned long queue_value(dev_t device, const char *name)
{
	static const char *const ways[] = {"queue", "../queue"};
	unsigned long value = 0;
	bool found = false;

	for (unsigned i = 0; i < 2 && !found; i++) {
		char path[96];
		FILE *in;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s", major(device),
		        minor(device), ways[i], name);
		in = fopen(path, "re");
		if (!in)
			continue;
		found = fscanf(in, "%lu", &value) == 1;
		fclose(in);
	}
	return found ? value : 0;
}

/* By the device mapper or a RAID: those split requests by rules of their own. */
static bool is_stacked(dev_t device)
{
	static const char *const signs[] = {"dm", "md", "../md"};
	char path[96];

	for (unsigned i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(device),
		        minor(device), signs[i]);
		if (!access(path, F_OK) || errno != ENOENT)
			return true;
	}
	return false;
}

bool blk_file_can_poll(const struct blk_file *file)
{
	struct statfs fs;
	struct stat st;
	dev_t device;

	if (file->is_null || !file->direct || fstat(file->fd, &st))
		return false;
	/* st_blksize is what to ask for at once, which may be more than a block. */
	if (!file->is_device && (fstatfs(file->fd, &fs) || fs.f_bsize < (long)BLK_POLL_BYTES))
		return false;
	device = file->is_device ? st.st_rdev : st.st_dev;
	/* A buffer of that size may begin within a page: two segments. */
	return queue_value(device, "io_poll") == 1 && !queue_value(device, "chunk_sectors") &&
	       queue_value(device, "max_segments") >= 2 && !is_stacked(device);
}
