/* SPDX-License-Identifier: BSD-2-Clause */
/* hyp's log: each line goes to the serial port and into a ring that root can read. */
#include "hyp/x86/internal.h"

#include <stdarg.h>
#include "lib/fmt.h"
#include "lib/spinlock.h"
#include "lib/string.h"

#define LOG_BYTES  65536u
#define LINE_BYTES 256u

static struct spinlock log_lock;
static bool log_unlocked;    /* set once, in a panic */
static char ring[LOG_BYTES]; /* under log_lock */
static uint64_t ring_head;   /* bytes ever written; under log_lock */

void log_break_lock(void)
{
	__atomic_store_n(&log_unlocked, true, __ATOMIC_RELAXED);
}

static void lock(void)
{
	while (!spin_trylock(&log_lock)) {
		if (__atomic_load_n(&log_unlocked, __ATOMIC_RELAXED))
			return;
		cpu_pause();
	}
}

static size_t put_prefix(char *line)
{
	uint64_t now = tsc_now(), s = 0, us = 0;

	if (tsc_hz) {
		s = now / tsc_hz;
		us = now % tsc_hz * 1000000 / tsc_hz;
	}
	return fmt_print(line, LINE_BYTES, "[%u %llu.%06llu] ", percpu()->index,
	        (unsigned long long)s, (unsigned long long)us);
}

static void ring_write(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ring[(ring_head + i) % LOG_BYTES] = text[i];
	ring_head += n;
}

static void log_vline(const char *format, va_list args)
{
	char line[LINE_BYTES];
	size_t n = put_prefix(line);

	n += fmt_vprint(line + n, LINE_BYTES - 1 - n, format, args);
	if (n > LINE_BYTES - 2)
		n = LINE_BYTES - 2;
	line[n++] = '\n';
	lock();
	ring_write(line, n);
	serial_write(line, n);
	spin_unlock(&log_lock);
}

void log_line(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_vline(format, args);
	va_end(args);
}

size_t log_read(uint64_t *position, char *out, size_t len)
{
	size_t n = 0;

	lock();
	if (*position > ring_head)
		*position = ring_head;
	if (ring_head - *position > LOG_BYTES)
		*position = ring_head - LOG_BYTES;
	while (n < len && *position < ring_head)
		out[n++] = ring[(*position)++ % LOG_BYTES];
	spin_unlock(&log_lock);
	return n;
}

void refuse(const char *format, ...)
{
	char why[LINE_BYTES];
	va_list args;

	va_start(args, format);
	fmt_vprint(why, sizeof(why), format, args);
	va_end(args);
	log_line("keelOS cannot run here: %s", why);
	for (;;)
		__asm__ volatile("cli; hlt");
}
