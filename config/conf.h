/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the syntax of keelOS's files into a tree whose every node knows its line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The syntax is the part of UCL (libucl, as FreeBSD uses it) that a person writes by hand:
 *
 *     key = value        value ends at the line's end, at ';' or ',', or at '}'
 *     key: "a \"quoted\" value";
 *     section { key = value }          a key given again is one more of them
 *     section [ { key = value }, { key = value } ]
 *     # comment, and C's comments, which nest
 *
 * Without what makes a file depend on others or on its surroundings: macros (.include), variables.
 * libucl itself is not used: Debian 12 does not have it, and it does not keep the line of a value.
 */
#define CONF_MAX_BYTES 65536u
#define CONF_MAX_DEPTH 8u

enum conf_kind {
	CONF_SECTION,
	CONF_QUOTED,
	CONF_WORD, /* not quoted */
};

struct conf_node {
	enum conf_kind kind;
	unsigned line;                  /* of the key */
	char *key;                      /* of the root: "" */
	char *text;                     /* NULL for a section */
	struct conf_node *first, *last; /* of a section, in the file's order */
	struct conf_node *next;
};

struct conf_error {
	unsigned line;
	char text[256];
};

/* The root section, or NULL with *error filled in. To be freed by conf_free. */
struct conf_node *conf_parse(const char *text, size_t bytes, struct conf_error *error);
void conf_free(struct conf_node *node);
