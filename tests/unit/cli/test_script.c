/* SPDX-License-Identifier: BSD-2-Clause */
/* send and expect: a console that says its lines one by one, and takes a few bytes at a time. */
/* sources: cli/script.c cli/options.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/script.h"
#include "cli/verb.h"

/* What each read gives; then nothing, or the VM is gone. */
static const char *const *says;
static bool gone_after;
static char typed[256];
static size_t typed_bytes;
static size_t take_at_once;

int console_read(struct console *console, uint8_t *out, size_t room)
{
	size_t bytes;

	(void)console;
	if (*says == NULL)
		return gone_after ? -ENODEV : 0;
	bytes = strlen(*says);
	assert_true(bytes <= room);
	memcpy(out, *says++, bytes);
	return (int)bytes;
}

int console_write(struct console *console, const uint8_t *in, size_t bytes)
{
	static unsigned turn;

	(void)console;
	/* Every other time its receiver is full. */
	if (take_at_once == 0 || turn++ % 2 == 1)
		return 0;
	bytes = bytes < take_at_once ? bytes : take_at_once;
	memcpy(typed + typed_bytes, in, bytes);
	typed_bytes += bytes;
	return (int)bytes;
}

bool console_wait(unsigned *idle, int fd)
{
	(void)fd;
	++*idle;
	return false;
}

static struct console console = {.fd = 3, .name = "a"};

/* steps: "s:TEXT" and "e:REGEX" */
static int run(const char *const *lines, const char *const *steps, unsigned timeout_s)
{
	static struct script script;

	script = (struct script){0};
	for (; *steps != NULL; steps++)
		assert_true(script_add(&script, (*steps)[0] == 's', *steps + 2));
	says = lines;
	typed_bytes = 0;
	return script_run(&script, &console, timeout_s);
}

#define LIST(...)                                                                                  \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

static int set_up(void **state)
{
	(void)state;
	gone_after = false;
	take_at_once = 3;
	return 0;
}

static void test_log_in(void **state)
{
	(void)state;
	assert_int_equal(
	        run(LIST("boot\r\nweb lo", "gin: ", "root\r\n# ", "uname\r\nLinux\r\n# "),
	                LIST("e:login: ", "s:root", "e:# ", "s:uname", "e:^Linux$", "e:#"), 5),
	        EXIT_OK);
	typed[typed_bytes] = '\0';
	assert_string_equal(typed, "root\runame\r");
}

static void test_only_what_comes_after(void **state)
{
	(void)state;
	/* What one step has matched, the next does not see. */
	assert_int_equal(run(LIST("one two one"), LIST("e:one", "e:two", "e:one"), 0), EXIT_OK);
	assert_int_equal(run(LIST("one two"), LIST("e:two", "e:one"), 0), EXIT_REFUSED);
	/* Sending takes nothing away from what was said meanwhile. */
	assert_int_equal(run(LIST("a", "b", "c"), LIST("s:long text", "e:abc"), 5), EXIT_OK);
}

static void test_time(void **state)
{
	(void)state;
	assert_int_equal(run(LIST("nothing of it"), LIST("e:never"), 0), EXIT_REFUSED);
	assert_int_equal(run(LIST("x"), LIST("e:x"), 0), EXIT_OK);
	/* A guest that does not read. */
	take_at_once = 0;
	assert_int_equal(run(LIST("x"), LIST("s:text"), 0), EXIT_REFUSED);
}

static void test_gone(void **state)
{
	(void)state;
	gone_after = true;
	assert_int_equal(run(LIST("x"), LIST("e:never"), 60), EXIT_REFUSED);
	assert_int_equal(run(LIST("x"), LIST("e:x"), 60), EXIT_OK);
}

/* A console that says more than is kept: the end of it counts. */
static void test_flood(void **state)
{
	static const char *lines[102];
	static char block[2048];

	(void)state;
	memset(block, 'y', sizeof(block) - 1);
	for (unsigned i = 0; i < 100; i++)
		lines[i] = block;
	lines[100] = "the end";
	assert_int_equal(run(lines, LIST("e:the end"), 60), EXIT_OK);
}

static void test_zero_bytes(void **state)
{
	(void)state;
	assert_int_equal(run(LIST("lo\r", "gin\r\n"), LIST("e:^login$"), 5), EXIT_OK);
}

static void test_wrong_steps(void **state)
{
	static struct script script;

	(void)state;
	assert_false(script_add(&script, false, "(unclosed"));
	assert_int_equal(script.count, 0);
	for (unsigned i = 0; i < SCRIPT_MAX_STEPS; i++)
		assert_true(script_add(&script, true, "(anything"));
	assert_false(script_add(&script, true, "x"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_log_in, set_up),
	        cmocka_unit_test_setup(test_only_what_comes_after, set_up),
	        cmocka_unit_test_setup(test_time, set_up),
	        cmocka_unit_test_setup(test_gone, set_up),
	        cmocka_unit_test_setup(test_flood, set_up),
	        cmocka_unit_test_setup(test_zero_bytes, set_up),
	        cmocka_unit_test_setup(test_wrong_steps, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
