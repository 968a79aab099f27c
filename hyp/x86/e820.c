/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory maps. All loops are bounded by BOOT_MAX_RANGES. */
#include "hyp/x86/e820.h"

#include "lib/string.h"

static bool is_usable(const struct boot_range *r)
{
	return r->size && r->start + r->size > r->start;
}

static uint64_t end_of(const struct boot_range *r)
{
	return r->start + r->size;
}

bool e820_overlaps(const struct boot_range *r, uint64_t start, uint64_t size)
{
	return start < end_of(r) && r->start < start + size;
}

/* Type at an address (0: none) and the next address above it where any range starts or ends. */
static uint32_t type_at(
        const struct boot_range *ranges, unsigned count, uint64_t at, uint64_t *next)
{
	uint32_t type = 0;

	*next = UINT64_MAX;
	for (unsigned i = 0; i < count; i++) {
		const struct boot_range *r = &ranges[i];

		if (!is_usable(r))
			continue;
		if (r->start > at && r->start < *next)
			*next = r->start;
		if (end_of(r) > at && end_of(r) < *next)
			*next = end_of(r);
		if (r->start <= at && at < end_of(r) && r->type > type)
			type = r->type;
	}
	return type;
}

/* Appends, joined to the last one where it fits. */
static bool append(struct boot_range *out, unsigned *count, unsigned max, struct boot_range add)
{
	struct boot_range *last = *count ? &out[*count - 1] : NULL;

	if (last && last->type == add.type && end_of(last) == add.start) {
		last->size += add.size;
		return true;
	}
	if (*count == max)
		return false;
	out[(*count)++] = add;
	return true;
}

bool e820_normalize(struct boot_range *ranges, unsigned *count, unsigned max)
{
	struct boot_range out[BOOT_MAX_RANGES];
	unsigned n = 0;
	uint64_t at = 0, next;

	if (max > BOOT_MAX_RANGES)
		max = BOOT_MAX_RANGES;
	do {
		uint32_t type = type_at(ranges, *count, at, &next);

		if (type && !append(out, &n, max, (struct boot_range){at, next - at, type}))
			return false;
		at = next;
	} while (next != UINT64_MAX);
	memcpy(ranges, out, n * sizeof(*out));
	*count = n;
	return true;
}

bool e820_reserve(struct boot_range *ranges, unsigned *count, unsigned max, uint64_t start,
        uint64_t size, enum boot_range_type type)
{
	struct boot_range out[BOOT_MAX_RANGES];
	uint64_t end = start + size;
	unsigned n = 0;

	if (!size)
		return true;
	if (end < start)
		return false;
	if (max > BOOT_MAX_RANGES)
		max = BOOT_MAX_RANGES;
	for (unsigned i = 0; i < *count; i++) {
		struct boot_range r = ranges[i];
		uint64_t low, high;

		if (r.type != BOOT_RANGE_RAM || !e820_overlaps(&r, start, size)) {
			if (!append(out, &n, max, r))
				return false;
			continue;
		}
		low = start > r.start ? start : r.start;
		high = end < end_of(&r) ? end : end_of(&r);
		if (low > r.start &&
		        !append(out, &n, max, (struct boot_range){r.start, low - r.start, r.type}))
			return false;
		if (!append(out, &n, max, (struct boot_range){low, high - low, type}))
			return false;
		if (end_of(&r) > high &&
		        !append(out, &n, max, (struct boot_range){high, end_of(&r) - high, r.type}))
			return false;
	}
	memcpy(ranges, out, n * sizeof(*out));
	*count = n;
	return true;
}

/* Highest aligned start below top for size bytes at or above bottom, or E820_NONE. */
static uint64_t fit_below(uint64_t bottom, uint64_t top, uint64_t size, uint64_t align)
{
	uint64_t at;

	if (top < size)
		return E820_NONE;
	at = (top - size) & ~(align - 1);
	return at >= bottom ? at : E820_NONE;
}

/* As above, stepping down below every avoided range that is in the way. */
static uint64_t fit_around(uint64_t bottom, uint64_t top, uint64_t size, uint64_t align,
        const struct boot_range *avoid, unsigned avoid_count)
{
	uint64_t at = fit_below(bottom, top, size, align);

	for (unsigned i = 0; at != E820_NONE && i < avoid_count;) {
		if (avoid[i].size && e820_overlaps(&avoid[i], at, size)) {
			at = fit_below(bottom, avoid[i].start, size, align);
			i = 0;
		} else {
			i++;
		}
	}
	return at;
}

uint64_t e820_find_top(const struct boot_range *ranges, unsigned count, uint64_t size,
        uint64_t align, uint64_t min, uint64_t limit, const struct boot_range *avoid,
        unsigned avoid_count)
{
	for (unsigned i = count; i > 0; i--) {
		const struct boot_range *r = &ranges[i - 1];
		uint64_t bottom = r->start > min ? r->start : min;
		uint64_t top = end_of(r) < limit ? end_of(r) : limit;
		uint64_t at;

		if (r->type != BOOT_RANGE_RAM || bottom >= top)
			continue;
		at = fit_around(bottom, top, size, align, avoid, avoid_count);
		if (at != E820_NONE)
			return at;
	}
	return E820_NONE;
}

bool e820_is_ram(const struct boot_range *ranges, unsigned count, uint64_t start, uint64_t size)
{
	if (start + size < start)
		return false;
	for (unsigned i = 0; i < count; i++)
		if (ranges[i].type == BOOT_RANGE_RAM && ranges[i].start <= start &&
		        end_of(&ranges[i]) >= start + size)
			return true;
	return false;
}
