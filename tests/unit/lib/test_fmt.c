/* SPDX-License-Identifier: BSD-2-Clause */
/* The formatter against the C library's, and its behaviour at the end of the buffer. */
/* sources: lib/fmt.c */
#include "lib/fmt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each line is printed by both; text and length have to agree. */
#define SAME(...)                                                                                  \
	do {                                                                                       \
		char ours[256], theirs[256];                                                       \
		size_t n = fmt_print(ours, sizeof(ours), __VA_ARGS__);                             \
		int m = snprintf(theirs, sizeof(theirs), __VA_ARGS__);                             \
		assert_string_equal(ours, theirs);                                                 \
		assert_int_equal(n, m);                                                            \
	} while (0)

static void test_numbers(void **state)
{
	(void)state;
	SAME("%d %i %u", 0, -1, 42u);
	SAME("%d %d", INT_MIN, INT_MAX);
	SAME("%lld %llu", LLONG_MIN, ULLONG_MAX);
	SAME("%ld %lu %zu", LONG_MIN, ULONG_MAX, SIZE_MAX);
	SAME("%" PRIx64 " %" PRIX64, UINT64_MAX, (uint64_t)0xdeadbeefcafe);
	SAME("%hhx %hx %hhd", 0x1ff, 0x1ffff, 200);
	SAME("%#x %#X %#x", 0xabcu, 0xabcu, 0u);
}

static void test_fields(void **state)
{
	(void)state;
	SAME("[%5d][%-5d][%05d][%+d][% d]", 42, 42, 42, 42, 42);
	SAME("[%5d][%-5d][%05d][%+d][% d]", -42, -42, -42, -42, -42);
	SAME("[%016llx][%8x][%-8x]", 0x1234ull, 0x12u, 0x12u);
	SAME("[%.3d][%.0d][%6.3d][%-6.3u]", 7, 7, 7, 7u);
	SAME("[%*d][%-*d][%.*s]", 6, 1, 6, 1, 2, "abcdef");
	SAME("[%#010x]", 0x12u);
	SAME("[%10.4x]", 0x12u);
}

static void test_text(void **state)
{
	(void)state;
	SAME("%s|%8s|%-8s|%.2s|%8.2s", "abc", "abc", "abc", "abc", "abc");
	SAME("%c%c", 'x', 'y');
	SAME("100%%");
	SAME("%p", (void *)0x1234);
}

static void test_null_text(void **state)
{
	const char *volatile none = NULL;
	char out[16];

	(void)state;
	fmt_print(out, sizeof(out), "%s", none);
	assert_string_equal(out, "(null)");
}

static void test_unterminated_text_with_precision(void **state)
{
	char *exact = malloc(3); /* so that the sanitizer sees a read beyond it */
	char out[16];

	(void)state;
	memcpy(exact, "abc", 3);
	fmt_print(out, sizeof(out), "%.3s", exact);
	assert_string_equal(out, "abc");
	free(exact);
}

static void test_cut(void **state)
{
	char *out = malloc(4);

	(void)state;
	assert_int_equal(fmt_print(out, 4, "%s", "abcdef"), 6);
	assert_string_equal(out, "abc");
	assert_int_equal(fmt_print(out, 1, "%d", 12345), 5);
	assert_string_equal(out, "");
	free(out);
	assert_int_equal(fmt_print(NULL, 0, "%d", 12345), 5);
}

/* Not by literals: the compiler would refuse them, as it should. */
static void test_unknown_conversions_stand(void **state)
{
	static const char *const formats[] = {"a%yb", "%", "x%5", "%-"};
	static const char *const wanted[] = {"a%yb", "%", "x%5", "%-"};
	char out[32];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		const char *volatile format = formats[i];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
		fmt_print(out, sizeof(out), format);
#pragma GCC diagnostic pop
		assert_string_equal(out, wanted[i]);
	}
}

static void test_rubbish_width_is_bounded(void **state)
{
	(void)state;
	assert_int_equal(fmt_print(NULL, 0, "%99999999d", 1), 4096);
	assert_int_equal(fmt_print(NULL, 0, "%*d", INT_MAX, 1), 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_numbers),
	        cmocka_unit_test(test_fields),
	        cmocka_unit_test(test_text),
	        cmocka_unit_test(test_null_text),
	        cmocka_unit_test(test_unterminated_text_with_precision),
	        cmocka_unit_test(test_cut),
	        cmocka_unit_test(test_unknown_conversions_stand),
	        cmocka_unit_test(test_rubbish_width_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
