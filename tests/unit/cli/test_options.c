/* SPDX-License-Identifier: BSD-2-Clause */
/* How a verb's words are read, and that every verb of the command says how it is used. */
/* sources: cli/options.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/verb.h"

static const struct verb verb = {
        .group = "vm", .name = "test", .words = "NAME", .summary = "Test", .help = "help\n"};

static bool flag;
static unsigned seconds;
static const char *text;
static char steps[64];

static bool add_step(const char *name, const char *value)
{
	strcat(steps, name + 2);
	strcat(steps, value);
	return value[0] != '!';
}

static const char *words[2];

/* Reads what is parted by '|'. */
static int read_line(const char *line, unsigned least, unsigned most)
{
	static const struct option_rule rules[] = {
	        {"--flag", OPTION_FLAG, &flag, 0, 0, NULL},
	        {"--time", OPTION_SECONDS, &seconds, 5, 100, NULL},
	        {"--text", OPTION_TEXT, &text, 0, 0, NULL},
	        {"--send", OPTION_STEP, NULL, 0, 0, add_step},
	};
	static char copy[256];
	char *argv[16] = {"test"};
	int argc = 1;

	flag = false;
	seconds = 0;
	text = NULL;
	steps[0] = '\0';
	strcpy(copy, line);
	for (char *at = strtok(copy, "|"); at != NULL; at = strtok(NULL, "|"))
		argv[argc++] = at;
	return options_read(&verb, argc, argv, rules, 4, words, least, most);
}

static void test_words(void **state)
{
	(void)state;
	assert_int_equal(read_line("a", 1, 1), OPTIONS_GO_ON);
	assert_string_equal(words[0], "a");
	assert_int_equal(read_line("", 0, 2), OPTIONS_GO_ON);
	assert_null(words[0]);
	assert_null(words[1]);
	assert_int_equal(read_line("", 1, 1), EXIT_USAGE);
	assert_int_equal(read_line("a|b", 1, 1), EXIT_USAGE);
	assert_int_equal(read_line("-", 1, 1), OPTIONS_GO_ON);
	assert_int_equal(read_line("--|--flag", 1, 1), OPTIONS_GO_ON);
	assert_string_equal(words[0], "--flag");
	assert_false(flag);
}

static void test_options(void **state)
{
	(void)state;
	assert_int_equal(read_line("--flag|a|--time|7|--text=x=y", 1, 1), OPTIONS_GO_ON);
	assert_true(flag);
	assert_int_equal(seconds, 7);
	assert_string_equal(text, "x=y");
	assert_int_equal(read_line("a|--time=100", 1, 1), OPTIONS_GO_ON);
	assert_int_equal(seconds, 100);
	/* A value may look like an option. */
	assert_int_equal(read_line("--text|--flag", 0, 0), OPTIONS_GO_ON);
	assert_string_equal(text, "--flag");
	assert_false(flag);
	assert_int_equal(read_line("--send|a|x|--send=b", 1, 1), OPTIONS_GO_ON);
	assert_string_equal(steps, "sendasendb");
}

static void test_wrong_options(void **state)
{
	static const char *const wrong[] = {"--nope", "--fla", "--flagx", "--flag=1", "--time",
	        "--time|4", "--time|101", "--time|x", "--time|7s", "--time=", "--time|-7", "--text",
	        "-x", "--send|!", "--time|99999999999999999999"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (read_line(wrong[i], 0, 1) != EXIT_USAGE)
			fail_msg("taken: %s", wrong[i]);
}

static void test_help(void **state)
{
	(void)state;
	assert_int_equal(read_line("--help", 1, 1), EXIT_OK);
	assert_int_equal(read_line("-h", 1, 1), EXIT_OK);
	/* Of the words that follow nothing is done. */
	assert_int_equal(read_line("--help|--flag", 1, 1), EXIT_OK);
	assert_false(flag);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_words),
	        cmocka_unit_test(test_options),
	        cmocka_unit_test(test_wrong_options),
	        cmocka_unit_test(test_help),
	};

	/* What is said to the user is not the test's. */
	if (freopen("/dev/null", "w", stderr) == NULL)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
