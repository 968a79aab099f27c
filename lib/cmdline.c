/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads boot command lines. */
#include "lib/cmdline.h"

#include "lib/string.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static const char *word_end(const char *at)
{
	bool quoted = false;

	for (; *at && (quoted || !is_blank(*at)); at++)
		if (*at == '"')
			quoted = !quoted;
	return at;
}

static int copy_value(const char *at, const char *end, char *out, size_t size)
{
	size_t n = 0;

	for (; at < end; at++) {
		if (*at == '"')
			continue;
		if (n + 1 < size)
			out[n] = *at;
		n++;
	}
	if (size)
		out[n < size ? n : size - 1] = 0;
	return (int)n;
}

int cmdline_find(const char *cmdline, const char *key, char *out, size_t size)
{
	size_t key_len = strlen(key);
	int found = -1;

	while (*cmdline) {
		const char *end;

		if (is_blank(*cmdline)) {
			cmdline++;
			continue;
		}
		end = word_end(cmdline);
		if (!strncmp(cmdline, key, key_len)) {
			const char *value = cmdline + key_len;

			if (value == end)
				found = copy_value(value, end, out, size);
			else if (*value == '=')
				found = copy_value(value + 1, end, out, size);
		}
		cmdline = end;
	}
	return found;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static unsigned suffix_shift(char c)
{
	switch (c) {
	case 'k':
	case 'K': return 10;
	case 'm':
	case 'M': return 20;
	case 'g':
	case 'G': return 30;
	case 't':
	case 'T': return 40;
	default: return 0;
	}
}

bool cmdline_parse_size(const char *text, uint64_t *bytes)
{
	uint64_t v = 0;
	int base = 10;
	unsigned shift;
	bool any = false;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		base = 16;
		text += 2;
	}
	for (int d; d = digit_of(*text), d >= 0 && d < base; text++) {
		if (v > (UINT64_MAX - (uint64_t)d) / (uint64_t)base)
			return false;
		v = v * (uint64_t)base + (uint64_t)d;
		any = true;
	}
	shift = suffix_shift(*text);
	if (shift)
		text++;
	if (!any || *text || v > UINT64_MAX >> shift)
		return false;
	*bytes = v << shift;
	return true;
}

bool cmdline_find_size(const char *cmdline, const char *key, uint64_t otherwise, uint64_t *bytes)
{
	char text[32];
	int n = cmdline_find(cmdline, key, text, sizeof(text));

	if (n < 0) {
		*bytes = otherwise;
		return true;
	}
	return (size_t)n < sizeof(text) && cmdline_parse_size(text, bytes);
}
