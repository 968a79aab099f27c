/* SPDX-License-Identifier: BSD-2-Clause */
/* keel log: what hyp said, from the oldest that it still has. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/device.h"
#include "cli/verb.h"

static int run(const struct verb *verb, int argc, char **argv)
{
	struct keel_hc_console block = {0};
	int rc = options_read(verb, argc, argv, NULL, 0, NULL, 0, 0);
	int fd;

	if (rc != OPTIONS_GO_ON)
		return rc;
	fd = device_open(&rc);
	if (fd < 0)
		return rc;
	do {
		block.bytes = KEEL_CONSOLE_CHUNK;
		rc = device_log_read(fd, &block);
		if (rc == 0)
			fwrite(block.data, 1, block.bytes, stdout);
	} while (rc == 0 && block.bytes > 0);
	close(fd);
	return rc == 0 ? EXIT_OK : complain(EXIT_REFUSED, "hyp's log: %s", strerror(-rc));
}

const struct verb verb_log = {
        .name = "log",
        .words = "",
        .summary = "Print hyp's log",
        .help = "",
        .run = run,
};
