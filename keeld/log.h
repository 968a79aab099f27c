/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's log: one line an event on standard error, where systemd picks it up. */
#pragma once

__attribute__((format(printf, 1, 2))) void log_line(const char *format, ...);
