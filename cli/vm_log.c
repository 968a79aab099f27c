/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm log: what a VM's device processes said. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/verb.h"
#include "config/vmfile.h"

/* Where the last `lines` lines begin. */
static long find_start(FILE *in, unsigned lines)
{
	long at;
	int c = 0;

	fseek(in, 0, SEEK_END);
	at = ftell(in);
	/* The end of the last line is no beginning of another. */
	for (at = at > 0 ? at - 1 : 0; at > 0; at--) {
		fseek(in, at - 1, SEEK_SET);
		c = fgetc(in);
		if (c == '\n' && --lines == 0)
			return at;
	}
	return 0;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	unsigned lines = 0;
	const struct option_rule rules[] = {{"--lines", OPTION_SECONDS, &lines, 1, 1000000, NULL}};
	char path[256], text[4096];
	const char *name;
	size_t got;
	FILE *in;
	int rc = options_read(verb, argc, argv, rules, 1, &name, 1, 1);

	if (rc != OPTIONS_GO_ON)
		return rc;
	if (!vmfile_is_name(name))
		return complain(EXIT_REFUSED, "'%s' is no name of a VM", name);
	snprintf(path, sizeof(path), PATHS_LOG "/%s.log", name);
	in = fopen(path, "re");
	if (in == NULL)
		return complain(EXIT_REFUSED, "%s: %s%s", path, strerror(errno),
		        errno == ENOENT ? "; the VM was never started" : "");
	fseek(in, lines == 0 ? 0 : find_start(in, lines), SEEK_SET);
	while ((got = fread(text, 1, sizeof(text), in)) > 0)
		fwrite(text, 1, got, stdout);
	fclose(in);
	return EXIT_OK;
}

const struct verb verb_vm_log = {
        .group = "vm",
        .name = "log",
        .words = "[--lines N] NAME",
        .summary = "Print the log of a VM's device process",
        .help = "  --lines N  only the last N lines\n"
                "The guest's own output is its console: 'keel vm console --from-start NAME'.\n",
        .run = run,
};
