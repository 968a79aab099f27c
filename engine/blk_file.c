/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and locking the storage under a disk. */
#include "engine/blk_file.h"
#include "engine/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* QEMU's bytes (block/file-posix.c): 100 + permission that one has, 200 + permission that one does
 * not share; 1 to 3 are write, write unchanged, resize. A writer of ours holds all of both. */
#define LOCK_FIRST       100
#define LOCK_COUNT       200
#define LOCK_WRITERS     101
#define LOCK_WRITERS_NR  3
#define LOCK_UNSHARED    201
#define LOCK_UNSHARED_NR 3
/* Ours: one for the description through the page cache, and one for each reader's identity. */
#define LOCK_PAGED 300
#define LOCK_IDS   (1ll << 40)

#define RETRY_NS 5000000

static int lock_set(int fd, short type, off_t start, off_t count)
{
	struct flock lock = {
	        .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = count};

	return fcntl(fd, F_OFD_SETLK, &lock) ? -errno : 0;
}

/* -EAGAIN if anyone else holds any lock there. */
static int lock_probe(int fd, off_t start, off_t count)
{
	struct flock lock = {
	        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = count};

	if (fcntl(fd, F_OFD_GETLK, &lock))
		return -errno;
	return lock.l_type == F_UNLCK ? 0 : -EAGAIN;
}

static int lock_as_writer(const struct blk_file *file)
{
	int rc = lock_set(file->fd, F_WRLCK, LOCK_FIRST, LOCK_COUNT);

	if (!rc && file->paged_fd >= 0)
		rc = lock_set(file->paged_fd, F_WRLCK, LOCK_PAGED, 1);
	else if (!rc)
		rc = lock_probe(file->fd, LOCK_PAGED, 1);
	return rc;
}

static int lock_as_reader(const struct blk_file *file, uint64_t lock_id)
{
	off_t id_at = LOCK_IDS + (off_t)(lock_id & 0xffffffffffull);
	int rc = lock_probe(file->fd, LOCK_WRITERS, LOCK_WRITERS_NR);

	if (!rc)
		rc = lock_set(file->fd, F_RDLCK, LOCK_UNSHARED, LOCK_UNSHARED_NR);
	if (rc || !lock_id)
		return rc;
	/* A predecessor whose reads are still in the kernel holds this byte. Two that probe at once
	 * are ruled out by the right to the VM. */
	rc = lock_probe(file->fd, id_at, 1);
	if (!rc)
		rc = lock_set(file->fd, F_RDLCK, id_at, 1);
	if (!rc && file->paged_fd >= 0)
		rc = lock_set(file->paged_fd, F_RDLCK, id_at, 1);
	return rc;
}

static void lock_drop(int fd)
{
	if (fd >= 0)
		lock_set(fd, F_UNLCK, 0, 0);
}

static void file_close(struct blk_file *file)
{
	lock_drop(file->fd);
	lock_drop(file->paged_fd);
	if (file->paged_fd >= 0)
		close(file->paged_fd);
	if (file->fd >= 0)
		close(file->fd);
	file->fd = file->paged_fd = -1;
}

void blk_file_close(struct blk_file *file)
{
	file_close(file);
}

int64_t blk_file_size(const struct blk_file *file)
{
	struct stat st;
	uint64_t size;

	if (file->is_null)
		return (int64_t)file->size_bytes;
	if (file->is_device)
		return ioctl(file->fd, BLKGETSIZE64, &size) ? -errno : (int64_t)size;
	return fstat(file->fd, &st) ? -errno : (int64_t)st.st_size;
}

/* Finds an alignment that works by trying, as file systems that say nothing need it. */
static uint32_t align_probe(int fd)
{
	void *buffer = NULL;
	uint32_t align = 0;

	if (posix_memalign(&buffer, 4096, 4096))
		return 0;
	for (uint32_t try = 512; try <= 4096 && !align; try *= 2)
		if (pread(fd, buffer, try, 0) >= 0)
			align = try;
	free(buffer);
	return align;
}

/* Asks what direct I/O needs. False: it does not work here. */
static bool align_find(struct blk_file *file)
{
	struct statx sx;
	int sector = 0;

	if (!statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) &&
	        (sx.stx_mask & STATX_DIOALIGN)) {
		file->offset_align = sx.stx_dio_offset_align;
		file->memory_align = sx.stx_dio_mem_align;
		return file->offset_align;
	}
	if (file->is_device && !ioctl(file->fd, BLKSSZGET, &sector) && sector > 0)
		file->offset_align = (uint32_t)sector;
	else
		file->offset_align = align_probe(file->fd);
	file->memory_align = file->offset_align;
	return file->offset_align;
}

/* The sizes that the guest sees: from the configuration or the device, never from what direct I/O
 * on a file system happens to want (C-23 d). */
static int sizes_find(struct blk_file *file, const struct blk_config *config)
{
	int64_t size = blk_file_size(file);
	unsigned physical = 0;
	int sector = 0;

	if (size < 0)
		return (int)size;
	file->size_bytes = (uint64_t)size;
	file->block_bytes = VIRTIO_BLK_SECTOR_BYTES;
	if (file->is_device) {
		if (!ioctl(file->fd, BLKSSZGET, &sector) && sector > 0)
			file->block_bytes = (uint32_t)sector;
		if (ioctl(file->fd, BLKPBSZGET, &physical))
			physical = 0;
	}
	if (config->block_bytes)
		file->block_bytes = config->block_bytes;
	file->physical_bytes = physical > file->block_bytes ? physical : file->block_bytes;
	return 0;
}

/* Opens both descriptions. O_EXCL on a block device claims it: a mounted one, or one that is open
 * by another name, is refused. */
static int file_try_open(struct blk_file *file, const struct blk_config *config)
{
	int flags = O_CLOEXEC | (config->read_only ? O_RDONLY : O_RDWR);
	int excl = file->is_device && !config->read_only ? O_EXCL : 0;

	file->direct = !config->cached;
	file->fd = open(config->path, flags | excl | (file->direct ? O_DIRECT : 0));
	if (file->fd < 0 && errno == EINVAL && file->direct) {
		file->direct = false;
		file->fd = open(config->path, flags | excl);
	}
	if (file->fd < 0)
		return -errno;
	if (file->direct && !align_find(file)) {
		close(file->fd);
		file->direct = false;
		file->fd = open(config->path, flags | excl);
		if (file->fd < 0)
			return -errno;
	}
	if (!file->direct) {
		file->offset_align = file->memory_align = 1;
		return 0;
	}
	file->paged_fd = open(config->path, flags);
	return file->paged_fd < 0 ? -errno : 0;
}

static int file_try(struct blk_file *file, const struct blk_config *config)
{
	int rc = file_try_open(file, config);

	if (!rc)
		rc = config->read_only ? lock_as_reader(file, config->lock_id)
		                       : lock_as_writer(file);
	if (rc)
		file_close(file);
	return rc;
}

static int refuse(char *error, size_t error_bytes, const char *path, int rc, bool read_only)
{
	const char *why = strerror(-rc);

	if (rc == -EAGAIN)
		why = read_only ? "in use by a VM or program that writes to it, or still being left"
		                : "in use by another VM or program (a disk has one writer, or "
		                  "readers)";
	else if (rc == -EBUSY)
		why = "mounted or claimed by something else on this host";
	else if (rc == -EMEDIUMTYPE)
		why = "neither a regular file nor a block device";
	else if (rc == -ENOEXEC)
		why = "a qcow2 image, and disks are raw; convert it by: qemu-img convert -O raw "
		      "THIS OTHER";
	snprintf(error, error_bytes, "disk %s: %s", path, why);
	return rc;
}

/* -ENOEXEC if an image of QEMU's own format is there, whose bytes are not the disk's. */
static int format_check(const struct blk_file *file)
{
	static const uint8_t qcow_magic[] = {'Q', 'F', 'I', 0xfb};
	void *buffer = NULL;
	int rc = 0;

	if (posix_memalign(&buffer, 4096, 4096))
		return -ENOMEM;
	/* Storage that cannot be read is told of when the guest reads it. */
	if (pread(file->fd, buffer, 4096, 0) >= (ssize_t)sizeof(qcow_magic) &&
	        !memcmp(buffer, qcow_magic, sizeof(qcow_magic)))
		rc = -ENOEXEC;
	free(buffer);
	return rc;
}

static int null_open(struct blk_file *file, const char *size_mib, const struct blk_config *config)
{
	unsigned long n = strtoul(size_mib, NULL, 10);

	if (!n || n > UINT32_MAX)
		return -EINVAL;
	file->is_null = true;
	file->size_bytes = (uint64_t)n << 20;
	file->offset_align = file->memory_align = 1;
	file->block_bytes = config->block_bytes ? config->block_bytes : VIRTIO_BLK_SECTOR_BYTES;
	file->physical_bytes = file->block_bytes;
	return 0;
}

int blk_file_open(
        struct blk_file *file, const struct blk_config *config, char *error, size_t error_bytes)
{
	uint64_t end_ns = engine_clock_ns() + config->lock_wait_ms * 1000000ull;
	struct stat st;
	int rc;

	memset(file, 0, sizeof(*file));
	file->fd = file->paged_fd = -1;
	if (!strncmp(config->path, BLK_FILE_NULL, strlen(BLK_FILE_NULL))) {
		rc = null_open(file, config->path + strlen(BLK_FILE_NULL), config);
		return rc ? refuse(error, error_bytes, config->path, rc, config->read_only) : 0;
	}
	/* Before the open, which could block on a FIFO or act on a character device. */
	if (stat(config->path, &st))
		return refuse(error, error_bytes, config->path, -errno, config->read_only);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return refuse(error, error_bytes, config->path, -EMEDIUMTYPE, config->read_only);
	file->is_device = S_ISBLK(st.st_mode);
	for (;;) {
		rc = file_try(file, config);
		if ((rc != -EAGAIN && rc != -EBUSY) || engine_clock_ns() >= end_ns)
			break;
		nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
	}
	if (!rc) {
		rc = sizes_find(file, config);
		if (!rc)
			rc = format_check(file);
		if (rc)
			file_close(file);
	}
	return rc ? refuse(error, error_bytes, config->path, rc, config->read_only) : 0;
}
