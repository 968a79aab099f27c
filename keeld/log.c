/* SPDX-License-Identifier: BSD-2-Clause */
/* One write a line; with the time, unless the journal adds it. */
#include "keeld/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void log_line(const char *format, ...)
{
	char line[2560];
	size_t used = 0, room = sizeof(line) - 1;
	struct tm parts;
	time_t now = time(NULL);
	va_list args;
	int body;

	if (getenv("JOURNAL_STREAM") == NULL && gmtime_r(&now, &parts) != NULL)
		used = strftime(line, room, "%Y-%m-%dT%H:%M:%SZ ", &parts);
	va_start(args, format);
	body = vsnprintf(line + used, room - used, format, args);
	va_end(args);
	if (body < 0)
		return;
	used = (size_t)body < room - used ? used + (size_t)body : room - 1;
	line[used++] = '\n';
	/* A log that cannot be written is no reason to stop. */
	if (write(STDERR_FILENO, line, used) < 0)
		return;
}
