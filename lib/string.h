/* SPDX-License-Identifier: BSD-2-Clause */
/* memcpy and its kind as C17 declares them, for code that is built both with and without a C
 * library: hyp's are in string_hyp.c. */
#pragma once

#include "abi/types.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);
size_t strnlen(const char *s, size_t max);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
char *strchr(const char *s, int c);
