/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm show: all that is known of one VM. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/device.h"
#include "cli/text.h"
#include "cli/verb.h"

static void print_value(const char *indent, const cJSON *item)
{
	if (cJSON_IsString(item))
		printf("%s%s = %s\n", indent, item->string, item->valuestring);
	else if (cJSON_IsBool(item))
		printf("%s%s = %s\n", indent, item->string, cJSON_IsTrue(item) ? "yes" : "no");
	else if (cJSON_IsNumber(item) && item->valuedouble != (double)(int64_t)item->valuedouble)
		printf("%s%s = %.3f\n", indent, item->string, item->valuedouble);
	else if (cJSON_IsNumber(item))
		printf("%s%s = %.0f\n", indent, item->string, item->valuedouble);
}

/* disks and nets are lists of objects; their keys in a file are "disk" and "net". */
static void print_sections(const cJSON *list)
{
	const cJSON *entry, *item;

	cJSON_ArrayForEach(entry, list)
	{
		printf("%.*s {\n", (int)strlen(list->string) - 1, list->string);
		cJSON_ArrayForEach(item, entry)
		{
			print_value("    ", item);
		}
		printf("}\n");
	}
}

static void print_object(const char *title, const cJSON *object)
{
	const cJSON *item;

	if (object == NULL)
		return;
	printf("# %s\n", title);
	cJSON_ArrayForEach(item, object)
	{
		char text[TEXT_BYTES];

		if (cJSON_IsArray(item))
			print_sections(item);
		else if (strcmp(item->string, "memory_bytes") == 0)
			printf("memory = %s\n",
			        text_size((uint64_t)text_number(object, item->string), text));
		else
			print_value("", item);
	}
}

/* What a device's request cost since its process began: kicks seen, interrupts raised, times that a
 * thread had to be woken. */
static void add_per_request(cJSON *stats)
{
	static const char *const keys[][2] = {{"kicks", "kicks_per_request"},
	        {"calls", "interrupts_per_request"}, {"waits", "wakeups_per_request"}};
	cJSON *device;

	cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(stats, "devices"))
	{
		double requests = text_number(device, "requests");

		for (unsigned i = 0; i < 3 && requests > 0; i++)
			cJSON_AddNumberToObject(
			        device, keys[i][1], text_number(device, keys[i][0]) / requests);
	}
}

/* hyp's own counts for the VM. They go back to its creation, and so do not divide by the requests
 * of a device process; keel top has what a request costs now. */
static void add_counters(cJSON *answer, const char *name)
{
	struct keel_hc_counters counters;
	int rc, fd = device_open(&rc), vm;
	cJSON *object;

	if (fd < 0)
		return;
	vm = device_open_vm(fd, name);
	close(fd);
	if (vm < 0)
		return;
	rc = device_counters(vm, &counters);
	close(vm);
	if (rc != 0)
		return;
	object = cJSON_AddObjectToObject(answer, "counters");
	cJSON_AddNumberToObject(object, "exits", (double)device_exits(&counters));
	cJSON_AddNumberToObject(object, "root_exits", (double)counters.root_exits);
	cJSON_AddNumberToObject(object, "interrupts", (double)counters.interrupts);
	cJSON_AddNumberToObject(object, "doorbells", (double)counters.doorbells);
	cJSON_AddNumberToObject(object, "run_ms", (double)(counters.run_ns / 1000000));
}

static int run(const struct verb *verb, int argc, char **argv)
{
	bool json = false;
	const struct option_rule rules[] = {{"--json", OPTION_FLAG, &json, 0, 0, NULL}};
	cJSON *answer, *stats;
	const char *name;
	int rc = options_read(verb, argc, argv, rules, 1, &name, 1, 1);

	if (rc != OPTIONS_GO_ON)
		return rc;
	answer = client_ask_keeld("show", name, &rc);
	if (answer == NULL)
		return rc;
	cJSON_DeleteItemFromObjectCaseSensitive(answer, "ok");
	stats = client_ask_stats(name);
	if (stats != NULL) {
		cJSON_DeleteItemFromObjectCaseSensitive(stats, "ok");
		cJSON_AddItemToObject(answer, "stats", stats);
		add_per_request(stats);
		add_counters(answer, name);
	}
	if (json)
		return text_print_json(answer);
	print_object("now", cJSON_GetObjectItemCaseSensitive(answer, "vm"));
	print_object("definition", cJSON_GetObjectItemCaseSensitive(answer, "definition"));
	print_object("hyp", cJSON_GetObjectItemCaseSensitive(answer, "counters"));
	print_object("device process", cJSON_GetObjectItemCaseSensitive(answer, "stats"));
	cJSON_Delete(answer);
	return EXIT_OK;
}

const struct verb verb_vm_show = {
        .group = "vm",
        .name = "show",
        .words = "[--json] NAME",
        .summary = "Show a VM's state, definition and statistics",
        .help = "  --json  the same for scripts\n",
        .run = run,
};
