/* SPDX-License-Identifier: BSD-2-Clause */
/* keel vm show: all that is known of one VM. */
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/text.h"
#include "cli/verb.h"

static void print_value(const char *indent, const cJSON *item)
{
	if (cJSON_IsString(item))
		printf("%s%s = %s\n", indent, item->string, item->valuestring);
	else if (cJSON_IsBool(item))
		printf("%s%s = %s\n", indent, item->string, cJSON_IsTrue(item) ? "yes" : "no");
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
	}
	if (json)
		return text_print_json(answer);
	print_object("now", cJSON_GetObjectItemCaseSensitive(answer, "vm"));
	print_object("definition", cJSON_GetObjectItemCaseSensitive(answer, "definition"));
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
