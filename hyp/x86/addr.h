/* SPDX-License-Identifier: BSD-2-Clause */
/* Guest-physical and host-physical addresses as types of their own, so that a mix-up does not
 * compile. */
#pragma once

#include "abi/types.h"

typedef struct {
	uint64_t value;
} hpa_t; /* host physical: what the memory controller sees */

typedef struct {
	uint64_t value;
} gpa_t; /* guest physical: what a partition's own page tables yield. For root GPA == HPA */

#define HPA(x) ((hpa_t){(x)})
#define GPA(x) ((gpa_t){(x)})

#define PAGE_BYTES  4096ull
#define LARGE_BYTES (2ull << 20)
#define HUGE_BYTES  (1ull << 30)
