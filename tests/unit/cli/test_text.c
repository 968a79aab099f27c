/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and tables as people read them. */
/* sources: cli/text.c cli/table.c */
/* libs: -lcjson */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "cli/text.h"

static void test_sizes(void **state)
{
	char out[TEXT_BYTES];

	(void)state;
	assert_string_equal(text_size(0, out), "0");
	assert_string_equal(text_size(512, out), "0.5K");
	assert_string_equal(text_size(1024, out), "1K");
	assert_string_equal(text_size(256ull << 20, out), "256M");
	assert_string_equal(text_size(1536ull << 20, out), "1.5G");
	assert_string_equal(text_size(3ull << 50, out), "3P");
	assert_string_equal(text_size(UINT64_MAX, out), "16384P");
}

static void test_rates_and_times(void **state)
{
	char out[TEXT_BYTES];

	(void)state;
	assert_string_equal(text_rate(0, out), "0");
	assert_string_equal(text_rate(999, out), "999");
	assert_string_equal(text_rate(1500, out), "1.5k");
	assert_string_equal(text_rate(2.25e6, out), "2.2M");
	assert_string_equal(text_duration(59, out), "59s");
	assert_string_equal(text_duration(61, out), "1m 1s");
	assert_string_equal(text_duration(3600, out), "1h 0m");
	assert_string_equal(text_duration(90061, out), "1d 1h");
}

static void test_table(void **state)
{
	static const char *const heads[] = {"NAME", ">N", "LAST"};
	static struct table table;
	char *text = NULL, longer[200];
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	table_init(&table, 3, heads);
	assert_true(table_row(&table));
	table_set(&table, 0, "a");
	table_set(&table, 1, "%d", 1000);
	assert_true(table_row(&table));
	table_set(&table, 0, "longer");
	table_set(&table, 1, "%d", 7);
	table_set(&table, 2, "x");
	table_print(&table, out);
	fclose(out);
	assert_string_equal(text, "NAME       N  LAST\n"
	                          "a       1000  \n"
	                          "longer     7  x\n");
	free(text);
	/* What is too much is cut, not written elsewhere. */
	memset(longer, 'y', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	table_set(&table, 2, "%s", longer);
	assert_int_equal(strlen(table.cells[2][2]), 71);
	while (table_row(&table))
		;
	assert_int_equal(table.rows, TABLE_ROWS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_sizes),
	        cmocka_unit_test(test_rates_and_times),
	        cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
