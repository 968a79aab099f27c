/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm start: starts a VM. */
#include "cli/vm_simple.h"

static int run(const struct verb *verb, int argc, char **argv)
{
	return vm_simple_run(verb, "start", argc, argv);
}

const struct verb verb_vm_start = {
        .group = "vm",
        .name = "start",
        .words = "NAME",
        .summary = "Start a VM, and wait until its device process serves it",
        .help = "The guest then boots; 'keel vm console NAME' shows it. A VM whose guest is off "
                "but that was\n"
                "kept (on_poweroff = preserve) is started again.\n",
        .run = run,
};
