/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses the pool at boot and keeps the owner of each of its 2 MiB pages. */

#include "hyp/core/pool.h"
#include "hyp/x86/x86.h"
#include "lib/cmdline.h"
#include "lib/spinlock.h"

#define FRAME_SHIFT      21
#define ROOT_LEAST_BYTES (512ull << 20)
#define DEFAULT_PERCENT  60
#define HUGE_FRAMES      (HUGE_BYTES >> FRAME_SHIFT)

/* (c) constant after pool_init, (l) under lock. */
static struct {
	struct boot_range ranges[KEEL_MAX_POOL_RANGES]; /* (c) */
	uint32_t first[KEEL_MAX_POOL_RANGES];           /* (c) index of each range's first page */
	unsigned count;                                 /* (c) ranges */
	uint32_t pages;                                 /* (c) */
	uint32_t free;                                  /* (l) */
	uint8_t *owner;                                 /* (l) one byte a page */
	struct spinlock lock;
} pool;

static uint64_t align_up(uint64_t v)
{
	return (v + LARGE_BYTES - 1) & ~(LARGE_BYTES - 1);
}

static uint64_t align_down(uint64_t v)
{
	return v & ~(LARGE_BYTES - 1);
}

/* The i-th piece of RAM without hyp's own range, which may split one. False: the piece is empty. */
static bool ram_piece(
        const struct boot_info *info, unsigned i, bool upper, uint64_t *start, uint64_t *end)
{
	const struct boot_range *r = &info->ranges[i];
	hpa_t hyp;
	uint64_t hyp_bytes;

	if (r->type != BOOT_RANGE_RAM)
		return false;
	memory_hyp_range(&hyp, &hyp_bytes);
	*start = r->start;
	*end = r->start + r->size;
	if (hyp.value < *end && hyp.value + hyp_bytes > *start) {
		if (upper)
			*start = hyp.value + hyp_bytes;
		else
			*end = hyp.value;
	} else if (upper) {
		return false;
	}
	return *start < *end;
}

static uint64_t ram_total(const struct boot_info *info)
{
	uint64_t total = 0, start, end;

	for (unsigned i = 0; i < info->range_count; i++)
		for (unsigned upper = 0; upper < 2; upper++)
			if (ram_piece(info, i, upper, &start, &end))
				total += end - start;
	return total;
}

static bool range_touches_modules(const struct boot_info *info, uint64_t start, uint64_t *above)
{
	for (unsigned i = 0; i < info->module_count; i++) {
		uint64_t m = info->modules[i].start.value;
		uint64_t end = m + info->modules[i].size_bytes;

		if (end > start && end > *above && m >= start) {
			*above = end;
			return true;
		}
	}
	return false;
}

static void range_add(uint64_t start, uint64_t end)
{
	struct boot_range *r = &pool.ranges[pool.count];

	*r = (struct boot_range){.start = start, .size = end - start, .type = BOOT_RANGE_RESERVED};
	pool.first[pool.count++] = pool.pages;
	pool.pages += (uint32_t)((end - start) >> FRAME_SHIFT);
}

/*
 * Takes up to want bytes from the top of each piece, the highest first. What lies below 16 MiB is
 * left to root. The boot modules stay where they are until root's kernel is loaded, so the part of
 * a piece up to the end of the highest module in it is left alone.
 */
static void choose_ranges(const struct boot_info *info, uint64_t want)
{
	uint64_t start, end;

	for (unsigned i = info->range_count; i-- > 0;) {
		for (unsigned upper = 2; upper-- > 0;) {
			if (want < LARGE_BYTES || pool.count == KEEL_MAX_POOL_RANGES)
				return;
			if (!ram_piece(info, i, upper, &start, &end))
				continue;
			for (uint64_t above = 0; range_touches_modules(info, start, &above);)
				if (above < end)
					start = above;
			start = align_up(start < (16u << 20) ? 16u << 20 : start);
			end = align_down(end);
			if (start >= end)
				continue;
			if (end - start > want)
				start = end - align_down(want);
			range_add(start, end);
			want -= end - start;
		}
	}
}

void pool_init(const struct boot_info *info)
{
	uint64_t total = ram_total(info), want;

	if (!cmdline_find_size(info->cmdline, "pool", total / 100 * DEFAULT_PERCENT, &want))
		panic("pool= on the command line is no size: write for example pool=2G");
	if (total <= ROOT_LEAST_BYTES)
		panic("only %llu MiB of RAM: root alone needs %llu MiB",
		        (unsigned long long)(total >> 20),
		        (unsigned long long)(ROOT_LEAST_BYTES >> 20));
	if (want > total - ROOT_LEAST_BYTES) {
		want = total - ROOT_LEAST_BYTES;
		log_line("pool: cut to %llu MiB, so that root keeps %llu MiB",
		        (unsigned long long)(want >> 20),
		        (unsigned long long)(ROOT_LEAST_BYTES >> 20));
	}
	choose_ranges(info, want);
	pool.owner = heap_alloc_pages((pool.pages + PAGE_BYTES - 1) / PAGE_BYTES + 1);
	if (pool.owner == NULL)
		panic("pool: no heap left for %u owner bytes", pool.pages);
	pool.free = pool.pages;
	for (unsigned i = 0; i < pool.count; i++)
		log_line("pool: %llx to %llx, %llu MiB", (unsigned long long)pool.ranges[i].start,
		        (unsigned long long)(pool.ranges[i].start + pool.ranges[i].size),
		        (unsigned long long)(pool.ranges[i].size >> 20));
}

const struct boot_range *pool_ranges(unsigned *count)
{
	*count = pool.count;
	return pool.ranges;
}

uint64_t pool_bytes(void)
{
	return (uint64_t)pool.pages << FRAME_SHIFT;
}

uint64_t pool_free_bytes(void)
{
	return (uint64_t)__atomic_load_n(&pool.free, __ATOMIC_RELAXED) << FRAME_SHIFT;
}

static uint32_t range_pages(unsigned i)
{
	return (uint32_t)(pool.ranges[i].size >> FRAME_SHIFT);
}

static uint32_t range_frame(unsigned i)
{
	return (uint32_t)(pool.ranges[i].start >> FRAME_SHIFT);
}

/* First run of count free pages, its frame a multiple of align. Needs: lock. */
static bool find_run(uint32_t count, uint32_t align, uint32_t *index, uint32_t *frame)
{
	for (unsigned r = 0; r < pool.count; r++) {
		const uint8_t *owner = pool.owner + pool.first[r];
		uint32_t base = range_frame(r), run = 0;

		for (uint32_t i = 0; i < range_pages(r); i++) {
			if (owner[i] != POOL_FREE || (run == 0 && (base + i) % align != 0)) {
				run = 0;
				continue;
			}
			if (++run == count) {
				*index = pool.first[r] + i + 1 - count;
				*frame = base + i + 1 - count;
				return true;
			}
		}
	}
	return false;
}

/* Needs: lock. */
static void own(uint32_t index, uint8_t owner)
{
	hyp_assert(index < pool.pages && pool.owner[index] == POOL_FREE && owner != POOL_FREE);
	pool.owner[index] = owner;
	pool.free--;
}

static bool take_run(uint8_t owner, uint32_t count, uint32_t *first_frame)
{
	uint32_t index = 0;

	if (!(count >= HUGE_FRAMES && find_run(count, HUGE_FRAMES, &index, first_frame)) &&
	        !find_run(count, 1, &index, first_frame))
		return false;
	for (uint32_t i = 0; i < count; i++)
		own(index + i, owner);
	return true;
}

bool pool_take_run(uint8_t owner, uint32_t count, uint32_t *first_frame)
{
	bool ok;

	spin_lock(&pool.lock);
	ok = count != 0 && take_run(owner, count, first_frame);
	spin_unlock(&pool.lock);
	return ok;
}

/* What is free, wherever it is. Needs: lock, count pages free. */
static void take_scattered(uint8_t owner, uint32_t count, uint32_t *frames)
{
	for (unsigned r = 0; r < pool.count && count > 0; r++) {
		for (uint32_t i = 0; i < range_pages(r) && count > 0; i++) {
			if (pool.owner[pool.first[r] + i] != POOL_FREE)
				continue;
			own(pool.first[r] + i, owner);
			*frames++ = range_frame(r) + i;
			count--;
		}
	}
	hyp_assert(count == 0);
}

bool pool_take(uint8_t owner, uint32_t count, uint32_t *frames)
{
	uint32_t first;
	bool ok;

	spin_lock(&pool.lock);
	ok = count <= pool.free;
	if (ok && count > 0) {
		if (take_run(owner, count, &first))
			for (uint32_t i = 0; i < count; i++)
				frames[i] = first + i;
		else
			take_scattered(owner, count, frames);
	}
	spin_unlock(&pool.lock);
	return ok;
}

void pool_give_all(uint8_t owner)
{
	hyp_assert(owner != POOL_FREE);
	spin_lock(&pool.lock);
	for (uint32_t i = 0; i < pool.pages; i++) {
		if (pool.owner[i] != owner)
			continue;
		pool.owner[i] = POOL_FREE;
		pool.free++;
	}
	hyp_assert(pool.free <= pool.pages);
	spin_unlock(&pool.lock);
}

uint8_t pool_owner(hpa_t hpa)
{
	for (unsigned i = 0; i < pool.count; i++) {
		const struct boot_range *r = &pool.ranges[i];

		if (hpa.value >= r->start && hpa.value < r->start + r->size)
			return pool.owner[pool.first[i] + ((hpa.value - r->start) >> FRAME_SHIFT)];
	}
	return POOL_FREE;
}
