/* SPDX-License-Identifier: BSD-2-Clause */
/* Kills the device after every single store that outlives it, and again after every store of its
 * recovery: each request must come back exactly once, and done. */
/* sources: engine/memtable.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void kill_here(void);
#define STORE_HOOK(after, place) ((after) ? kill_here() : (void)0)
#include "engine/vring.c"

#include "tests/unit/engine/guest_ring.h"

#define SIZE     8u
#define REQUESTS 4096u

struct world {
	struct guest_mem mem;
	struct guest_ring ring;
	unsigned request_of[SIZE]; /* by head: which request the driver put there */
	unsigned added;
	unsigned answered;
	uint8_t answers[REQUESTS]; /* used entries seen for it */
	size_t done_at;            /* guest memory: bytes set by the device when it did a request */
};

/* What a device process remembers; lost at each kill. */
struct device {
	struct vring vr;
	uint16_t held[SIZE];
	unsigned held_count;
};

static jmp_buf death;
static unsigned stores, die_after;

static void kill_here(void)
{
	if (++stores == die_after)
		longjmp(death, 1);
}

/* ---- the guest ------------------------------------------------------------------------------- */

static void guest_submit(struct world *w, unsigned count)
{
	while (count-- && w->ring.free_count) {
		struct guest_buf buf = {guest_gpa(w->done_at + w->added), 1, true};
		int head = guest_add(&w->ring, &buf, 1);

		w->request_of[head] = w->added++;
	}
}

static void guest_collect(struct world *w)
{
	uint32_t len;
	int head;

	while (guest_take(&w->ring, &head, &len)) {
		unsigned request;

		assert_int_not_equal(head, -1); /* a head that the driver had not given */
		request = w->request_of[head];
		w->answers[request]++;
		w->answered++;
		assert_int_equal(w->mem.arena[w->done_at + request], 1);
	}
}

/* ---- the device ------------------------------------------------------------------------------ */

static void device_attach(struct world *w, struct device *d, uint16_t start_idx)
{
	struct vring_config c = guest_ring_config(&w->ring);

	c.start_idx = start_idx;
	d->held_count = 0;
	assert_int_equal(vring_attach(&d->vr, &c), 0);
	vring_take_call(&d->vr);
}

static void device_take(struct device *d, unsigned count)
{
	struct vring_chain chain;

	while (count-- && vring_pop(&d->vr, &chain) == 1) {
		assert_int_equal(chain.fault, VRING_FAULT_NONE);
		*chain.last_byte = 1;
		d->held[d->held_count++] = chain.head;
	}
	assert_null(d->vr.broken);
}

/* Gives back `count` of what is held, the pick-th first, in one batch. */
static void device_give(struct device *d, unsigned count, unsigned pick)
{
	while (count-- && d->held_count) {
		unsigned i = pick % d->held_count;

		vring_put(&d->vr, d->held[i], 1);
		d->held[i] = d->held[--d->held_count];
	}
	vring_publish(&d->vr);
	vring_take_call(&d->vr);
}

/* A life with requests out of order, batches of several sizes, heads used again. */
static void life_one(struct world *w, struct device *d)
{
	device_attach(w, d, 65532);
	guest_submit(w, 5);
	device_take(d, 3);
	device_give(d, 1, 1);
	guest_collect(w);
	device_take(d, 1);
	guest_submit(w, 2);
	device_give(d, 3, 2);
	vring_notify_on(&d->vr);
	vring_notify_off(&d->vr);
	guest_submit(w, 2);
	device_take(d, 8);
	guest_collect(w);
	device_give(d, 2, 0);
	device_give(d, 1, 1);
	guest_submit(w, 8);
	guest_collect(w);
	device_take(d, 4);
	device_give(d, 4, 3);
}

static void life_more(struct world *w, struct device *d)
{
	device_attach(w, d, 65532);
	device_take(d, 2);
	device_give(d, 1, 1);
	guest_collect(w);
	guest_submit(w, 2);
	device_take(d, 8);
	device_give(d, 3, 1);
	device_take(d, 8);
	device_give(d, 8, 0);
}

static void life_last(struct world *w, struct device *d)
{
	device_attach(w, d, 65532);
	for (unsigned i = 0; i < 4; i++) {
		device_take(d, 8);
		device_give(d, 8, 2);
		guest_collect(w);
	}
}

/* What the guest does while nobody serves it. */
static void between(struct world *w, unsigned mood)
{
	if (mood & 1)
		guest_collect(w);
	if (mood & 2)
		guest_submit(w, 8);
}

static void world_reset(struct world *w, uint64_t features)
{
	struct guest_mem mem = w->mem;
	void *inflight = w->ring.inflight;

	memset(w, 0, sizeof(*w));
	w->mem = mem;
	w->mem.used = 0;
	memset(mem.arena, 0, mem.size);
	guest_ring_init(&w->ring, &w->mem, SIZE, features);
	free(inflight);
	w->ring.avail_idx = 65532;
	w->ring.used_seen = 65532;
	ring_avail(&w->ring)->idx = 65532;
	ring_used(&w->ring)->idx = 65532;
	w->done_at = guest_alloc(&w->mem, REQUESTS, 1);
}

/* Runs a life until its kill_at-th store. False: it ended before. */
static bool live(struct world *w, void (*life)(struct world *, struct device *), unsigned kill_at)
{
	struct device *d = malloc(sizeof(*d));
	bool killed = true;

	stores = 0;
	die_after = kill_at;
	if (!setjmp(death)) {
		life(w, d);
		killed = false;
	}
	die_after = 0;
	free(d);
	return killed;
}

static void verify(struct world *w)
{
	live(w, life_last, 0);
	assert_int_equal(w->answered, w->added);
	assert_int_equal(w->ring.free_count, SIZE);
	for (unsigned i = 0; i < w->added; i++)
		assert_int_equal(w->answers[i], 1);
}

static void run_kills(uint64_t features)
{
	struct world *w = calloc(1, sizeof(*w));
	unsigned runs = 0, first;

	guest_mem_init(&w->mem, 16384);
	for (unsigned mood = 0; mood < 4; mood++) {
		bool more = true;

		for (first = 1; more; first++) {
			bool again = true;

			for (unsigned second = 1; again; second++) {
				world_reset(w, features);
				more = live(w, life_one, first);
				between(w, mood);
				again = live(w, life_more, second);
				between(w, mood);
				verify(w);
				runs++;
			}
		}
	}
	print_message("    %u stores, %u pairs of kills\n", first, runs);
	assert_true(first > 50 && runs > 10000);
	guest_ring_free(&w->ring);
	guest_mem_free(&w->mem);
	free(w);
}

static void test_kills_event(void **state)
{
	(void)state;
	run_kills(VIRTIO_BIT(VIRTIO_F_EVENT_IDX));
}

static void test_kills_flags(void **state)
{
	(void)state;
	run_kills(0);
}

/* Ten kills in a row, each at a store drawn by chance, 3,000 rounds. */
static void test_kills_in_a_row(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	uint32_t random = 7;

	(void)state;
	guest_mem_init(&w->mem, 16384);
	for (unsigned round = 0; round < 3000; round++) {
		world_reset(w, VIRTIO_BIT(VIRTIO_F_EVENT_IDX));
		for (unsigned i = 0; i < 10; i++) {
			random = random * 1664525u + 1013904223u;
			live(w, i & 1 ? life_more : life_one, 1 + (random >> 16) % 90);
			between(w, random >> 10 & 3);
		}
		verify(w);
	}
	guest_ring_free(&w->ring);
	guest_mem_free(&w->mem);
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_kills_event),
	        cmocka_unit_test(test_kills_flags),
	        cmocka_unit_test(test_kills_in_a_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
