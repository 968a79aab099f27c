/* SPDX-License-Identifier: BSD-2-Clause */
/* A conversation with a console, given as steps on the command line. */
#pragma once

#include <stdbool.h>

#include "cli/console.h"

#define SCRIPT_MAX_STEPS 64u

struct script {
	unsigned count;
	struct {
		bool send; /* else: expect */
		const char *text;
	} steps[SCRIPT_MAX_STEPS];
};

/* False: too many, or no regular expression (a line says so). */
bool script_add(struct script *script, bool send, const char *text);
/*
 * Does all steps in order, and prints what the console says meanwhile. Each `expect` looks at what
 * came after the match of the one before. EXIT_OK, or EXIT_REFUSED after a line: timeout_s is over,
 * or the VM is gone.
 */
int script_run(const struct script *script, struct console *console, unsigned timeout_s);
