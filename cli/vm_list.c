/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm list: all VMs, running or not. */
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/verb.h"

static void add_row(struct table *table, const cJSON *vm)
{
	bool is_there = cJSON_HasObjectItem(vm, "id");
	char text[TEXT_BYTES];

	if (!table_row(table))
		return;
	table_set(table, 0, "%s", text_string(vm, "name"));
	table_set(table, 1, "%s", text_string(vm, "state"));
	table_set(table, 2, "%s", is_there ? "" : "-");
	if (is_there)
		table_set(table, 2, "%.0f", text_number(vm, "id"));
	table_set(table, 3, "%.0f", text_number(vm, "cpus"));
	table_set(table, 4, "%s", text_size((uint64_t)text_number(vm, "memory_bytes"), text));
	table_set(table, 5, "%s",
	        is_there ? text_duration((uint64_t)text_number(vm, "uptime_s"), text) : "-");
	table_set(table, 6, "%s", text_string(vm, "error"));
}

static int run(const struct verb *verb, int argc, char **argv)
{
	static const char *const heads[] = {
	        "NAME", "STATE", ">ID", ">CPUS", ">MEMORY", ">UP", "TROUBLE"};
	static struct table table;
	bool json = false;
	const struct option_rule rules[] = {{"--json", OPTION_FLAG, &json, 0, 0, NULL}};
	int rc = options_read(verb, argc, argv, rules, 1, NULL, 0, 0);
	const cJSON *vm;
	cJSON *answer;

	if (rc != OPTIONS_GO_ON)
		return rc;
	answer = client_ask_keeld("list", NULL, &rc);
	if (answer == NULL)
		return rc;
	if (json) {
		rc = text_print_json(cJSON_DetachItemFromObjectCaseSensitive(answer, "vms"));
		cJSON_Delete(answer);
		return rc;
	}
	table_init(&table, 7, heads);
	cJSON_ArrayForEach(vm, cJSON_GetObjectItemCaseSensitive(answer, "vms"))
	{
		add_row(&table, vm);
	}
	table_print(&table, stdout);
	cJSON_Delete(answer);
	return EXIT_OK;
}

const struct verb verb_vm_list = {
        .group = "vm",
        .name = "list",
        .words = "[--json]",
        .summary = "List all VMs with their states",
        .help = "  --json  the same for scripts\n"
                "States: off, starting, running, stopping, ending; reattaching: the VM runs, and "
                "its\n"
                "device process is being started again; preserved: its guest is off, the VM is "
                "kept;\n"
                "dead: a vCPU cannot go on; broken: hyp does not let it go.\n",
        .run = run,
};
