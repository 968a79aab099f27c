/* SPDX-License-Identifier: BSD-2-Clause */
/* Arithmetic on memory maps: sorting, carving, searching. */
#pragma once

#include "abi/types.h"
#include "hyp/x86/boot_info.h"

#define E820_NONE UINT64_MAX

/*
 * Sorts, cuts overlaps (the higher type number wins, so RAM loses against all others), joins equal
 * neighbours, drops empty ranges and those that wrap. False: the result has more than max ranges;
 * the map is then unchanged.
 */
bool e820_normalize(struct boot_range *ranges, unsigned *count, unsigned max);
/*
 * Makes what is RAM within [start, start + size) a range of that type; all else stays. Needs: a
 * normalized map. False: no room, or the range wraps; the map is then unchanged.
 */
bool e820_reserve(struct boot_range *ranges, unsigned *count, unsigned max, uint64_t start,
        uint64_t size, enum boot_range_type type);
/*
 * The highest place for size bytes in RAM, aligned (a power of two), within [min, limit), that
 * meets none of the avoided ranges (their type is not looked at). Needs: a normalized map.
 * E820_NONE: there is none.
 */
uint64_t e820_find_top(const struct boot_range *ranges, unsigned count, uint64_t size,
        uint64_t align, uint64_t min, uint64_t limit, const struct boot_range *avoid,
        unsigned avoid_count);
/* All of [start, start + size) is RAM. Needs: a normalized map. */
bool e820_is_ram(const struct boot_range *ranges, unsigned count, uint64_t start, uint64_t size);
bool e820_overlaps(const struct boot_range *r, uint64_t start, uint64_t size);
