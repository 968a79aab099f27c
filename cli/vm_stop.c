/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm stop: presses the power button and waits for the guest to act on it. */
#include "cli/client.h"
#include "cli/verb.h"

static int run(const struct verb *verb, int argc, char **argv)
{
	unsigned timeout_s = 60;
	const struct option_rule rules[] = {
	        {"--timeout", OPTION_SECONDS, &timeout_s, 0, 86400, NULL},
	};
	cJSON *request;
	const char *name;
	int rc = options_read(verb, argc, argv, rules, 1, &name, 1, 1);

	if (rc != OPTIONS_GO_ON)
		return rc;
	request = cJSON_CreateObject();
	cJSON_AddStringToObject(request, "cmd", "stop");
	cJSON_AddStringToObject(request, "name", name);
	cJSON_AddNumberToObject(request, "timeout_s", timeout_s);
	cJSON_Delete(client_ask(PATHS_SOCKET, request, &rc, false));
	return rc;
}

const struct verb verb_vm_stop = {
        .group = "vm",
        .name = "stop",
        .words = "[--timeout SECONDS] NAME",
        .summary = "Press a VM's power button, and wait until its guest is off",
        .help = "  --timeout SECONDS  how long to wait (60); the VM runs on when it is over\n",
        .run = run,
};
