/* SPDX-License-Identifier: BSD-2-Clause */
/* A verb that names a VM and has no options (vm_simple.h). */
#include "cli/vm_simple.h"

#include "cli/client.h"

int vm_simple_run(const struct verb *verb, const char *cmd, int argc, char **argv)
{
	const char *name;
	int rc = options_read(verb, argc, argv, NULL, 0, &name, 1, 1);

	if (rc == OPTIONS_GO_ON)
		cJSON_Delete(client_ask_keeld(cmd, name, &rc));
	return rc;
}
