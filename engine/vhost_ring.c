/* SPDX-License-Identifier: BSD-2-Clause */
/* Rings of a vhost-user device: when they run, and how they are started and ended. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/vhost_impl.h"

#define STOP_STEP_MS    1000u
#define STOP_TELL_STEPS 10u

void vhost_fd_place(struct vhost_server *s, int place, int fd)
{
	/* Atomic: the number is never without a file behind it. It cannot fail: both are open. */
	dup3(fd >= 0 ? fd : s->nowhere_fd, place, O_CLOEXEC);
	if (fd >= 0)
		close(fd);
}

void vhost_fd_place_event(struct vhost_server *s, int place, int fd)
{
	int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);

	/* One that is full must not hold up the queue, nor this process' end. */
	if (flags >= 0)
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	vhost_fd_place(s, place, fd);
}

int vhost_rings_make(struct vhost_server *s)
{
	for (unsigned i = 0; i < s->queue_count; i++) {
		struct vhost_ring *r = &s->rings[i];

		r->kick_fd = -1;
		r->call_fd = fcntl(s->nowhere_fd, F_DUPFD_CLOEXEC, 3);
		r->err_fd = fcntl(s->nowhere_fd, F_DUPFD_CLOEXEC, 3);
		if (r->call_fd < 0 || r->err_fd < 0)
			return -errno;
	}
	return 0;
}

void vhost_rings_free(struct vhost_server *s)
{
	for (unsigned i = 0; i < s->queue_count; i++) {
		if (s->rings[i].call_fd > 0)
			close(s->rings[i].call_fd);
		if (s->rings[i].err_fd > 0)
			close(s->rings[i].err_fd);
		free(s->rings[i].own_log);
	}
}

static int ring_config(struct vhost_server *s, unsigned i, struct vring_config *c)
{
	const struct vhost_ring *r = &s->rings[i];
	int rc;

	memset(c, 0, sizeof(*c));
	c->mem = &s->mem.table;
	c->size = r->size;
	c->features = s->features;
	c->start_idx = r->base;
	rc = vhost_memory_find(&s->mem, r->desc_user, &c->desc_gpa);
	if (!rc)
		rc = vhost_memory_find(&s->mem, r->avail_user, &c->avail_gpa);
	if (!rc)
		rc = vhost_memory_find(&s->mem, r->used_user, &c->used_gpa);
	if (rc)
		return rc;
	c->inflight = vhost_inflight_log(s, i);
	c->inflight_bytes = vring_inflight_bytes(r->size);
	return c->inflight ? 0 : -EPROTO;
}

static int ring_start(struct vhost_server *s, unsigned i)
{
	struct vhost_ring *r = &s->rings[i];
	struct engine_queue q = {.index = i, .kick_fd = r->kick_fd};
	int rc = ring_config(s, i, &q.ring);

	if (!rc)
		rc = s->device.queue_start(s->device.owner, &q);
	r->running = !rc;
	r->is_refused = rc;
	if (rc) {
		vhost_log(s, "queue %u does not start: %s", i, strerror(-rc));
		vhost_broken(s, i);
	}
	return rc;
}

/* Waits as long as it takes: memory and descriptors are in use until then. */
static void ring_stop(struct vhost_server *s, unsigned i)
{
	struct vhost_ring *r = &s->rings[i];

	for (unsigned steps = 1;; steps++) {
		int rc = s->device.queue_stop(s->device.owner, i, STOP_STEP_MS);

		if (rc != -ETIMEDOUT)
			break;
		if (steps % STOP_TELL_STEPS == 0)
			vhost_log(s, "queue %u: requests have been in the kernel for %u s", i,
			        steps * STOP_STEP_MS / 1000);
	}
	r->running = false;
}

static bool is_wanted(const struct vhost_ring *r)
{
	return r->started && r->enabled && r->has_addr && r->size && !r->is_refused;
}

int vhost_ring_update(struct vhost_server *s, unsigned i)
{
	struct vhost_ring *r = &s->rings[i];

	if (r->running && !is_wanted(r))
		ring_stop(s, i);
	else if (!r->running && is_wanted(r))
		return ring_start(s, i);
	return 0;
}

void vhost_rings_pause(struct vhost_server *s)
{
	for (unsigned i = 0; i < s->queue_count; i++)
		if (s->rings[i].running)
			ring_stop(s, i);
}

int vhost_rings_resume(struct vhost_server *s)
{
	int first = 0;

	for (unsigned i = 0; i < s->queue_count; i++) {
		int rc = vhost_ring_update(s, i);

		if (!first)
			first = rc;
	}
	return first;
}

bool vhost_rings_run(const struct vhost_server *s)
{
	for (unsigned i = 0; i < s->queue_count; i++)
		if (s->rings[i].running)
			return true;
	return false;
}

uint16_t vhost_ring_end(struct vhost_server *s, unsigned i)
{
	struct vhost_ring *r = &s->rings[i];

	if (r->running) {
		const struct inflight_region *log = vhost_inflight_log(s, i);

		ring_stop(s, i);
		/* Drained: all that was taken is used. */
		if (log)
			r->base = log->used_idx;
	}
	r->started = false;
	r->is_refused = false;
	if (r->kick_fd >= 0)
		close(r->kick_fd);
	r->kick_fd = -1;
	return r->base;
}

void vhost_rings_reset(struct vhost_server *s)
{
	for (unsigned i = 0; i < s->queue_count; i++) {
		struct vhost_ring *r = &s->rings[i];

		vhost_ring_end(s, i);
		vhost_fd_place(s, r->call_fd, -1);
		vhost_fd_place(s, r->err_fd, -1);
		r->enabled = r->has_addr = false;
		r->size = 0;
		r->base = 0;
		free(r->own_log);
		r->own_log = NULL;
	}
}

static void event_write(int fd)
{
	uint64_t one = 1;

	/* Full is as good: the other side has not looked yet. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

void vhost_call(struct vhost_server *s, unsigned queue)
{
	event_write(s->rings[queue].call_fd);
}

void vhost_broken(struct vhost_server *s, unsigned queue)
{
	event_write(s->rings[queue].err_fd);
}
