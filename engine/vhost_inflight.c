/* SPDX-License-Identifier: BSD-2-Clause */
/* The in-flight region: in the front end's hands, so that requests outlive this process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/vhost_impl.h"

#define PART_ALIGN 64u

struct keep_head {
	uint8_t magic[8];
};
static const struct keep_head keep_magic = {{'k', 'e', 'e', 'l', 'k', 'e', 'e', 'p'}};
#define KEEP_ALL_BYTES (sizeof(struct keep_head) + VHOST_KEEP_BYTES)

static size_t part_bytes(unsigned size)
{
	return (vring_inflight_bytes(size) + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
}

static int shape_check(const struct vhost_server *s, const struct vhost_inflight *in)
{
	if (!in->queue_count || in->queue_count > s->queue_count || !in->queue_size ||
	        in->queue_size > VHOST_QUEUE_SIZE_MAX)
		return -EINVAL;
	return 0;
}

int vhost_inflight_make(struct vhost_server *s, struct vhost_inflight *io)
{
	int rc = shape_check(s, io);
	int fd;

	if (rc)
		return rc;
	io->mmap_size = io->queue_count * part_bytes(io->queue_size) + KEEP_ALL_BYTES;
	io->mmap_offset = 0;
	fd = memfd_create("vhost-inflight", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)io->mmap_size)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

static void keep_open(struct vhost_server *s, size_t room)
{
	uint8_t *at = s->inflight_at + s->inflight_queues * part_bytes(s->inflight_size);
	bool fresh;

	s->keep = NULL;
	if (!s->device.keep || room < KEEP_ALL_BYTES)
		return;
	fresh = memcmp(at, &keep_magic, sizeof(keep_magic)) != 0;
	s->keep = at + sizeof(keep_magic);
	s->device.keep(s->device.owner, s->keep, fresh);
	memcpy(at, &keep_magic, sizeof(keep_magic));
}

int vhost_inflight_map(struct vhost_server *s, const struct vhost_inflight *in, int fd)
{
	size_t queues_bytes, bytes;
	struct stat st;
	void *base;
	int rc = shape_check(s, in);

	if (rc)
		return rc;
	queues_bytes = in->queue_count * part_bytes(in->queue_size);
	if (in->mmap_size < queues_bytes || in->mmap_size > INT32_MAX ||
	        in->mmap_offset > INT32_MAX || in->mmap_offset % 8)
		return -EINVAL;
	bytes = in->mmap_offset + in->mmap_size;
	if (fstat(fd, &st))
		return -errno;
	if ((uint64_t)st.st_size < bytes)
		return -EINVAL;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	vhost_inflight_unmap(s);
	s->inflight = base;
	s->inflight_map_bytes = bytes;
	s->inflight_at = (uint8_t *)base + in->mmap_offset;
	s->inflight_queues = in->queue_count;
	s->inflight_size = in->queue_size;
	keep_open(s, in->mmap_size - queues_bytes);
	return 0;
}

void vhost_inflight_unmap(struct vhost_server *s)
{
	if (s->inflight)
		munmap(s->inflight, s->inflight_map_bytes);
	s->inflight = NULL;
	s->keep = NULL;
}

void *vhost_inflight_log(struct vhost_server *s, unsigned i)
{
	struct vhost_ring *r = &s->rings[i];

	if (s->inflight) {
		if (i >= s->inflight_queues || r->size > s->inflight_size)
			return NULL;
		return s->inflight_at + i * part_bytes(s->inflight_size);
	}
	if (!r->own_log)
		r->own_log = calloc(1, vring_inflight_bytes(VHOST_QUEUE_SIZE_MAX));
	return r->own_log;
}
