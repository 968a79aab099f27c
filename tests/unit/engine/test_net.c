/* SPDX-License-Identifier: BSD-2-Clause */
/* The network card as a guest sees it, on a tap in a network namespace of the test's own. */
/* sources: engine/net.c engine/net_tap.c engine/net_rx.c engine/net_tx.c engine/watch.c */
/* sources: engine/vring.c engine/memtable.c engine/iov.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/unit/engine/net_rig.h"

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

static int run(void)
{
	const struct CMUnitTest tests[] = {
	        CASE(test_send, setup_all),
	        CASE(test_send, setup_least),
	        CASE(test_send_bad_sizes, setup_all),
	        CASE(test_send_bad_headers, setup_all),
	        CASE(test_send_not_negotiated, setup_least),
	        CASE(test_send_outside, setup_all),
	        CASE(test_send_offloads, setup_all),
	        CASE(test_resume, setup_all),
	        CASE(test_resume, setup_least),
	        CASE(test_fresh_is_not_announced, setup_all),
	        CASE(test_broken, setup_all),
	        CASE(test_config_space, setup_all),
	        CASE(test_refusals, setup_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	return run_with_tap(run);
}
