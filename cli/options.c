/* SPDX-License-Identifier: BSD-2-Clause */
/* Options in one form for all verbs: --name, --name VALUE, --name=VALUE. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/verb.h"

int complain(int code, const char *format, ...)
{
	va_list args;

	fputs("keel: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return code;
}

void options_print_usage(const struct verb *verb, bool to_error)
{
	FILE *out = to_error ? stderr : stdout;

	fprintf(out, "usage: keel %s%s%s %s\n", verb->group != NULL ? verb->group : "",
	        verb->group != NULL ? " " : "", verb->name, verb->words);
	if (!to_error)
		fprintf(out, "%s\n%s", verb->summary, verb->help);
}

static int usage_error(const struct verb *verb, const char *what, const char *word)
{
	fprintf(stderr, "keel: %s%s%s\n", what, word != NULL ? " " : "", word != NULL ? word : "");
	options_print_usage(verb, true);
	return EXIT_USAGE;
}

static bool read_seconds(const struct option_rule *rule, const char *text)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value < rule->low ||
	        value > rule->high)
		return false;
	*(unsigned *)rule->value = (unsigned)value;
	return true;
}

static bool take(const struct option_rule *rule, const char *text)
{
	switch (rule->kind) {
	case OPTION_FLAG: *(bool *)rule->value = true; return true;
	case OPTION_SECONDS: return read_seconds(rule, text);
	case OPTION_TEXT: *(const char **)rule->value = text; return true;
	case OPTION_STEP: return rule->step(rule->name, text);
	}
	return false;
}

/* The rule of argv[*at], or NULL; *text is its value, and *at its last word then. */
static const struct option_rule *find_rule(const struct option_rule *rules, unsigned count,
        int argc, char **argv, int *at, const char **text)
{
	const char *word = argv[*at];
	const char *equals = strchr(word, '=');
	size_t bytes = equals != NULL ? (size_t)(equals - word) : strlen(word);

	*text = NULL;
	for (unsigned i = 0; i < count; i++) {
		const struct option_rule *rule = &rules[i];

		if (strlen(rule->name) != bytes || memcmp(rule->name, word, bytes) != 0)
			continue;
		if (rule->kind == OPTION_FLAG)
			return equals == NULL ? rule : NULL;
		if (equals != NULL)
			*text = equals + 1;
		else if (*at + 1 < argc)
			*text = argv[++*at];
		return rule;
	}
	return NULL;
}

static int read_option(const struct verb *verb, int argc, char **argv, int *at,
        const struct option_rule *rules, unsigned count)
{
	const char *name = argv[*at], *text;
	const struct option_rule *rule;

	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
		options_print_usage(verb, false);
		return EXIT_OK;
	}
	rule = find_rule(rules, count, argc, argv, at, &text);
	if (rule == NULL)
		return usage_error(verb, "unknown option", name);
	if (rule->kind != OPTION_FLAG && text == NULL)
		return usage_error(verb, "a value has to follow", name);
	if (take(rule, text))
		return OPTIONS_GO_ON;
	return usage_error(verb, "no such value:", argv[*at]);
}

int options_read(const struct verb *verb, int argc, char **argv, const struct option_rule *rules,
        unsigned rule_count, const char **words, unsigned least, unsigned most)
{
	bool plain = false; /* after "--" */
	unsigned count = 0;

	for (unsigned i = 0; i < most; i++)
		words[i] = NULL;
	for (int at = 1; at < argc; at++) {
		if (!plain && strcmp(argv[at], "--") == 0) {
			plain = true;
		} else if (!plain && argv[at][0] == '-' && argv[at][1] != '\0') {
			int rc = read_option(verb, argc, argv, &at, rules, rule_count);

			if (rc != OPTIONS_GO_ON)
				return rc;
		} else if (count == most) {
			return usage_error(verb, "one word too many:", argv[at]);
		} else {
			words[count++] = argv[at];
		}
	}
	if (count < least)
		return usage_error(verb, "a word is missing", NULL);
	return OPTIONS_GO_ON;
}
