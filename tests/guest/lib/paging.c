/* SPDX-License-Identifier: BSD-2-Clause */
/* Single pages of the runner's identity map. */

#include "tests/guest/lib/guest.h"

#define TABLES_MAX 16

static uint64_t tables[TABLES_MAX][512] __attribute__((aligned(4096)));
static unsigned used;

uint64_t *page_entry(uint64_t linear)
{
	uint64_t *pd = (uint64_t *)(uintptr_t)(BOARD_TABLES + 0x2000);
	uint64_t *entry = &pd[linear >> 21], base = *entry & ~0x1fffffull;
	uint64_t *table;

	if (*entry & 0x80) {
		if (used == TABLES_MAX) {
			print("FAIL: no page tables left\n");
			guest_exit(97);
		}
		table = tables[used++];
		for (uint64_t i = 0; i < 512; i++)
			table[i] = (base + i * 4096) | 3;
		*entry = (uint64_t)table | 7;
		page_flush(linear);
	}
	table = (uint64_t *)(uintptr_t)(*entry & ~0xfffull);
	return &table[linear >> 12 & 511];
}
