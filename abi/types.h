/* SPDX-License-Identifier: BSD-2-Clause */
/* The fixed-width types and the layout asserts that every header of abi/ and hw/ stands on. */
#pragma once

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/stddef.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#define KEEL_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), "size of " #type)
#define KEEL_ASSERT_OFFSET(type, field, off)                                                       \
	_Static_assert(offsetof(type, field) == (off), "offset of " #field " in " #type)
