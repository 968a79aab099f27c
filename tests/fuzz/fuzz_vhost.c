/* SPDX-License-Identifier: BSD-2-Clause */
/* A front end that sends any messages in any order: none has an effect outside of what it gave. */
/* sources: engine/vhost_ring.c engine/vhost_inflight.c engine/vhost_memory.c engine/vhost_msg.c */
/* sources: engine/vring.c engine/memtable.c */
#include <assert.h>
#include <sys/mman.h>

#include "engine/vhost_server.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define QUEUES    2u
#define MEM_BYTES (256u << 10)

/* Before each message of an input. */
struct record {
	uint8_t request;
	uint8_t flags; /* bit 0: wants a reply */
	uint8_t fds;   /* how many in bits 0-3, which kind in bits 4-7 */
	uint8_t words; /* of payload */
};

static struct vhost_server *server;
static struct vring vrings[QUEUES];
static bool running[QUEUES];
static uint8_t keep_seen;

static uint64_t on_features(void *owner)
{
	(void)owner;
	return VIRTIO_BIT(VIRTIO_F_EVENT_IDX) | VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC);
}

static void on_config_read(void *owner, uint8_t *space)
{
	(void)owner;
	memset(space, 0x5a, 64);
}

static int on_config_write(void *owner, unsigned offset, const uint8_t *bytes, unsigned count)
{
	(void)owner;
	for (unsigned i = 0; i < count; i++)
		keep_seen ^= bytes[i];
	return offset == 32 && count == 1 ? 0 : -EINVAL;
}

static void on_keep(void *owner, uint8_t *bytes, bool fresh)
{
	(void)owner;
	if (fresh)
		memset(bytes, keep_seen, VHOST_KEEP_BYTES);
	else
		keep_seen = bytes[VHOST_KEEP_BYTES - 1];
}

static void on_log(void *owner, const char *line)
{
	(void)owner;
	(void)line;
}

static bool is_shared(const uint8_t *at, size_t bytes)
{
	for (unsigned i = 0; i < server->mem.table.count; i++) {
		const struct memtable_region *r = &server->mem.table.regions[i];

		if (at >= r->host && bytes <= r->size_bytes &&
		        (size_t)(at - r->host) <= r->size_bytes - bytes)
			return true;
	}
	return false;
}

static int on_start(void *owner, const struct engine_queue *q)
{
	struct vring *vr = &vrings[q->index];
	struct vring_chain chain;
	unsigned held[8], count = 0;
	int rc;

	(void)owner;
	assert(q->index < QUEUES && !running[q->index] && q->kick_fd >= 0);
	rc = vring_attach(vr, &q->ring);
	if (rc)
		return rc;
	running[q->index] = true;
	assert(is_shared((const uint8_t *)vr->desc, 16u * vr->size));
	while (count < 8 && vring_pop(vr, &chain) > 0) {
		for (unsigned i = 0; i < chain.readable_count + chain.writable_count; i++)
			assert(chain.fault ||
			        is_shared(chain.iov[i].iov_base, chain.iov[i].iov_len));
		held[count++] = chain.head;
	}
	while (count && q->ring.size > 4)
		vring_put(vr, (uint16_t)held[--count], 0);
	vring_publish(vr);
	if (vring_take_call(vr))
		vhost_call(server, q->index);
	return 0;
}

static int on_stop(void *owner, unsigned index, unsigned timeout_ms)
{
	(void)owner;
	(void)timeout_ms;
	assert(index < QUEUES && running[index]);
	running[index] = false;
	return 0;
}

/* A descriptor of one of the kinds that front ends send, and some that they do not. */
static int fd_make(unsigned kind)
{
	static int memory = -1, tiny = -1;

	if (memory < 0) {
		memory = memfd_create("fuzz", MFD_CLOEXEC);
		tiny = memfd_create("tiny", MFD_CLOEXEC);
		assert(!ftruncate(memory, MEM_BYTES) && !ftruncate(tiny, 100));
	}
	switch (kind % 4) {
	case 0: return dup(memory);
	case 1: return eventfd(0, EFD_NONBLOCK);
	case 2: return dup(tiny);
	default: return open("/dev/null", O_RDWR);
	}
}

static void message_make(struct vhost_msg *m, const struct record *r, const uint8_t *payload)
{
	memset(m, 0, sizeof(*m));
	m->head.request = r->request % (VHOST_REQUESTS + 2);
	m->head.flags = VHOST_VERSION | (r->flags & 1 ? VHOST_FLAG_NEED_REPLY : 0);
	m->head.payload_bytes = r->words * 4u < VHOST_PAYLOAD_MAX ? r->words * 4u
	                                                          : VHOST_PAYLOAD_MAX;
	memcpy(m->payload.bytes, payload, m->head.payload_bytes);
	m->fd_count = (r->fds & 15) % (VHOST_FDS_MAX + 1);
	for (unsigned i = 0; i < m->fd_count; i++)
		m->fds[i] = fd_make(r->fds >> 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct vhost_device device = {NULL, QUEUES, on_features, on_config_read,
	        on_config_write, on_start, on_stop, on_keep, on_log};
	uint8_t drain[1024];
	int pair[2], next_fd;

	assert(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	server = vhost_server_new(&device);
	assert(server);
	server->conn = pair[0];
	while (size >= sizeof(struct record)) {
		struct record r;
		struct vhost_msg m;
		uint8_t payload[1024] = {0};

		memcpy(&r, data, sizeof(r));
		data += sizeof(r);
		size -= sizeof(r);
		if (r.words * 4u > size)
			break;
		memcpy(payload, data, r.words * 4u);
		data += r.words * 4u;
		size -= r.words * 4u;
		message_make(&m, &r, payload);
		if (handle(server, &m)) {
			vhost_msg_close(&m);
			continue;
		}
		vhost_msg_close(&m);
		while (recv(pair[1], drain, sizeof(drain), MSG_DONTWAIT) > 0)
			;
	}
	vhost_server_free(server);
	close(pair[1]);
	for (unsigned i = 0; i < QUEUES; i++)
		assert(!running[i]);
	/* Nothing that came is still open: two that stay for fd_make, and the socket pair is gone.
	 */
	next_fd = dup(0);
	assert(next_fd < 64);
	close(next_fd);
	return 0;
}
