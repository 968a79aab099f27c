/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm upgrade: replaces a VM's device process while the VM runs. */
#include "cli/vm_simple.h"

static int run(const struct verb *verb, int argc, char **argv)
{
	return vm_simple_run(verb, "upgrade", argc, argv);
}

const struct verb verb_vm_upgrade = {
        .group = "vm",
        .name = "upgrade",
        .words = "NAME",
        .summary = "Replace a VM's device process by a new one, while the VM runs",
        .help = "The new one is " PATHS_KEELVM " as it is now, for example after an update.\n",
        .run = run,
};
