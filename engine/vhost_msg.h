/* SPDX-License-Identifier: BSD-2-Clause */
/* One vhost-user message with its descriptors, received and sent. */
#pragma once

#include <stdbool.h>

#include "engine/vhost_proto.h"

/* What is in fds is closed by vhost_msg_close unless it was taken. */
struct vhost_msg {
	struct vhost_header head;
	union vhost_payload payload;
	int fds[VHOST_FDS_MAX];
	unsigned fd_count;
};

/*
 * Waits for a whole message. 0; -EPIPE: the peer has left; -EINTR: wake_fd is readable (looked at
 * only before the first byte); -EPROTO: it is no message of the protocol. On failure there is
 * nothing to close.
 */
int vhost_msg_receive(int conn, int wake_fd, struct vhost_msg *msg);
/* Sends head and payload, with a descriptor if fd is not -1. 0 or a negative errno. */
int vhost_msg_send(int conn, const struct vhost_msg *msg, int fd);

/* The i-th descriptor, now the caller's; -1 if it did not come. */
int vhost_msg_take(struct vhost_msg *msg, unsigned i);
void vhost_msg_close(struct vhost_msg *msg);
