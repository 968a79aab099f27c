/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes hyp's place at the top of memory below 4 GiB, brings the boot modules to safety, and moves
 * there. */
#include "hyp/x86/internal.h"

#include "hyp/x86/e820.h"
#include "lib/cmdline.h"
#include "lib/string.h"

#define FOUR_GIB  (4ull << 30)
#define LOW_BYTES 0x100000ull
/* Root's nested tables for 48 bits in 1 GiB pages take 2 MiB; a stack 16 KiB a CPU; the rest is for
 * VMs' structures. */
#define HEAP_BYTES_MIN    (16ull << 20)
#define HEAP_BYTES_MAX    (256ull << 20)
#define HEAP_SHARE_OF_RAM 256u
/* Modules, hyp's range, the image as loaded. */
#define AVOID_MAX (2 * BOOT_MAX_MODULES + 2)

uint64_t image_hpa;
static uint64_t range_start, range_size;

struct avoid {
	struct boot_range list[AVOID_MAX];
	unsigned count;
};

hpa_t virt_to_hpa(const void *p)
{
	uint64_t va = (uintptr_t)p;

	if (va >= (uintptr_t)image_start && va < (uintptr_t)image_end)
		return HPA(va - (uintptr_t)image_start + image_hpa);
	hyp_assert(va >= DIRECT_MAP_BASE && va < (uintptr_t)image_start);
	return HPA(va - DIRECT_MAP_BASE);
}

void memory_hyp_range(hpa_t *start, uint64_t *size_bytes)
{
	*start = HPA(range_start);
	*size_bytes = range_size;
}

struct memory_figures memory_figures(void)
{
	size_t pages, free;

	heap_count(&pages, &free);
	return (struct memory_figures){.image_bytes = (uint64_t)(image_end - image_start),
	        .heap_bytes = pages * PAGE_BYTES,
	        .heap_free_bytes = free * PAGE_BYTES};
}

static uint64_t round_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

static void avoid_add(struct avoid *a, uint64_t start, uint64_t size)
{
	a->list[a->count++] = (struct boot_range){start, size, BOOT_RANGE_RESERVED};
}

static uint64_t choose_heap_bytes(const struct boot_info *info)
{
	uint64_t ram = 0, bytes;

	for (unsigned i = 0; i < info->range_count; i++)
		if (info->ranges[i].type == BOOT_RANGE_RAM)
			ram += info->ranges[i].size;
	bytes = HEAP_BYTES_MIN + ram / HEAP_SHARE_OF_RAM;
	if (bytes > HEAP_BYTES_MAX)
		bytes = HEAP_BYTES_MAX;
	if (!cmdline_find_size(info->cmdline, "heap", bytes, &bytes))
		log_line("heap=: not a size, taking %llu MiB", (unsigned long long)bytes >> 20);
	if (bytes < HEAP_BYTES_MIN)
		bytes = HEAP_BYTES_MIN;
	return round_up(bytes, LARGE_BYTES);
}

static uint64_t place(
        const struct boot_info *info, uint64_t size, uint64_t align, const struct avoid *a)
{
	return e820_find_top(info->ranges, info->range_count, size, align, LOW_BYTES, FOUR_GIB,
	        a->list, a->count);
}

/* Directly below hyp, where neither root's kernel nor the trampoline is put. A module without a
 * better place stays. */
static void move_modules(struct boot_info *info, struct avoid *a)
{
	for (unsigned i = 0; i < info->module_count; i++) {
		struct boot_module *m = &info->modules[i];
		uint64_t to = place(info, round_up(m->size_bytes, PAGE_BYTES), PAGE_BYTES, a);

		if (!m->size_bytes || to == E820_NONE)
			continue;
		memcpy(hpa_to_virt(HPA(to)), hpa_to_virt(m->start), m->size_bytes);
		m->start = HPA(to);
		avoid_add(a, to, round_up(m->size_bytes, PAGE_BYTES));
	}
}

extern void switch_stack(uint64_t cr3, void *stack, void (*next)(void));

void memory_move(struct boot_info *info, void (*next)(void))
{
	uint64_t image_bytes = (uint64_t)(image_end - image_start);
	uint64_t heap_offset = round_up(image_bytes, PAGE_BYTES);
	uint64_t load_size = (uintptr_t)image_load_end - (uintptr_t)boot_start;
	struct avoid a = {.count = 0};
	struct percpu *p;

	/* Until the switch, the image lies where the loader put it. */
	image_hpa = (uintptr_t)image_load_end - image_bytes;
	range_size = round_up(heap_offset + choose_heap_bytes(info), LARGE_BYTES);
	for (unsigned i = 0; i < info->module_count; i++)
		avoid_add(&a, info->modules[i].start.value, info->modules[i].size_bytes);
	avoid_add(&a, (uintptr_t)boot_start, load_size);
	range_start = place(info, range_size, LARGE_BYTES, &a);
	if (range_start == E820_NONE)
		refuse("no %llu MiB of free memory in one piece below 4 GiB",
		        (unsigned long long)range_size >> 20);
	avoid_add(&a, range_start, range_size);
	move_modules(info, &a);
	heap_init(hpa_to_virt(HPA(range_start + heap_offset)),
	        (range_size - heap_offset) / PAGE_BYTES);
	paging_build(info, range_start);
	p = paging_make_stack(0);
	log_line("moving from %llx to %llx: image %llu KiB, heap %llu MiB",
	        (unsigned long long)image_hpa, (unsigned long long)range_start,
	        (unsigned long long)image_bytes >> 10,
	        (unsigned long long)(range_size - heap_offset) >> 20);
	/* Whatever is written to the image after the copy is lost. */
	image_hpa = range_start;
	memcpy(hpa_to_virt(HPA(range_start)), image_start, image_bytes);
	switch_stack(paging_root().value, p, next);
	__builtin_unreachable();
}
