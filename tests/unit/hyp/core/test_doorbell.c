/* SPDX-License-Identifier: BSD-2-Clause */
/* Doorbells: which write rings which, and that a full and much used table stays right. */
/* sources: hyp/core/doorbell.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/core/doorbell.h"

static struct doorbell_table t;

static int set_up(void **state)
{
	(void)state;
	memset(&t, 0xa5, sizeof(t));
	doorbell_init(&t);
	return 0;
}

static struct keel_hc_doorbell bell(uint32_t index, uint32_t space, uint64_t address, uint32_t size)
{
	return (struct keel_hc_doorbell){
	        .index = index, .space = space, .address = address, .size = size};
}

static void rings_by_address_space_and_size(void **state)
{
	struct keel_hc_doorbell a = bell(3, KEEL_DOORBELL_MMIO, 0xfe003000, 2);
	struct keel_hc_doorbell b = bell(4, KEEL_DOORBELL_PIO, 0xc000, 0);

	(void)state;
	assert_int_equal(doorbell_find(&t, KEEL_DOORBELL_MMIO, 0xfe003000, 2, 0), -1);
	assert_int_equal(doorbell_add(&t, &a), 0);
	assert_int_equal(doorbell_add(&t, &b), 0);
	assert_int_equal(doorbell_find(&t, KEEL_DOORBELL_MMIO, 0xfe003000, 2, 7), 3);
	assert_int_equal(doorbell_find(&t, KEEL_DOORBELL_MMIO, 0xfe003000, 4, 7), -1);
	assert_int_equal(doorbell_find(&t, KEEL_DOORBELL_MMIO, 0xfe003002, 2, 7), -1);
	assert_int_equal(doorbell_find(&t, KEEL_DOORBELL_PIO, 0xfe003000, 2, 7), -1);
	for (uint32_t size = 1; size <= 4; size *= 2)
		assert_int_equal(doorbell_find(&t, KEEL_DOORBELL_PIO, 0xc000, size, 0), 4);
}

static void match_tells_queues_apart(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		struct keel_hc_doorbell d = bell(i, KEEL_DOORBELL_MMIO, 0x1000, 2);

		d.flags = KEEL_DOORBELL_MATCH;
		d.value = i;
		assert_int_equal(doorbell_check(&d), 0);
		assert_int_equal(doorbell_add(&t, &d), 0);
	}
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(
		        doorbell_find(&t, KEEL_DOORBELL_MMIO, 0x1000, 2, 0xabcd0000u | i), (int)i);
	assert_int_equal(doorbell_find(&t, KEEL_DOORBELL_MMIO, 0x1000, 2, 8), -1);
}

static void doubles_are_refused(void **state)
{
	struct keel_hc_doorbell d = bell(1, KEEL_DOORBELL_MMIO, 0x2000, 4), e = d;

	(void)state;
	assert_int_equal(doorbell_add(&t, &d), 0);
	assert_int_equal(doorbell_add(&t, &d), -KEEL_EBUSY);
	e.index = 2;
	assert_int_equal(doorbell_add(&t, &e), -KEEL_EEXIST);
	e.size = 0;
	assert_int_equal(doorbell_add(&t, &e), -KEEL_EEXIST);
	e.size = 2;
	assert_int_equal(doorbell_add(&t, &e), 0);
}

static void rubbish_is_refused(void **state)
{
	struct keel_hc_doorbell d = bell(KEEL_MAX_DOORBELLS, 0, 0, 0);

	(void)state;
	assert_int_equal(doorbell_check(&d), -KEEL_EINVAL);
	d = bell(0, 2, 0, 0);
	assert_int_equal(doorbell_check(&d), -KEEL_EINVAL);
	d = bell(0, KEEL_DOORBELL_PIO, 0x10000, 1);
	assert_int_equal(doorbell_check(&d), -KEEL_EINVAL);
	d = bell(0, KEEL_DOORBELL_PIO, 0, 8);
	assert_int_equal(doorbell_check(&d), -KEEL_EINVAL);
	d = bell(0, KEEL_DOORBELL_MMIO, 0, 3);
	assert_int_equal(doorbell_check(&d), -KEEL_EINVAL);
	d = bell(0, KEEL_DOORBELL_MMIO, 0, 2);
	d.flags = 2;
	assert_int_equal(doorbell_check(&d), -KEEL_EINVAL);
	d.flags = KEEL_DOORBELL_MATCH;
	d.value = 0x10000; /* can never be written by 2 bytes */
	assert_int_equal(doorbell_check(&d), -KEEL_EINVAL);
	d.value = 0;
	d.reserved = 1;
	assert_int_equal(doorbell_check(&d), -KEEL_EINVAL);
	assert_int_equal(doorbell_remove(&t, KEEL_MAX_DOORBELLS), -KEEL_EINVAL);
	assert_int_equal(doorbell_remove(&t, 5), -KEEL_ENOENT);
}

/* Against a plain array: what is in it is found, what is not is not. */
static void table_agrees_with_a_plain_list(void **state)
{
	static uint64_t at[KEEL_MAX_DOORBELLS];

	(void)state;
	srand(11);
	memset(at, 0, sizeof(at));
	for (unsigned round = 0; round < 20000; round++) {
		uint32_t i = (uint32_t)rand() % KEEL_MAX_DOORBELLS;
		uint64_t address = 4096 + (uint64_t)(rand() % 2048) * 4;
		struct keel_hc_doorbell d = bell(i, KEEL_DOORBELL_MMIO, address, 4);
		int expect = -1;

		for (uint32_t j = 0; j < KEEL_MAX_DOORBELLS; j++)
			if (at[j] == address)
				expect = (int)j;
		assert_int_equal(doorbell_find(&t, KEEL_DOORBELL_MMIO, address, 4, 0), expect);
		if (at[i] != 0) {
			assert_int_equal(doorbell_remove(&t, i), 0);
			at[i] = 0;
		} else if (expect < 0) {
			assert_int_equal(doorbell_add(&t, &d), 0);
			at[i] = address;
		}
	}
}

static void ring_tells_root_once(void **state)
{
	static struct keel_vm_shared shared;

	(void)state;
	assert_true(doorbell_ring(&shared, 511));
	assert_false(doorbell_ring(&shared, 511));
	assert_int_equal(shared.doorbells[7], 1ull << 63);
	shared.doorbells[7] = 0; /* root took it */
	assert_true(doorbell_ring(&shared, 511));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(rings_by_address_space_and_size, set_up),
	        cmocka_unit_test_setup(match_tells_queues_apart, set_up),
	        cmocka_unit_test_setup(doubles_are_refused, set_up),
	        cmocka_unit_test_setup(rubbish_is_refused, set_up),
	        cmocka_unit_test_setup(table_agrees_with_a_plain_list, set_up),
	        cmocka_unit_test_setup(ring_tells_root_once, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
