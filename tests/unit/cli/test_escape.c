/* SPDX-License-Identifier: BSD-2-Clause */
/* The console's escapes: what is typed becomes this for the guest, and leaves only where it should.
 */
/* sources: cli/escape.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/escape.h"

/* Types it all; the sent bytes in sent[], with \1 where help was asked for, \2 where it left. */
static const char *type(const char *text)
{
	static char sent[64];
	struct escape escape = {false, false};
	size_t used = 0;

	for (; *text != '\0'; text++) {
		size_t bytes = 0;
		char out[2];
		enum escape_result result = escape_take(&escape, *text, out, &bytes);

		memcpy(sent + used, out, bytes);
		used += bytes;
		if (result == ESCAPE_HELP)
			sent[used++] = '\1';
		if (result == ESCAPE_LEAVE) {
			sent[used++] = '\2';
			break;
		}
	}
	sent[used] = '\0';
	return sent;
}

static void test_leave(void **state)
{
	(void)state;
	assert_string_equal(type("~."), "\2");
	assert_string_equal(type("ls\r~."), "ls\r\2");
	assert_string_equal(type("ls\n~."), "ls\n\2");
	assert_string_equal(type("\r\r~.x"), "\r\r\2");
}

static void test_not_within_a_line(void **state)
{
	(void)state;
	assert_string_equal(type("ls ~.\r"), "ls ~.\r");
	assert_string_equal(type("cd ~\r.\r"), "cd ~\r.\r");
	assert_string_equal(type("x~."), "x~.");
}

static void test_other_characters(void **state)
{
	(void)state;
	assert_string_equal(type("~a."), "~a.");
	assert_string_equal(type("~/x"), "~/x");
	/* The line goes on after them. */
	assert_string_equal(type("~a~."), "~a~.");
	/* One that ends the line begins another. */
	assert_string_equal(type("~\r~."), "~\r\2");
	assert_string_equal(type("~"), "");
}

static void test_tilde_and_help(void **state)
{
	(void)state;
	assert_string_equal(type("~~"), "~");
	assert_string_equal(type("~~."), "~.");
	assert_string_equal(type("~?"), "\1");
	/* Help sends nothing, so the line is still at its start. */
	assert_string_equal(type("~?~."), "\1\2");
	assert_string_equal(type("~~~."), "~~.");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_leave),
	        cmocka_unit_test(test_not_within_a_line),
	        cmocka_unit_test(test_other_characters),
	        cmocka_unit_test(test_tilde_and_help),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
