/* SPDX-License-Identifier: BSD-2-Clause */
/* A printf subset that needs no C library: %d %i %u %x %X %c %s %p %%, flags - 0 + space #, width,
 * precision, h hh l ll z t j. */
#pragma once

#include <stdarg.h>
#include "abi/types.h"

/*
 * As snprintf: writes at most size bytes with the final zero (if size is not 0) and returns the
 * length of the whole text. An unknown conversion is printed as it stands and takes no argument.
 */
size_t fmt_vprint(char *out, size_t size, const char *format, va_list args);
size_t fmt_print(char *out, size_t size, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
