/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm create: gives keeld a VM's file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"
#include "cli/verb.h"
#include "config/vmfile.h"

static int run(const struct verb *verb, int argc, char **argv)
{
	static char text[VMFILE_TEXT_BYTES + 1];
	static struct vmfile_error error;
	static struct vmfile vm;
	cJSON *request, *answer;
	size_t bytes = 0;
	const char *file;
	int rc = options_read(verb, argc, argv, NULL, 0, &file, 1, 1);

	if (rc != OPTIONS_GO_ON)
		return rc;
	/* Parsed here too: what is no text cannot be sent as such. */
	if (!vmfile_read(file, text, &bytes, &error) ||
	        !vmfile_parse(file, text, bytes, &vm, &error))
		return complain(EXIT_REFUSED, "%s", error.text);
	request = cJSON_CreateObject();
	cJSON_AddStringToObject(request, "cmd", "create");
	cJSON_AddStringToObject(request, "file", file);
	cJSON_AddStringToObject(request, "text", text);
	answer = client_ask(PATHS_SOCKET, request, &rc, false);
	cJSON_Delete(answer);
	return rc;
}

const struct verb verb_vm_create = {
        .group = "vm",
        .name = "create",
        .words = "FILE",
        .summary = "Check a VM's file and keep it, so that the VM can be started",
        .help = "keel.conf(5) tells what is in such a file. The VM is not started. To change one\n"
                "later edit " PATHS_DEFINITIONS "/NAME.conf; it counts from the next start on.\n",
        .run = run,
};
