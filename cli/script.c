/* SPDX-License-Identifier: BSD-2-Clause */
/* send and expect, for scripts (script.h). */
#include "cli/script.h"

#include <errno.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/verb.h"

#define KEPT_BYTES 65536u

struct talk {
	struct console *console;
	uint64_t end_ns;
	unsigned idle;
	size_t used;
	char text[KEPT_BYTES +
	          1]; /* what was read and not matched yet; NULs and CRs are left out */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool compile(regex_t *regex, const char *text)
{
	char why[128];
	int rc = regcomp(regex, text, REG_EXTENDED | REG_NEWLINE);

	if (rc == 0)
		return true;
	regerror(rc, regex, why, sizeof(why));
	complain(0, "--expect '%s': %s", text, why);
	return false;
}

bool script_add(struct script *script, bool send, const char *text)
{
	regex_t regex;

	if (script->count == SCRIPT_MAX_STEPS) {
		complain(0, "more than %u steps", SCRIPT_MAX_STEPS);
		return false;
	}
	if (!send) {
		if (!compile(&regex, text))
			return false;
		regfree(&regex);
	}
	script->steps[script->count].send = send;
	script->steps[script->count++].text = text;
	return true;
}

static void drop_front(struct talk *talk, size_t bytes)
{
	talk->used -= bytes;
	memmove(talk->text, talk->text + bytes, talk->used + 1);
}

/* -ENODEV: the VM is gone. Else 1 if something came. */
static int listen_once(struct talk *talk)
{
	uint8_t data[2048];
	int got = console_read(talk->console, data, sizeof(data));

	if (got <= 0)
		return got;
	talk->idle = 0;
	fwrite(data, 1, (size_t)got, stdout);
	fflush(stdout);
	/* Half of what is kept goes at once: seldom. */
	if (talk->used + (size_t)got > KEPT_BYTES)
		drop_front(talk, KEPT_BYTES / 2);
	for (int i = 0; i < got; i++)
		if (data[i] != '\0' && data[i] != '\r')
			talk->text[talk->used++] = (char)data[i];
	talk->text[talk->used] = '\0';
	return 1;
}

static int fail(const struct talk *talk, int rc, const char *what, const char *text)
{
	fputc('\n', stdout);
	fflush(stdout);
	if (rc == 0)
		return complain(
		        EXIT_REFUSED, "%s: %s '%s' in time", talk->console->name, what, text);
	return complain(EXIT_REFUSED, "%s is gone before %s '%s'", talk->console->name,
	        "it had done with", text);
}

static int expect(struct talk *talk, const char *text)
{
	regmatch_t match;
	regex_t regex;
	int rc = 0;

	if (!compile(&regex, text))
		return EXIT_USAGE;
	while (regexec(&regex, talk->text, 1, &match, 0) != 0) {
		rc = listen_once(talk);
		if (rc < 0 || (rc == 0 && now_ns() > talk->end_ns)) {
			regfree(&regex);
			return fail(talk, rc, "did not say", text);
		}
		if (rc == 0)
			console_wait(&talk->idle, -1);
	}
	regfree(&regex);
	drop_front(talk, (size_t)match.rm_eo);
	return EXIT_OK;
}

/* The text and Enter. The receiver takes a few bytes at a time. */
static int send_line(struct talk *talk, const char *text)
{
	size_t left = strlen(text) + 1;
	const char *at = text;

	while (left > 0) {
		const char enter = '\r';
		int rc = left == 1 ? console_write(talk->console, (const uint8_t *)&enter, 1)
		                   : console_write(talk->console, (const uint8_t *)at, left - 1);

		if (rc > 0) {
			at += rc;
			left -= (size_t)rc;
			continue;
		}
		if (rc == 0)
			rc = listen_once(talk);
		if (rc < 0 || now_ns() > talk->end_ns)
			return fail(talk, rc < 0 ? rc : 0, "did not take", text);
		if (rc == 0)
			console_wait(&talk->idle, -1);
	}
	return EXIT_OK;
}

int script_run(const struct script *script, struct console *console, unsigned timeout_s)
{
	static struct talk talk;
	int code = EXIT_OK;

	talk = (struct talk){
	        .console = console,
	        .end_ns = now_ns() + (uint64_t)timeout_s * 1000000000u,
	};
	for (unsigned i = 0; i < script->count && code == EXIT_OK; i++)
		code = script->steps[i].send ? send_line(&talk, script->steps[i].text)
		                             : expect(&talk, script->steps[i].text);
	return code;
}
