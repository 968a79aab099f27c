/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm console: a person's terminal, or a script, joined to a VM's serial console. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/console.h"
#include "cli/escape.h"
#include "cli/script.h"
#include "cli/verb.h"

static const char escapes[] = "\r\n~.  leave    ~?  this list    ~~  send ~    (after Enter)\r\n";

static struct termios terminal_before;

static bool make_raw(void)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &terminal_before) != 0)
		return false;
	raw = terminal_before;
	cfmakeraw(&raw);
	return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void make_normal(void)
{
	tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal_before);
}

struct joined {
	struct console *console;
	struct escape escape;
	unsigned idle;
	size_t used; /* typed, and not yet taken by the receiver */
	uint8_t typed[4096];
};

/* True: leave. */
static bool take_typed(struct joined *joined)
{
	char in[256];
	size_t room = (sizeof(joined->typed) - joined->used) / 2;
	ssize_t got = read(STDIN_FILENO, in, room < sizeof(in) ? room : sizeof(in));

	/* The end of a terminal that is gone. */
	if (got <= 0)
		return got == 0 || errno != EINTR;
	for (ssize_t i = 0; i < got; i++) {
		size_t bytes;
		char out[2];
		enum escape_result result = escape_take(&joined->escape, in[i], out, &bytes);

		memcpy(joined->typed + joined->used, out, bytes);
		joined->used += bytes;
		if (result == ESCAPE_LEAVE)
			return true;
		if (result == ESCAPE_HELP && write(STDOUT_FILENO, escapes, sizeof(escapes) - 1) < 0)
			return true;
	}
	return false;
}

/* Gives what was typed to the receiver, as far as it takes it. -ENODEV: the VM is gone. */
static int send_typed(struct joined *joined)
{
	int done = joined->used == 0 ? 0
	                             : console_write(joined->console, joined->typed, joined->used);

	if (done > 0) {
		joined->used -= (size_t)done;
		memmove(joined->typed, joined->typed + done, joined->used);
	}
	return done;
}

/* Returns when the person leaves (0) or the VM is gone (-ENODEV). */
static int join(struct joined *joined)
{
	uint8_t out[2048];
	int rc;

	for (;;) {
		bool room = joined->used < sizeof(joined->typed) / 2;

		rc = console_read(joined->console, out, sizeof(out));
		if (rc < 0)
			return rc;
		if (rc > 0) {
			joined->idle = 0;
			if (write(STDOUT_FILENO, out, (size_t)rc) < 0)
				return 0;
		}
		if (console_wait(&joined->idle, room ? STDIN_FILENO : -1)) {
			if (take_typed(joined))
				return 0;
			joined->idle = 0;
		}
		rc = send_typed(joined);
		if (rc < 0)
			return rc;
	}
}

static int talk_to_person(struct console *console)
{
	static struct joined joined;
	bool raw = make_raw();
	int rc;

	joined = (struct joined){.console = console};
	if (raw)
		fprintf(stderr, "connected to %s; ~. leaves, ~? tells more\r\n", console->name);
	rc = join(&joined);
	if (raw) {
		make_normal();
		fputc('\n', stderr);
	}
	return rc == 0 ? EXIT_OK
	               : complain(EXIT_OK, "%s is gone (%s)", console->name, strerror(-rc));
}

/* Prints what the ring has, without waiting for more. */
static int dump(struct console *console)
{
	uint8_t out[2048];
	int got;

	while ((got = console_read(console, out, sizeof(out))) > 0)
		fwrite(out, 1, (size_t)got, stdout);
	return got == 0 ? EXIT_OK
	                : complain(EXIT_REFUSED, "%s is gone (%s)", console->name, strerror(-got));
}

static struct script script;

static bool add_step(const char *name, const char *text)
{
	return script_add(&script, strcmp(name, "--send") == 0, text);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	bool from_start = false, only_dump = false;
	unsigned timeout_s = 60;
	const struct option_rule rules[] = {
	        {"--from-start", OPTION_FLAG, &from_start, 0, 0, NULL},
	        {"--dump", OPTION_FLAG, &only_dump, 0, 0, NULL},
	        {"--send", OPTION_STEP, NULL, 0, 0, add_step},
	        {"--expect", OPTION_STEP, NULL, 0, 0, add_step},
	        {"--timeout", OPTION_SECONDS, &timeout_s, 0, 86400, NULL},
	};
	struct console console;
	const char *name;
	int rc = options_read(verb, argc, argv, rules, 5, &name, 1, 1);

	if (rc != OPTIONS_GO_ON)
		return rc;
	rc = console_open(&console, name, from_start || only_dump);
	if (rc != EXIT_OK)
		return rc;
	if (only_dump)
		rc = dump(&console);
	else if (script.count > 0)
		rc = script_run(&script, &console, timeout_s);
	else
		rc = talk_to_person(&console);
	console_close(&console);
	return rc;
}

const struct verb verb_vm_console = {
        .group = "vm",
        .name = "console",
        .words = "[--from-start] [--dump] [--send TEXT | --expect REGEX]… [--timeout S] NAME",
        .summary = "Join this terminal to a VM's serial console",
        .help = "After Enter: ~. leaves, ~? tells more. The VM's device process is not needed.\n"
                "  --from-start    begin with the oldest output kept, not with what comes now\n"
                "  --dump          print all output kept, and end\n"
                "  --send TEXT     type TEXT and Enter; for scripts\n"
                "  --expect REGEX  wait until it is said (extended regular expression, after what\n"
                "                  the one before matched); these two can be given many times\n"
                "  --timeout S     for all of them together (60); exit code 1 if it is over\n",
        .run = run,
};
