/* SPDX-License-Identifier: BSD-2-Clause */
/* A network card with a guest's driver in front of it, and the host's end of its tap. */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/net.h"
#include "tests/unit/engine/guest_ring.h"

#define TAP        "keeltest0"
#define HDR        12u
#define WAIT_MS    20000
#define RING_SMALL 8u
#define BIT(f)     VIRTIO_BIT(VIRTIO_NET_F_##f)
#define RING       (VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC) | VIRTIO_BIT(VIRTIO_F_EVENT_IDX))
#define ALL        (RING | BIT(CSUM) | BIT(GUEST_CSUM) | BIT(HOST_TSO4) | BIT(GUEST_TSO4) | BIT(MRG_RXBUF))

static const uint8_t mac[6] = {0x52, 0x54, 0, 1, 2, 3};

struct rig {
	struct net *net;
	struct guest_mem mem;
	struct guest_ring rings[2];
	int kick[2], call[2];
	int wire; /* a packet socket on the host's side of the tap */
	size_t data_at;
	atomic_uint broken;
};

static void on_call(void *owner, unsigned queue)
{
	struct rig *r = owner;
	uint64_t one = 1;

	assert_int_equal(write(r->call[queue], &one, 8), 8);
}

static void on_broken(void *owner, unsigned queue, const char *why)
{
	struct rig *r = owner;

	(void)queue;
	(void)why;
	atomic_fetch_add(&r->broken, 1);
}

static void on_log(void *owner, const char *line)
{
	(void)owner;
	print_message("    %s\n", line);
}

/* ---- the host's side ------------------------------------------------------------------------- */

static int set_sysctl(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);
	int rc = fd < 0 ? -1 : (int)write(fd, value, strlen(value));

	if (fd >= 0)
		close(fd);
	return rc;
}

/* A tap that stays when its user goes, with nothing of the kernel's own on it. */
static int make_tap(void)
{
	struct ifreq ifr = {0};
	int fd = open("/dev/net/tun", O_RDWR), s = socket(AF_INET, SOCK_DGRAM, 0), rc;

	if (fd < 0)
		return -1;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), TAP);
	ifr.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
	rc = ioctl(fd, TUNSETIFF, &ifr);
	if (!rc)
		rc = ioctl(fd, TUNSETPERSIST, 1);
	close(fd);
	set_sysctl("/proc/sys/net/ipv6/conf/" TAP "/disable_ipv6", "1");
	ifr.ifr_mtu = 9000;
	if (!rc)
		rc = ioctl(s, SIOCSIFMTU, &ifr);
	close(s);
	return rc;
}

static int wire_open(bool vnet_hdr)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
	        .sll_protocol = htons(ETH_P_ALL),
	        .sll_ifindex = (int)if_nametoindex(TAP)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
	int one = 1;

	if (fd < 0 || bind(fd, (void *)&at, sizeof(at)))
		return -1;
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
	if (vnet_hdr)
		setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one));
	return fd;
}

/* The next frame that came out of the guest; 0 when none comes. */
static size_t wire_take(struct rig *r, uint8_t *frame, size_t size)
{
	struct pollfd p = {r->wire, POLLIN, 0};

	if (poll(&p, 1, WAIT_MS) != 1)
		return 0;
	return (size_t)recv(r->wire, frame, size, 0);
}

static void frame_fill(uint8_t *frame, size_t size, uint16_t type, uint8_t seed)
{
	memset(frame, 0xff, 6);
	memcpy(frame + 6, mac, 6);
	frame[12] = (uint8_t)(type >> 8);
	frame[13] = (uint8_t)type;
	for (size_t i = 14; i < size; i++)
		frame[i] = (uint8_t)(i * 7 + seed + i / 251);
}

static void wire_send(struct rig *r, size_t size, uint16_t type, uint8_t seed)
{
	uint8_t frame[9100];

	frame_fill(frame, size, type, seed);
	assert_int_equal(send(r->wire, frame, size, 0), size);
}

/* Frames that the engine has read from the tap so far: what the kernel has sent there. */
static unsigned long frames_read(void)
{
	FILE *in = fopen("/proc/self/net/dev", "re");
	unsigned long count = 0;
	char line[512];

	assert_non_null(in);
	while (fgets(line, sizeof(line), in))
		if (strstr(line, TAP ":"))
			sscanf(strchr(line, ':') + 1, "%*u %*u %*u %*u %*u %*u %*u %*u %*u %lu",
			        &count);
	fclose(in);
	return count;
}

/* ---- the guest's side ------------------------------------------------------------------------ */

static int start_queues(struct rig *r)
{
	for (unsigned i = 0; i < 2; i++) {
		struct engine_queue q = {
		        .index = i, .kick_fd = r->kick[i], .ring = guest_ring_config(&r->rings[i])};
		int rc = net_queue_start(r->net, &q);

		if (rc)
			return rc;
	}
	return 0;
}

static int setup_sized(void **state, uint64_t features, unsigned size)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct net_config c = {.tap = TAP,
	        .watch_ns = NET_WATCH_NS,
	        .lock_wait_ms = 2000,
	        .events = {r, on_call, on_broken, on_log}};
	char error[256];

	memcpy(c.mac, mac, 6);
	if (net_open(&r->net, &c, error, sizeof(error))) {
		print_message("    %s\n", error);
		return -1;
	}
	r->wire = wire_open(false);
	guest_mem_init(&r->mem, 4 << 20);
	for (unsigned i = 0; i < 2; i++) {
		guest_ring_init(&r->rings[i], &r->mem, size, features);
		r->kick[i] = eventfd(0, EFD_NONBLOCK);
		r->call[i] = eventfd(0, EFD_NONBLOCK);
	}
	r->data_at = guest_alloc(&r->mem, 2 << 20, 4096);
	*state = r;
	return start_queues(r);
}

static int setup_with(void **state, uint64_t features)
{
	return setup_sized(state, features, 128);
}

static int setup_small(void **state)
{
	return setup_sized(state, ALL, RING_SMALL);
}

static int setup_all(void **state)
{
	return setup_with(state, ALL);
}

/* The least that a driver may accept; flags instead of event index. */
static int setup_least(void **state)
{
	return setup_with(state, 0);
}

static int setup_merge_only(void **state)
{
	return setup_with(state, RING | BIT(MRG_RXBUF));
}

static int teardown(void **state)
{
	struct rig *r = *state;

	net_stop(r->net);
	net_close(r->net);
	close(r->wire);
	for (unsigned i = 0; i < 2; i++) {
		close(r->kick[i]);
		close(r->call[i]);
		guest_ring_free(&r->rings[i]);
	}
	guest_mem_free(&r->mem);
	free(r);
	return 0;
}

static void kick(struct rig *r, unsigned queue)
{
	uint64_t one = 1;

	if (guest_wants_kick(&r->rings[queue]))
		assert_int_equal(write(r->kick[queue], &one, 8), 8);
}

static int wait_used(struct rig *r, unsigned queue, uint32_t *len)
{
	struct guest_ring *g = &r->rings[queue];
	int head;

	for (;;) {
		struct pollfd p = {r->call[queue], POLLIN, 0};
		uint64_t count;

		if (guest_take(g, &head, len))
			return head;
		if (guest_want_call(g))
			continue;
		if (poll(&p, 1, WAIT_MS) != 1)
			return -2;
		if (read(r->call[queue], &count, 8) < 0)
			continue;
	}
}

static uint8_t *data(struct rig *r)
{
	return r->mem.arena + r->data_at;
}

/* Sends [header, frame] in pieces of `piece` bytes; the used entry must say length 0. */
static void guest_send(struct rig *r, const struct virtio_net_hdr *hdr, const uint8_t *frame,
        size_t total, size_t piece)
{
	struct guest_buf bufs[100];
	unsigned count = 0;
	uint32_t len;
	int head;

	memcpy(data(r), hdr, HDR);
	if (total > HDR)
		memcpy(data(r) + HDR, frame, total - HDR);
	/* Apart in guest memory, so that they are not joined. */
	for (size_t at = total; at > 0;) {
		size_t first = (at - 1) / piece * piece;

		memmove(data(r) + first * 2, data(r) + first, at - first);
		at = first;
	}
	for (size_t at = 0; at < total; at += piece)
		bufs[count++] = (struct guest_buf){guest_gpa(r->data_at + at * 2),
		        (uint32_t)(total - at < piece ? total - at : piece), false};
	if (!count)
		bufs[count++] = (struct guest_buf){guest_gpa(r->data_at), 0, false};
	head = guest_add(&r->rings[1], bufs, count);
	assert_true(head >= 0);
	kick(r, 1);
	assert_int_equal(wait_used(r, 1, &len), head);
	assert_int_equal(len, 0);
}

static void send_good(struct rig *r, size_t piece, uint8_t seed)
{
	uint8_t frame[1514], got[2048];
	struct virtio_net_hdr hdr = {0};

	frame_fill(frame, 1000, 0x88b5, seed);
	guest_send(r, &hdr, frame, HDR + 1000, piece);
	assert_int_equal(wire_take(r, got, sizeof(got)), 1000);
	assert_memory_equal(got, frame, 1000);
}

/* Posts count buffers of that size for frames. */
/* Buffers first to first + count - 1, each with a place of its own. */
static void post_from(struct rig *r, unsigned first, unsigned count, uint32_t size)
{
	for (unsigned i = first; i < first + count; i++) {
		struct guest_buf buf = {guest_gpa(r->data_at + (1 << 20) + i * 8192), size, true};

		assert_true(guest_add(&r->rings[0], &buf, 1) >= 0);
	}
	kick(r, 0);
}

static void post(struct rig *r, unsigned count, uint32_t size)
{
	post_from(r, 0, count, size);
}

/* Takes a frame as a driver does: num_buffers from the first, then as many. Returns its bytes. */
static size_t guest_receive(struct rig *r, uint8_t *out, struct virtio_net_hdr *hdr)
{
	struct virtq_desc *d = ring_desc(&r->rings[0]);
	size_t size = 0;
	uint16_t buffers = 1;

	for (unsigned i = 0; i < buffers; i++) {
		const uint8_t *at;
		uint32_t len;
		int head = wait_used(r, 0, &len);

		if (head < 0)
			return 0;
		at = r->mem.arena + (d[head].addr - GUEST_BASE);
		if (!i) {
			memcpy(hdr, at, HDR);
			buffers = hdr->num_buffers;
			at += HDR;
			len -= HDR;
		} else {
			/* A batch is seen whole. */
			assert_true(i < buffers);
		}
		memcpy(out + size, at, len);
		size += len;
	}
	return size;
}

static struct net_stats stats_of(struct rig *r)
{
	struct net_stats s;

	net_stats_read(r->net, &s);
	return s;
}

static void receive_and_check(
        struct rig *r, size_t size, uint16_t type, uint8_t seed, uint16_t buffers)
{
	static uint8_t got[70000];
	uint8_t want[9100];
	struct virtio_net_hdr hdr;

	frame_fill(want, size, type, seed);
	assert_int_equal(guest_receive(r, got, &hdr), size);
	assert_memory_equal(got, want, size);
	assert_int_equal(hdr.num_buffers, buffers);
	assert_int_equal(hdr.gso_type, VIRTIO_NET_HDR_GSO_NONE);
}

/* Runs them in a network namespace of its own; 77: there is none to be had. */
static int run_with_tap(int (*run)(void))
{
	if (unshare(getuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET) || make_tap()) {
		printf("skipped: no network namespace or tap of one's own here: %s\n",
		        strerror(errno));
		return 77;
	}
	return run();
}

#define CASE(fn, how)                                                                              \
	{                                                                                          \
#fn " " #how, fn, how, teardown, NULL                                              \
	}
