/* SPDX-License-Identifier: BSD-2-Clause */
/* A boot command line: words `key` or `key=value`, separated by blanks, a value with blanks in
 * double quotes. */
#pragma once

#include "abi/types.h"

/*
 * Copies the value of the last word with that key. Returns its length (0 for a bare key), or -1: no
 * such word. A value that does not fit is cut, the returned length is the whole one.
 */
int cmdline_find(const char *cmdline, const char *key, char *out, size_t size);
/* `1536M`, `0x1000`, `4096`; suffixes K M G T, in either case, powers of 1024. False: not a number,
 * or more than 64 bits. */
bool cmdline_parse_size(const char *text, uint64_t *bytes);
/* The size behind a key; `otherwise` if the key is not there. False: it is there, and no size. */
bool cmdline_find_size(const char *cmdline, const char *key, uint64_t otherwise, uint64_t *bytes);
