/* SPDX-License-Identifier: BSD-2-Clause */
/* The walk over a queue: good chains, every kind of bad one, suppression, restart. */
/* sources: engine/vring.c engine/memtable.c engine/iov.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>

#include "engine/iov.h"
#include "tests/unit/engine/guest_ring.h"

#define EVENT    VIRTIO_BIT(VIRTIO_F_EVENT_IDX)
#define INDIRECT VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC)

struct fix {
	struct guest_mem mem;
	struct guest_ring ring;
	struct vring vr;
	struct vring_chain chain;
};

static int setup_with(void **state, unsigned size, uint64_t features)
{
	struct fix *f = calloc(1, sizeof(*f));
	struct vring_config c;

	guest_mem_init(&f->mem, 1 << 20);
	guest_ring_init(&f->ring, &f->mem, size, features);
	c = guest_ring_config(&f->ring);
	assert_int_equal(vring_attach(&f->vr, &c), 0);
	*state = f;
	return 0;
}

static int setup(void **state)
{
	return setup_with(state, 8, EVENT | INDIRECT);
}

static int setup_plain(void **state)
{
	return setup_with(state, 8, 0);
}

static int teardown(void **state)
{
	struct fix *f = *state;

	guest_ring_free(&f->ring);
	guest_mem_free(&f->mem);
	free(f);
	return 0;
}

static void test_direct_chain(void **state)
{
	struct fix *f = *state;
	size_t a = guest_alloc(&f->mem, 64, 8), b = guest_alloc(&f->mem, 8192, 4096);
	struct guest_buf bufs[] = {{guest_gpa(a), 16, false}, {guest_gpa(b), 4096, true},
	        {guest_gpa(b) + 4096, 512, true}, {guest_gpa(a) + 40, 1, true}};
	int head = guest_add(&f->ring, bufs, 4), got;
	uint32_t len;

	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(f->chain.head, head);
	assert_int_equal(f->chain.fault, VRING_FAULT_NONE);
	assert_int_equal(f->chain.readable_count, 1);
	/* The two that touch are one. */
	assert_int_equal(f->chain.writable_count, 2);
	assert_int_equal(f->chain.readable_bytes, 16);
	assert_int_equal(f->chain.writable_bytes, 4609);
	assert_ptr_equal(f->chain.iov[0].iov_base, f->mem.arena + a);
	assert_ptr_equal(f->chain.iov[1].iov_base, f->mem.arena + b);
	assert_int_equal(f->chain.iov[1].iov_len, 4608);
	assert_ptr_equal(f->chain.last_byte, f->mem.arena + a + 40);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 0);
	assert_false(guest_take(&f->ring, &got, &len));
	vring_put(&f->vr, (uint16_t)head, 4609);
	assert_false(guest_take(&f->ring, &got, &len));
	vring_publish(&f->vr);
	assert_true(guest_take(&f->ring, &got, &len));
	assert_int_equal(got, head);
	assert_int_equal(len, 4609);
}

/* The readable and the writable buffer touch, and are not joined. */
static void test_no_join_across_kinds(void **state)
{
	struct fix *f = *state;
	size_t a = guest_alloc(&f->mem, 64, 8);
	struct guest_buf bufs[] = {{guest_gpa(a), 16, false}, {guest_gpa(a) + 16, 16, true}};

	guest_add(&f->ring, bufs, 2);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(f->chain.readable_count, 1);
	assert_int_equal(f->chain.writable_count, 1);
	assert_int_equal(f->chain.iov[0].iov_len, 16);
	assert_int_equal(f->chain.iov[1].iov_len, 16);
}

static void test_indirect_515(void **state)
{
	struct fix *f = *state;
	size_t table = guest_alloc(&f->mem, 1100 * 16 + 8, 8) + 4; /* at an odd address */
	size_t data = guest_alloc(&f->mem, 1100 * 16, 8);
	struct guest_buf *bufs = calloc(1100, sizeof(*bufs));

	for (unsigned i = 0; i < 1100; i++)
		bufs[i] = (struct guest_buf){guest_gpa(data) + i * 16, 8, i > 0};
	guest_add_indirect(&f->ring, table, bufs, 515);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(f->chain.fault, VRING_FAULT_NONE);
	assert_int_equal(f->chain.writable_count, 514);
	assert_int_equal(f->chain.writable_bytes, 514 * 8);
	vring_put(&f->vr, f->chain.head, 0);
	vring_publish(&f->vr);
	guest_add_indirect(&f->ring, table, bufs, 1100);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(f->chain.fault, VRING_FAULT_LENGTH);
	free(bufs);
}

static void test_two_regions(void **state)
{
	struct fix *f = *state;
	uint8_t *other = aligned_alloc(4096, 8192);
	uint64_t end = GUEST_BASE + f->mem.size;
	struct guest_buf bufs[] = {{end - 100, 300, true}};

	f->mem.table.regions[1] = (struct memtable_region){end, 8192, other};
	f->mem.table.count = 2;
	guest_add(&f->ring, bufs, 1);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(f->chain.fault, VRING_FAULT_NONE);
	assert_int_equal(iov_total(f->chain.iov, f->chain.writable_count), 300);
	assert_ptr_equal(f->chain.last_byte, other + 199);
	free(other);
}

struct bad {
	const char *what;
	struct virtq_desc d[3];
	enum vring_fault fault;
	bool status_kept;
};

#define IN  VIRTQ_DESC_F_WRITE
#define NX  VIRTQ_DESC_F_NEXT
#define IND VIRTQ_DESC_F_INDIRECT

/* Buffers from GUEST_BASE + 512 KiB on; descriptors 0, 1, 2 as given, the chain starts at 0. */
#define BUF (GUEST_BASE + (512 << 10))
static const struct bad bads[] = {
        {"loop", {{BUF, 16, NX, 1}, {BUF, 16, NX, 0}}, VRING_FAULT_LENGTH, false},
        {"self loop", {{BUF, 16, NX, 0}}, VRING_FAULT_LENGTH, false},
        {"next past the table", {{BUF, 16, NX, 8}}, VRING_FAULT_INDEX, false},
        {"next 0xffff", {{BUF, 16, NX, 0xffff}}, VRING_FAULT_INDEX, false},
        {"readable after writable", {{BUF, 16, IN | NX, 1}, {BUF, 16, 0, 0}}, VRING_FAULT_ORDER,
                false},
        {"buffer at 0", {{0, 16, NX, 1}, {BUF, 1, IN, 0}}, VRING_FAULT_BUFFER, true},
        {"buffer at the end", {{GUEST_BASE + (1 << 20) - 8, 16, NX, 1}, {BUF, 1, IN, 0}},
                VRING_FAULT_BUFFER, true},
        {"buffer that wraps", {{UINT64_MAX - 7, 16, NX, 1}, {BUF, 1, IN, 0}}, VRING_FAULT_BUFFER,
                true},
        {"huge length", {{BUF, 0xffffffff, NX, 1}, {BUF, 1, IN, 0}}, VRING_FAULT_LENGTH, false},
        {"status outside", {{BUF, 16, NX, 1}, {BUF, 512, IN | NX, 2}, {0xfee00000, 1, IN, 0}},
                VRING_FAULT_BUFFER, false},
        {"indirect with next", {{BUF, 16, IND | NX, 1}, {BUF, 1, IN, 0}}, VRING_FAULT_INDIRECT,
                false},
        {"indirect of 8 bytes", {{BUF, 8, IND, 0}}, VRING_FAULT_INDIRECT, false},
        {"indirect of 0 bytes", {{BUF, 0, IND, 0}}, VRING_FAULT_INDIRECT, false},
        {"indirect outside", {{0x10, 32, IND, 0}}, VRING_FAULT_INDIRECT, false},
        {"indirect past the end", {{GUEST_BASE + (1 << 20) - 16, 32, IND, 0}}, VRING_FAULT_INDIRECT,
                false},
};

static void test_bad_chains(void **state)
{
	struct fix *f = *state;

	for (unsigned i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		print_message("    %s\n", bads[i].what);
		memcpy(ring_desc(&f->ring), bads[i].d, sizeof(bads[i].d));
		guest_publish_head(&f->ring, 0);
		assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
		assert_int_equal(f->chain.fault, bads[i].fault);
		assert_int_equal(f->chain.head, 0);
		if (bads[i].status_kept)
			assert_ptr_equal(f->chain.last_byte, f->mem.arena + (512 << 10));
		else if (bads[i].fault == VRING_FAULT_BUFFER)
			assert_null(f->chain.last_byte);
		vring_put(&f->vr, 0, 0);
		vring_publish(&f->vr);
	}
	assert_int_equal(ring_used(&f->ring)->idx, sizeof(bads) / sizeof(bads[0]));
}

static void test_indirect_nested(void **state)
{
	struct fix *f = *state;
	struct virtq_desc *inner = (void *)(f->mem.arena + (512 << 10));

	inner[0] = (struct virtq_desc){BUF + 64, 16, IND, 0};
	ring_desc(&f->ring)[0] = (struct virtq_desc){BUF, 16, IND, 0};
	guest_publish_head(&f->ring, 0);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(f->chain.fault, VRING_FAULT_INDIRECT);
}

static void test_indirect_not_negotiated(void **state)
{
	struct fix *f = *state;

	ring_desc(&f->ring)[0] = (struct virtq_desc){BUF, 16, IND, 0};
	guest_publish_head(&f->ring, 0);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(f->chain.fault, VRING_FAULT_INDIRECT);
}

static void test_indirect_next_past_its_table(void **state)
{
	struct fix *f = *state;
	struct virtq_desc *inner = (void *)(f->mem.arena + (512 << 10));

	inner[0] = (struct virtq_desc){BUF + 64, 16, NX, 2};
	inner[2] = (struct virtq_desc){BUF + 64, 16, 0, 0};
	ring_desc(&f->ring)[0] = (struct virtq_desc){BUF, 32, IND | IN, 0};
	guest_publish_head(&f->ring, 0);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(f->chain.fault, VRING_FAULT_INDEX);
}

static void test_broken_rings(void **state)
{
	struct fix *f = *state;

	/* A head twice, while in flight. */
	ring_desc(&f->ring)[3] = (struct virtq_desc){BUF, 16, 0, 0};
	guest_publish_head(&f->ring, 3);
	guest_publish_head(&f->ring, 3);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(vring_pop(&f->vr, &f->chain), -1);
	assert_non_null(f->vr.broken);
	assert_int_equal(vring_pop(&f->vr, &f->chain), -1);
	assert_false(vring_pending(&f->vr));
	assert_false(vring_notify_on(&f->vr));
	/* What was in flight can still be given back. */
	vring_put(&f->vr, 3, 0);
	vring_publish(&f->vr);
	assert_int_equal(ring_used(&f->ring)->idx, 1);
}

static void test_broken_head(void **state)
{
	struct fix *f = *state;

	guest_publish_head(&f->ring, 8);
	assert_int_equal(vring_pop(&f->vr, &f->chain), -1);
}

static void test_broken_idx(void **state)
{
	struct fix *f = *state;

	ring_avail(&f->ring)->idx = 9;
	assert_int_equal(vring_pop(&f->vr, &f->chain), -1);
}

static void test_attach_refusals(void **state)
{
	struct fix *f = *state;
	struct vring_config good = guest_ring_config(&f->ring), c;
	struct inflight_region *log = f->ring.inflight;
	const unsigned sizes[] = {0, 3, 6, 2048, 32768, 65536};

	for (unsigned i = 0; i < 6; i++) {
		c = good;
		c.size = sizes[i];
		assert_int_equal(vring_attach(&f->vr, &c), -EINVAL);
	}
	c = good;
	c.desc_gpa += 8;
	assert_int_equal(vring_attach(&f->vr, &c), -EINVAL);
	c = good;
	c.avail_gpa += 1;
	assert_int_equal(vring_attach(&f->vr, &c), -EINVAL);
	c = good;
	c.used_gpa += 2;
	assert_int_equal(vring_attach(&f->vr, &c), -EINVAL);
	c = good;
	c.inflight_bytes--;
	assert_int_equal(vring_attach(&f->vr, &c), -EINVAL);
	c = good;
	c.desc_gpa = 0;
	assert_int_equal(vring_attach(&f->vr, &c), -EFAULT);
	c = good;
	c.used_gpa = GUEST_BASE + f->mem.size - 64; /* its last entries are outside */
	assert_int_equal(vring_attach(&f->vr, &c), -EFAULT);
	c = good;
	c.size = 4; /* not what it was formatted for */
	assert_int_equal(vring_attach(&f->vr, &c), -EPROTO);
	log->version = 2;
	assert_int_equal(vring_attach(&f->vr, &good), -EPROTO);
	log->version = 1;
	ring_used(&f->ring)->idx = 9; /* a guest's tampering */
	assert_int_equal(vring_attach(&f->vr, &good), -EPROTO);
	ring_used(&f->ring)->idx = 1;
	log->last_batch_head = 8;
	assert_int_equal(vring_attach(&f->vr, &good), -EPROTO);
}

/* After a reset indices start at 0 even if old memory holds old ones (C-51). */
static void test_reset_starts_at_zero(void **state)
{
	struct fix *f = *state;
	struct vring_config c = guest_ring_config(&f->ring);
	struct guest_buf buf = {BUF, 16, false};

	ring_used(&f->ring)->idx = 777;
	ring_avail(&f->ring)->idx = 0;
	memset(f->ring.inflight, 0, c.inflight_bytes);
	assert_int_equal(vring_attach(&f->vr, &c), 0);
	assert_int_equal(ring_used(&f->ring)->idx, 0);
	assert_false(vring_take_call(&f->vr));
	guest_add(&f->ring, &buf, 1);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	/* Killed here: the next one gives it again, then nothing. */
	assert_int_equal(vring_attach(&f->vr, &c), 0);
	assert_true(vring_take_call(&f->vr));
	assert_false(vring_take_call(&f->vr));
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 0);
}

/* Resubmission follows the order of taking, not of descriptor numbers. */
static void test_resubmit_order(void **state)
{
	struct fix *f = *state;
	struct vring_config c = guest_ring_config(&f->ring);
	struct guest_buf buf = {BUF, 16, false};
	const int order[] = {5, 1, 7, 0, 3};

	for (unsigned i = 0; i < 5; i++) {
		ring_desc(&f->ring)[order[i]] = (struct virtq_desc){buf.gpa, buf.len, 0, 0};
		guest_publish_head(&f->ring, (uint16_t)order[i]);
		assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	}
	vring_put(&f->vr, 7, 0);
	vring_publish(&f->vr);
	assert_int_equal(vring_attach(&f->vr, &c), 0);
	assert_true(vring_pending(&f->vr));
	ring_desc(&f->ring)[6] = (struct virtq_desc){buf.gpa, buf.len, 0, 0};
	guest_publish_head(&f->ring, 6);
	for (unsigned i = 0; i < 5; i++) {
		if (order[i] == 7)
			continue;
		assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
		assert_int_equal(f->chain.head, order[i]);
		/* Given back at once: must not disturb the order. */
		vring_put(&f->vr, f->chain.head, 0);
		vring_publish(&f->vr);
	}
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(f->chain.head, 6);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 0);
}

/* 200,000 requests: the index wraps three times; no kick and no call is lost or sent too often. */
static void run_suppression(struct fix *f)
{
	struct guest_buf buf = {BUF, 16, false};
	unsigned waiting = 0, kicks = 0, calls = 0;
	uint32_t random = 1;

	assert_false(vring_notify_on(&f->vr));
	assert_false(guest_want_call(&f->ring));
	for (unsigned done = 0; done < 200000;) {
		unsigned n, batch;
		uint16_t heads[8];
		int head;
		uint32_t len;

		random = random * 1664525u + 1013904223u;
		batch = 1 + (random >> 20) % 8;
		for (n = 0; n < batch && guest_add(&f->ring, &buf, 1) >= 0; n++)
			waiting++;
		/* The device waits, so the first must kick. */
		assert_true(guest_wants_kick(&f->ring));
		kicks++;
		vring_notify_off(&f->vr);
		for (n = 0; vring_pop(&f->vr, &f->chain) == 1; n++)
			heads[n] = f->chain.head;
		assert_int_equal(n, batch);
		while (n)
			vring_put(&f->vr, heads[--n], 0);
		vring_publish(&f->vr);
		/* The driver waits, so it must be called, once. */
		assert_true(vring_take_call(&f->vr));
		assert_false(vring_take_call(&f->vr));
		calls++;
		/* More while both work: neither is disturbed. */
		if (!(f->ring.features & EVENT))
			ring_avail(&f->ring)->flags = VIRTQ_AVAIL_F_NO_INTERRUPT;
		if (guest_add(&f->ring, &buf, 1) >= 0) {
			assert_false(guest_wants_kick(&f->ring));
			waiting++;
			assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
			vring_put(&f->vr, f->chain.head, 0);
			vring_publish(&f->vr);
			assert_false(vring_take_call(&f->vr));
		}
		while (guest_take(&f->ring, &head, &len)) {
			assert_int_not_equal(head, -1);
			waiting--;
			done++;
		}
		assert_int_equal(waiting, 0);
		assert_false(vring_notify_on(&f->vr));
		assert_false(guest_want_call(&f->ring));
	}
	assert_int_equal(kicks, calls);
}

static void test_suppression_event(void **state)
{
	run_suppression(*state);
}

static void test_suppression_flags(void **state)
{
	run_suppression(*state);
}

static void wait_in_vain(struct fix *f)
{
	assert_false(vring_notify_on(&f->vr));
	vring_notify_off(&f->vr);
}

/* A device that was woken by something else than a kick, such as a completion of its storage, wants
 * none: not for the next request, nor for one that it took before the driver asked whether to kick.
 * The index wraps. */
static void run_woken(struct fix *f)
{
	struct guest_buf buf = {BUF, 16, false};

	for (unsigned i = 0; i < 70000; i++) {
		bool is_taken_first = i % 2;
		int head;
		uint32_t len;

		wait_in_vain(f);
		assert_true(guest_add(&f->ring, &buf, 1) >= 0);
		if (is_taken_first) {
			assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
			wait_in_vain(f);
		}
		assert_false(guest_wants_kick(&f->ring));
		if (!is_taken_first)
			assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
		vring_put(&f->vr, f->chain.head, 0);
		vring_publish(&f->vr);
		assert_true(guest_take(&f->ring, &head, &len));
	}
}

static void test_woken_event(void **state)
{
	run_woken(*state);
}

static void test_woken_flags(void **state)
{
	run_woken(*state);
}

/* The last look: an entry added between the device's last pop and its asking for kicks. */
static void test_last_look(void **state)
{
	struct fix *f = *state;
	struct guest_buf buf = {BUF, 16, false};

	assert_int_equal(vring_pop(&f->vr, &f->chain), 0);
	guest_add(&f->ring, &buf, 1);
	assert_true(vring_notify_on(&f->vr));
}

struct flipper {
	struct guest_ring *ring;
	bool stop;
};

/* A second CPU of the guest that rewrites descriptors while the device reads them (C-14). */
static void *flip(void *arg)
{
	struct flipper *p = arg;
	volatile struct virtq_desc *d = ring_desc(p->ring);
	volatile struct virtq_desc *in = (void *)(p->ring->mem->arena + (512 << 10));

	for (uint32_t n = 0; !__atomic_load_n(&p->stop, __ATOMIC_RELAXED); n++) {
		d[0].len = n & 1 ? 512 : 0x7fffffff;
		d[0].next = n & 2 ? 1 : 0xfff;
		d[1].addr = n & 4 ? BUF : ~0ull - 15;
		d[1].flags = n & 8 ? VIRTQ_DESC_F_INDIRECT : VIRTQ_DESC_F_WRITE;
		d[1].len = n & 16 ? 64 : 0xffffffff;
		in[0].next = n & 32 ? 1 : 9;
		in[1].len = n & 64 ? 16 : 0x80000000;
		in[1].addr = n & 128 ? BUF + 4096 : GUEST_BASE + (1 << 20) - 1;
	}
	return NULL;
}

static void test_hostile_rewrite(void **state)
{
	struct fix *f = *state;
	struct virtq_desc *in = (void *)(f->mem.arena + (512 << 10));
	struct flipper p = {&f->ring, false};
	const uint8_t *end = f->mem.arena + f->mem.size;
	unsigned faults = 0, good = 0;
	pthread_t thread;

	in[0] = (struct virtq_desc){BUF + 4096, 16, NX, 1};
	in[1] = (struct virtq_desc){BUF + 4096, 16, 0, 0};
	ring_desc(&f->ring)[0] = (struct virtq_desc){BUF, 512, NX, 1};
	pthread_create(&thread, NULL, flip, &p);
	/* On a busy machine the other thread may come late. */
	for (unsigned n = 0; n < 300000 || (n < 300000000 && !(good && faults)); n++) {
		guest_publish_head(&f->ring, 0);
		assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
		f->chain.fault ? faults++ : good++;
		if (f->chain.fault && f->chain.fault != VRING_FAULT_BUFFER)
			goto give_back;
		for (unsigned i = 0; i < f->chain.readable_count + f->chain.writable_count; i++) {
			const uint8_t *at = f->chain.iov[i].iov_base;

			assert_true(at >= f->mem.arena && at + f->chain.iov[i].iov_len <= end);
		}
		if (!f->chain.fault)
			assert_int_equal(iov_total(f->chain.iov,
			                         f->chain.readable_count + f->chain.writable_count),
			        f->chain.readable_bytes + f->chain.writable_bytes);
	give_back:
		vring_put(&f->vr, 0, 0);
		vring_publish(&f->vr);
	}
	__atomic_store_n(&p.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	print_message("    %u good, %u refused\n", good, faults);
	assert_true(good && faults);
}

/* A front end that wipes the in-flight log, which it shares: what was taken stays known. */
static void test_hostile_log(void **state)
{
	struct fix *f = *state;
	struct guest_buf buf = {BUF, 16, false};
	struct inflight_region *log = f->ring.inflight;
	int a = guest_add(&f->ring, &buf, 1);

	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	log->desc[a].inflight = 0;
	vring_put(&f->vr, (uint16_t)a, 0);
	log->desc[a].next = 0xffff;
	log->last_batch_head = 0xffff;
	vring_publish(&f->vr);
	a = guest_add(&f->ring, &buf, 1);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	log->desc[a].inflight = 0;
	/* Twice in flight would be one request's memory for two. */
	guest_publish_head(&f->ring, (uint16_t)a);
	assert_int_equal(vring_pop(&f->vr, &f->chain), -1);
	assert_non_null(f->vr.broken);
}

/* Wiped between put and publish, a head comes again and again: not more often than there are heads.
 */
static void test_hostile_log_endless(void **state)
{
	struct fix *f = *state;
	struct guest_buf buf = {BUF, 16, false};
	struct inflight_region *log = f->ring.inflight;
	int a = guest_add(&f->ring, &buf, 1);
	unsigned taken = 0;

	while (taken < 1000 && vring_pop(&f->vr, &f->chain) == 1) {
		taken++;
		vring_put(&f->vr, (uint16_t)a, 0);
		log->desc[a].inflight = 0;
		guest_publish_head(&f->ring, (uint16_t)a);
	}
	assert_int_equal(taken, 8);
	assert_non_null(f->vr.broken);
}

/* The same while requests of a dead predecessor are given out again. */
static void test_hostile_log_resubmitted(void **state)
{
	struct fix *f = *state;
	struct vring_config c = guest_ring_config(&f->ring);
	struct guest_buf buf = {BUF, 16, false};
	struct inflight_region *log = f->ring.inflight;
	int a = guest_add(&f->ring, &buf, 1);

	guest_add(&f->ring, &buf, 1);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(vring_attach(&f->vr, &c), 0);
	assert_int_equal(vring_pop(&f->vr, &f->chain), 1);
	assert_int_equal(f->chain.head, a);
	log->desc[a].counter = 1000;
	for (unsigned i = 0; i < c.size; i++)
		if ((int)i != a)
			log->desc[i].inflight = 0;
	assert_int_equal(vring_pop(&f->vr, &f->chain), -1);
	assert_non_null(f->vr.broken);
}

static void test_iov(void **state)
{
	char a[4] = "abcd", b[3] = "efg", out[8] = "";
	struct iovec iov[2] = {{a, 4}, {b, 3}}, *p = iov;

	(void)state;
	assert_int_equal(iov_total(iov, 2), 7);
	assert_int_equal(iov_copy_from(iov, 2, 3, out, 8), 4);
	assert_memory_equal(out, "defg", 4);
	assert_int_equal(iov_copy_to(iov, 2, 3, "XYZ", 3), 3);
	assert_memory_equal(a, "abcX", 4);
	assert_memory_equal(b, "YZg", 3);
	assert_int_equal(iov_copy_from(iov, 2, 7, out, 8), 0);
	assert_int_equal(iov_truncate(iov, 2, 6), 2);
	assert_int_equal(iov[1].iov_len, 2);
	assert_int_equal(iov_truncate(iov, 2, 4), 1);
	iov[1].iov_len = 3;
	assert_int_equal(iov_advance(&p, 2, 5), 1);
	assert_ptr_equal(p->iov_base, b + 1);
	assert_int_equal(iov_advance(&p, 1, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(fn, how) cmocka_unit_test_setup_teardown(fn, how, teardown)
	        CASE(test_direct_chain, setup),
	        CASE(test_no_join_across_kinds, setup),
	        CASE(test_indirect_515, setup),
	        CASE(test_two_regions, setup),
	        CASE(test_bad_chains, setup),
	        CASE(test_indirect_nested, setup),
	        CASE(test_indirect_not_negotiated, setup_plain),
	        CASE(test_indirect_next_past_its_table, setup),
	        CASE(test_broken_rings, setup),
	        CASE(test_broken_head, setup),
	        CASE(test_broken_idx, setup),
	        CASE(test_attach_refusals, setup),
	        CASE(test_reset_starts_at_zero, setup),
	        CASE(test_resubmit_order, setup),
	        CASE(test_suppression_event, setup),
	        CASE(test_woken_event, setup),
	        CASE(test_woken_flags, setup_plain),
	        CASE(test_suppression_flags, setup_plain),
	        CASE(test_last_look, setup),
	        CASE(test_hostile_rewrite, setup),
	        CASE(test_hostile_log, setup),
	        CASE(test_hostile_log_endless, setup),
	        CASE(test_hostile_log_resubmitted, setup),
	        cmocka_unit_test(test_iov),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
