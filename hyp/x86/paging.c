/* SPDX-License-Identifier: BSD-2-Clause */
/* hyp's own page tables: image, stacks, and a direct map of all that the CPU can address. */
#include "hyp/x86/internal.h"

#include "hw/msr.h"
#include "lib/string.h"

#define CPUID_80000001_EDX_1G (1u << 26)
#define CPUID_80000008        0x80000008u
#define LOW_BYTES             0x100000ull
#define FOUR_GIB              (4ull << 30)
/* The direct map has slots 256 to 383 of the top table; nothing that hyp looks at lies higher. */
#define DIRECT_BITS_MAX 46u
#define TABLE_ENTRIES   512u

static uint64_t *top;
static bool has_1g;
static uint64_t direct_end;
static uint64_t *identity; /* the four tables for the trampoline's page, contiguous */

unsigned memory_phys_bits(void)
{
	unsigned bits = cpuid(CPUID_80000008, 0).eax & 0xff;

	return bits > 48 ? 48 : bits;
}

bool memory_is_reachable(hpa_t hpa)
{
	return hpa.value < direct_end;
}

hpa_t paging_root(void)
{
	return virt_to_hpa(top);
}

static uint64_t *new_table(void)
{
	uint64_t *t = heap_alloc_pages(1);

	if (!t)
		panic("no memory for page tables");
	return t;
}

/* The entry for va at a level (0: 4 KiB, 1: 2 MiB, 2: 1 GiB), tables above it made as needed. */
static uint64_t *entry_of(uint64_t va, unsigned level)
{
	uint64_t *table = top;

	for (unsigned l = 3;; l--) {
		uint64_t *e = &table[va >> (12 + 9 * l) & (TABLE_ENTRIES - 1)];

		if (l == level)
			return e;
		hyp_assert(!(*e & PTE_LARGE));
		if (!*e)
			*e = virt_to_hpa(new_table()).value | PTE_PRESENT | PTE_WRITE;
		table = hpa_to_virt(HPA(*e & PTE_ADDRESS));
	}
}

static unsigned level_for(uint64_t va, uint64_t hpa, uint64_t size)
{
	uint64_t both = va | hpa;

	if (has_1g && !(both & (HUGE_BYTES - 1)) && size >= HUGE_BYTES)
		return 2;
	return !(both & (LARGE_BYTES - 1)) && size >= LARGE_BYTES;
}

void paging_map(uint64_t va, uint64_t hpa, uint64_t size, unsigned flags)
{
	uint64_t bits = PTE_PRESENT | PTE_ACCESSED | PTE_DIRTY;

	if (flags & MAP_WRITE)
		bits |= PTE_WRITE;
	if (!(flags & MAP_EXEC))
		bits |= PTE_NX;
	if (flags & MAP_UC)
		bits |= PTE_PCD | PTE_PWT; /* PAT entry 3: UC */
	hyp_assert(!((va | hpa | size) & (PAGE_BYTES - 1)));
	while (size) {
		unsigned level = level_for(va, hpa, size);
		uint64_t step = PAGE_BYTES << (9 * level);
		uint64_t *e = entry_of(va, level);

		hyp_assert(!*e);
		*e = hpa | bits | (level ? PTE_LARGE : 0);
		va += step;
		hpa += step;
		size -= step;
	}
}

static bool is_memory(uint32_t type)
{
	return type == BOOT_RANGE_RAM || type == BOOT_RANGE_ACPI || type == BOOT_RANGE_NVS;
}

/*
 * How to map from `at` on, and how far that holds: RAM and firmware tables write-back, hyp's own
 * code and constants read-only, everything else uncached. Boundaries round so that a page that is
 * memory only in part is uncached.
 */
static unsigned flags_from(const struct boot_info *info, uint64_t at, uint64_t ro_start,
        uint64_t ro_end, uint64_t *end)
{
	unsigned flags = MAP_WRITE | MAP_UC;

	/* The first MiB has memory types of its own in the MTRRs: no large page across its end. */
	if (at<LOW_BYTES && * end> LOW_BYTES)
		*end = LOW_BYTES;
	for (unsigned i = 0; i < info->range_count; i++) {
		const struct boot_range *r = &info->ranges[i];
		uint64_t low = (r->start + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
		uint64_t high = (r->start + r->size) & ~(PAGE_BYTES - 1);

		if (!is_memory(r->type) || high <= low)
			continue;
		if (low > at && low < *end)
			*end = low;
		if (at >= low && at < high) {
			flags = MAP_WRITE;
			if (high < *end)
				*end = high;
		}
	}
	if (at < ro_start && ro_start < *end)
		*end = ro_start;
	if (at >= ro_start && at < ro_end) {
		flags &= ~MAP_WRITE;
		if (ro_end < *end)
			*end = ro_end;
	}
	return flags;
}

static uint64_t direct_limit(const struct boot_info *info)
{
	unsigned bits = memory_phys_bits();
	uint64_t limit = FOUR_GIB;

	if (has_1g)
		return 1ull << (bits > DIRECT_BITS_MAX ? DIRECT_BITS_MAX : bits);
	for (unsigned i = 0; i < info->range_count; i++)
		if (is_memory(info->ranges[i].type) &&
		        info->ranges[i].start + info->ranges[i].size > limit)
			limit = info->ranges[i].start + info->ranges[i].size;
	return (limit + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
}

static void map_direct(const struct boot_info *info, uint64_t ro_start, uint64_t ro_end)
{
	uint64_t limit = direct_limit(info);

	direct_end = limit;
	for (uint64_t at = 0, end; at < limit; at = end) {
		unsigned flags;

		end = limit;
		flags = flags_from(info, at, ro_start, ro_end, &end);
		paging_map(DIRECT_MAP_BASE + at, at, end - at, flags);
	}
}

static void map_image(const char *start, const char *end, uint64_t hpa, unsigned flags)
{
	paging_map((uintptr_t)start, hpa + (uint64_t)(start - image_start), (uint64_t)(end - start),
	        flags);
}

void paging_build(const struct boot_info *info, uint64_t hpa)
{
	has_1g = cpuid(0x80000001, 0).edx & CPUID_80000001_EDX_1G;
	top = new_table();
	map_direct(info, hpa, hpa + (uint64_t)(image_rodata_end - image_start));
	map_image(image_start, image_text_end, hpa, MAP_EXEC);
	map_image(image_text_end, image_rodata_end, hpa, 0);
	map_image(image_rodata_end, image_end, hpa, MAP_WRITE);
}

struct percpu *paging_make_stack(unsigned index)
{
	uint64_t va = STACKS_BASE + (2ull * index + 1) * CPU_STACK_BYTES;
	unsigned char *pages = heap_alloc_pages(CPU_STACK_BYTES / PAGE_BYTES);
	struct percpu *p;

	if (!pages)
		panic("no memory for the stack of CPU %u", index);
	paging_map(va, virt_to_hpa(pages).value, CPU_STACK_BYTES, MAP_WRITE);
	p = (struct percpu *)(void *)(pages + CPU_STACK_BYTES - sizeof(*p));
	p->index = index;
	p->timer_deadline_tsc = UINT64_MAX;
	return (struct percpu *)(va + CPU_STACK_BYTES - sizeof(*p));
}

/* By hand, since its tables must go away again. */
void paging_identity_page(uint64_t hpa)
{
	uint64_t base;

	identity = heap_alloc_pages(3);
	if (!identity)
		panic("no memory for page tables");
	base = virt_to_hpa(identity).value;
	identity[0] = (base + PAGE_BYTES) | PTE_PRESENT;
	identity[TABLE_ENTRIES] = (base + 2 * PAGE_BYTES) | PTE_PRESENT;
	identity[2 * TABLE_ENTRIES + hpa / PAGE_BYTES] = hpa | PTE_PRESENT;
	top[0] = base | PTE_PRESENT;
}

void paging_identity_drop(void)
{
	top[0] = 0;
	paging_flush();
	heap_free_pages(identity, 3);
	identity = NULL;
}

void paging_flush(void)
{
	__asm__ volatile("mov %0, %%cr3" : : "r"(virt_to_hpa(top).value) : "memory");
}
