/* SPDX-License-Identifier: BSD-2-Clause */
/* The C library's memory and string functions for hyp, which has no C library; the compiler calls
 * some of them too. */
#include "lib/string.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	void *out = to;
	size_t words = n / 8;

	n %= 8;
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return out;
}

void *memmove(void *to, const void *from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	if ((uintptr_t)to - (uintptr_t)from >= n)
		return memcpy(to, from, n);
	while (n--) {
		t[n] = f[n];
		__asm__ volatile("" : : : "memory"); /* else this becomes a call of memmove */
	}
	return to;
}

void *memset(void *to, int value, size_t n)
{
	void *out = to;
	size_t words = n / 8;
	uint64_t pattern = 0x0101010101010101ull * (unsigned char)value;

	n %= 8;
	__asm__ volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(pattern) : "memory");
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(pattern) : "memory");
	return out;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;

	for (size_t i = 0; i < n; i++)
		if (x[i] != y[i])
			return x[i] - y[i];
	return 0;
}

size_t strnlen(const char *s, size_t max)
{
	size_t n = 0;

	while (n < max && s[n]) {
		n++;
		__asm__ volatile("" : : : "memory"); /* else this becomes a call of strlen */
	}
	return n;
}

size_t strlen(const char *s)
{
	return strnlen(s, SIZE_MAX);
}

int strncmp(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (a[i] != b[i])
			return (unsigned char)a[i] - (unsigned char)b[i];
		if (!a[i])
			break;
	}
	return 0;
}

int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, SIZE_MAX);
}

char *strchr(const char *s, int c)
{
	union { /* the standard's own cast-away of const */
		const char *in;
		char *out;
	} u;

	for (u.in = s; *u.in != (char)c; u.in++)
		if (!*u.in)
			return NULL;
	return u.out;
}
