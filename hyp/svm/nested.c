/* SPDX-License-Identifier: BSD-2-Clause */
/* Nested page tables in AMD's format: the CPU's own four-level tables, U set everywhere (APM 24593
 * §15.25). */

#include "hyp/cpu/cpu.h"
#include "abi/hypercall.h"
#include "hw/msr.h"
#include "hyp/x86/arena.h"
#include "hyp/svm/svm.h"
#include "hyp/x86/x86.h"

#define TABLE_FLAGS    (PTE_PRESENT | PTE_WRITE | PTE_USER)
#define ENTRY_TABLE(e) (((e)&PTE_PRESENT) && !((e)&PTE_LARGE))

static uint64_t level_bytes(unsigned level)
{
	return 1ull << (12 + 9 * (level - 1));
}

static uint64_t *entry_of(hpa_t table, gpa_t gpa, unsigned level)
{
	uint64_t *entries = hpa_to_virt(table);

	return &entries[(gpa.value >> (12 + 9 * (level - 1))) & 511];
}

static hpa_t entry_hpa(uint64_t entry)
{
	return HPA(entry & PTE_ADDRESS);
}

int cpu_nested_create(struct cpu_nested *n, struct arena *arena)
{
	void *page = arena_pages(arena, 1);

	if (page == NULL)
		return -KEEL_ENOMEM;
	n->table = virt_to_hpa(page);
	n->arena = arena;
	return 0;
}

static uint64_t leaf(hpa_t hpa, unsigned flags, unsigned level)
{
	uint64_t e = hpa.value | PTE_PRESENT | PTE_USER | PTE_ACCESSED | PTE_DIRTY;

	if (flags == 0)
		return 0;
	if (flags & CPU_NESTED_WRITE)
		e |= PTE_WRITE;
	if (!(flags & CPU_NESTED_EXECUTE))
		e |= PTE_NX;
	if (flags & CPU_NESTED_UC)
		e |= PTE_PCD | PTE_PWT;
	return level > 1 ? e | PTE_LARGE : e;
}

/* Makes *entry (of the given level) a table, keeping what a large page mapped. The new table is
 * whole before it is linked. */
static int entry_split(struct cpu_nested *n, uint64_t *entry, unsigned level)
{
	uint64_t *table = arena_pages(n->arena, 1);
	uint64_t old = *entry;

	if (table == NULL)
		return -KEEL_ENOMEM;
	if (old & PTE_PRESENT) {
		uint64_t flags = old & ~((uint64_t)PTE_ADDRESS | PTE_LARGE);

		for (unsigned i = 0; i < 512; i++)
			table[i] = ((old & PTE_ADDRESS) + i * level_bytes(level - 1)) | flags |
			           (level > 2 ? PTE_LARGE : 0);
	}
	__atomic_store_n(entry, virt_to_hpa(table).value | TABLE_FLAGS, __ATOMIC_RELEASE);
	return 0;
}

/* The largest level at which a leaf fits at gpa, not above the given bytes. */
static unsigned level_for(gpa_t gpa, hpa_t hpa, uint64_t bytes)
{
	unsigned top = svm_has_1g ? 3 : 2;

	for (unsigned level = top; level > 1; level--) {
		uint64_t size = level_bytes(level);

		if (bytes >= size && ((gpa.value | hpa.value) & (size - 1)) == 0)
			return level;
	}
	return 1;
}

int cpu_nested_map(struct cpu_nested *n, gpa_t gpa, hpa_t hpa, uint64_t bytes, unsigned flags)
{
	hyp_assert(((gpa.value | hpa.value | bytes) & (PAGE_BYTES - 1)) == 0);
	while (bytes != 0) {
		unsigned want = level_for(gpa, hpa, bytes);
		unsigned level = 4;
		uint64_t *entry = entry_of(n->table, gpa, level);

		/* A table that is there already stays: its lower entries are set one by one. */
		while (level > want || ENTRY_TABLE(*entry)) {
			if (level == 1)
				break;
			if (!ENTRY_TABLE(*entry) && entry_split(n, entry, level) != 0)
				return -KEEL_ENOMEM;
			level--;
			entry = entry_of(entry_hpa(*entry), gpa, level);
		}
		__atomic_store_n(entry, leaf(hpa, flags, level), __ATOMIC_RELEASE);
		gpa.value += level_bytes(level);
		hpa.value += level_bytes(level);
		bytes -= level_bytes(level);
	}
	return 0;
}

bool cpu_nested_lookup(const struct cpu_nested *n, gpa_t gpa, hpa_t *hpa, unsigned *flags)
{
	unsigned level = 4;
	uint64_t entry;

	if (gpa.value >> 48)
		return false;
	entry = __atomic_load_n(entry_of(n->table, gpa, level), __ATOMIC_ACQUIRE);
	while (level > 1 && ENTRY_TABLE(entry)) {
		level--;
		entry = __atomic_load_n(entry_of(entry_hpa(entry), gpa, level), __ATOMIC_ACQUIRE);
	}
	if (!(entry & PTE_PRESENT))
		return false;
	hpa->value = (entry & PTE_ADDRESS) + (gpa.value & (level_bytes(level) - 1));
	*flags = CPU_NESTED_READ | (entry & PTE_WRITE ? CPU_NESTED_WRITE : 0) |
	         (entry & PTE_NX ? 0 : CPU_NESTED_EXECUTE);
	return true;
}
