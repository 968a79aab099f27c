/* SPDX-License-Identifier: BSD-2-Clause */
/* The front end's half of the vhost-user protocol. */
#include "bench/ring/front.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <linux/virtio_blk.h>
#include <linux/virtio_config.h>

enum {
	GET_FEATURES = 1,
	SET_FEATURES = 2,
	SET_OWNER = 3,
	SET_MEM_TABLE = 5,
	SET_VRING_NUM = 8,
	SET_VRING_ADDR = 9,
	SET_VRING_BASE = 10,
	GET_VRING_BASE = 11,
	SET_VRING_KICK = 12,
	SET_VRING_CALL = 13,
	GET_PROTOCOL_FEATURES = 15,
	SET_PROTOCOL_FEATURES = 16,
	GET_QUEUE_NUM = 17,
	SET_VRING_ENABLE = 18,
	SET_BACKEND_REQ_FD = 21,
	GET_CONFIG = 24,
	SET_CONFIG = 25,
	GET_INFLIGHT_FD = 31,
	SET_INFLIGHT_FD = 32,
};

#define BIT(n)            (1ull << (n))
#define PROTOCOL_BIT      BIT(30)
#define P_MQ              BIT(0)
#define P_REPLY_ACK       BIT(3)
#define P_BACKEND_REQ     BIT(5)
#define P_CONFIG          BIT(9)
#define P_INFLIGHT        BIT(12)
#define FLAG_VERSION      1u
#define FLAG_NEED_REPLY   8u
#define GPA_BASE          (1ull << 32)
#define CONNECT_RETRY_NS  500000
#define CONFIG_WRITEBACK  32u
#define CONFIG_HEAD_BYTES 12u

struct region {
	uint64_t gpa, bytes, user, offset;
};

struct message {
	uint32_t request, flags, bytes;
	union {
		uint64_t u64;
		struct {
			uint32_t index, num;
		} state;
		struct {
			uint32_t index, flags;
			uint64_t desc, used, avail, log;
		} addr;
		struct {
			uint32_t count, padding;
			struct region region;
		} table;
		struct {
			uint32_t offset, bytes, flags;
			uint8_t data[256];
		} config;
		struct {
			uint64_t size, offset;
			uint16_t queues, queue_size;
		} inflight;
	} __attribute__((packed)) u;
} __attribute__((packed));

#define HEAD_BYTES 12u

static int front_fail(struct front *f, const char *what)
{
	snprintf(f->error, sizeof(f->error), "%s: %s", what, strerror(errno));
	return -1;
}

/* ---- messages -------------------------------------------------------------------------------- */

static int message_send(struct front *f, struct message *m, int fd)
{
	struct iovec iov = {m, HEAD_BYTES + m->bytes};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};

	if (fd >= 0) {
		mh.msg_control = control.bytes;
		mh.msg_controllen = sizeof(control.bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(int));
	}
	m->flags |= FLAG_VERSION;
	if (sendmsg(f->conn, &mh, MSG_NOSIGNAL) != (ssize_t)iov.iov_len)
		return front_fail(f, "send");
	return 0;
}

/* A reply, and the descriptor with it if fd is not NULL. */
static int message_receive(struct front *f, struct message *m, int *fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {m, HEAD_BYTES};
	struct msghdr mh = {.msg_iov = &iov,
	        .msg_iovlen = 1,
	        .msg_control = control.bytes,
	        .msg_controllen = sizeof(control.bytes)};

	errno = EPIPE;
	if (recvmsg(f->conn, &mh, MSG_WAITALL | MSG_CMSG_CLOEXEC) != HEAD_BYTES)
		return front_fail(f, "receive");
	if (m->bytes > sizeof(m->u))
		return front_fail(f, "reply too long");
	if (m->bytes && recv(f->conn, &m->u, m->bytes, MSG_WAITALL) != (ssize_t)m->bytes)
		return front_fail(f, "receive");
	if (fd && CMSG_FIRSTHDR(&mh))
		memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&mh)), sizeof(int));
	return 0;
}

/* Sends, and waits until the device has acted on it, if it can say so. */
static int tell(struct front *f, struct message *m, int fd)
{
	uint32_t request = m->request;

	if (f->protocol_features & P_REPLY_ACK)
		m->flags |= FLAG_NEED_REPLY;
	if (message_send(f, m, fd))
		return -1;
	if (!(f->protocol_features & P_REPLY_ACK))
		return 0;
	if (message_receive(f, m, NULL))
		return -1;
	if (m->u.u64) {
		snprintf(f->error, sizeof(f->error), "the device refused request %u", request);
		return -1;
	}
	return 0;
}

static int tell_u64(struct front *f, uint32_t request, uint64_t value, int fd)
{
	struct message m = {.request = request, .bytes = 8, .u.u64 = value};

	return tell(f, &m, fd);
}

static int tell_state(struct front *f, uint32_t request, unsigned index, unsigned num)
{
	struct message m = {.request = request, .bytes = 8, .u.state = {index, num}};

	return tell(f, &m, -1);
}

static int ask_u64(struct front *f, uint32_t request, uint64_t *value)
{
	struct message m = {.request = request};

	if (message_send(f, &m, -1) || message_receive(f, &m, NULL))
		return -1;
	*value = m.u.u64;
	return 0;
}

/* ---- the start ------------------------------------------------------------------------------- */

static int features_agree(struct front *f, uint64_t refuse)
{
	const uint64_t wanted = BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_RING_F_EVENT_IDX) |
	                        BIT(VIRTIO_RING_F_INDIRECT_DESC) | BIT(VIRTIO_BLK_F_FLUSH) |
	                        BIT(VIRTIO_BLK_F_MQ) | BIT(VIRTIO_BLK_F_BLK_SIZE) |
	                        BIT(VIRTIO_BLK_F_CONFIG_WCE) | BIT(VIRTIO_BLK_F_DISCARD) |
	                        BIT(VIRTIO_BLK_F_WRITE_ZEROES) | PROTOCOL_BIT;
	const uint64_t protocol = P_MQ | P_REPLY_ACK | P_BACKEND_REQ | P_CONFIG | P_INFLIGHT;
	uint64_t queues;

	f->protocol_features = 0;
	if (ask_u64(f, GET_FEATURES, &f->offered))
		return -1;
	f->features = f->offered & wanted & ~refuse;
	if (ask_u64(f, GET_PROTOCOL_FEATURES, &f->protocol_features))
		return -1;
	queues = f->protocol_features & protocol;
	f->protocol_features = 0;
	if (tell_u64(f, SET_PROTOCOL_FEATURES, queues, -1))
		return -1;
	f->protocol_features = queues;
	if (ask_u64(f, GET_QUEUE_NUM, &queues))
		return -1;
	if (queues < f->queue_count) {
		snprintf(f->error, sizeof(f->error), "the device has %u queues", (unsigned)queues);
		return -1;
	}
	return tell_u64(f, SET_OWNER, 0, -1);
}

static int backend_channel_open(struct front *f)
{
	int pair[2], rc;

	if (!(f->protocol_features & P_BACKEND_REQ))
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return front_fail(f, "socketpair");
	f->backend_fd = pair[0];
	rc = tell_u64(f, SET_BACKEND_REQ_FD, 0, pair[1]);
	close(pair[1]);
	return rc;
}

static int memory_share(struct front *f)
{
	struct message m = {.request = SET_MEM_TABLE,
	        .bytes = 8 + sizeof(struct region),
	        .u.table = {1, 0, {GPA_BASE, f->mem_bytes, (uint64_t)(uintptr_t)f->mem, 0}}};

	return tell(f, &m, f->mem_fd);
}

static int inflight_share(struct front *f)
{
	struct message m = {.request = GET_INFLIGHT_FD, .bytes = 24};

	if (!(f->protocol_features & P_INFLIGHT))
		return 0;
	m.u.inflight.queues = (uint16_t)f->queue_count;
	m.u.inflight.queue_size = (uint16_t)f->queues[0].size;
	if (f->inflight_fd < 0) {
		if (message_send(f, &m, -1) || message_receive(f, &m, &f->inflight_fd))
			return -1;
		f->inflight_size = m.u.inflight.size;
		f->inflight_offset = m.u.inflight.offset;
		if (f->inflight_fd < 0)
			return front_fail(f, "no in-flight region");
	}
	m = (struct message){.request = SET_INFLIGHT_FD, .bytes = 24};
	m.u.inflight.size = f->inflight_size;
	m.u.inflight.offset = f->inflight_offset;
	m.u.inflight.queues = (uint16_t)f->queue_count;
	m.u.inflight.queue_size = (uint16_t)f->queues[0].size;
	return tell(f, &m, f->inflight_fd);
}

static int queue_share(struct front *f, struct queue *q)
{
	struct message m = {.request = SET_VRING_ADDR, .bytes = 40};

	m.u.addr.index = q->index;
	m.u.addr.desc = (uint64_t)(uintptr_t)q->desc;
	m.u.addr.used = (uint64_t)(uintptr_t)q->used;
	m.u.addr.avail = (uint64_t)(uintptr_t)q->avail;
	q->event_idx = f->features & BIT(VIRTIO_RING_F_EVENT_IDX);
	q->indirect = f->features & BIT(VIRTIO_RING_F_INDIRECT_DESC);
	if (tell_state(f, SET_VRING_NUM, q->index, q->size) ||
	        tell_state(f, SET_VRING_BASE, q->index, q->used->idx) || tell(f, &m, -1) ||
	        tell_u64(f, SET_VRING_KICK, q->index, q->kick_fd) ||
	        tell_u64(f, SET_VRING_CALL, q->index, q->call_fd))
		return -1;
	return tell_state(f, SET_VRING_ENABLE, q->index, 1);
}

static int socket_connect(struct front *f, unsigned wait_ms)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t size = sizeof(peer);

	memcpy(at.sun_path, f->path, strlen(f->path));
	f->conn = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (f->conn < 0)
		return front_fail(f, "socket");
	for (uint64_t left = wait_ms * 1000000ull / CONNECT_RETRY_NS;; left--) {
		if (!connect(f->conn, (struct sockaddr *)&at, sizeof(at)))
			break;
		if (!left)
			return front_fail(f, f->path);
		nanosleep(&(struct timespec){.tv_nsec = CONNECT_RETRY_NS}, NULL);
	}
	if (getsockopt(f->conn, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return front_fail(f, "peer");
	f->peer = peer.pid;
	return 0;
}

int front_connect(struct front *f, unsigned wait_ms)
{
	uint64_t refuse = ~f->features;

	if (socket_connect(f, wait_ms) || features_agree(f, refuse) || backend_channel_open(f) ||
	        front_read_capacity(f) || tell_u64(f, SET_FEATURES, f->features, -1) ||
	        memory_share(f) || inflight_share(f))
		return -1;
	for (unsigned i = 0; i < f->queue_count; i++)
		if (queue_share(f, &f->queues[i]))
			return -1;
	return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

void front_drop(struct front *f)
{
	if (f->conn >= 0)
		close(f->conn);
	if (f->backend_fd >= 0)
		close(f->backend_fd);
	f->conn = f->backend_fd = -1;
}

int front_stop(struct front *f)
{
	int rc = 0;

	for (unsigned i = 0; i < f->queue_count && !rc; i++) {
		struct message m = {.request = GET_VRING_BASE, .bytes = 8, .u.state = {i, 0}};

		rc = message_send(f, &m, -1) || message_receive(f, &m, NULL) ? -1 : 0;
		if (!rc && m.u.state.num != f->queues[i].used->idx) {
			snprintf(f->error, sizeof(f->error), "queue %u ended at %u, not %u", i,
			        m.u.state.num, f->queues[i].used->idx);
			rc = -1;
		}
	}
	front_drop(f);
	return rc;
}

bool front_is_gone(const struct front *f)
{
	struct pollfd p = {f->conn, POLLRDHUP, 0};

	return f->conn < 0 || (poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLRDHUP)));
}

int front_read_config(struct front *f, void *out, uint32_t offset, uint32_t bytes)
{
	struct message m = {.request = GET_CONFIG,
	        .bytes = CONFIG_HEAD_BYTES + bytes,
	        .u.config = {.offset = offset, .bytes = bytes}};

	if (message_send(f, &m, -1) || message_receive(f, &m, NULL))
		return -1;
	errno = EPROTO;
	if (m.bytes != CONFIG_HEAD_BYTES + bytes)
		return front_fail(f, "GET_CONFIG");
	memcpy(out, m.u.config.data, bytes);
	return 0;
}

int front_read_capacity(struct front *f)
{
	return front_read_config(f, &f->capacity, 0, sizeof(f->capacity));
}

int front_set_writeback(struct front *f, bool writeback)
{
	struct message m = {.request = SET_CONFIG,
	        .bytes = CONFIG_HEAD_BYTES + 1,
	        .u.config = {.offset = CONFIG_WRITEBACK, .bytes = 1}};

	m.u.config.data[0] = writeback;
	return tell(f, &m, -1);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *front_alloc(struct front *f, size_t bytes, size_t align)
{
	size_t at = (f->mem_used + align - 1) / align * align;

	if (at + bytes > f->mem_bytes)
		return NULL;
	f->mem_used = at + bytes;
	return f->mem + at;
}

uint64_t front_gpa(const struct front *f, const void *at)
{
	return GPA_BASE + (uint64_t)((const uint8_t *)at - f->mem);
}

static int queue_init(struct front *f, struct queue *q, unsigned index, unsigned size)
{
	q->index = index;
	q->size = size;
	q->desc = front_alloc(f, size * sizeof(*q->desc), 4096);
	q->avail = front_alloc(f, 6 + 2 * size, 64);
	q->used = front_alloc(f, 6 + 8 * size, 4096);
	q->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	q->call_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!q->desc || !q->avail || !q->used || q->kick_fd < 0 || q->call_fd < 0)
		return front_fail(f, "queue");
	return 0;
}

int front_init(struct front *f, const struct front_config *c)
{
	memset(f, 0, sizeof(*f));
	f->conn = f->backend_fd = f->inflight_fd = -1;
	f->queue_count = c->queue_count;
	f->features = ~c->refuse;
	snprintf(f->path, sizeof(f->path), "%s", c->path);
	f->mem_fd = memfd_create("guest-memory", MFD_CLOEXEC);
	f->mem_bytes = c->mem_bytes;
	if (f->mem_fd < 0 || ftruncate(f->mem_fd, (off_t)c->mem_bytes))
		return front_fail(f, "guest memory");
	f->mem = mmap(NULL, c->mem_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
	        f->mem_fd, 0);
	if (f->mem == MAP_FAILED)
		return front_fail(f, "guest memory");
	for (unsigned i = 0; i < c->queue_count; i++)
		if (queue_init(f, &f->queues[i], i, c->queue_size))
			return -1;
	return 0;
}

void front_free(struct front *f)
{
	front_drop(f);
	for (unsigned i = 0; i < f->queue_count; i++) {
		close(f->queues[i].kick_fd);
		close(f->queues[i].call_fd);
	}
	if (f->mem)
		munmap(f->mem, f->mem_bytes);
	close(f->mem_fd);
	if (f->inflight_fd >= 0)
		close(f->inflight_fd);
}
