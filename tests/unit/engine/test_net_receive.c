/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames to the guest (C-26, C-30), on a tap in a network namespace of the test's own. */
/* sources: engine/net.c engine/net_tap.c engine/net_rx.c engine/net_tx.c engine/watch.c */
/* sources: engine/vring.c engine/memtable.c engine/iov.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/unit/engine/net_rig.h"

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

/* A long frame when there are three short buffers, read from the tap and held. */
static void hold_a_frame(struct rig *r)
{
	unsigned long before = frames_read();

	post(r, 3, 1536);
	wire_send(r, 9000, 0x88b5, 1);
	while (frames_read() == before)
		sched_yield();
}

/* A long frame that is dropped, and the short one behind it, which comes. */
static void long_is_dropped(struct rig *r)
{
	wire_send(r, 9000, 0x88b5, 1);
	wire_send(r, 64, 0x88b5, 2);
	receive_and_check(r, 64, 0x88b5, 2, 1);
	assert_int_equal(stats_of(r).rx_dropped_full, 1);
}

/* A frame that has too few buffers waits for more, and nothing behind it is lost or early. */
static void test_receive_merged_waits(void **state)
{
	struct rig *r = *state;

	hold_a_frame(r);
	wire_send(r, 64, 0x88b5, 2);
	post_from(r, 3, 2, 1536);
	post_from(r, 5, 1, 1536);
	receive_and_check(r, 9000, 0x88b5, 1, 6);
	post_from(r, 6, 1, 1536);
	receive_and_check(r, 64, 0x88b5, 2, 1);
	assert_int_equal(stats_of(r).rx_dropped_full, 0);
}

/* Stopped meanwhile: the frame is lost, its buffers are the next one's. */
static void test_receive_merged_stopped(void **state)
{
	struct rig *r = *state;

	hold_a_frame(r);
	net_stop(r->net);
	assert_int_equal(start_queues(r), 0);
	wire_send(r, 64, 0x88b5, 2);
	receive_and_check(r, 64, 0x88b5, 2, 1);
}

/* A driver that posts no more does not stop reception for ever. */
static void test_receive_merged_gives_up(void **state)
{
	struct rig *r = *state;

	post(r, 3, 1536);
	long_is_dropped(r);
}

/* All that a ring can hold is not enough: there is nothing to wait for. */
static void test_receive_merged_full(void **state)
{
	struct rig *r = *state;

	post(r, RING_SMALL, 1024);
	long_is_dropped(r);
}

/* Nor where there are more of them than are taken at once. */
static void test_receive_merged_many(void **state)
{
	struct rig *r = *state;

	post(r, 120, 76);
	long_is_dropped(r);
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

static int run(void)
{
	const struct CMUnitTest tests[] = {
	        CASE(test_receive, setup_all),
	        CASE(test_receive, setup_least),
	        CASE(test_receive_late_buffers, setup_all),
	        CASE(test_receive_late_buffers, setup_least),
	        CASE(test_receive_too_long, setup_least),
	        CASE(test_receive_merged, setup_all),
	        CASE(test_receive_merged, setup_merge_only),
	        CASE(test_receive_merged_waits, setup_all),
	        CASE(test_receive_merged_stopped, setup_all),
	        CASE(test_receive_merged_gives_up, setup_all),
	        CASE(test_receive_merged_full, setup_small),
	        CASE(test_receive_merged_many, setup_all),
	        CASE(test_receive_bad_buffers, setup_all),
	        CASE(test_receive_vlan, setup_all),
	        CASE(test_receive_tso_cut, setup_least),
	        CASE(test_receive_tso_whole, setup_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	return run_with_tap(run);
}
