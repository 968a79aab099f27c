/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm resize: has a running VM see the new size of one of its disks. */
#include <stdio.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/text.h"
#include "cli/verb.h"

static int run(const struct verb *verb, int argc, char **argv)
{
	cJSON *request, *answer;
	const char *words[2];
	char path[256], size[TEXT_BYTES];
	int rc = options_read(verb, argc, argv, NULL, 0, words, 2, 2);

	if (rc != OPTIONS_GO_ON)
		return rc;
	/* So that a VM that is not there is told of as everywhere. */
	answer = client_ask_keeld("show", words[0], &rc);
	if (answer == NULL)
		return rc;
	cJSON_Delete(answer);
	request = cJSON_CreateObject();
	cJSON_AddStringToObject(request, "cmd", "resize");
	cJSON_AddStringToObject(request, "device", words[1]);
	snprintf(path, sizeof(path), PATHS_RUN_VM "/%s.sock", words[0]);
	if (access(path, F_OK) != 0) {
		cJSON_Delete(request);
		return complain(EXIT_REFUSED,
		        "%s does not run; its disks are looked at when it starts", words[0]);
	}
	answer = client_ask(path, request, &rc, false);
	if (answer == NULL)
		return rc;
	printf("%s %s %s\n", words[1],
	        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "changed")) ? "has now"
	                                                                          : "still has",
	        text_size((uint64_t)text_number(answer, "size_bytes"), size));
	cJSON_Delete(answer);
	return EXIT_OK;
}

const struct verb verb_vm_resize = {
        .group = "vm",
        .name = "resize",
        .words = "NAME DISK",
        .summary = "Have a running VM see a disk's new size",
        .help = "Enlarge the image or the device in root first (truncate, lvextend). DISK is "
                "disk0, "
                "disk1, …\nin the order of the VM's file; 'keel vm show' has their sizes.\n",
        .run = run,
};
