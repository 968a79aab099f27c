/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm stop: presses power buttons and waits for the guests to act on it. */
#include <stdlib.h>
#include <string.h>

#include "abi/shared.h"
#include "cli/client.h"
#include "cli/text.h"
#include "cli/verb.h"

static cJSON *make_request(const char *name, unsigned timeout_s)
{
	cJSON *request = cJSON_CreateObject();

	cJSON_AddStringToObject(request, "cmd", "stop");
	cJSON_AddStringToObject(request, "name", name);
	cJSON_AddNumberToObject(request, "timeout_s", timeout_s);
	return request;
}

static bool has_guest(const cJSON *vm)
{
	static const char *const states[] = {"starting", "running", "stopping", "reattaching"};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (strcmp(text_string(vm, "state"), states[i]) == 0)
			return true;
	return false;
}

/* All are asked before the first is waited for. */
static int stop_all(unsigned timeout_s)
{
	int sockets[KEEL_MAX_VMS], code = EXIT_OK, rc;
	cJSON *list = client_ask_keeld("list", NULL, &code);
	unsigned count = 0;
	const cJSON *vm;

	if (list == NULL)
		return code;
	cJSON_ArrayForEach(vm, cJSON_GetObjectItemCaseSensitive(list, "vms"))
	{
		if (!has_guest(vm) || count == KEEL_MAX_VMS)
			continue;
		sockets[count] = client_send(
		        PATHS_SOCKET, make_request(text_string(vm, "name"), timeout_s), &rc, false);
		if (sockets[count] < 0)
			code = rc;
		else
			count++;
	}
	cJSON_Delete(list);
	for (unsigned i = 0; i < count; i++) {
		cJSON_Delete(client_receive(sockets[i], &rc, false));
		if (rc != EXIT_OK)
			code = rc;
	}
	return code;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	unsigned timeout_s = 60;
	bool all = false;
	const struct option_rule rules[] = {
	        {"--timeout", OPTION_SECONDS, &timeout_s, 0, 86400, NULL},
	        {"--all", OPTION_FLAG, &all, 0, 0, NULL},
	};
	const char *name;
	int rc = options_read(verb, argc, argv, rules, 2, &name, 0, 1);

	if (rc != OPTIONS_GO_ON)
		return rc;
	if (all == (name != NULL)) {
		complain(0, all ? "a name and --all" : "a word is missing");
		options_print_usage(verb, true);
		return EXIT_USAGE;
	}
	if (all)
		return stop_all(timeout_s);
	cJSON_Delete(client_ask(PATHS_SOCKET, make_request(name, timeout_s), &rc, false));
	return rc;
}

const struct verb verb_vm_stop = {
        .group = "vm",
        .name = "stop",
        .words = "[--timeout SECONDS] NAME | --all",
        .summary = "Press a VM's power button, and wait until its guest is off",
        .help = "  --timeout SECONDS  how long to wait (60); the VM runs on when it is over\n"
                "  --all              all running VMs, at once\n",
        .run = run,
};
