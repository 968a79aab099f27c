/* SPDX-License-Identifier: BSD-2-Clause */
/* What is a bzImage and what is not, and where its parts go in maps of different shapes. */
/* sources: hyp/x86/linux_image.c hyp/x86/e820.c */
#include "hyp/x86/linux_image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define MIB           (1ull << 20)
#define SETUP_SECTS   27u
#define PAYLOAD_UNITS 0x1000u /* of 16 bytes */
#define IMAGE_BYTES   ((SETUP_SECTS + 1) * 512 + PAYLOAD_UNITS * 16)

static uint8_t image[IMAGE_BYTES];

static struct linux_setup_header *header(void)
{
	return (struct linux_setup_header *)(image + LINUX_HEADER_OFFSET);
}

static void make_image(void)
{
	memset(image, 0xcc, sizeof(image));
	*header() = (struct linux_setup_header){
	        .setup_sects = SETUP_SECTS,
	        .syssize = PAYLOAD_UNITS,
	        .boot_flag = 0xaa55,
	        .jump = 0xeb,
	        .header_length = 0x6a,
	        .header = 0x53726448,
	        .version = 0x20f,
	        .loadflags = 1,
	        .initrd_addr_max = 0x7fffffff,
	        .kernel_alignment = 0x200000,
	        .relocatable_kernel = 1,
	        .xloadflags = 0x7f,
	        .cmdline_size = 2047,
	        .pref_address = 16 * MIB,
	        .init_size = 50 * MIB,
	};
}

static void test_parse(void **state)
{
	struct linux_layout l;

	(void)state;
	make_image();
	assert_null(linux_image_parse(image, sizeof(image), &l));
	assert_int_equal(l.payload_offset, (SETUP_SECTS + 1) * 512);
	assert_int_equal(l.payload_bytes, PAYLOAD_UNITS * 16);
	assert_int_equal(l.span_bytes, 50 * MIB);
	assert_int_equal(l.header.cmdline_size, 2047);
	/* An older kernel with a shorter head: what comes after it is not taken. */
	header()->header_length = 0x62;
	header()->kernel_info_offset = 0x12345678;
	assert_null(linux_image_parse(image, sizeof(image), &l));
	assert_int_equal(l.header.kernel_info_offset, 0);
	header()->setup_sects = 0;
	assert_null(linux_image_parse(image, sizeof(image), &l));
	assert_int_equal(l.payload_offset, 5 * 512);
}

#define REFUSES(field, value)                                                                      \
	do {                                                                                       \
		struct linux_layout layout;                                                        \
		make_image();                                                                      \
		header()->field = (value);                                                         \
		assert_non_null(linux_image_parse(image, sizeof(image), &layout));                 \
	} while (0)

static void test_refuses_what_is_no_bzimage(void **state)
{
	static const uint8_t elf[4096] = "\x7f"
	                                 "ELF";
	struct linux_layout l;

	(void)state;
	REFUSES(boot_flag, 0);
	REFUSES(header, 0x12345678);
	REFUSES(version, 0x20b);
	REFUSES(xloadflags, 0);
	REFUSES(loadflags, 0);
	REFUSES(kernel_alignment, 0x300000);
	REFUSES(kernel_alignment, 0);
	REFUSES(syssize, 0);
	REFUSES(syssize, UINT32_MAX);
	assert_non_null(linux_image_parse(elf, sizeof(elf), &l));
	make_image();
	assert_non_null(linux_image_parse(image, sizeof(image) - 1, &l));
	assert_non_null(linux_image_parse(image, 0x200, &l));
	assert_non_null(linux_image_parse(image, 0, &l));
}

static const struct boot_range usual_map[] = {
        {0, 0x9fc00, BOOT_RANGE_RAM},
        {0x9fc00, 0x400, BOOT_RANGE_RESERVED},
        {MIB, 0x7dc00000 - MIB, BOOT_RANGE_RAM},
        {0x7dc00000, 0x2200000, BOOT_RANGE_RESERVED},
        {4096 * MIB, 2048 * MIB, BOOT_RANGE_RAM},
};

static struct linux_layout place(
        const struct linux_image *m, const char *expected_failure, uint16_t xloadflags)
{
	struct linux_layout l;
	const char *why;

	make_image();
	header()->xloadflags = xloadflags;
	assert_null(linux_image_parse(image, sizeof(image), &l));
	why = linux_image_place(m, &l);
	if (expected_failure)
		assert_non_null(strstr(why, expected_failure));
	else
		assert_null(why);
	return l;
}

static struct linux_image usual(void)
{
	return (struct linux_image){
	        .kernel = HPA(0x7ce00000),
	        .kernel_bytes = 14 * MIB,
	        .initrd = HPA(0x7a000000),
	        .initrd_bytes = 8 * MIB + 5,
	        .e820 = usual_map,
	        .e820_count = 5,
	};
}

static void test_places_as_preferred(void **state)
{
	struct linux_image m = usual();
	struct linux_layout l = place(&m, NULL, 0x7f);

	(void)state;
	assert_int_equal(l.kernel, 16 * MIB);
	assert_int_equal(l.initrd, 0x7a000000); /* where it is already */
	assert_int_equal(l.block, 0x9f000 - LINUX_BLOCK_BYTES);
}

static void test_copies_initrd_that_is_not_roots(void **state)
{
	struct linux_image m = usual();
	struct linux_layout l;

	(void)state;
	m.initrd = HPA(0x7dd00000); /* in hyp's own range */
	l = place(&m, NULL, 0x7f);
	assert_int_equal(l.initrd, 0x7ce00000 - 8 * MIB - 4096); /* below the kernel's source */
	m.initrd = HPA(0x7a000800);                              /* not page-aligned */
	l = place(&m, NULL, 0x7f);
	assert_true(l.initrd + m.initrd_bytes <= 0x7a000800 || l.initrd >= 0x7a000800 + 8 * MIB);
	m.initrd_bytes = 0;
	l = place(&m, NULL, 0x7f);
	assert_int_equal(l.initrd, 0);
}

static void test_kernel_steps_aside_for_its_source(void **state)
{
	struct linux_image m = usual();
	struct linux_layout l;

	(void)state;
	m.kernel = HPA(20 * MIB);
	l = place(&m, NULL, 0x7f);
	assert_true(l.kernel >= 34 * MIB);
	assert_int_equal(l.kernel % 0x200000, 0);
	assert_true(l.kernel + 50 * MIB <= 0x7a000000 || l.kernel >= 0x7a800000);
	/* The initrd's place of today is in the kernel's way, so the kernel's is not taken. */
	m = usual();
	m.initrd = HPA(60 * MIB);
	l = place(&m, NULL, 0x7f);
	assert_true(l.kernel >= 68 * MIB);
}

static void test_initrd_above_4g_only_if_allowed(void **state)
{
	static const struct boot_range map[] = {
	        {0, 0x90000, BOOT_RANGE_RAM},
	        {16 * MIB, 64 * MIB, BOOT_RANGE_RAM},
	        {4096 * MIB, 512 * MIB, BOOT_RANGE_RAM},
	};
	struct linux_image m = {.kernel = HPA(0x7ce00000),
	        .kernel_bytes = MIB,
	        .initrd = HPA(0x70000000),
	        .initrd_bytes = 100 * MIB,
	        .e820 = map,
	        .e820_count = 3};
	struct linux_layout l = place(&m, NULL, LINUX_XLF_KERNEL_64 | 2);

	(void)state;
	assert_int_equal(l.initrd, 4608 * MIB - 100 * MIB);
	place(&m, "initrd", LINUX_XLF_KERNEL_64);
}

static void test_no_room(void **state)
{
	static const struct boot_range small[] = {
	        {0, 0x90000, BOOT_RANGE_RAM}, {MIB, 40 * MIB, BOOT_RANGE_RAM}};
	static const struct boot_range tight[] = {{16 * MIB, 50 * MIB, BOOT_RANGE_RAM}};
	struct linux_image m = usual();

	(void)state;
	m.e820 = small;
	m.e820_count = 2;
	place(&m, "kernel", 0x7f);
	m.e820 = tight;
	m.e820_count = 1;
	m.initrd_bytes = 0;
	place(&m, "zero page", 0x7f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_parse),
	        cmocka_unit_test(test_refuses_what_is_no_bzimage),
	        cmocka_unit_test(test_places_as_preferred),
	        cmocka_unit_test(test_copies_initrd_that_is_not_roots),
	        cmocka_unit_test(test_kernel_steps_aside_for_its_source),
	        cmocka_unit_test(test_initrd_above_4g_only_if_allowed),
	        cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
