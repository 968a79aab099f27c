/* SPDX-License-Identifier: BSD-2-Clause */
/* Boot command lines: keys, quotes, sizes, and what must not be taken for either. */
/* sources: lib/cmdline.c */
#include "lib/cmdline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static char out[32];

static int find(const char *cmdline, const char *key)
{
	out[0] = '?';
	out[1] = 0;
	return cmdline_find(cmdline, key, out, sizeof(out));
}

static void test_finds_values(void **state)
{
	(void)state;
	assert_int_equal(find("pool=1G panic=halt quiet", "panic"), 4);
	assert_string_equal(out, "halt");
	assert_int_equal(find("  pool=1G\tpanic=halt\n", "pool"), 2);
	assert_string_equal(out, "1G");
	assert_int_equal(find("pool=1G quiet", "quiet"), 0);
	assert_string_equal(out, "");
	assert_int_equal(find("pool=", "pool"), 0);
	assert_int_equal(find("a=b=c", "a"), 3);
	assert_string_equal(out, "b=c");
}

static void test_not_found(void **state)
{
	(void)state;
	assert_int_equal(find("", "pool"), -1);
	assert_int_equal(find("   ", "pool"), -1);
	assert_int_equal(find("mypool=1G pools=2G pool2", "pool"), -1);
	assert_int_equal(find("x=pool", "pool"), -1);
	assert_int_equal(find("x=\"a pool=3 b\"", "pool"), -1);
	assert_string_equal(out, "?");
}

static void test_last_one_wins(void **state)
{
	(void)state;
	assert_int_equal(find("pool=1G x pool=2G", "pool"), 2);
	assert_string_equal(out, "2G");
}

static void test_quotes(void **state)
{
	(void)state;
	assert_int_equal(find("a=\"b c\" d=e", "a"), 3);
	assert_string_equal(out, "b c");
	assert_int_equal(find("a=\"b c\" d=e", "d"), 1);
	assert_int_equal(find("a=\"never closed d=e", "a"), 16);
	assert_int_equal(find("a=\"never closed d=e", "d"), -1);
}

static void test_cut_value(void **state)
{
	char small[4];

	(void)state;
	assert_int_equal(cmdline_find("k=abcdef", "k", small, sizeof(small)), 6);
	assert_string_equal(small, "abc");
	assert_int_equal(cmdline_find("k=abcdef", "k", NULL, 0), 6);
}

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
	        {"0", 0},
	        {"4096", 4096},
	        {"1536M", 1536ull << 20},
	        {"1g", 1ull << 30},
	        {"2T", 2ull << 40},
	        {"0x1000", 4096},
	        {"0XfFk", 255ull << 10},
	        {"18446744073709551615", UINT64_MAX},
	        {"0xffffffffffffffff", UINT64_MAX},
	        {"16777215T", 16777215ull << 40},
	};
	static const char *const bad[] = {"", "M", "0x", "1X", "1MB", "-1", "1.5G", " 1",
	        "18446744073709551616", "0x10000000000000000", "16777216T", "12a"};
	uint64_t v;

	(void)state;
	for (unsigned i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_true(cmdline_parse_size(good[i].text, &v));
		assert_int_equal(v, good[i].bytes);
	}
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		v = 77;
		assert_false(cmdline_parse_size(bad[i], &v));
		assert_int_equal(v, 77);
	}
}

static void test_find_size(void **state)
{
	uint64_t v = 0;

	(void)state;
	assert_true(cmdline_find_size("pool=1536M", "pool", 1, &v));
	assert_int_equal(v, 1536ull << 20);
	assert_true(cmdline_find_size("other=2", "pool", 5, &v));
	assert_int_equal(v, 5);
	assert_false(cmdline_find_size("pool=lots", "pool", 5, &v));
	assert_false(cmdline_find_size("pool", "pool", 5, &v));
	assert_false(cmdline_find_size("pool=00000000000000000000000000000000001", "pool", 5, &v));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_finds_values),
	        cmocka_unit_test(test_not_found),
	        cmocka_unit_test(test_last_one_wins),
	        cmocka_unit_test(test_quotes),
	        cmocka_unit_test(test_cut_value),
	        cmocka_unit_test(test_sizes),
	        cmocka_unit_test(test_find_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
