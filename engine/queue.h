/* SPDX-License-Identifier: BSD-2-Clause */
/* What an engine is given to run one queue: the vhost-user protocol's objects, and nothing else. */
#pragma once

#include "engine/vring.h"

/* What the engine tells the owner of its queues. All three may be called on any engine thread and
 * must not block. A vhost-user export writes the call or error descriptor there; keelvm raises the
 * queue's vector. */
struct engine_events {
	void *owner;
	void (*call)(void *owner, unsigned queue);
	void (*broken)(void *owner, unsigned queue, const char *why);
	void (*log)(void *owner, const char *line);
};

struct engine_queue {
	unsigned index;
	int kick_fd; /* eventfd, the owner's; open until the queue is stopped */
	struct vring_config ring;
};
