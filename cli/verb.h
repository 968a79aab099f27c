/* SPDX-License-Identifier: BSD-2-Clause */
/* A verb of the keel command, and how its words are read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/paths.h"

/* One file a verb; main.c has the list. */
struct verb {
	const char *group; /* "vm", "root", or NULL for a verb that stands alone */
	const char *name;
	const char *words;   /* what follows, for the usage line */
	const char *summary; /* one line */
	const char *help;    /* the rest of --help; may be "" */
	/* argv[0] is the verb. Returns EXIT_*. */
	int (*run)(const struct verb *verb, int argc, char **argv);
};

extern const struct verb verb_vm_create, verb_vm_delete, verb_vm_start, verb_vm_stop, verb_vm_kill,
        verb_vm_upgrade, verb_vm_resize, verb_vm_list, verb_vm_show, verb_vm_console, verb_vm_log,
        verb_status, verb_top, verb_log, verb_root_stage, verb_root_cancel, verb_root_status;

/* An option of a verb. Its values land in the verb's own variables. */
enum option_kind {
	OPTION_FLAG,    /* bool */
	OPTION_SECONDS, /* unsigned: from `low` to `high` */
	OPTION_TEXT,    /* const char * */
	OPTION_STEP,    /* calls `step`; may be given again */
};

struct option_rule {
	const char *name; /* "--json" */
	enum option_kind kind;
	void *value;
	unsigned low, high;
	bool (*step)(const char *name, const char *text);
};

#define OPTIONS_GO_ON (-1)
/*
 * Reads the verb's options, in any place, and its plain words: at least `least`, at most `most`, in
 * words[] (unused ones NULL). "--" ends options; --help is known to all. OPTIONS_GO_ON, or what the
 * program is to end with (help or a usage error was printed).
 */
int options_read(const struct verb *verb, int argc, char **argv, const struct option_rule *rules,
        unsigned rule_count, const char **words, unsigned least, unsigned most);
void options_print_usage(const struct verb *verb, bool to_error);

/* "keel: " and one line on standard error; returns code. */
__attribute__((format(printf, 2, 3))) int complain(int code, const char *format, ...);
