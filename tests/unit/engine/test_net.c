/* SPDX-License-Identifier: BSD-2-Clause */
/* The network card as a guest sees it, on a tap in a network namespace of the test's own. */
/* sources: engine/net.c engine/net_tap.c engine/net_rx.c engine/net_tx.c engine/watch.c */
/* sources: engine/vring.c engine/memtable.c engine/iov.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

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

#define TAP     "keeltest0"
#define HDR     12u
#define WAIT_MS 20000
#define BIT(f)  VIRTIO_BIT(VIRTIO_NET_F_##f)
#define RING    (VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC) | VIRTIO_BIT(VIRTIO_F_EVENT_IDX))
#define ALL     (RING | BIT(CSUM) | BIT(GUEST_CSUM) | BIT(HOST_TSO4) | BIT(GUEST_TSO4) | BIT(MRG_RXBUF))

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

static int setup_with(void **state, uint64_t features)
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
		guest_ring_init(&r->rings[i], &r->mem, 128, features);
		r->kick[i] = eventfd(0, EFD_NONBLOCK);
		r->call[i] = eventfd(0, EFD_NONBLOCK);
	}
	r->data_at = guest_alloc(&r->mem, 2 << 20, 4096);
	*state = r;
	return start_queues(r);
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
static void post(struct rig *r, unsigned count, uint32_t size)
{
	for (unsigned i = 0; i < count; i++) {
		struct guest_buf buf = {guest_gpa(r->data_at + (1 << 20) + i * 8192), size, true};

		assert_true(guest_add(&r->rings[0], &buf, 1) >= 0);
	}
	kick(r, 0);
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

/* ---- from the guest (C-27) ------------------------------------------------------------------- */

static void test_send(void **state)
{
	struct rig *r = *state;

	send_good(r, 4096, 1);
	send_good(r, 12,
	        2); /* the header alone, then pieces of 12: more than the tap takes at once */
	send_good(r, 100, 3); /* header and frame begin together */
	for (unsigned i = 0; i < 300; i++)
		send_good(r, 600, (uint8_t)i);
	assert_int_equal(stats_of(r).tx_frames, 303);
	assert_int_equal(stats_of(r).tx_bytes, 303000);
}

static void test_send_bad_sizes(void **state)
{
	struct rig *r = *state;
	static const size_t totals[] = {0, 4, 11, 12, 13, 14, 25, 70000};
	uint8_t *frame = calloc(1, 70000);
	struct virtio_net_hdr hdr = {0};

	for (unsigned i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
		guest_send(r, &hdr, frame, totals[i], 4096);
		assert_int_equal(stats_of(r).tx_dropped_size, i + 1);
		send_good(r, 600, (uint8_t)i);
	}
	free(frame);
}

static void test_send_bad_headers(void **state)
{
	struct rig *r = *state;
	static const struct virtio_net_hdr bad[] = {
	        {1, 1, 54, 0, 34, 16, 0},        /* TSO with gso_size 0 */
	        {0, 1, 54, 1448, 34, 16, 0},     /* TSO without a checksum */
	        {1, 0, 0, 0, 1000, 0, 0},        /* csum_start past the end */
	        {1, 0, 0, 0, 998, 1, 0},         /* the checksum's second byte is past the end */
	        {1, 0, 0, 0, 0xffff, 0xffff, 0}, /* a sum that would wrap 16 bits */
	        {1, 2, 54, 1448, 34, 16, 0},     /* unknown type */
	        {1, 3, 54, 1448, 34, 16, 0},     /* UDP fragmentation: not offered */
	        {1, 4, 54, 1448, 34, 16, 0},     /* TSO6: not accepted */
	        {1, 0x81, 54, 1448, 34, 16, 0},  /* ECN: not accepted */
	        {1, 0x80, 54, 1448, 34, 16, 0},  /* ECN of nothing */
	};
	uint8_t frame[1000];

	frame_fill(frame, sizeof(frame), 0x88b5, 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		guest_send(r, &bad[i], frame, HDR + 1000, 4096);
		assert_int_equal(stats_of(r).tx_dropped_header, i + 1);
		send_good(r, 600, (uint8_t)i);
	}
	/* Fields that mean nothing, and flags that nobody knows, are ignored. */
	guest_send(r, &(struct virtio_net_hdr){0xfe, 0, 999, 77, 5000, 6000, 9}, frame, HDR + 1000,
	        4096);
	assert_int_equal(wire_take(r, frame, sizeof(frame)), 1000);
}

static void test_send_not_negotiated(void **state)
{
	struct rig *r = *state;
	uint8_t frame[1000] = {0};

	guest_send(r, &(struct virtio_net_hdr){1, 0, 0, 0, 34, 16, 0}, frame, HDR + 1000, 4096);
	guest_send(r, &(struct virtio_net_hdr){1, 1, 54, 1448, 34, 16, 0}, frame, HDR + 1000, 4096);
	assert_int_equal(stats_of(r).tx_dropped_header, 2);
	send_good(r, 600, 1);
}

static void test_send_outside(void **state)
{
	struct rig *r = *state;
	struct guest_buf bufs[2] = {{guest_gpa(r->data_at), 12, false}, {0xfe000000, 1000, false}};
	uint32_t len;

	assert_true(guest_add(&r->rings[1], bufs, 2) >= 0);
	kick(r, 1);
	assert_true(wait_used(r, 1, &len) >= 0);
	assert_int_equal(stats_of(r).tx_bad_chains, 1);
	send_good(r, 600, 1);
}

/* A checksum or a segmentation that the guest left to the device reaches the host as one to be
 * done. */
static void test_send_offloads(void **state)
{
	struct rig *r = *state;
	static const struct virtio_net_hdr hdrs[] = {
	        {1, 0, 0, 0, 34, 16, 0}, {1, 1, 54, 1448, 34, 16, 0}};
	uint8_t frame[4000] = {0}, got[4100];

	close(r->wire);
	r->wire = wire_open(true);
	frame_fill(frame, 14, 0x0800, 0);
	frame[14] = 0x45;
	frame[16] = (sizeof(frame) - 14) >> 8;
	frame[17] = (sizeof(frame) - 14) & 0xff;
	frame[22] = 64;
	frame[23] = 6;
	frame[46] = 0x50;
	for (unsigned i = 0; i < 2; i++) {
		struct virtio_net_hdr seen = {0};

		guest_send(r, &hdrs[i], frame, HDR + sizeof(frame), 1500);
		assert_int_equal(wire_take(r, got, sizeof(got)), 10 + sizeof(frame));
		memcpy(&seen, got, 10);
		assert_int_equal(seen.flags & 1, 1);
		assert_int_equal(seen.csum_start, 34);
		assert_int_equal(seen.csum_offset, 16);
		assert_int_equal(seen.gso_type, hdrs[i].gso_type);
		assert_int_equal(seen.gso_size, hdrs[i].gso_size);
		assert_memory_equal(got + 10, frame, sizeof(frame));
	}
}

/* ---- to the guest (C-26, C-30) --------------------------------------------------------------- */

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

static void test_receive(void **state)
{
	struct rig *r = *state;

	post(r, 100, 1536);
	for (uint8_t i = 0; i < 90; i++) {
		wire_send(r, 60 + i * 10u, 0x88b5, i);
		receive_and_check(r, 60 + i * 10u, 0x88b5, i, 1);
	}
	assert_int_equal(stats_of(r).rx_frames, 90);
}

static void test_receive_late_buffers(void **state)
{
	struct rig *r = *state;

	for (uint8_t i = 0; i < 10; i++)
		wire_send(r, 200, 0x88b5, i);
	post(r, 4, 1536);
	for (uint8_t i = 0; i < 4; i++)
		receive_and_check(r, 200, 0x88b5, i, 1);
	post(r, 10, 1536);
	for (uint8_t i = 4; i < 10; i++)
		receive_and_check(r, 200, 0x88b5, i, 1);
}

static void test_receive_too_long(void **state)
{
	struct rig *r = *state;

	post(r, 20, 1526);
	wire_send(r, 9000, 0x88b5, 1);
	wire_send(r, 64, 0x88b5, 2);
	receive_and_check(r, 64, 0x88b5, 2, 1);
	wire_send(r, 1514, 0x88b5, 3);
	receive_and_check(r, 1514, 0x88b5, 3, 1);
	wire_send(r, 1515, 0x88b5, 4);
	wire_send(r, 70, 0x88b5, 5);
	receive_and_check(r, 70, 0x88b5, 5, 1);
	assert_int_equal(stats_of(r).rx_dropped_size, 2);
}

static void test_receive_merged(void **state)
{
	struct rig *r = *state;

	post(r, 30, 1536);
	/* The first long one comes as a surprise (overflow), the second is expected. */
	for (uint8_t i = 0; i < 3; i++) {
		wire_send(r, 9000, 0x88b5, i);
		receive_and_check(r, 9000, 0x88b5, i, 6);
	}
	wire_send(r, 64, 0x88b5, 9);
	receive_and_check(r, 64, 0x88b5, 9, 1);
	wire_send(r, 1525, 0x88b5, 9); /* one byte more than the first buffer has room for */
	receive_and_check(r, 1525, 0x88b5, 9, 2);
}

static void test_receive_merged_full(void **state)
{
	struct rig *r = *state;

	post(r, 3, 1536);
	wire_send(r, 9000, 0x88b5, 1);
	wire_send(r, 64, 0x88b5, 2);
	receive_and_check(r, 64, 0x88b5, 2, 1);
	assert_int_equal(stats_of(r).rx_dropped_full, 1);
}

static void test_receive_bad_buffers(void **state)
{
	struct rig *r = *state;
	struct guest_buf tiny = {guest_gpa(r->data_at), 11, true};
	struct guest_buf outside = {0xfe000000, 1536, true};
	struct guest_buf readable = {guest_gpa(r->data_at), 1536, false};
	uint32_t len;

	assert_true(guest_add(&r->rings[0], &tiny, 1) >= 0);
	assert_true(guest_add(&r->rings[0], &outside, 1) >= 0);
	assert_true(guest_add(&r->rings[0], &readable, 1) >= 0);
	kick(r, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(wait_used(r, 0, &len) >= 0);
		assert_int_equal(len, 0);
	}
	assert_int_equal(stats_of(r).rx_bad_chains, 3);
	post(r, 2, 1536);
	wire_send(r, 64, 0x88b5, 2);
	receive_and_check(r, 64, 0x88b5, 2, 1);
}

/* Tagged frames come as they are: no control queue, no filter. */
static void test_receive_vlan(void **state)
{
	struct rig *r = *state;

	post(r, 8, 1536);
	for (unsigned tag = 0; tag < 4; tag++) {
		static const uint16_t tags[] = {0, 100, 4095, 100};
		uint8_t frame[200], got[2048];
		struct virtio_net_hdr hdr;

		frame_fill(frame, sizeof(frame), 0x8100, 3);
		frame[14] = (uint8_t)(tags[tag] >> 8);
		frame[15] = (uint8_t)tags[tag];
		frame[16] = tag == 3 ? 0x81 : 0x88; /* the last has two tags */
		frame[17] = tag == 3 ? 0x00 : 0xb5;
		assert_int_equal(send(r->wire, frame, sizeof(frame), 0), sizeof(frame));
		assert_int_equal(guest_receive(r, got, &hdr), sizeof(frame));
		assert_memory_equal(got, frame, sizeof(frame));
	}
}

/* An IPv4 TCP segment of `payload` bytes, to be cut by whoever cannot take it whole. */
static void wire_send_tso(size_t payload)
{
	static uint8_t packet[70000];
	struct virtio_net_hdr hdr = {1, 1, 54, 1448, 34, 16, 0};
	uint8_t *ip = packet + 10 + 14, *tcp = ip + 20;
	uint16_t total = htons((uint16_t)(40 + payload));
	int wire = wire_open(true);

	memset(packet, 0, sizeof(packet));
	memcpy(packet, &hdr, 10);
	frame_fill(packet + 10, 14, 0x0800, 0);
	ip[0] = 0x45;
	memcpy(ip + 2, &total, 2);
	ip[8] = 64;
	ip[9] = 6;
	ip[12] = ip[16] = 10;
	tcp[12] = 0x50;
	for (size_t i = 0; i < payload; i++)
		tcp[20 + i] = (uint8_t)(i % 253);
	assert_int_equal(send(wire, packet, 10 + 54 + payload, 0), 10 + 54 + payload);
	close(wire);
}

static void test_receive_tso_cut(void **state)
{
	struct rig *r = *state;
	uint8_t got[9100];
	struct virtio_net_hdr hdr;
	size_t payload = 0;

	post(r, 40, 1526);
	wire_send_tso(14480);
	while (payload < 14480) {
		size_t size = guest_receive(r, got, &hdr);

		assert_true(size > 54 && size <= 1514);
		assert_int_equal(hdr.gso_type, 0);
		assert_int_equal(hdr.num_buffers, 1);
		for (size_t i = 54; i < size; i++)
			assert_int_equal(got[i], (payload + i - 54) % 253);
		payload += size - 54;
	}
	wire_send(r, 64, 0x88b5, 2);
	receive_and_check(r, 64, 0x88b5, 2, 1);
}

static void test_receive_tso_whole(void **state)
{
	struct rig *r = *state;
	uint8_t *got = malloc(70000);
	struct virtio_net_hdr hdr;

	post(r, 100, 1536);
	for (unsigned i = 0; i < 2; i++) {
		wire_send_tso(60000);
		assert_int_equal(guest_receive(r, got, &hdr), 60054);
		assert_int_equal(hdr.gso_type, VIRTIO_NET_HDR_GSO_TCPV4);
		assert_int_equal(hdr.gso_size, 1448);
		assert_int_equal(hdr.num_buffers, 40);
		for (size_t k = 0; k < 60000; k++)
			assert_int_equal(got[54 + k], k % 253);
	}
	free(got);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Stopped with buffers taken; a new attach gets them again, tells the bridges, and goes on (C-49).
 */
static void test_resume(void **state)
{
	struct rig *r = *state;
	struct guest_buf buf = {guest_gpa(r->data_at), HDR + 60, false};
	uint8_t got[2048];
	uint32_t len;

	post(r, 20, 1536);
	wire_send(r, 64, 0x88b5, 1);
	receive_and_check(r, 64, 0x88b5, 1, 1);
	net_stop(r->net);
	/* While nobody serves: a frame each way, and no kick that anyone remembers. */
	wire_send(r, 65, 0x88b5, 2);
	memset(data(r), 0, HDR);
	frame_fill(data(r) + HDR, 60, 0x88b5, 7);
	assert_true(guest_add(&r->rings[1], &buf, 1) >= 0);
	assert_int_equal(start_queues(r), 0);
	receive_and_check(r, 65, 0x88b5, 2, 1);
	assert_int_equal(wire_take(r, got, sizeof(got)), 60);
	assert_int_equal(got[12] << 8 | got[13], 0x8035);
	assert_memory_equal(got + 6, mac, 6);
	assert_memory_equal(got + 22, mac, 6);
	assert_int_equal(wire_take(r, got, sizeof(got)), 60);
	assert_int_equal(got[12] << 8 | got[13], 0x88b5);
	assert_true(wait_used(r, 1, &len) >= 0);
	for (uint8_t i = 0; i < 18; i++) {
		wire_send(r, 100, 0x88b5, i);
		receive_and_check(r, 100, 0x88b5, i, 1);
	}
	assert_int_equal(stats_of(r).announced, 1);
}

static void test_fresh_is_not_announced(void **state)
{
	struct rig *r = *state;

	send_good(r, 600, 1);
	assert_int_equal(stats_of(r).announced, 0);
}

static void test_broken(void **state)
{
	struct rig *r = *state;
	uint64_t one = 1;

	guest_publish_head(&r->rings[1], 500);
	assert_int_equal(write(r->kick[1], &one, 8), 8);
	while (!atomic_load(&r->broken))
		sched_yield();
	/* The other direction lives. */
	post(r, 4, 1536);
	wire_send(r, 64, 0x88b5, 2);
	receive_and_check(r, 64, 0x88b5, 2, 1);
}

static void test_config_space(void **state)
{
	struct rig *r = *state;
	struct virtio_net_config c;

	net_config_space(r->net, &c);
	assert_memory_equal(c.mac, mac, 6);
	assert_int_equal(c.status, VIRTIO_NET_S_LINK_UP);
	assert_int_equal(c.mtu, 9000);
	assert_false(net_features(r->net) & (BIT(CTRL_VQ) | BIT(GUEST_UFO) | BIT(HOST_UFO)));
}

static void test_refusals(void **state)
{
	struct rig *r = *state;
	struct net_config c = {.tap = TAP, .events = {r, on_call, on_broken, on_log}};
	struct net *net;
	char error[256];

	assert_int_equal(net_open(&net, &c, error, sizeof(error)), -EBUSY);
	assert_non_null(strstr(error, TAP));
	assert_non_null(strstr(error, "in use"));
	c.tap = "keelnone7";
	assert_int_equal(net_open(&net, &c, error, sizeof(error)), -ENODEV);
	assert_non_null(strstr(error, "keelnone7"));
	assert_int_equal(if_nametoindex("keelnone7"), 0);
	c.tap = "lo";
	assert_int_equal(net_open(&net, &c, error, sizeof(error)), -EINVAL);
	assert_null(net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(fn, how) {#fn " " #how, fn, how, teardown, NULL}
	        CASE(test_send, setup_all),
	        CASE(test_send, setup_least),
	        CASE(test_send_bad_sizes, setup_all),
	        CASE(test_send_bad_headers, setup_all),
	        CASE(test_send_not_negotiated, setup_least),
	        CASE(test_send_outside, setup_all),
	        CASE(test_send_offloads, setup_all),
	        CASE(test_receive, setup_all),
	        CASE(test_receive, setup_least),
	        CASE(test_receive_late_buffers, setup_all),
	        CASE(test_receive_late_buffers, setup_least),
	        CASE(test_receive_too_long, setup_least),
	        CASE(test_receive_merged, setup_all),
	        CASE(test_receive_merged, setup_merge_only),
	        CASE(test_receive_merged_full, setup_all),
	        CASE(test_receive_bad_buffers, setup_all),
	        CASE(test_receive_vlan, setup_all),
	        CASE(test_receive_tso_cut, setup_least),
	        CASE(test_receive_tso_whole, setup_all),
	        CASE(test_resume, setup_all),
	        CASE(test_resume, setup_least),
	        CASE(test_fresh_is_not_announced, setup_all),
	        CASE(test_broken, setup_all),
	        CASE(test_config_space, setup_all),
	        CASE(test_refusals, setup_all),
	};

	if (unshare(getuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET) || make_tap()) {
		printf("skipped: no network namespace or tap of one's own here: %s\n",
		        strerror(errno));
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
