/* SPDX-License-Identifier: BSD-2-Clause */
/* The pool's choice of ranges at boot, and that no page is ever lost or owned twice. */
/* sources: lib/cmdline.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/core/pool.c"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static hpa_t hyp_start;
static uint64_t hyp_bytes;
static jmp_buf panicked;
static bool expect_panic;

void memory_hyp_range(hpa_t *start, uint64_t *size_bytes)
{
	*start = hyp_start;
	*size_bytes = hyp_bytes;
}

void *heap_alloc_pages(size_t count)
{
	return calloc(count, PAGE_BYTES);
}

void log_line(const char *format, ...)
{
	(void)format;
}

void panic(const char *format, ...)
{
	if (expect_panic)
		longjmp(panicked, 1);
	fail_msg("panic: %s", format);
	abort();
}

static struct boot_info info;

static void add_range(uint64_t start, uint64_t size, uint32_t type)
{
	info.ranges[info.range_count++] = (struct boot_range){
	        .start = start, .size = size, .type = type};
}

/* The lab's q35 with 4 GiB: 2 GiB below 4 GiB, 2 GiB above. hyp at the top of the lower part. */
static int set_up(void **state)
{
	(void)state;
	free(pool.owner);
	memset(&pool, 0, sizeof(pool));
	memset(&info, 0, sizeof(info));
	add_range(0, 0x9fc00, BOOT_RANGE_RAM);
	add_range(0xf0000, 0x10000, BOOT_RANGE_RESERVED);
	add_range(1 * MIB, 2 * GIB - 2 * MIB, BOOT_RANGE_RAM);
	add_range(2 * GIB - 1 * MIB, 1 * MIB, BOOT_RANGE_ACPI);
	add_range(4 * GIB, 2 * GIB, BOOT_RANGE_RAM);
	hyp_start = HPA(2 * GIB - 64 * MIB);
	hyp_bytes = 32 * MIB;
	expect_panic = false;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(pool.owner);
	pool.owner = NULL;
	return 0;
}

static void check_ranges(void)
{
	unsigned count;
	const struct boot_range *r = pool_ranges(&count);

	assert_in_range(count, 1, KEEL_MAX_POOL_RANGES);
	for (unsigned i = 0; i < count; i++) {
		bool in_ram = false;

		assert_int_equal(r[i].start % LARGE_BYTES, 0);
		assert_int_equal(r[i].size % LARGE_BYTES, 0);
		assert_true(r[i].size > 0);
		assert_false(r[i].start < hyp_start.value + hyp_bytes &&
		             hyp_start.value < r[i].start + r[i].size);
		for (unsigned j = 0; j < info.range_count; j++)
			if (info.ranges[j].type == BOOT_RANGE_RAM &&
			        r[i].start >= info.ranges[j].start &&
			        r[i].start + r[i].size <=
			                info.ranges[j].start + info.ranges[j].size)
				in_ram = true;
		assert_true(in_ram);
		for (unsigned j = 0; j < i; j++)
			assert_false(r[i].start < r[j].start + r[j].size &&
			             r[j].start < r[i].start + r[i].size);
	}
}

static void default_leaves_root_its_share(void **state)
{
	(void)state;
	pool_init(&info);
	check_ranges();
	assert_in_range(pool_bytes(), 4 * GIB * 58 / 100, 4 * GIB * 61 / 100);
	assert_int_equal(pool_free_bytes(), pool_bytes());
}

static void size_on_the_command_line_counts(void **state)
{
	unsigned count;

	(void)state;
	strcpy(info.cmdline, "console=ttyS0 pool=1G");
	pool_init(&info);
	check_ranges();
	assert_int_equal(pool_bytes(), GIB);
	/* From the highest RAM. */
	assert_int_equal(pool_ranges(&count)[0].start, 5 * GIB);
	assert_int_equal(count, 1);
}

static void too_much_is_cut_so_that_root_lives(void **state)
{
	(void)state;
	strcpy(info.cmdline, "pool=64G");
	pool_init(&info);
	check_ranges();
	assert_true(pool_bytes() > 3 * GIB);
	assert_true(pool_bytes() <= 4 * GIB - 512 * MIB);
}

static void rubbish_size_is_refused(void **state)
{
	(void)state;
	strcpy(info.cmdline, "pool=lots");
	expect_panic = true;
	if (setjmp(panicked) == 0) {
		pool_init(&info);
		fail_msg("pool=lots was taken");
	}
}

static void modules_stay_where_they_are(void **state)
{
	unsigned count;
	const struct boot_range *r;

	(void)state;
	strcpy(info.cmdline, "pool=3G");
	info.module_count = 2;
	info.modules[0].start = HPA(GIB);
	info.modules[0].size_bytes = 9 * MIB;
	info.modules[1].start = HPA(4 * GIB + 3 * MIB);
	info.modules[1].size_bytes = 100 * MIB;
	pool_init(&info);
	check_ranges();
	r = pool_ranges(&count);
	for (unsigned i = 0; i < count; i++)
		for (unsigned m = 0; m < 2; m++)
			assert_false(r[i].start < info.modules[m].start.value +
			                                  info.modules[m].size_bytes &&
			             info.modules[m].start.value < r[i].start + r[i].size);
}

static void large_requests_lie_at_a_gibibyte(void **state)
{
	uint32_t *frames = calloc(600, sizeof(*frames));

	(void)state;
	strcpy(info.cmdline, "pool=2040M");
	pool_init(&info);
	assert_true(pool_take(POOL_VM(1), 512, frames));
	assert_int_equal(frames[0] % 512, 0);
	for (uint32_t i = 0; i < 512; i++)
		assert_int_equal(frames[i], frames[0] + i);
	assert_int_equal(pool_owner(HPA((uint64_t)frames[7] << 21)), 1);
	free(frames);
}

static void all_or_nothing(void **state)
{
	uint32_t frames[600], first;

	(void)state;
	strcpy(info.cmdline, "pool=1G");
	pool_init(&info);
	assert_false(pool_take(POOL_VM(1), 513, frames));
	assert_int_equal(pool_free_bytes(), GIB);
	assert_false(pool_take_run(POOL_HYP_FOR(1), 513, &first));
	assert_true(pool_take(POOL_VM(1), 512, frames));
	assert_int_equal(pool_free_bytes(), 0);
	assert_false(pool_take_run(POOL_HYP_FOR(1), 1, &first));
	pool_give_all(POOL_VM(1));
	assert_int_equal(pool_free_bytes(), GIB);
}

static void holes_are_used(void **state)
{
	uint32_t frames[512], first;

	(void)state;
	strcpy(info.cmdline, "pool=1G");
	pool_init(&info);
	/* Every other page to VM 1, so that no run of two is left. */
	for (uint32_t i = 0; i < 512; i++)
		assert_true(pool_take_run(POOL_VM(1 + i % 2), 1, &first));
	pool_give_all(POOL_VM(2));
	assert_false(pool_take_run(POOL_HYP_FOR(3), 2, &first));
	assert_true(pool_take(POOL_VM(3), 256, frames));
	for (uint32_t i = 0; i < 256; i++)
		assert_int_equal(pool_owner(HPA((uint64_t)frames[i] << 21)), 3);
	assert_int_equal(pool_free_bytes(), 0);
}

static void nothing_is_lost_in_many_lives(void **state)
{
	static uint32_t frames[64][1024];

	(void)state;
	pool_init(&info);
	srand(7);
	for (unsigned round = 0; round < 2000; round++) {
		unsigned id = 1 + (unsigned)rand() % 63;
		uint32_t count = 1 + (uint32_t)rand() % 40, first;

		pool_give_all(POOL_VM(id));
		pool_give_all(POOL_HYP_FOR(id));
		if (pool_take_run(POOL_HYP_FOR(id), 1, &first) &&
		        pool_take(POOL_VM(id), count, frames[id]))
			for (uint32_t i = 0; i < count; i++)
				assert_int_equal(
				        pool_owner(HPA((uint64_t)frames[id][i] << 21)), id);
	}
	for (unsigned id = 1; id < 64; id++) {
		pool_give_all(POOL_VM(id));
		pool_give_all(POOL_HYP_FOR(id));
	}
	assert_int_equal(pool_free_bytes(), pool_bytes());
}

static void a_page_cannot_be_owned_twice(void **state)
{
	uint32_t first;

	(void)state;
	pool_init(&info);
	assert_true(pool_take_run(POOL_VM(1), 1, &first));
	expect_panic = true;
	if (setjmp(panicked) == 0) {
		own(pool.pages, POOL_VM(2));
		fail_msg("a page that is not there was given");
	}
	if (setjmp(panicked) == 0) {
		for (uint32_t i = 0; i < pool.pages; i++)
			own(i, POOL_VM(2));
		fail_msg("a page was given twice");
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	        T(default_leaves_root_its_share),
	        T(size_on_the_command_line_counts),
	        T(too_much_is_cut_so_that_root_lives),
	        T(rubbish_size_is_refused),
	        T(modules_stay_where_they_are),
	        T(large_requests_lie_at_a_gibibyte),
	        T(all_or_nothing),
	        T(holes_are_used),
	        T(nothing_is_lost_in_many_lives),
	        T(a_page_cannot_be_owned_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
