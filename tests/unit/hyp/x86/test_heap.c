/* SPDX-License-Identifier: BSD-2-Clause */
/* The page heap: everything can be had, nothing twice, all comes back, and pages are zero. */
/* sources: hyp/x86/heap.c */
#include "hyp/x86/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define PAGES 300u

static unsigned char *memory;
static jmp_buf panicked;

void panic(const char *format, ...)
{
	(void)format;
	longjmp(panicked, 1);
}

static int setup(void **state)
{
	(void)state;
	memory = aligned_alloc(4096, PAGES * 4096);
	memset(memory, 0xaa, PAGES * 4096);
	heap_init(memory, PAGES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(memory);
	return 0;
}

static bool is_zero(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static unsigned take_all(void **pages)
{
	unsigned n = 0;

	while ((pages[n] = heap_alloc_pages(1)))
		n++;
	return n;
}

static void test_all_pages_once(void **state)
{
	void *pages[PAGES + 1];
	unsigned n = take_all(pages);

	(void)state;
	assert_int_equal(n, PAGES - 1); /* one holds the bitmap */
	for (unsigned i = 0; i < n; i++) {
		assert_true(is_zero(pages[i], 4096));
		memset(pages[i], 0xff, 4096);
		assert_int_equal((uintptr_t)pages[i] % 4096, 0);
	}
	for (unsigned i = 0; i < n; i++)
		heap_free_pages(pages[i], 1);
	assert_non_null(heap_alloc_pages(PAGES - 1));
	assert_null(heap_alloc_pages(1));
}

static void test_runs_are_contiguous_and_zero(void **state)
{
	unsigned char *a = heap_alloc_pages(100), *b = heap_alloc_pages(100), *c;

	(void)state;
	assert_non_null(a);
	assert_non_null(b);
	assert_true(b >= a + 100 * 4096 || a >= b + 100 * 4096);
	assert_null(heap_alloc_pages(100));
	memset(a, 0xff, 100 * 4096);
	heap_free_pages(a, 100);
	c = heap_alloc_pages(100);
	assert_ptr_equal(c, a);
	assert_true(is_zero(c, 100 * 4096));
}

static void test_fragments(void **state)
{
	void *pages[PAGES + 1];
	unsigned n = take_all(pages);

	(void)state;
	for (unsigned i = 0; i < n; i += 2)
		heap_free_pages(pages[i], 1);
	assert_null(heap_alloc_pages(2));
	heap_free_pages(pages[101], 1);
	assert_ptr_equal(heap_alloc_pages(3), pages[100]);
	assert_null(heap_alloc_pages(2));
}

static void test_nonsense(void **state)
{
	(void)state;
	assert_null(heap_alloc_pages(0));
	assert_null(heap_alloc_pages(PAGES));
	assert_null(heap_alloc_pages(SIZE_MAX));
	heap_free_pages(NULL, 1);
}

static void test_double_free_panics(void **state)
{
	void *p = heap_alloc_pages(2);

	(void)state;
	heap_free_pages(p, 2);
	if (!setjmp(panicked)) {
		heap_free_pages(p, 2);
		fail_msg("freed twice");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_all_pages_once, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_runs_are_contiguous_and_zero, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_fragments, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_double_free_panics, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
