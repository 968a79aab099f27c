/* SPDX-License-Identifier: BSD-2-Clause */
/* A device exported to a vhost-user front end: the protocol's back end, whatever the device is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/queue.h"

/*
 * One server serves one front end at a time, on one thread: the owner's, inside vhost_serve. The
 * device's queues run on threads of their own and come here only by vhost_call and vhost_broken.
 *
 * A queue runs while it has been started (a kick descriptor came), is enabled, and has a size and
 * addresses. What a running queue uses does not change: memory that is added, removed or replaced
 * stops the queues first and starts them again after, which loses nothing since starting is always
 * reattaching (vring.h). A front end that wants another size or other addresses stops the queue
 * itself (GET_VRING_BASE).
 *
 * In-flight region. If the front end keeps one (INFLIGHT_SHMFD), the requests that a killed process
 * had taken are there, and are taken again. Without one the region is this process's own, for as
 * long as the connection. Behind the queues' regions the server has VHOST_KEEP_BYTES of its own in
 * the front end's descriptor, where the device may keep what it must not forget.
 *
 * When the front end leaves, the queues are stopped, which waits for what is in flight, and all
 * that it gave is unmapped and closed. Descriptors for calls are replaced under a fixed number, so
 * a queue's thread never sees one that is closed.
 *
 * Not offered: logging of written pages (migration), descriptors in band, polling without a kick
 * descriptor, postcopy, IOTLB.
 */
struct vhost_server;

#define VHOST_QUEUE_SIZE_MAX VRING_SIZE_MAX
#define VHOST_KEEP_BYTES     64u

/* The device. All are called on the server's thread. */
struct vhost_device {
	void *owner;
	unsigned queue_count; /* 1 .. 256 */
	/* Feature bits without those of the transport. */
	uint64_t (*features)(void *owner);
	/* Fills the configuration space, VHOST_CONFIG_BYTES of zeroes at the start. */
	void (*config_read)(void *owner, uint8_t *space);
	/* 0, or a negative errno if these bytes cannot be written. */
	int (*config_write)(void *owner, unsigned offset, const uint8_t *data, unsigned bytes);
	int (*queue_start)(void *owner, const struct engine_queue *queue);
	/* -ETIMEDOUT: still draining, ask again. */
	int (*queue_stop)(void *owner, unsigned index, unsigned timeout_ms);
	/* What outlives this process, read at SET_INFLIGHT_FD and written at once when it changes.
	 * fresh: a new front end, or a reset; fill it. NULL: the front end keeps nothing. */
	void (*keep)(void *owner, uint8_t *bytes, bool fresh);
	void (*log)(void *owner, const char *line);
};

/* NULL: no memory or no descriptors. */
struct vhost_server *vhost_server_new(const struct vhost_device *device);
void vhost_server_free(struct vhost_server *s);

/*
 * Serves the front end on the socket conn until it leaves: 0, queues stopped, conn closed. -EINTR:
 * wake_fd became readable; call again to go on, or vhost_server_leave.
 */
int vhost_serve(struct vhost_server *s, int conn, int wake_fd);
void vhost_server_leave(struct vhost_server *s);

/* Tells the front end that the configuration space changed, if it wants that. */
void vhost_config_changed(struct vhost_server *s);

/* For struct engine_events, on any thread. */
void vhost_call(struct vhost_server *s, unsigned queue);
void vhost_broken(struct vhost_server *s, unsigned queue);
