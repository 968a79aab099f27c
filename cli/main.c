/* SPDX-License-Identifier: BSD-2-Clause */
/* keel: what a person at root types. Finds the verb in a table and runs it. */
#include <stdio.h>
#include <string.h>

#include "cli/verb.h"

static const struct verb *const verbs[] = {
        &verb_vm_create,
        &verb_vm_delete,
        &verb_vm_start,
        &verb_vm_stop,
        &verb_vm_kill,
        &verb_vm_upgrade,
        &verb_vm_resize,
        &verb_vm_list,
        &verb_vm_show,
        &verb_vm_console,
        &verb_vm_log,
        &verb_root_stage,
        &verb_root_cancel,
        &verb_root_status,
        &verb_status,
        &verb_top,
        &verb_log,
};

#define VERB_COUNT (sizeof(verbs) / sizeof(verbs[0]))

static bool is_of_group(const struct verb *verb, const char *group)
{
	if (verb->group == NULL || group == NULL)
		return verb->group == group;
	return strcmp(verb->group, group) == 0;
}

/* group: only its verbs, or NULL for all. */
static void print_verbs(FILE *out, const char *group)
{
	fprintf(out, "usage: keel %s%sVERB …\n", group == NULL ? "" : group,
	        group == NULL ? "" : " ");
	for (size_t i = 0; i < VERB_COUNT; i++) {
		const struct verb *verb = verbs[i];
		char name[32];

		if (!is_of_group(verb, group) && group != NULL)
			continue;
		snprintf(name, sizeof(name), "%s%s%s", verb->group == NULL ? "" : verb->group,
		        verb->group == NULL ? "" : " ", verb->name);
		fprintf(out, "  %-13s %s\n", name, verb->summary);
	}
	fputs("'keel VERB --help' tells more; keel(1) all. Exit code: 0 done, 1 refused or failed, "
	      "2 usage,\n3 not under hyp or no keeld.\n",
	        out);
}

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

static const struct verb *find_verb(const char *group, const char *name)
{
	for (size_t i = 0; i < VERB_COUNT; i++) {
		const struct verb *verb = verbs[i];

		if (is_of_group(verb, group) && strcmp(verb->name, name) == 0)
			return verb;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	bool grouped = argc > 1 && (strcmp(argv[1], "vm") == 0 || strcmp(argv[1], "root") == 0);
	int at = grouped ? 2 : 1;
	const char *group = grouped ? argv[1] : NULL;
	const struct verb *verb;

	if (argc > at && is_help(argv[at])) {
		print_verbs(stdout, group);
		return EXIT_OK;
	}
	if (argc <= at) {
		print_verbs(stderr, group);
		return EXIT_USAGE;
	}
	verb = find_verb(group, argv[at]);
	if (verb == NULL) {
		complain(0, "unknown verb '%s'", argv[at]);
		print_verbs(stderr, group);
		return EXIT_USAGE;
	}
	return verb->run(verb, argc - at, argv + at);
}
