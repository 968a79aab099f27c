/* SPDX-License-Identifier: BSD-2-Clause */
/* Output, results and small things of the tiny guests. */

#include "tests/guest/lib/guest.h"
#include "tests/guest/lib/internal.h"

#include <stdarg.h>

#define COM1     0x3f8
#define LSR      (COM1 + 5)
#define LSR_THRE 0x20

static const char *running;
static unsigned failures; /* in the running case */
static unsigned failed_cases;
static uint32_t print_lock;

static void put(char c)
{
	while (!(inb(LSR) & LSR_THRE))
		pause();
	outb(COM1, (uint8_t)c);
}

static void put_number(uint64_t v, unsigned base)
{
	char digits[24];
	unsigned n = 0;

	do {
		digits[n++] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v != 0);
	while (n > 0)
		put(digits[--n]);
}

static void put_string(const char *s)
{
	while (*s != 0)
		put(*s++);
}

void print(const char *format, ...)
{
	va_list list;
	bool wide;

	while (__atomic_exchange_n(&print_lock, 1u, __ATOMIC_ACQUIRE) != 0)
		pause();
	va_start(list, format);
	for (const char *f = format; *f != 0; f++) {
		if (*f != '%') {
			put(*f);
			continue;
		}
		f++;
		wide = *f == 'l';
		if (wide)
			f++;
		switch (*f) {
		case 's': put_string(va_arg(list, const char *)); break;
		case 'c': put((char)va_arg(list, int)); break;
		case 'x':
			put_number(wide ? va_arg(list, uint64_t) : va_arg(list, uint32_t), 16);
			break;
		default:
			put_number(wide ? va_arg(list, uint64_t) : va_arg(list, uint32_t), 10);
			break;
		}
	}
	va_end(list);
	__atomic_store_n(&print_lock, 0u, __ATOMIC_RELEASE);
}

static void case_ends(void)
{
	if (running != NULL && failures == 0)
		print("ok %s\n", running);
	if (failures != 0)
		failed_cases++;
	failures = 0;
}

void test(const char *name)
{
	case_ends();
	running = name;
}

void section(const char *name)
{
	test(NULL);
	print("%s\n", name);
}

void test_failed(const char *file, int line, const char *text, uint64_t got, uint64_t wanted)
{
	/* A case that fails in a loop need not fill the console. */
	if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) < 8)
		print("FAIL %s: %s:%u: %s: %lx, wanted %lx\n", running ? running : "?", file,
		        (uint32_t)line, text, got, wanted);
}

void guest_exit(int result)
{
	for (;;)
		outb(BOARD_EXIT_PORT, (uint8_t)result);
}

int guest_result(void)
{
	return failed_cases != 0;
}

void guest_begin(void)
{
	if (info->magic != BOARD_MAGIC)
		guest_exit(99);
	pic_masks(0xffff);
	guest_main();
	case_ends();
	guest_exit(guest_result());
}

uint64_t argument(const char *word, uint64_t otherwise)
{
	for (const char *a = info->arguments; *a != 0; a++) {
		const char *at = a, *w = word;
		uint64_t v = 0;

		while (*w != 0 && *at == *w)
			at++, w++;
		if (*w != 0 || (a != info->arguments && a[-1] != ' '))
			continue;
		for (; *at >= '0' && *at <= '9'; at++)
			v = v * 10 + (uint64_t)(*at - '0');
		return v;
	}
	return otherwise;
}

/* splitmix64 */
uint64_t random_next(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void *memset(void *to, int c, size_t n)
{
	uint8_t *t = to;

	__asm__ volatile("rep stosb" : "+D"(t), "+c"(n) : "a"(c) : "memory");
	return to;
}

void *memcpy(void *to, const void *from, size_t n)
{
	uint8_t *t = to;

	__asm__ volatile("rep movsb" : "+D"(t), "+S"(from), "+c"(n) : : "memory");
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const uint8_t *x = a, *y = b;

	for (size_t i = 0; i < n; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}
