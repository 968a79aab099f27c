/* SPDX-License-Identifier: BSD-2-Clause */
/* The vhost-user back end: one table of requests, each checked whole before it has an effect. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/vhost_impl.h"

#define PROTOCOL_FEATURES                                                                          \
	(VIRTIO_BIT(VHOST_PROTOCOL_F_MQ) | VIRTIO_BIT(VHOST_PROTOCOL_F_REPLY_ACK) |                \
	        VIRTIO_BIT(VHOST_PROTOCOL_F_BACKEND_REQ) | VIRTIO_BIT(VHOST_PROTOCOL_F_CONFIG) |   \
	        VIRTIO_BIT(VHOST_PROTOCOL_F_INFLIGHT_SHMFD) |                                      \
	        VIRTIO_BIT(VHOST_PROTOCOL_F_CONFIGURE_MEM_SLOTS))
#define WRITABLE_CONFIG_FLAG 0u

/* What a handler returns beside 0 and negative errnos: the message is now the reply. */
#define REPLY          1
#define REPLY_WITH(fd) (REPLY + 1 + (fd))

void vhost_log(struct vhost_server *s, const char *format, ...)
{
	char line[256];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	s->device.log(s->device.owner, line);
}

static int reply_u64(struct vhost_msg *m, uint64_t value)
{
	m->head.payload_bytes = sizeof(uint64_t);
	m->payload.u64 = value;
	return REPLY;
}

/* ---- features -------------------------------------------------------------------------------- */

static uint64_t offered(struct vhost_server *s)
{
	return s->device.features(s->device.owner) | VIRTIO_BIT(VIRTIO_F_VERSION_1) |
	       VIRTIO_BIT(VHOST_F_PROTOCOL_FEATURES);
}

static int get_features(struct vhost_server *s, struct vhost_msg *m)
{
	return reply_u64(m, offered(s));
}

static int set_features(struct vhost_server *s, struct vhost_msg *m)
{
	if (m->payload.u64 & ~offered(s))
		return -EINVAL;
	if (m->payload.u64 == s->features)
		return 0;
	vhost_rings_pause(s);
	s->features = m->payload.u64;
	/* "Ring states": without the protocol's features a ring is enabled from the start. */
	for (unsigned i = 0; i < s->queue_count; i++)
		if (!(s->features & VIRTIO_BIT(VHOST_F_PROTOCOL_FEATURES)))
			s->rings[i].enabled = true;
	return vhost_rings_resume(s);
}

static int get_protocol_features(struct vhost_server *s, struct vhost_msg *m)
{
	(void)s;
	return reply_u64(m, PROTOCOL_FEATURES);
}

static int set_protocol_features(struct vhost_server *s, struct vhost_msg *m)
{
	if (m->payload.u64 & ~PROTOCOL_FEATURES)
		return -EINVAL;
	s->protocol_features = m->payload.u64;
	return 0;
}

static int get_queue_num(struct vhost_server *s, struct vhost_msg *m)
{
	return reply_u64(m, s->queue_count);
}

static int set_owner(struct vhost_server *s, struct vhost_msg *m)
{
	(void)s;
	(void)m;
	return 0;
}

static int reset_owner(struct vhost_server *s, struct vhost_msg *m)
{
	(void)m;
	vhost_rings_reset(s);
	s->features = 0;
	return 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int table_fill(struct vhost_server *s, struct vhost_msg *m)
{
	for (unsigned i = 0; i < m->payload.table.count; i++) {
		int rc = vhost_memory_add(&s->mem, &m->payload.table.regions[i], m->fds[i]);

		if (rc)
			return rc;
	}
	return 0;
}

static int set_mem_table(struct vhost_server *s, struct vhost_msg *m)
{
	uint32_t count = m->payload.table.count;
	int rc;

	if (count > VHOST_TABLE_REGIONS || count != m->fd_count ||
	        m->head.payload_bytes < 8 + count * sizeof(struct vhost_region))
		return -EINVAL;
	vhost_rings_pause(s);
	vhost_memory_clear(&s->mem);
	rc = table_fill(s, m);
	return rc ? rc : vhost_rings_resume(s);
}

static int get_max_mem_slots(struct vhost_server *s, struct vhost_msg *m)
{
	(void)s;
	return reply_u64(m, MEMTABLE_MAX);
}

static int add_mem_reg(struct vhost_server *s, struct vhost_msg *m)
{
	int resumed, rc;

	if (m->fd_count != 1)
		return -EINVAL;
	vhost_rings_pause(s);
	rc = vhost_memory_add(&s->mem, &m->payload.region.region, m->fds[0]);
	resumed = vhost_rings_resume(s);
	return rc ? rc : resumed;
}

static int rem_mem_reg(struct vhost_server *s, struct vhost_msg *m)
{
	int resumed, rc;

	vhost_rings_pause(s);
	rc = vhost_memory_remove(&s->mem, &m->payload.region.region);
	resumed = vhost_rings_resume(s);
	return rc ? rc : resumed;
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* The ring that a message names; NULL: none. */
static struct vhost_ring *ring_of(struct vhost_server *s, uint64_t index)
{
	return index < s->queue_count ? &s->rings[index] : NULL;
}

/* C-13: what a running queue has latched stays as it is. */
static struct vhost_ring *idle_ring_of(struct vhost_server *s, uint64_t index)
{
	struct vhost_ring *r = ring_of(s, index);

	return r && !r->running ? r : NULL;
}

static int set_vring_num(struct vhost_server *s, struct vhost_msg *m)
{
	struct vhost_ring *r = idle_ring_of(s, m->payload.state.index);
	uint32_t num = m->payload.state.num;

	if (!r || !num || num > VHOST_QUEUE_SIZE_MAX || (num & (num - 1)))
		return -EINVAL;
	r->size = num;
	r->is_refused = false;
	return 0;
}

static int set_vring_addr(struct vhost_server *s, struct vhost_msg *m)
{
	const struct vhost_vring_addr *a = &m->payload.addr;
	struct vhost_ring *r = idle_ring_of(s, a->index);

	if (!r || a->flags)
		return -EINVAL;
	r->desc_user = a->desc;
	r->avail_user = a->avail;
	r->used_user = a->used;
	r->has_addr = true;
	r->is_refused = false;
	return vhost_ring_update(s, a->index);
}

static int set_vring_base(struct vhost_server *s, struct vhost_msg *m)
{
	struct vhost_ring *r = idle_ring_of(s, m->payload.state.index);

	if (!r || m->payload.state.num > UINT16_MAX)
		return -EINVAL;
	r->base = (uint16_t)m->payload.state.num;
	r->is_refused = false;
	/* A region of our own says only what has been since. */
	free(r->own_log);
	r->own_log = NULL;
	return 0;
}

static int get_vring_base(struct vhost_server *s, struct vhost_msg *m)
{
	if (!ring_of(s, m->payload.state.index))
		return -EINVAL;
	m->payload.state.num = vhost_ring_end(s, m->payload.state.index);
	m->head.payload_bytes = sizeof(m->payload.state);
	return REPLY;
}

/* Of SET_VRING_KICK, CALL and ERR: the ring, and the descriptor or -1. */
static struct vhost_ring *ring_with_fd(struct vhost_server *s, struct vhost_msg *m, int *fd)
{
	struct vhost_ring *r = ring_of(s, m->payload.u64 & VHOST_VRING_INDEX);
	bool none = m->payload.u64 & VHOST_VRING_NOFD;

	if (!r || (m->payload.u64 & ~(uint64_t)(VHOST_VRING_INDEX | VHOST_VRING_NOFD)) ||
	        m->fd_count != !none)
		return NULL;
	*fd = vhost_msg_take(m, 0);
	return r;
}

static int set_vring_kick(struct vhost_server *s, struct vhost_msg *m)
{
	unsigned index = (unsigned)(m->payload.u64 & VHOST_VRING_INDEX);
	struct vhost_ring *r;
	int fd = -1;

	r = ring_with_fd(s, m, &fd);
	if (!r)
		return -EINVAL;
	/* Polling for want of a kick descriptor is not offered. */
	if (fd < 0)
		return -EOPNOTSUPP;
	if (r->running) {
		r->started = false;
		vhost_ring_update(s, index);
	}
	if (r->kick_fd >= 0)
		close(r->kick_fd);
	r->kick_fd = fd;
	r->started = true;
	return vhost_ring_update(s, index);
}

static int set_vring_call(struct vhost_server *s, struct vhost_msg *m)
{
	unsigned index = (unsigned)(m->payload.u64 & VHOST_VRING_INDEX);
	struct vhost_ring *r;
	int fd = -1;

	r = ring_with_fd(s, m, &fd);
	if (!r)
		return -EINVAL;
	vhost_fd_place_event(s, r->call_fd, fd);
	/* A call that was due a moment ago went to the old one. */
	if (r->running)
		vhost_call(s, index);
	return 0;
}

static int set_vring_err(struct vhost_server *s, struct vhost_msg *m)
{
	struct vhost_ring *r;
	int fd = -1;

	r = ring_with_fd(s, m, &fd);
	if (!r)
		return -EINVAL;
	vhost_fd_place_event(s, r->err_fd, fd);
	return 0;
}

static int set_vring_enable(struct vhost_server *s, struct vhost_msg *m)
{
	struct vhost_ring *r = ring_of(s, m->payload.state.index);

	if (!r || m->payload.state.num > 1)
		return -EINVAL;
	r->enabled = m->payload.state.num;
	return vhost_ring_update(s, m->payload.state.index);
}

/* ---- configuration space --------------------------------------------------------------------- */

static bool config_is_within(const struct vhost_msg *m)
{
	const struct vhost_config *c = &m->payload.config;

	return c->offset <= VHOST_CONFIG_BYTES && c->size <= VHOST_CONFIG_BYTES - c->offset &&
	       m->head.payload_bytes == VHOST_CONFIG_HEAD_BYTES + c->size;
}

static int get_config(struct vhost_server *s, struct vhost_msg *m)
{
	uint8_t space[VHOST_CONFIG_BYTES] = {0};

	/* "the back-end … uses zero length of payload to indicate an error". */
	if (!config_is_within(m)) {
		m->head.payload_bytes = 0;
		return REPLY;
	}
	s->device.config_read(s->device.owner, space);
	memcpy(m->payload.config.data, space + m->payload.config.offset, m->payload.config.size);
	return REPLY;
}

static int set_config(struct vhost_server *s, struct vhost_msg *m)
{
	const struct vhost_config *c = &m->payload.config;
	int rc;

	if (!config_is_within(m) || c->flags != WRITABLE_CONFIG_FLAG)
		return -EINVAL;
	rc = s->device.config_write(s->device.owner, c->offset, c->data, c->size);
	if (!rc && s->keep)
		s->device.keep(s->device.owner, s->keep, true);
	return rc;
}

static int set_backend_req_fd(struct vhost_server *s, struct vhost_msg *m)
{
	int fd = vhost_msg_take(m, 0);

	if (fd < 0)
		return -EINVAL;
	if (s->backend_fd >= 0)
		close(s->backend_fd);
	s->backend_fd = fd;
	return 0;
}

void vhost_config_changed(struct vhost_server *s)
{
	const uint64_t needs = VIRTIO_BIT(VHOST_PROTOCOL_F_BACKEND_REQ) |
	                       VIRTIO_BIT(VHOST_PROTOCOL_F_CONFIG);
	struct vhost_header head = {VHOST_BACKEND_CONFIG_CHANGE, VHOST_VERSION, 0};

	if (s->backend_fd < 0 || (s->protocol_features & needs) != needs)
		return;
	if (send(s->backend_fd, &head, sizeof(head), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		vhost_log(
		        s, "the front end could not be told of the new size: %s", strerror(errno));
}

/* ---- in-flight region ------------------------------------------------------------------------ */

static int get_inflight_fd(struct vhost_server *s, struct vhost_msg *m)
{
	int fd = vhost_inflight_make(s, &m->payload.inflight);

	if (fd >= 0)
		return REPLY_WITH(fd);
	m->payload.inflight = (struct vhost_inflight){0};
	return REPLY;
}

static int set_inflight_fd(struct vhost_server *s, struct vhost_msg *m)
{
	if (vhost_rings_run(s))
		return -EBUSY;
	if (m->fd_count != 1)
		return -EINVAL;
	return vhost_inflight_map(s, &m->payload.inflight, m->fds[0]);
}

/* ---- the loop -------------------------------------------------------------------------------- */

struct request {
	int (*handle)(struct vhost_server *s, struct vhost_msg *m);
	unsigned payload_bytes; /* at least so many */
};

#define U64   sizeof(uint64_t)
#define STATE sizeof(struct vhost_vring_state)

static const struct request requests[VHOST_REQUESTS] = {
        [VHOST_GET_FEATURES] = {get_features, 0},
        [VHOST_SET_FEATURES] = {set_features, U64},
        [VHOST_SET_OWNER] = {set_owner, 0},
        [VHOST_RESET_OWNER] = {reset_owner, 0},
        [VHOST_SET_MEM_TABLE] = {set_mem_table, 8},
        [VHOST_SET_VRING_NUM] = {set_vring_num, STATE},
        [VHOST_SET_VRING_ADDR] = {set_vring_addr, sizeof(struct vhost_vring_addr)},
        [VHOST_SET_VRING_BASE] = {set_vring_base, STATE},
        [VHOST_GET_VRING_BASE] = {get_vring_base, STATE},
        [VHOST_SET_VRING_KICK] = {set_vring_kick, U64},
        [VHOST_SET_VRING_CALL] = {set_vring_call, U64},
        [VHOST_SET_VRING_ERR] = {set_vring_err, U64},
        [VHOST_GET_PROTOCOL_FEATURES] = {get_protocol_features, 0},
        [VHOST_SET_PROTOCOL_FEATURES] = {set_protocol_features, U64},
        [VHOST_GET_QUEUE_NUM] = {get_queue_num, 0},
        [VHOST_SET_VRING_ENABLE] = {set_vring_enable, STATE},
        [VHOST_SET_BACKEND_REQ_FD] = {set_backend_req_fd, 0},
        [VHOST_GET_CONFIG] = {get_config, VHOST_CONFIG_HEAD_BYTES},
        [VHOST_SET_CONFIG] = {set_config, VHOST_CONFIG_HEAD_BYTES},
        [VHOST_GET_INFLIGHT_FD] = {get_inflight_fd, VHOST_INFLIGHT_BYTES},
        [VHOST_SET_INFLIGHT_FD] = {set_inflight_fd, VHOST_INFLIGHT_BYTES},
        [VHOST_GET_MAX_MEM_SLOTS] = {get_max_mem_slots, 0},
        [VHOST_ADD_MEM_REG] = {add_mem_reg, sizeof(struct vhost_one_region)},
        [VHOST_REM_MEM_REG] = {rem_mem_reg, sizeof(struct vhost_one_region)},
};

/* Sends what the handler's result asks for. An error that cannot be told ends the connection. */
static int answer(struct vhost_server *s, struct vhost_msg *m, int result)
{
	bool ack = (m->head.flags & VHOST_FLAG_NEED_REPLY) &&
	           (s->protocol_features & VIRTIO_BIT(VHOST_PROTOCOL_F_REPLY_ACK));
	int fd = result > REPLY ? result - REPLY - 1 : -1;
	int rc;

	if (result < 0)
		vhost_log(s, "request %u of the front end refused: %s", m->head.request,
		        strerror(-result));
	if (result <= 0 && !ack)
		return result;
	if (result <= 0)
		reply_u64(m, result < 0);
	m->head.flags = VHOST_VERSION | VHOST_FLAG_REPLY;
	rc = vhost_msg_send(s->conn, m, fd);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int handle(struct vhost_server *s, struct vhost_msg *m)
{
	const struct request *r;
	int result = -EOPNOTSUPP;

	if (m->head.request < VHOST_REQUESTS && requests[m->head.request].handle) {
		r = &requests[m->head.request];
		result = m->head.payload_bytes < r->payload_bytes ? -EPROTO : r->handle(s, m);
	}
	return answer(s, m, result);
}

int vhost_serve(struct vhost_server *s, int conn, int wake_fd)
{
	struct vhost_msg msg;
	int rc;

	s->conn = conn;
	s->wake_fd = wake_fd;
	do {
		rc = vhost_msg_receive(conn, wake_fd, &msg);
		if (!rc) {
			rc = handle(s, &msg);
			vhost_msg_close(&msg);
			if (rc == -EINTR)
				rc = -EPIPE;
		}
	} while (!rc);
	if (rc == -EINTR)
		return rc;
	vhost_server_leave(s);
	return 0;
}

void vhost_server_leave(struct vhost_server *s)
{
	if (s->conn < 0)
		return;
	vhost_rings_reset(s);
	vhost_inflight_unmap(s);
	vhost_memory_clear(&s->mem);
	if (s->backend_fd >= 0)
		close(s->backend_fd);
	close(s->conn);
	s->backend_fd = s->conn = -1;
	s->features = s->protocol_features = 0;
}

struct vhost_server *vhost_server_new(const struct vhost_device *device)
{
	struct vhost_server *s = calloc(1, sizeof(*s) + device->queue_count * sizeof(s->rings[0]));

	if (!s)
		return NULL;
	s->device = *device;
	s->queue_count = device->queue_count;
	s->conn = s->backend_fd = -1;
	s->nowhere_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (s->nowhere_fd < 0 || vhost_rings_make(s)) {
		vhost_server_free(s);
		return NULL;
	}
	return s;
}

void vhost_server_free(struct vhost_server *s)
{
	if (!s)
		return;
	vhost_server_leave(s);
	vhost_rings_free(s);
	if (s->nowhere_fd >= 0)
		close(s->nowhere_fd);
	free(s);
}
