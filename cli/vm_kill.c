/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm kill: ends a VM without asking its guest. */
#include "cli/vm_simple.h"

static int run(const struct verb *verb, int argc, char **argv)
{
	return vm_simple_run(verb, "kill", argc, argv);
}

const struct verb verb_vm_kill = {
        .group = "vm",
        .name = "kill",
        .words = "NAME",
        .summary = "End a VM at once, as by pulling the plug",
        .help = "What its guest had not written to its disks is lost. 'keel vm stop' is the gentle "
                "way.\n",
        .run = run,
};
