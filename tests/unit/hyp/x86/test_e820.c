/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory maps: by hand for the shapes that matter, and at random against a byte-per-page model. */
/* sources: hyp/x86/e820.c */
#include "hyp/x86/e820.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define RAM      BOOT_RANGE_RAM
#define RESERVED BOOT_RANGE_RESERVED
#define ACPI     BOOT_RANGE_ACPI

struct map {
	struct boot_range r[BOOT_MAX_RANGES];
	unsigned count;
};

static void add(struct map *m, uint64_t start, uint64_t end, uint32_t type)
{
	m->r[m->count++] = (struct boot_range){start, end - start, type};
}

static void expect(const struct map *m, unsigned i, uint64_t start, uint64_t end, uint32_t type)
{
	assert_true(i < m->count);
	assert_int_equal(m->r[i].start, start);
	assert_int_equal(m->r[i].start + m->r[i].size, end);
	assert_int_equal(m->r[i].type, type);
}

static void test_normalize_sorts_and_joins(void **state)
{
	struct map m = {.count = 0};

	(void)state;
	add(&m, 0x3000, 0x5000, RAM);
	add(&m, 0x1000, 0x3000, RAM);
	add(&m, 0x8000, 0x8000, RAM); /* empty */
	add(&m, 0x5000, 0x6000, ACPI);
	assert_true(e820_normalize(m.r, &m.count, BOOT_MAX_RANGES));
	assert_int_equal(m.count, 2);
	expect(&m, 0, 0x1000, 0x5000, RAM);
	expect(&m, 1, 0x5000, 0x6000, ACPI);
}

static void test_normalize_overlap_ram_loses(void **state)
{
	struct map m = {.count = 0};

	(void)state;
	add(&m, 0, 0x10000, RAM);
	add(&m, 0x4000, 0x6000, RESERVED);
	add(&m, 0x5000, 0x7000, ACPI);
	assert_true(e820_normalize(m.r, &m.count, BOOT_MAX_RANGES));
	assert_int_equal(m.count, 4);
	expect(&m, 0, 0, 0x4000, RAM);
	expect(&m, 1, 0x4000, 0x5000, RESERVED);
	expect(&m, 2, 0x5000, 0x7000, ACPI);
	expect(&m, 3, 0x7000, 0x10000, RAM);
}

static void test_normalize_drops_wrapping(void **state)
{
	struct map m = {.count = 0};

	(void)state;
	add(&m, 0x1000, 0x2000, RAM);
	m.r[m.count++] = (struct boot_range){UINT64_MAX - 0xfff, 0x2000, RAM};
	assert_true(e820_normalize(m.r, &m.count, BOOT_MAX_RANGES));
	assert_int_equal(m.count, 1);
}

static void test_normalize_too_many(void **state)
{
	struct map m = {.count = 0};

	(void)state;
	add(&m, 0, 0x10000, RAM);
	add(&m, 0x1000, 0x2000, RESERVED);
	assert_false(e820_normalize(m.r, &m.count, 2));
	assert_int_equal(m.count, 2);
	expect(&m, 0, 0, 0x10000, RAM);
}

static void test_reserve_in_the_middle(void **state)
{
	struct map m = {.count = 0};

	(void)state;
	add(&m, 0, 0x10000, RAM);
	add(&m, 0x10000, 0x12000, ACPI);
	add(&m, 0x20000, 0x30000, RAM);
	assert_true(e820_reserve(m.r, &m.count, BOOT_MAX_RANGES, 0x8000, 0x20000, RESERVED));
	assert_int_equal(m.count, 5);
	expect(&m, 0, 0, 0x8000, RAM);
	expect(&m, 1, 0x8000, 0x10000, RESERVED);
	expect(&m, 2, 0x10000, 0x12000, ACPI); /* what was no RAM stays what it was */
	expect(&m, 3, 0x20000, 0x28000, RESERVED);
	expect(&m, 4, 0x28000, 0x30000, RAM);
}

static void test_reserve_refuses(void **state)
{
	struct map m = {.count = 0};

	(void)state;
	add(&m, 0, 0x10000, RAM);
	assert_false(e820_reserve(m.r, &m.count, 2, 0x4000, 0x1000, RESERVED));
	assert_false(e820_reserve(m.r, &m.count, 9, UINT64_MAX - 1, 0x1000, RESERVED));
	assert_int_equal(m.count, 1);
	expect(&m, 0, 0, 0x10000, RAM);
	assert_true(e820_reserve(m.r, &m.count, 9, 0x4000, 0, RESERVED));
	assert_int_equal(m.count, 1);
}

static void test_find_top(void **state)
{
	struct map m = {.count = 0};
	struct boot_range avoid[] = {{0xc000, 0x1000, RAM}, {0x24000, 0x4000, RAM}, {0, 0, RAM}};

	(void)state;
	add(&m, 0x1000, 0x10000, RAM);
	add(&m, 0x10000, 0x20000, RESERVED);
	add(&m, 0x20000, 0x2a000, RAM);
#define FIND(size, align, min, limit) e820_find_top(m.r, m.count, size, align, min, limit, avoid, 3)
	assert_int_equal(FIND(0x1000, 0x1000, 0, UINT64_MAX), 0x29000);
	assert_int_equal(FIND(0x3000, 0x1000, 0, UINT64_MAX), 0x21000);
	assert_int_equal(FIND(0x4000, 0x2000, 0, UINT64_MAX), 0x20000);
	assert_int_equal(FIND(0x5000, 0x1000, 0, UINT64_MAX), 0x7000);
	assert_int_equal(FIND(0x1000, 0x1000, 0, 0x10000), 0xf000);
	assert_int_equal(FIND(0x4000, 0x1000, 0, 0x10000), 0x8000);
	assert_int_equal(FIND(0xb000, 0x1000, 0, UINT64_MAX), 0x1000);
	assert_int_equal(FIND(0xb000, 0x1000, 0x2000, UINT64_MAX), E820_NONE);
	assert_int_equal(FIND(0xc000, 0x1000, 0, UINT64_MAX), E820_NONE);
	assert_int_equal(FIND(0x1000, 0x1000, 0, 0x1800), E820_NONE);
#undef FIND
}

static void test_is_ram(void **state)
{
	struct map m = {.count = 0};

	(void)state;
	add(&m, 0x1000, 0x10000, RAM);
	add(&m, 0x10000, 0x20000, RESERVED);
	assert_true(e820_is_ram(m.r, m.count, 0x1000, 0xf000));
	assert_false(e820_is_ram(m.r, m.count, 0x1000, 0xf001));
	assert_false(e820_is_ram(m.r, m.count, 0xfff, 1));
	assert_false(e820_is_ram(m.r, m.count, 0x10000, 1));
	assert_false(e820_is_ram(m.r, m.count, 0x2000, UINT64_MAX));
}

/* A world of 64 pages, each with its type; 0 for none. */
#define PAGES 64u

static void paint(uint8_t *pages, const struct boot_range *r)
{
	for (uint64_t p = r->start; p < r->start + r->size; p++)
		if (pages[p] < r->type)
			pages[p] = (uint8_t)r->type;
}

static void check_against(const struct map *m, const uint8_t *pages)
{
	uint8_t got[PAGES] = {0};

	for (unsigned i = 0; i < m->count; i++) {
		assert_true(m->r[i].size > 0);
		if (i)
			assert_true(m->r[i - 1].start + m->r[i - 1].size <= m->r[i].start);
		paint(got, &m->r[i]);
	}
	assert_memory_equal(got, pages, PAGES);
}

static uint64_t model_find(
        const uint8_t *pages, uint64_t size, uint64_t align, const struct boot_range *avoid)
{
	for (uint64_t at = PAGES - size + 1; at-- > 0;) {
		bool ok = !(at % align);

		for (uint64_t p = at; p < at + size; p++)
			ok = ok && pages[p] == RAM &&
			     !(p >= avoid->start && p < avoid->start + avoid->size);
		if (ok)
			return at;
	}
	return E820_NONE;
}

static void test_random_against_model(void **state)
{
	(void)state;
	srand(42);
	for (unsigned round = 0; round < 20000; round++) {
		struct map m = {.count = 0};
		uint8_t pages[PAGES] = {0};
		struct boot_range cut, avoid;
		uint64_t size, align;

		for (unsigned i = 0; i < 6; i++) {
			uint64_t start = (uint64_t)rand() % PAGES;
			uint64_t end = start + (uint64_t)rand() % (PAGES - start + 1);

			add(&m, start, end, rand() % 2 ? RAM : 1 + (uint32_t)rand() % 5);
			paint(pages, &m.r[i]);
		}
		assert_true(e820_normalize(m.r, &m.count, BOOT_MAX_RANGES));
		check_against(&m, pages);
		cut.start = (uint64_t)rand() % PAGES;
		cut.size = (uint64_t)rand() % (PAGES - cut.start + 1);
		for (uint64_t p = cut.start; p < cut.start + cut.size; p++)
			if (pages[p] == RAM)
				pages[p] = RESERVED;
		assert_true(e820_reserve(
		        m.r, &m.count, BOOT_MAX_RANGES, cut.start, cut.size, RESERVED));
		check_against(&m, pages);
		avoid = (struct boot_range){(uint64_t)rand() % PAGES, (uint64_t)rand() % 8, RAM};
		size = 1 + (uint64_t)rand() % 12;
		align = 1ull << rand() % 4;
		assert_int_equal(e820_find_top(m.r, m.count, size, align, 0, PAGES, &avoid, 1),
		        model_find(pages, size, align, &avoid));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_normalize_sorts_and_joins),
	        cmocka_unit_test(test_normalize_overlap_ram_loses),
	        cmocka_unit_test(test_normalize_drops_wrapping),
	        cmocka_unit_test(test_normalize_too_many),
	        cmocka_unit_test(test_reserve_in_the_middle),
	        cmocka_unit_test(test_reserve_refuses),
	        cmocka_unit_test(test_find_top),
	        cmocka_unit_test(test_is_ram),
	        cmocka_unit_test(test_random_against_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
