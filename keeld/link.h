/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's connection to a device process's control socket. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "keeld/loop.h"

#define LINK_LINE_BYTES 8192u

struct cJSON;

struct link {
	struct loop *loop;
	struct loop_source source; /* fd -1: not connected */
	size_t used;
	char line[LINK_LINE_BYTES];
	/* One answer, in the order of the requests. May close the link. */
	void (*answered)(struct link *link, const struct cJSON *answer);
	/* The other side is gone, or speaks something else; it is closed by then. */
	void (*closed)(struct link *link);
};

/* 0 or -errno; never waits. Needs: `loop` and the two calls set, not connected. */
int link_open(struct link *link, const char *path);
void link_close(struct link *link);
bool link_is_open(const struct link *link);
/* {"cmd": WORD}. 0 or -errno; never waits. */
int link_ask(struct link *link, const char *word);
