/* SPDX-License-Identifier: BSD-2-Clause */
/* What the verbs share that only name a VM and wait. */
#pragma once

#include "cli/verb.h"

/* Asks keeld cmd for the VM named in argv; no answer but an error is printed. */
int vm_simple_run(const struct verb *verb, const char *cmd, int argc, char **argv);
