/* SPDX-License-Identifier: BSD-2-Clause */
/* Log lines: formatted into a small buffer and written at once. */
#include "vmm/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

void log_line(const char *format, ...)
{
	char line[512];
	struct timespec now;
	struct tm parts;
	va_list args;
	int head, body;
	size_t bytes;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	head = snprintf(line, sizeof(line), "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ",
	        parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
	        parts.tm_sec, now.tv_nsec / 1000000);
	va_start(args, format);
	body = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, format, args);
	va_end(args);
	if (body < 0)
		return;
	bytes = (size_t)head + (size_t)body;
	if (bytes > sizeof(line) - 2)
		bytes = sizeof(line) - 2;
	line[bytes++] = '\n';
	/* A log that cannot be written (disk full) is no reason to stop serving the VM. */
	if (write(STDERR_FILENO, line, bytes) < 0)
		return;
}
