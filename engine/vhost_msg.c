/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages on the socket; nothing in them is believed but their bounds. */
#include "engine/vhost_msg.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Descriptors of the peer; what is beyond the array the kernel drops. */
static void fds_collect(struct vhost_msg *msg, struct msghdr *mh)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		size_t bytes;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		bytes = c->cmsg_len - CMSG_LEN(0);
		memcpy(msg->fds, CMSG_DATA(c), bytes);
		msg->fd_count = (unsigned)(bytes / sizeof(int));
	}
}

/* The header, in parts if it comes so. Descriptors come with its first byte. */
static int head_receive(int conn, struct vhost_msg *msg)
{
	size_t done = 0;

	while (done < sizeof(msg->head)) {
		union {
			char bytes[CMSG_SPACE(sizeof(int) * VHOST_FDS_MAX)];
			struct cmsghdr align;
		} control;
		struct iovec iov = {(char *)&msg->head + done, sizeof(msg->head) - done};
		struct msghdr mh = {.msg_iov = &iov,
		        .msg_iovlen = 1,
		        .msg_control = done ? NULL : control.bytes,
		        .msg_controllen = done ? 0 : sizeof(control.bytes)};
		ssize_t n = recvmsg(conn, &mh, MSG_CMSG_CLOEXEC);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		if (!done)
			fds_collect(msg, &mh);
		done += (size_t)n;
	}
	return 0;
}

static int payload_receive(int conn, struct vhost_msg *msg)
{
	size_t done = 0;

	while (done < msg->head.payload_bytes) {
		ssize_t n = recv(
		        conn, msg->payload.bytes + done, msg->head.payload_bytes - done, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		done += (size_t)n;
	}
	return 0;
}

int vhost_msg_receive(int conn, int wake_fd, struct vhost_msg *msg)
{
	struct pollfd p[2] = {{conn, POLLIN, 0}, {wake_fd, POLLIN, 0}};
	int rc;

	memset(msg, 0, sizeof(*msg));
	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return -errno;
	if (p[1].revents)
		return -EINTR;
	rc = head_receive(conn, msg);
	if (!rc && ((msg->head.flags & VHOST_FLAG_VERSION) != VHOST_VERSION ||
	                   msg->head.payload_bytes > VHOST_PAYLOAD_MAX))
		rc = -EPROTO;
	if (!rc)
		rc = payload_receive(conn, msg);
	if (rc)
		vhost_msg_close(msg);
	return rc;
}

int vhost_msg_send(int conn, const struct vhost_msg *msg, int fd)
{
	size_t size = sizeof(msg->head) + msg->head.payload_bytes;
	struct vhost_header head = msg->head;
	union vhost_payload payload = msg->payload;
	struct iovec iov[2] = {{&head, sizeof(head)}, {&payload, head.payload_bytes}};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n;

	if (fd >= 0) {
		mh.msg_control = control.bytes;
		mh.msg_controllen = sizeof(control.bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(int));
	}
	do {
		n = sendmsg(conn, &mh, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EPIPE;
}

int vhost_msg_take(struct vhost_msg *msg, unsigned i)
{
	int fd;

	if (i >= msg->fd_count)
		return -1;
	fd = msg->fds[i];
	msg->fds[i] = -1;
	return fd;
}

void vhost_msg_close(struct vhost_msg *msg)
{
	for (unsigned i = 0; i < msg->fd_count; i++)
		if (msg->fds[i] >= 0)
			close(msg->fds[i]);
	msg->fd_count = 0;
}
