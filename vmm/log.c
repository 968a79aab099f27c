/* SPDX-License-Identifier: BSD-2-Clause */
/* Log lines: formatted into a small buffer and written at once. */
#include "vmm/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Some lines are a guest's doing: a burst is written, then one a second, and how many were left
 * out. */
#define BURST_LINES 50

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static time_t last_s;             /* lock */
static long credit = BURST_LINES; /* lock */
static unsigned long left_out;    /* lock */

/* Whether a line may be written now; *missed is how many were not since the last that was. */
static bool take_credit(time_t now_s, unsigned long *missed)
{
	bool may;

	pthread_mutex_lock(&lock);
	if (now_s > last_s && last_s != 0)
		credit = now_s - last_s > BURST_LINES - credit ? BURST_LINES
		                                               : credit + (now_s - last_s);
	last_s = now_s;
	may = credit > 0;
	*missed = left_out;
	credit -= may;
	left_out = may ? 0 : left_out + 1;
	pthread_mutex_unlock(&lock);
	return may;
}

void log_line(const char *format, ...)
{
	unsigned long missed;
	char line[512];
	struct timespec now;
	struct tm parts;
	va_list args;
	int head, body;
	size_t bytes;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!take_credit(now.tv_sec, &missed))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	head = snprintf(line, sizeof(line), "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ",
	        parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
	        parts.tm_sec, now.tv_nsec / 1000000);
	if (missed > 0)
		head += snprintf(
		        line + head, sizeof(line) - (size_t)head, "(%lu lines left out) ", missed);
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
