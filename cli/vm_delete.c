/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm delete: forgets a VM's file. */
#include "cli/vm_simple.h"

static int run(const struct verb *verb, int argc, char **argv)
{
	return vm_simple_run(verb, "delete", argc, argv);
}

const struct verb verb_vm_delete = {
        .group = "vm",
        .name = "delete",
        .words = "NAME",
        .summary = "Forget a VM that is off; its disks stay",
        .help = "Removes " PATHS_DEFINITIONS "/NAME.conf.\n",
        .run = run,
};
