/* SPDX-License-Identifier: BSD-2-Clause */
/* A recursive-descent reader of the syntax in conf.h: one pass, no state beside the position. */
#include "config/conf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	const char *at;
	const char *end;
	unsigned line;
	unsigned depth;
	struct conf_error *error;
};

__attribute__((format(printf, 3, 4))) static bool refuse(
        struct reader *reader, unsigned line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reader->error->text, sizeof(reader->error->text), format, args);
	va_end(args);
	reader->error->line = line;
	return false;
}

/* The byte `ahead` of here; 0 behind the end (a file with a zero byte is refused before). */
static char peek(const struct reader *reader, size_t ahead)
{
	return (size_t)(reader->end - reader->at) > ahead ? reader->at[ahead] : '\0';
}

static void skip(struct reader *reader)
{
	reader->line += *reader->at == '\n';
	reader->at++;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool is_key(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static bool starts_comment(const struct reader *reader)
{
	return peek(reader, 0) == '#' || (peek(reader, 0) == '/' && peek(reader, 1) == '*');
}

static bool skip_comment(struct reader *reader)
{
	unsigned depth = 0, line = reader->line;

	if (peek(reader, 0) == '#') {
		while (peek(reader, 0) != '\0' && peek(reader, 0) != '\n')
			skip(reader);
		return true;
	}
	do {
		bool opens = peek(reader, 0) == '/' && peek(reader, 1) == '*';
		bool closes = peek(reader, 0) == '*' && peek(reader, 1) == '/';

		if (peek(reader, 0) == '\0')
			return refuse(
			        reader, line, "this comment does not end; close it with '*/'");
		depth += opens;
		depth -= closes;
		if (opens || closes)
			skip(reader);
		skip(reader);
	} while (depth > 0);
	return true;
}

/* Blanks and comments; line ends too if `lines`. */
static bool skip_space(struct reader *reader, bool lines)
{
	for (;;) {
		if (starts_comment(reader)) {
			if (!skip_comment(reader))
				return false;
		} else if (is_blank(peek(reader, 0)) || (lines && peek(reader, 0) == '\n')) {
			skip(reader);
		} else {
			return true;
		}
	}
}

static char *copy(struct reader *reader, const char *from, size_t bytes)
{
	char *text = strndup(from, bytes);

	if (text == NULL)
		refuse(reader, reader->line, "out of memory");
	return text;
}

/* What stands for itself after a backslash, or its control character; 0: no such escape. */
static char unescape(char c)
{
	switch (c) {
	case 'n': return '\n';
	case 't': return '\t';
	case 'r': return '\r';
	case '"':
	case '\\':
	case '/': return c;
	default: return '\0';
	}
}

/* "…", or '…' in which nothing is escaped. Needs: at the opening quote. */
static char *read_quoted(struct reader *reader)
{
	char quote = peek(reader, 0);
	size_t used = 0;
	char *out;

	skip(reader);
	out = copy(reader, reader->at, (size_t)(reader->end - reader->at));
	if (out == NULL)
		return NULL;
	while (peek(reader, 0) != quote) {
		char c = peek(reader, 0);

		if (c == '\0' || c == '\n') {
			refuse(reader, reader->line,
			        "the quotes are not closed on this line; add %c", quote);
			goto fail;
		}
		if (c == '\\' && quote == '"') {
			skip(reader);
			c = unescape(peek(reader, 0));
			if (c == '\0') {
				refuse(reader, reader->line,
				        "no such escape in quotes; use one of \\\" \\\\ \\/ \\n "
				        "\\r \\t");
				goto fail;
			}
		}
		out[used++] = c;
		skip(reader);
	}
	skip(reader);
	out[used] = '\0';
	return out;
fail:
	free(out);
	return NULL;
}

static bool ends_word(const struct reader *reader)
{
	return strchr("\n;,}]", peek(reader, 0)) != NULL || starts_comment(reader);
}

/* A value without quotes may have blanks inside, but none at its ends. */
static char *read_word(struct reader *reader, const char *key)
{
	const char *start = reader->at, *stop;

	while (!ends_word(reader)) {
		if (peek(reader, 0) == '{' || peek(reader, 0) == '[' || peek(reader, 0) == '"') {
			refuse(reader, reader->line,
			        "'%c' inside a value without quotes; put the value of '%.40s' in "
			        "quotes",
			        peek(reader, 0), key);
			return NULL;
		}
		skip(reader);
	}
	stop = reader->at;
	while (stop > start && is_blank(stop[-1]))
		stop--;
	if (stop == start) {
		refuse(reader, reader->line, "'%.40s' has no value; write %.40s = VALUE", key, key);
		return NULL;
	}
	return copy(reader, start, (size_t)(stop - start));
}

static struct conf_node *add_node(struct reader *reader, struct conf_node *parent, const char *key)
{
	struct conf_node *node = calloc(1, sizeof(*node));

	if (node == NULL) {
		refuse(reader, reader->line, "out of memory");
		return NULL;
	}
	node->line = reader->line;
	if (parent != NULL && parent->last != NULL)
		parent->last->next = node;
	else if (parent != NULL)
		parent->first = node;
	if (parent != NULL)
		parent->last = node;
	node->key = copy(reader, key, strlen(key));
	return node; /* one without a key is freed with its parent */
}

static bool read_items(struct reader *reader, struct conf_node *section, char close, unsigned line);

static bool read_section(struct reader *reader, struct conf_node *node)
{
	unsigned line = reader->line;
	bool good;

	node->kind = CONF_SECTION;
	if (reader->depth == CONF_MAX_DEPTH)
		return refuse(
		        reader, line, "sections more than %u deep; use fewer", CONF_MAX_DEPTH);
	skip(reader);
	reader->depth++;
	good = read_items(reader, node, '}', line);
	reader->depth--;
	return good;
}

static bool read_scalar(struct reader *reader, struct conf_node *node)
{
	bool quoted = peek(reader, 0) == '"' || peek(reader, 0) == '\'';

	node->kind = quoted ? CONF_QUOTED : CONF_WORD;
	node->text = quoted ? read_quoted(reader) : read_word(reader, node->key);
	return node->text != NULL;
}

static bool read_value(struct reader *reader, struct conf_node *parent, const char *key)
{
	struct conf_node *node = add_node(reader, parent, key);

	if (node == NULL || node->key == NULL)
		return false;
	return peek(reader, 0) == '{' ? read_section(reader, node) : read_scalar(reader, node);
}

/* [ a, b ] is the key given twice. */
static bool read_array(struct reader *reader, struct conf_node *parent, const char *key)
{
	unsigned line = reader->line;

	skip(reader);
	for (;;) {
		if (!skip_space(reader, true))
			return false;
		if (peek(reader, 0) == ']') {
			skip(reader);
			return true;
		}
		if (peek(reader, 0) == '\0')
			return refuse(reader, line, "'[' is not closed; add ']'");
		if (!read_value(reader, parent, key) || !skip_space(reader, true))
			return false;
		if (peek(reader, 0) == ',')
			skip(reader);
		else if (peek(reader, 0) != ']' && peek(reader, 0) != '\0')
			return refuse(reader, reader->line, "expected ',' or ']' in this list");
	}
}

static char *read_key(struct reader *reader)
{
	const char *start = reader->at;

	if (peek(reader, 0) == '"')
		return read_quoted(reader);
	while (is_key(peek(reader, 0)))
		skip(reader);
	if (reader->at == start) {
		refuse(reader, reader->line,
		        peek(reader, 0) == '.'
		                ? "macros such as .include are not supported; write it out"
		                : "expected a key here; write key = VALUE (a value with ',' or ';' "
		                  "in it needs quotes)");
		return NULL;
	}
	return copy(reader, start, (size_t)(reader->at - start));
}

/* After a value: the line's end, or what parts two keys on one line. */
static bool read_separator(struct reader *reader, char close, const char *key)
{
	if (!skip_space(reader, false))
		return false;
	if (peek(reader, 0) == ';' || peek(reader, 0) == ',') {
		skip(reader);
		return true;
	}
	if (peek(reader, 0) == '\n' || peek(reader, 0) == '\0' || peek(reader, 0) == close)
		return true;
	return refuse(reader, reader->line,
	        "something follows the value of '%.40s'; end it with ';' or a new line", key);
}

static bool read_item(struct reader *reader, struct conf_node *section, char close)
{
	unsigned line = reader->line;
	char *key = read_key(reader);
	bool good = key != NULL && skip_space(reader, false);
	char c;

	if (good && (peek(reader, 0) == '=' || peek(reader, 0) == ':')) {
		skip(reader);
		good = skip_space(reader, false);
	}
	c = peek(reader, 0);
	if (good && (c == '\0' || strchr("\n;,}]", c) != NULL))
		good = refuse(reader, line, "'%.40s' has no value; write %.40s = VALUE", key, key);
	if (good)
		good = c == '[' ? read_array(reader, section, key)
		                : read_value(reader, section, key);
	good = good && read_separator(reader, close, key);
	free(key);
	return good;
}

/* close: '}', or 0 for the end of the file; line: where the section was opened. */
static bool read_items(struct reader *reader, struct conf_node *section, char close, unsigned line)
{
	for (;;) {
		if (!skip_space(reader, true))
			return false;
		if (peek(reader, 0) == '\0') {
			if (close == '\0')
				return true;
			return refuse(reader, line, "'{' is not closed; add '}'");
		}
		if (peek(reader, 0) == close) {
			skip(reader);
			return true;
		}
		if (peek(reader, 0) == '}')
			return refuse(reader, reader->line, "'}' without a '{'; remove it");
		if (!read_item(reader, section, close))
			return false;
	}
}

struct conf_node *conf_parse(const char *text, size_t bytes, struct conf_error *error)
{
	struct reader reader = {.at = text, .end = text + bytes, .line = 1, .error = error};
	struct conf_node *root;
	const char *zero = memchr(text, '\0', bytes);
	bool good;

	*error = (struct conf_error){.line = 1};
	if (bytes > CONF_MAX_BYTES) {
		refuse(&reader, 1, "the file is longer than %u bytes; is it a VM's?",
		        CONF_MAX_BYTES);
		return NULL;
	}
	if (zero != NULL) {
		for (const char *at = text; at < zero; at++)
			reader.line += *at == '\n';
		refuse(&reader, reader.line, "a zero byte; this is no text file");
		return NULL;
	}
	root = add_node(&reader, NULL, "");
	if (root == NULL || root->key == NULL) {
		conf_free(root);
		return NULL;
	}
	/* The braces that JSON has around a file may be there. */
	good = skip_space(&reader, true);
	if (good && peek(&reader, 0) == '{') {
		good = read_section(&reader, root) && skip_space(&reader, true);
		if (good && reader.at != reader.end)
			good = refuse(&reader, reader.line,
			        "something follows the closing '}'; remove it");
	} else if (good) {
		good = read_items(&reader, root, '\0', 1);
	}
	if (good)
		return root;
	conf_free(root);
	return NULL;
}

void conf_free(struct conf_node *node)
{
	struct conf_node *child = node == NULL ? NULL : node->first;

	while (child != NULL) {
		struct conf_node *next = child->next;

		conf_free(child);
		child = next;
	}
	if (node == NULL)
		return;
	free(node->key);
	free(node->text);
	free(node);
}
