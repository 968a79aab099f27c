/* SPDX-License-Identifier: BSD-2-Clause */
/* The formatter behind hyp's log. */
#include "lib/fmt.h"

#include "lib/string.h"

struct sink {
	char *out;
	size_t size;
	size_t length; /* of the whole text, also what did not fit */
};

struct spec {
	bool left, zero, plus, space, alternate;
	unsigned width;
	int precision; /* -1: not given */
	int length;    /* -2 hh, -1 h, 0 int, 1 and more: 64 bits */
};

/* Keeps a rubbish width from turning one line into gigabytes of padding. */
#define FIELD_MAX 4096u

static void put(struct sink *s, char c)
{
	if (s->length + 1 < s->size)
		s->out[s->length] = c;
	s->length++;
}

static void pad(struct sink *s, char c, size_t have, size_t want)
{
	for (; have < want; have++)
		put(s, c);
}

static void put_text(struct sink *s, const struct spec *spec, const char *text)
{
	size_t max = spec->precision < 0 ? SIZE_MAX : (size_t)spec->precision;
	size_t n;

	if (!text)
		text = "(null)";
	n = strnlen(text, max);
	if (!spec->left)
		pad(s, ' ', n, spec->width);
	for (size_t i = 0; i < n; i++)
		put(s, text[i]);
	if (spec->left)
		pad(s, ' ', n, spec->width);
}

static void put_number(struct sink *s, const struct spec *spec, uint64_t v, unsigned base,
        bool upper, const char *sign)
{
	const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
	char text[24];
	size_t n = 0, total, zeros;

	for (uint64_t rest = v; rest; rest /= base)
		text[n++] = digits[rest % base];
	zeros = spec->precision < 0 ? 1 : (size_t)spec->precision;
	total = strlen(sign) + (n > zeros ? n : zeros);
	if (spec->zero && !spec->left && spec->precision < 0 && total < spec->width) {
		zeros = spec->width - strlen(sign);
		total = spec->width;
	}
	if (!spec->left)
		pad(s, ' ', total, spec->width);
	while (*sign)
		put(s, *sign++);
	pad(s, '0', n, zeros);
	for (size_t i = n; i > 0; i--)
		put(s, text[i - 1]);
	if (spec->left)
		pad(s, ' ', total, spec->width);
}

static unsigned read_number(const char **at)
{
	unsigned n = 0;

	while (**at >= '0' && **at <= '9') {
		n = n * 10 + (unsigned)(*(*at)++ - '0');
		if (n > FIELD_MAX)
			n = FIELD_MAX;
	}
	return n;
}

static const char *read_flags(const char *at, struct spec *spec)
{
	for (;; at++) {
		switch (*at) {
		case '-': spec->left = true; break;
		case '0': spec->zero = true; break;
		case '+': spec->plus = true; break;
		case ' ': spec->space = true; break;
		case '#': spec->alternate = true; break;
		default: return at;
		}
	}
}

static const char *read_length(const char *at, struct spec *spec)
{
	for (;; at++) {
		switch (*at) {
		case 'h': spec->length--; break;
		case 'l':
		case 'z':
		case 't':
		case 'j': spec->length++; break;
		default: return at;
		}
	}
}

struct args { /* a va_list by pointer is portable only inside a struct */
	va_list list;
};

static unsigned read_star(struct args *args)
{
	int n = va_arg(args->list, int);

	return n < 0 ? 0 : (unsigned)n > FIELD_MAX ? FIELD_MAX : (unsigned)n;
}

static const char *read_spec(const char *at, struct spec *spec, struct args *args)
{
	*spec = (struct spec){.precision = -1};
	at = read_flags(at, spec);
	if (*at == '*') {
		spec->width = read_star(args);
		at++;
	} else {
		spec->width = read_number(&at);
	}
	if (*at == '.') {
		at++;
		if (*at == '*') {
			spec->precision = (int)read_star(args);
			at++;
		} else {
			spec->precision = (int)read_number(&at);
		}
	}
	return read_length(at, spec);
}

static int64_t read_signed(const struct spec *spec, struct args *args)
{
	int v;

	if (spec->length > 0)
		return va_arg(args->list, long long);
	v = va_arg(args->list, int);
	return spec->length == -2 ? (signed char)v : spec->length == -1 ? (short)v : v;
}

static uint64_t read_unsigned(const struct spec *spec, struct args *args)
{
	unsigned v;

	if (spec->length > 0)
		return va_arg(args->list, unsigned long long);
	v = va_arg(args->list, unsigned);
	return spec->length == -2 ? (unsigned char)v : spec->length == -1 ? (unsigned short)v : v;
}

static void put_signed(struct sink *s, const struct spec *spec, int64_t v)
{
	const char *sign = v < 0 ? "-" : spec->plus ? "+" : spec->space ? " " : "";

	put_number(s, spec, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 10, false, sign);
}

/* False: no such conversion. */
static bool put_conversion(struct sink *s, const struct spec *spec, char kind, struct args *args)
{
	char c[2] = "";
	uint64_t v;

	switch (kind) {
	case 'd':
	case 'i': put_signed(s, spec, read_signed(spec, args)); return true;
	case 'u': put_number(s, spec, read_unsigned(spec, args), 10, false, ""); return true;
	case 'x':
	case 'X':
		v = read_unsigned(spec, args);
		put_number(s, spec, v, 16, kind == 'X',
		        !spec->alternate || !v ? ""
		        : kind == 'X'          ? "0X"
		                               : "0x");
		return true;
	case 'p':
		put_number(s, spec, (uintptr_t)va_arg(args->list, void *), 16, false, "0x");
		return true;
	case 's': put_text(s, spec, va_arg(args->list, const char *)); return true;
	case 'c':
		c[0] = (char)va_arg(args->list, int);
		put_text(s, spec, c);
		return true;
	default: return false;
	}
}

size_t fmt_vprint(char *out, size_t size, const char *format, va_list list)
{
	struct sink s = {.out = out, .size = size};
	struct args args;
	struct spec spec;

	va_copy(args.list, list);
	while (*format) {
		const char *start = format;

		if (*format != '%') {
			put(&s, *format++);
			continue;
		}
		format = read_spec(format + 1, &spec, &args);
		if (*format && put_conversion(&s, &spec, *format, &args)) {
			format++;
			continue;
		}
		if (*format == '%') {
			put(&s, *format++);
			continue;
		}
		while (start < format)
			put(&s, *start++);
	}
	va_end(args.list);
	if (size)
		out[s.length < size ? s.length : size - 1] = 0;
	return s.length;
}

size_t fmt_print(char *out, size_t size, const char *format, ...)
{
	va_list args;
	size_t n;

	va_start(args, format);
	n = fmt_vprint(out, size, format, args);
	va_end(args);
	return n;
}
