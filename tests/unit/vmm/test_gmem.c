/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows that nothing outside guest RAM passes the one door, at every edge of both regions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "vmm/gmem.c"

#define LOW_BYTES  (64u * 1024u)
#define HIGH_BYTES (16u * 1024u)

static uint8_t *ram;
static struct gmem gmem;

static int set_up(void **state)
{
	(void)state;
	ram = malloc(
	        LOW_BYTES + HIGH_BYTES); /* exact, so that the sanitizer sees a byte too many */
	gmem_init(&gmem, ram, LOW_BYTES + HIGH_BYTES, LOW_BYTES);
	return ram == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	free(ram);
	return 0;
}

static void test_ranges(void **state)
{
	static const struct {
		uint64_t gpa, bytes;
		bool inside;
		uint64_t at;
	} cases[] = {
	        {0, 1, true, 0},
	        {0, LOW_BYTES, true, 0},
	        {0, LOW_BYTES + 1, false, 0},
	        {LOW_BYTES - 1, 1, true, LOW_BYTES - 1},
	        {LOW_BYTES - 1, 2, false, 0},
	        {LOW_BYTES, 1, false, 0},
	        {0, 0, false, 0},
	        {0, UINT64_MAX, false, 0},
	        {1, UINT64_MAX, false, 0},
	        {UINT64_MAX, 1, false, 0},
	        {UINT64_MAX, UINT64_MAX, false, 0},
	        {FOUR_GIB - 1, 1, false, 0},
	        {FOUR_GIB - 1, 2, false, 0},
	        {FOUR_GIB, HIGH_BYTES, true, LOW_BYTES},
	        {FOUR_GIB + HIGH_BYTES - 1, 1, true, LOW_BYTES + HIGH_BYTES - 1},
	        {FOUR_GIB + HIGH_BYTES - 1, 2, false, 0},
	        {FOUR_GIB + HIGH_BYTES, 1, false, 0},
	        {0xfee00000, 4, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t *got = gmem_range(&gmem, cases[i].gpa, cases[i].bytes);

		assert_ptr_equal(got, cases[i].inside ? ram + cases[i].at : NULL);
	}
}

static void test_copies(void **state)
{
	uint8_t out[8] = {0};

	(void)state;
	assert_true(gmem_write(&gmem, FOUR_GIB + HIGH_BYTES - 8, "12345678", 8));
	assert_true(gmem_read(&gmem, FOUR_GIB + HIGH_BYTES - 8, out, 8));
	assert_memory_equal(out, "12345678", 8);
	assert_false(gmem_write(&gmem, FOUR_GIB + HIGH_BYTES - 7, "abcdefgh", 8));
	assert_memory_equal(ram + LOW_BYTES + HIGH_BYTES - 8, "12345678", 8);
	assert_false(gmem_read(&gmem, LOW_BYTES - 4, out, 8));
	assert_memory_equal(out, "12345678", 8);
	assert_false(gmem_zero(&gmem, LOW_BYTES - 4, 8));
	assert_true(gmem_zero(&gmem, FOUR_GIB + HIGH_BYTES - 8, 8));
	assert_int_equal(ram[LOW_BYTES + HIGH_BYTES - 1], 0);
	assert_true(gmem_read(&gmem, UINT64_MAX, out, 0));
}

static void test_iovecs(void **state)
{
	struct iovec iov[2];
	unsigned count = 0;

	(void)state;
	assert_true(gmem_iov(&gmem, 0x100, 0x100, iov, &count, 2));
	assert_true(gmem_iov(&gmem, 0x200, 0x80, iov, &count, 2)); /* goes on: joined */
	assert_int_equal(count, 1);
	assert_int_equal(iov[0].iov_len, 0x180);
	/* Low RAM's end and high RAM's start are neighbours in the mapping: joining them is right
	 * too. */
	assert_true(gmem_iov(&gmem, LOW_BYTES - 16, 16, iov, &count, 2));
	assert_true(gmem_iov(&gmem, FOUR_GIB, 16, iov, &count, 2));
	assert_int_equal(count, 2);
	assert_int_equal(iov[1].iov_len, 32);
	assert_false(gmem_iov(&gmem, 0x1000, 16, iov, &count, 2)); /* full */
	assert_false(gmem_iov(&gmem, LOW_BYTES - 16, 17, iov, &count, 2));
	assert_true(gmem_iov(&gmem, 0x1000, 0, iov, &count, 2));
	assert_int_equal(count, 2);
}

static void test_one_region(void **state)
{
	struct gmem low;

	(void)state;
	gmem_init(&low, ram, LOW_BYTES, LOW_BYTES);
	assert_int_equal(low.count, 1);
	assert_null(gmem_range(&low, FOUR_GIB, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_ranges),
	        cmocka_unit_test(test_copies),
	        cmocka_unit_test(test_iovecs),
	        cmocka_unit_test(test_one_region),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
