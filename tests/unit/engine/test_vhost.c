/* SPDX-License-Identifier: BSD-2-Clause */
/* keel-blk by the vhost-user protocol: what it offers, what it refuses, and changes while it runs.
 */
/* sources: blkd/daemon.c blkd/options.c blkd/listen.c engine/vhost_server.c engine/vhost_ring.c */
/* sources: engine/vhost_inflight.c engine/vhost_memory.c engine/vhost_msg.c */
/* sources: engine/blk.c engine/blk_file.c engine/blk_settled.c engine/blk_req.c */
/* sources: engine/blk_io.c engine/blk_queue.c engine/blk_ring.c */
/* sources: engine/blk_held.c engine/blk_throttle.c engine/blk_poll.c */
/* sources: engine/blk_workers.c engine/blk_probe.c */
/* sources: engine/watch.c engine/vring.c engine/memtable.c engine/iov.c */
/* sources: bench/lib/queue.c bench/ring/load.c bench/lib/hist.c */
/* libs: -luring */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sched.h>

/* For its messages. */
#include "bench/ring/front.c"
#include "tests/unit/engine/vhost_rig.h"

#define DISK_BYTES (4 << 20)
#define DEPTH      16u

enum { GET_MAX_MEM_SLOTS = 36, ADD_MEM_REG = 37, REM_MEM_REG = 38 };

struct rig {
	struct vhost_rig v;
	struct front f;
	struct load load;
};

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct front_config c = {.queue_count = 2, .queue_size = 64, .mem_bytes = 4 << 20};

	vhost_rig_init(&r->v, DISK_BYTES);
	c.path = r->v.socket;
	if (front_init(&r->f, &c))
		return -1;
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	load_free(&r->load);
	if (r->v.child > 0)
		vhost_rig_end(&r->v, SIGKILL);
	front_free(&r->f);
	vhost_rig_free(&r->v);
	free(r);
	return 0;
}

static void start(struct rig *r, const char *option)
{
	struct load_config c = {.depth = DEPTH,
	        .bytes = 4096,
	        .read_percent = 50,
	        .verify = true,
	        .block_count = DISK_BYTES / 4096};

	vhost_rig_spawn(&r->v, option);
	if (front_connect(&r->f, RIG_CONNECT_MS))
		fail_msg("%s", r->f.error);
	assert_int_equal(load_init(&r->load, &r->f, 0, &c), 0);
}

/* So many verified requests, and then none in flight. */
static void work(struct rig *r, unsigned count)
{
	uint64_t until = r->load.done + count;

	while (r->load.done < until || load_in_flight(&r->load)) {
		if (r->load.done < until)
			load_fill(&r->load);
		if (load_take(&r->load) < 0)
			fail_msg("%s", r->load.error);
		if (load_in_flight(&r->load) && !queue_want_call(r->load.q))
			assert_true(queue_wait(r->load.q, RIG_CONNECT_MS));
	}
}

static void end(struct rig *r)
{
	if (front_stop(&r->f))
		fail_msg("%s", r->f.error);
	assert_int_equal(vhost_rig_end(&r->v, SIGTERM), 0);
	if (load_verify_file(&r->load, r->v.disk))
		fail_msg("%s", r->load.error);
}

static void test_serves(void **state)
{
	struct rig *r = *state;
	uint64_t queues;

	start(r, NULL);
	assert_int_equal(r->f.capacity, DISK_BYTES / 512);
	assert_int_equal(ask_u64(&r->f, GET_QUEUE_NUM, &queues), 0);
	assert_int_equal(queues, 2);
	work(r, 500);
	end(r);
	/* The socket is gone with it. */
	assert_int_equal(access(r->v.socket, F_OK), -1);
}

/* A call descriptor that nobody empties, and whose writer would sleep, holds nothing up. */
static void test_full_call_descriptor(void **state)
{
	struct rig *r = *state;
	uint64_t full = UINT64_MAX - 1, give_up_ns;
	int fd = eventfd(0, EFD_CLOEXEC), device_fd;

	start(r, NULL);
	assert_int_equal(write(fd, &full, sizeof(full)), sizeof(full));
	device_fd = dup(fd);
	assert_int_equal(tell_u64(&r->f, SET_VRING_CALL, 0, device_fd), 0);
	close(device_fd);
	give_up_ns = clock_ns() + 20000000000ull;
	for (unsigned i = 0; i < 20; i++) {
		load_fill(&r->load);
		while (load_in_flight(&r->load)) {
			queue_want_call(r->load.q);
			assert_true(load_take(&r->load) >= 0);
			assert_true(clock_ns() < give_up_ns);
			sched_yield();
		}
	}
	close(fd);
	end(r);
}

static void test_one_front_end_after_another(void **state)
{
	struct rig *r = *state;

	start(r, NULL);
	work(r, 100);
	/* One leaves without a word, with requests under way. */
	load_fill(&r->load);
	front_drop(&r->f);
	if (front_connect(&r->f, RIG_CONNECT_MS))
		fail_msg("%s", r->f.error);
	work(r, 100);
	if (front_stop(&r->f) || front_connect(&r->f, RIG_CONNECT_MS))
		fail_msg("%s", r->f.error);
	work(r, 100);
	end(r);
}

static void test_running_queue_keeps_what_it_has(void **state)
{
	struct rig *r = *state;
	struct message m = {.request = SET_VRING_ADDR, .bytes = 40};

	start(r, NULL);
	work(r, 1);
	/* C-13 */
	assert_int_equal(tell_state(&r->f, SET_VRING_NUM, 0, 128), -1);
	assert_int_equal(tell_state(&r->f, SET_VRING_NUM, 0, 0), -1);
	assert_int_equal(tell_state(&r->f, SET_VRING_NUM, 0, 3), -1);
	assert_int_equal(tell_state(&r->f, SET_VRING_NUM, 0, 32768), -1);
	assert_int_equal(tell_state(&r->f, SET_VRING_BASE, 0, 7), -1);
	m.u.addr.desc = (uint64_t)(uintptr_t)r->f.mem + (1 << 20);
	assert_int_equal(tell(&r->f, &m, -1), -1);
	/* Queues that are not there. */
	assert_int_equal(tell_state(&r->f, SET_VRING_NUM, 2, 64), -1);
	assert_int_equal(tell_state(&r->f, SET_VRING_ENABLE, 0xffff, 1), -1);
	assert_int_equal(tell_u64(&r->f, SET_VRING_CALL, 77, r->f.queues[0].call_fd), -1);
	work(r, 200);
	end(r);
}

static void test_disabled_queue_rests(void **state)
{
	struct rig *r = *state;

	start(r, NULL);
	work(r, 10);
	assert_int_equal(tell_state(&r->f, SET_VRING_ENABLE, 0, 0), 0);
	load_fill(&r->load);
	assert_false(queue_wait(r->load.q, 50) && load_take(&r->load));
	assert_int_equal(tell_state(&r->f, SET_VRING_ENABLE, 0, 1), 0);
	work(r, 100);
	end(r);
}

static void test_bad_ring_is_told(void **state)
{
	struct rig *r = *state;
	struct message m = {.request = SET_VRING_ADDR, .bytes = 40};
	struct message base = {.request = GET_VRING_BASE, .bytes = 8, .u.state = {1, 0}};

	start(r, NULL);
	assert_int_equal(message_send(&r->f, &base, -1), 0);
	assert_int_equal(message_receive(&r->f, &base, NULL), 0);
	m.u.addr.index = 1;
	m.u.addr.desc = 0x1000; /* nobody's memory */
	m.u.addr.avail = (uint64_t)(uintptr_t)r->f.queues[1].avail;
	m.u.addr.used = (uint64_t)(uintptr_t)r->f.queues[1].used;
	assert_int_equal(tell(&r->f, &m, -1), 0);
	assert_int_equal(tell_u64(&r->f, SET_VRING_KICK, 1, r->f.queues[1].kick_fd), -1);
	/* And then rightly. */
	assert_int_equal(queue_share(&r->f, &r->f.queues[1]), 0);
	work(r, 100);
	end(r);
}

static void test_config_space(void **state)
{
	struct rig *r = *state;
	struct message m = {.request = GET_CONFIG, .bytes = CONFIG_HEAD_BYTES};
	uint8_t byte = 0, last[4];

	start(r, NULL);
	assert_int_equal(front_read_config(&r->f, &byte, CONFIG_WRITEBACK, 1), 0);
	assert_int_equal(byte, 1);
	assert_int_equal(front_set_writeback(&r->f, false), 0);
	assert_int_equal(front_read_config(&r->f, &byte, CONFIG_WRITEBACK, 1), 0);
	assert_int_equal(byte, 0);
	assert_int_equal(front_read_config(&r->f, last, 252, 4), 0);
	/* Past the end: an empty answer. */
	m.u.config.offset = 250;
	m.u.config.bytes = 10;
	m.bytes = CONFIG_HEAD_BYTES + 10;
	assert_int_equal(message_send(&r->f, &m, -1), 0);
	assert_int_equal(message_receive(&r->f, &m, NULL), 0);
	assert_int_equal(m.bytes, 0);
	/* A field that is not the driver's. */
	m = (struct message){.request = SET_CONFIG, .bytes = CONFIG_HEAD_BYTES + 1};
	m.u.config.bytes = 1;
	assert_int_equal(tell(&r->f, &m, -1), -1);
	work(r, 50);
	end(r);
}

static void test_write_through_outlives_the_process(void **state)
{
	struct rig *r = *state;
	uint8_t byte = 9;

	start(r, NULL);
	assert_int_equal(front_set_writeback(&r->f, false), 0);
	vhost_rig_end(&r->v, SIGKILL);
	front_drop(&r->f);
	vhost_rig_spawn(&r->v, NULL);
	if (front_connect(&r->f, RIG_CONNECT_MS))
		fail_msg("%s", r->f.error);
	assert_int_equal(front_read_config(&r->f, &byte, CONFIG_WRITEBACK, 1), 0);
	assert_int_equal(byte, 0);
	work(r, 50);
	end(r);
}

static void test_grows_while_in_use(void **state)
{
	struct rig *r = *state;
	uint32_t head[3];

	/* C-25 */
	start(r, NULL);
	work(r, 50);
	assert_int_equal(truncate(r->v.disk, 2 * DISK_BYTES), 0);
	load_fill(&r->load);
	kill(r->v.child, SIGHUP);
	assert_int_equal(recv(r->f.backend_fd, head, 12, MSG_WAITALL), 12);
	assert_int_equal(head[0], 2);
	assert_int_equal(head[2], 0);
	assert_int_equal(front_read_capacity(&r->f), 0);
	assert_int_equal(r->f.capacity, 2 * DISK_BYTES / 512);
	work(r, 20);
	/* Nothing changed: nothing is told. */
	kill(r->v.child, SIGHUP);
	assert_int_equal(front_read_capacity(&r->f), 0);
	assert_int_equal(recv(r->f.backend_fd, head, 12, MSG_DONTWAIT), -1);
	load_free(&r->load);
	assert_int_equal(load_init(&r->load, &r->f, 0,
	                         &(struct load_config){.depth = DEPTH,
	                                 .bytes = 4096,
	                                 .verify = true,
	                                 .first_block = DISK_BYTES / 4096,
	                                 .block_count = DISK_BYTES / 4096}),
	        0);
	work(r, 100);
	end(r);
}

static int tell_region(struct rig *r, uint32_t request, uint64_t gpa, uint64_t bytes, int fd)
{
	struct {
		uint32_t request, flags, bytes;
		uint64_t padding;
		struct region region;
	} __attribute__((packed)) raw = {request, 0, 40, 0, {gpa, bytes, gpa << 8, 0}};
	struct message m = {0};

	memcpy(&m, &raw, sizeof(raw));
	return tell(&r->f, &m, fd);
}

static void test_memory_changes_while_running(void **state)
{
	struct rig *r = *state;
	int fd = memfd_create("more", MFD_CLOEXEC);
	uint64_t slots = 0;

	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	start(r, NULL);
	r->f.protocol_features |= BIT(15);
	assert_int_equal(tell_u64(&r->f, SET_PROTOCOL_FEATURES, r->f.protocol_features, -1), 0);
	assert_int_equal(ask_u64(&r->f, GET_MAX_MEM_SLOTS, &slots), 0);
	assert_int_equal(slots, 32);
	for (unsigned i = 1; i < slots; i++) {
		load_fill(&r->load);
		assert_int_equal(tell_region(r, ADD_MEM_REG, i << 24, 1 << 20, fd), 0);
		work(r, 10);
	}
	assert_int_equal(tell_region(r, ADD_MEM_REG, 32 << 24, 1 << 20, fd), -1);
	load_fill(&r->load);
	assert_int_equal(tell_region(r, REM_MEM_REG, 5 << 24, 1 << 20, -1), 0);
	assert_int_equal(tell_region(r, REM_MEM_REG, 5 << 24, 1 << 20, -1), -1);
	/* Over another one, past its file, empty, and round the end of the address space. */
	assert_int_equal(tell_region(r, ADD_MEM_REG, (6 << 24) + 4096, 4096, fd), -1);
	assert_int_equal(tell_region(r, ADD_MEM_REG, 5 << 24, 2 << 20, fd), -1);
	assert_int_equal(tell_region(r, ADD_MEM_REG, 5 << 24, 0, fd), -1);
	assert_int_equal(tell_region(r, ADD_MEM_REG, -4096ull, 8192, fd), -1);
	assert_int_equal(tell_region(r, ADD_MEM_REG, (5 << 24) + 512, 4096, fd), -1);
	assert_int_equal(tell_region(r, ADD_MEM_REG, 5 << 24, 1 << 20, -1), -1);
	work(r, 100);
	load_fill(&r->load);
	assert_int_equal(memory_share(&r->f), 0);
	work(r, 100);
	end(r);
	close(fd);
}

static void test_refuses_bad_inflight(void **state)
{
	struct rig *r = *state;
	struct message m = {.request = SET_INFLIGHT_FD, .bytes = 24};
	struct message ask = {.request = GET_INFLIGHT_FD, .bytes = 24};

	vhost_rig_spawn(&r->v, NULL);
	assert_int_equal(socket_connect(&r->f, RIG_CONNECT_MS), 0);
	assert_int_equal(features_agree(&r->f, 0), 0);
	ask.u.inflight.queues = 3;
	ask.u.inflight.queue_size = 64;
	assert_int_equal(message_send(&r->f, &ask, -1), 0);
	assert_int_equal(message_receive(&r->f, &ask, NULL), 0);
	assert_int_equal(ask.u.inflight.size, 0);
	m.u.inflight.queues = 2;
	m.u.inflight.queue_size = 64;
	m.u.inflight.size = 1 << 30; /* larger than its file */
	assert_int_equal(tell(&r->f, &m, r->f.mem_fd), -1);
	m = (struct message){.request = SET_INFLIGHT_FD, .bytes = 24};
	m.u.inflight.queues = 2;
	m.u.inflight.queue_size = 64;
	m.u.inflight.size = 512; /* too small for two queues */
	assert_int_equal(tell(&r->f, &m, r->f.mem_fd), -1);
}

/* Messages that are none: the connection ends, the daemon does not. */
static void test_garbage(void **state)
{
	static const uint32_t heads[][3] = {
	        {1, 0, 0}, {1, 1, 0xffffffff}, {0, 1, 0}, {200, 1, 0}, {6, 1, 8}, {2, 1, 4}};
	struct rig *r = *state;
	char byte;

	vhost_rig_spawn(&r->v, NULL);
	for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		assert_int_equal(socket_connect(&r->f, RIG_CONNECT_MS), 0);
		assert_int_equal(send(r->f.conn, heads[i], 12, 0), 12);
		if (heads[i][2] && heads[i][2] < 64)
			assert_int_equal(send(r->f.conn, heads, heads[i][2], 0), (int)heads[i][2]);
		assert_true(recv(r->f.conn, &byte, 1, 0) <= 0);
		front_drop(&r->f);
	}
	r->f.features = ~0ull;
	if (front_connect(&r->f, RIG_CONNECT_MS))
		fail_msg("%s", r->f.error);
	front_drop(&r->f);
	assert_int_equal(vhost_rig_end(&r->v, SIGTERM), 0);
}

static void test_read_only(void **state)
{
	struct rig *r = *state;
	struct vring_used_elem e;

	start(r, "--read-only");
	assert_true(r->f.offered & BIT(VIRTIO_BLK_F_RO));
	r->load.c.read_percent = 0;
	load_fill_to(&r->load, 1);
	while (!queue_take(r->load.q, &e))
		if (!queue_want_call(r->load.q))
			assert_true(queue_wait(r->load.q, RIG_CONNECT_MS));
	for (unsigned i = 0; i < DEPTH; i++)
		if (r->load.slots[i].is_busy)
			assert_int_equal(*r->load.slots[i].status, VIRTIO_BLK_S_IOERR);
}

static void test_one_writer(void **state)
{
	struct rig *r = *state;
	struct vhost_rig other = r->v;
	int status;

	start(r, NULL);
	/* C-58: the same disk by another socket, and another disk by the same socket. */
	snprintf(other.socket, sizeof(other.socket), "%s/other", r->v.folder);
	vhost_rig_spawn(&other, "--lock-wait-ms=10");
	assert_int_equal(waitpid(other.child, &status, 0), other.child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	other = r->v;
	snprintf(other.disk, sizeof(other.disk), "%s/other", r->v.folder);
	close(open(other.disk, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	vhost_rig_spawn(&other, NULL);
	assert_int_equal(waitpid(other.child, &status, 0), other.child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	unlink(other.disk);
	work(r, 50);
	/* C-57: what a killed one left does not stop the next. */
	vhost_rig_end(&r->v, SIGKILL);
	assert_int_equal(access(r->v.socket, F_OK), 0);
	front_drop(&r->f);
	vhost_rig_spawn(&r->v, NULL);
	if (front_connect(&r->f, RIG_CONNECT_MS))
		fail_msg("%s", r->f.error);
	work(r, 50);
	end(r);
}

static void test_fixed_buffers(void **state)
{
	struct rig *r = *state;

	start(r, "--fixed-buffers");
	work(r, 300);
	end(r);
}

static void test_fixed_buffers_without_memlock(void **state)
{
	struct rig *r = *state;

	r->v.is_memlock_full = true;
	start(r, "--fixed-buffers");
	work(r, 300);
	end(r);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        CASE(test_serves),
	        CASE(test_full_call_descriptor),
	        CASE(test_one_front_end_after_another),
	        CASE(test_running_queue_keeps_what_it_has),
	        CASE(test_disabled_queue_rests),
	        CASE(test_bad_ring_is_told),
	        CASE(test_config_space),
	        CASE(test_write_through_outlives_the_process),
	        CASE(test_grows_while_in_use),
	        CASE(test_memory_changes_while_running),
	        CASE(test_refuses_bad_inflight),
	        CASE(test_garbage),
	        CASE(test_read_only),
	        CASE(test_one_writer),
	        CASE(test_fixed_buffers),
	        CASE(test_fixed_buffers_without_memlock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
