/* SPDX-License-Identifier: BSD-2-Clause */
/* A state machine of two bits (escape.h). */
#include "cli/escape.h"

static bool ends_line(char c)
{
	return c == '\r' || c == '\n';
}

enum escape_result escape_take(struct escape *escape, char in, char out[2], size_t *bytes)
{
	*bytes = 0;
	if (escape->held) {
		escape->held = false;
		switch (in) {
		case '.': return ESCAPE_LEAVE;
		case '?': return ESCAPE_HELP;
		case '~': break;
		default: out[(*bytes)++] = '~';
		}
	} else if (in == '~' && !escape->in_line) {
		escape->held = true;
		return ESCAPE_SEND;
	}
	out[(*bytes)++] = in;
	escape->in_line = !ends_line(in);
	return ESCAPE_SEND;
}
