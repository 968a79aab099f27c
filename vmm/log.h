/* SPDX-License-Identifier: BSD-2-Clause */
/* The device process's log: one line an event, with the time, on standard error. */
#pragma once

/* Any thread. One write a line, so lines of threads do not mix. */
__attribute__((format(printf, 1, 2))) void log_line(const char *format, ...);
