/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of keel-blk. */
#pragma once

#include <stdbool.h>

#include "engine/blk.h"

struct options {
	struct blk_config disk; /* without its events */
	const char *socket_path;
	int listen_fd; /* -1: socket_path is used */
};

enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_WRONG };

/* Tells on stdout or stderr whatever there is to tell. */
enum options_result options_read(struct options *o, int argc, char **argv);
