/* SPDX-License-Identifier: BSD-2-Clause */
/* The console's escapes, as ssh has them: '~' at the start of a line, then a character. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * ~.  leaves        ~?  shows the list        ~~  sends one '~'
 * Any other character after '~' is sent together with it. A '~' that no character follows yet is
 * held back. A line starts after CR or LF, and at the beginning.
 */
struct escape {
	bool in_line; /* something was typed since the line's start */
	bool held;    /* a '~' */
};

enum escape_result {
	ESCAPE_SEND, /* what is in out, possibly nothing */
	ESCAPE_HELP,
	ESCAPE_LEAVE,
};

/* Takes one typed byte. out has *bytes (0 to 2) to send in any case. */
enum escape_result escape_take(struct escape *escape, char in, char out[2], size_t *bytes);
