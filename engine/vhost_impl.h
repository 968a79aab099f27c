/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the vhost-user back end share: a server, its rings, the front end's memory. */
#pragma once

#include "engine/vhost.h"
#include "engine/vhost_memory.h"
#include "engine/vhost_msg.h"

struct vhost_ring {
	bool started; /* a kick descriptor came, and no GET_VRING_BASE since */
	bool enabled;
	bool running;
	bool has_addr;
	bool is_refused; /* it did not start; not tried again until the front end changes it */
	unsigned size;
	uint16_t base;
	uint64_t desc_user, avail_user, used_user;
	int kick_fd;
	int call_fd; /* the same number from the server's start to its end */
	int err_fd;  /* likewise */
	void *own_log;
};

struct vhost_server {
	struct vhost_device device;
	unsigned queue_count;
	int conn; /* -1: no front end */
	int wake_fd;
	int nowhere_fd; /* stands for a call or error descriptor that is not there */
	int backend_fd; /* requests to the front end; -1 */
	uint64_t features;
	uint64_t protocol_features;
	struct vhost_memory mem;
	void *inflight; /* as mapped; NULL: the rings have their own */
	size_t inflight_map_bytes;
	uint8_t *inflight_at;
	unsigned inflight_queues;
	unsigned inflight_size; /* entries of each */
	uint8_t *keep;          /* NULL: no room was left by whoever made the region */
	struct vhost_ring rings[];
};

void vhost_log(struct vhost_server *s, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* vhost_ring.c */
int vhost_rings_make(struct vhost_server *s);
void vhost_rings_free(struct vhost_server *s);
/* Starts or stops it as its state says. 0 or a negative errno. */
int vhost_ring_update(struct vhost_server *s, unsigned i);
/* Around changes of what running queues use. */
void vhost_rings_pause(struct vhost_server *s);
int vhost_rings_resume(struct vhost_server *s);
/* Stops it for good: the index where taking would go on. */
uint16_t vhost_ring_end(struct vhost_server *s, unsigned i);
/* Ends all and forgets what the front end said of them. */
void vhost_rings_reset(struct vhost_server *s);
bool vhost_rings_run(const struct vhost_server *s);
/* Takes over the place of a descriptor; -1: none. */
void vhost_fd_place(struct vhost_server *s, int place, int fd);
/* The same for what is written to as an eventfd. */
void vhost_fd_place_event(struct vhost_server *s, int place, int fd);

/* vhost_inflight.c */
/* A region for that many queues of that size, as a descriptor for the front end. Negative errno. */
int vhost_inflight_make(struct vhost_server *s, struct vhost_inflight *io);
int vhost_inflight_map(struct vhost_server *s, const struct vhost_inflight *in, int fd);
void vhost_inflight_unmap(struct vhost_server *s);
/* A ring's part of it, or of its own; NULL: too small for the ring, or no memory. */
void *vhost_inflight_log(struct vhost_server *s, unsigned i);
