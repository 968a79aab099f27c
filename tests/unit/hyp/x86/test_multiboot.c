/* SPDX-License-Identifier: BSD-2-Clause */
/* Multiboot blocks as QEMU and GRUB leave them, and damaged ones. */
/* sources: hyp/x86/multiboot.c hyp/x86/e820.c */
#include "hyp/x86/multiboot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* Physical memory of Multiboot 1's pointers. */
static uint8_t memory[0x4000];

static const void *phys(uint32_t address)
{
	assert_true(address < sizeof(memory));
	return memory + address;
}

static struct mb1_info make_mb1(void)
{
	static const struct mb1_mmap_entry map[] = {
	        {20, 0x100000, 0, 0x7ff00000, 0, 1}, {20, 0, 0, 0x9fc00, 0, 1},
	        {20, 0, 1, 0x80000000, 0, 1}, {20, 0x9fc00, 0, 0x400, 0, 2},
	        {20, 0xfd00, 0, 0x100, 0, 12}, /* a type that we do not know */
	};
	struct mb1_module modules[] = {{0x3000, 0x3800, 0x500, 0}, {0x3800, 0x4000, 0x540, 0}};

	memset(memory, 0, sizeof(memory));
	memcpy(memory + 0x100, map, sizeof(map));
	memcpy(memory + 0x400, modules, sizeof(modules));
	strcpy((char *)memory + 0x500, "vmlinuz console=ttyS0 quiet");
	strcpy((char *)memory + 0x540, "initrd.img");
	strcpy((char *)memory + 0x600, "hyp.elf32 pool=1G panic=halt");
	strcpy((char *)memory + 0x700, "qemu");
	return (struct mb1_info){
	        .flags = MB1_INFO_CMDLINE | MB1_INFO_MODULES | MB1_INFO_MMAP | MB1_INFO_LOADER,
	        .cmdline = 0x600,
	        .module_count = 2,
	        .modules = 0x400,
	        .mmap = 0x100,
	        .mmap_length = sizeof(map),
	        .loader_name = 0x700,
	};
}

static void test_mb1_qemu(void **state)
{
	struct mb1_info b = make_mb1();
	static struct boot_info info;

	(void)state;
	assert_null(multiboot1_parse(&b, phys, &info));
	assert_string_equal(info.loader, "qemu");
	assert_string_equal(info.cmdline, "pool=1G panic=halt");
	assert_int_equal(info.module_count, 2);
	assert_string_equal(info.modules[0].cmdline, "console=ttyS0 quiet");
	assert_int_equal(info.modules[0].start.value, 0x3000);
	assert_int_equal(info.modules[0].size_bytes, 0x800);
	assert_string_equal(info.modules[1].cmdline, "");
	assert_false(info.uefi);
	assert_int_equal(info.range_count, 6);
	assert_int_equal(info.ranges[0].start, 0);
	assert_int_equal(info.ranges[0].size, 0xfd00);
	assert_int_equal(info.ranges[1].type, BOOT_RANGE_RESERVED);
	assert_int_equal(info.ranges[3].start, 0x9fc00);
	assert_int_equal(info.ranges[5].start, 1ull << 32);
	assert_int_equal(info.ranges[5].size, 0x80000000);
}

static void test_mb1_grub_keeps_first_word(void **state)
{
	struct mb1_info b = make_mb1();
	static struct boot_info info;

	(void)state;
	strcpy((char *)memory + 0x700, "GRUB 2.06");
	assert_null(multiboot1_parse(&b, phys, &info));
	assert_string_equal(info.cmdline, "hyp.elf32 pool=1G panic=halt");
}

static void test_mb1_damaged(void **state)
{
	struct mb1_info b = make_mb1();
	static struct boot_info info;

	(void)state;
	memory[0x100] = 3; /* the first entry's size */
	assert_non_null(multiboot1_parse(&b, phys, &info));
	b = make_mb1();
	b.flags &= ~MB1_INFO_MMAP;
	assert_non_null(multiboot1_parse(&b, phys, &info));
	b = make_mb1();
	b.module_count = BOOT_MAX_MODULES + 1;
	assert_non_null(multiboot1_parse(&b, phys, &info));
	b = make_mb1();
	memory[0x400 + 5] = 0x20; /* the first module ends before it starts */
	assert_non_null(multiboot1_parse(&b, phys, &info));
}

static void test_mb1_long_cmdline_is_cut(void **state)
{
	struct mb1_info b = make_mb1();
	static struct boot_info info;

	(void)state;
	memset(memory + 0x1000, 'x', 0x1fff);
	memory[0x2fff] = 0;
	b.cmdline = 0x1000;
	b.flags &= ~MB1_INFO_LOADER;
	assert_null(multiboot1_parse(&b, phys, &info));
	assert_int_equal(strlen(info.cmdline), BOOT_CMDLINE_MAX - 1);
}

/* A Multiboot 2 block in a buffer of exactly its size, so that the sanitizer sees every step
 * beyond. */
struct block {
	uint8_t *bytes;
	uint32_t size;
};

static void put(struct block *b, const void *data, uint32_t n)
{
	b->bytes = realloc(b->bytes, b->size + n);
	assert_non_null(b->bytes);
	memcpy(b->bytes + b->size, data, n);
	b->size += n;
	memcpy(b->bytes, &b->size, sizeof(b->size));
}

static void put_tag(struct block *b, uint32_t type, const void *data, uint32_t n)
{
	static const uint8_t zero[8];
	struct mb2_tag tag = {type, n + (uint32_t)sizeof(tag)};

	put(b, &tag, sizeof(tag));
	put(b, data, n);
	put(b, zero, -n & 7);
}

static void begin(struct block *b)
{
	struct mb2_info head = {0, 0};

	b->bytes = NULL;
	b->size = 0;
	b->bytes = malloc(sizeof(head));
	put(b, &head, sizeof(head));
}

static void put_map(struct block *b)
{
	struct {
		uint32_t entry_size, version;
		struct mb2_mmap_entry e[3];
	} map = {24, 0,
	        {{0, 0xa0000, 1, 0}, {0x100000, 0x7ff00000, 1, 0}, {0x7ea8a000, 0x102000, 2, 0}}};

	put_tag(b, MB2_TAG_MMAP, &map, sizeof(map));
}

static struct block make_mb2(void)
{
	struct {
		uint32_t start, end;
		char cmdline[8];
	} module = {0x4000, 0x5000, "quiet x"};
	uint8_t efi64[8] = {0};
	uint8_t rsdp1[20] = "RSD PTR ", rsdp2[36] = "RSD PTR ";
	struct block b;

	rsdp2[15] = 2;
	rsdp2[24] = 0x77;
	begin(&b);
	put_tag(&b, MB2_TAG_CMDLINE, "pool=1G", 8);
	put_tag(&b, MB2_TAG_LOADER, "GRUB 2.06", 10);
	put_tag(&b, MB2_TAG_MODULE, &module, sizeof(module));
	put_map(&b);
	put_tag(&b, MB2_TAG_EFI64, efi64, sizeof(efi64));
	put_tag(&b, MB2_TAG_RSDP_V2, rsdp2, sizeof(rsdp2));
	put_tag(&b, MB2_TAG_RSDP_V1, rsdp1, sizeof(rsdp1));
	put_tag(&b, 4711, "what is this", 12);
	put_tag(&b, MB2_TAG_END, "", 0);
	return b;
}

static void test_mb2_grub(void **state)
{
	struct block b = make_mb2();
	static struct boot_info info;
	struct acpi_rsdp rsdp;

	(void)state;
	assert_null(multiboot2_parse(b.bytes, &info, &rsdp));
	assert_string_equal(info.loader, "GRUB 2.06");
	assert_string_equal(info.cmdline, "pool=1G");
	assert_int_equal(info.module_count, 1);
	assert_string_equal(info.modules[0].cmdline, "quiet x");
	assert_int_equal(info.modules[0].size_bytes, 0x1000);
	assert_true(info.uefi);
	assert_int_equal(info.range_count, 4);
	assert_int_equal(info.ranges[2].type, BOOT_RANGE_RESERVED);
	/* Version 2 wins, whichever comes first. */
	assert_int_equal(rsdp.revision, 2);
	assert_int_equal(rsdp.length, 36);
	assert_int_equal(rsdp.xsdt, 0x77);
	free(b.bytes);
}

static void test_mb2_without_map_or_end(void **state)
{
	static struct boot_info info;
	struct acpi_rsdp rsdp;
	struct block b;

	(void)state;
	begin(&b);
	put_tag(&b, MB2_TAG_END, "", 0);
	assert_non_null(multiboot2_parse(b.bytes, &info, &rsdp));
	free(b.bytes);
	begin(&b);
	put_map(&b);
	assert_non_null(multiboot2_parse(b.bytes, &info, &rsdp));
	free(b.bytes);
}

/* Any bytes at all: an answer without a step outside of the block. */
static void test_mb2_flipped_bytes(void **state)
{
	static struct boot_info info;
	struct acpi_rsdp rsdp;

	(void)state;
	srand(7);
	for (unsigned round = 0; round < 20000; round++) {
		struct block b = make_mb2();

		for (int i = 1 + rand() % 6; i > 0; i--)
			b.bytes[8 + (uint32_t)rand() % (b.size - 8)] = (uint8_t)rand();
		(void)multiboot2_parse(b.bytes, &info, &rsdp);
		assert_true(info.module_count <= BOOT_MAX_MODULES);
		assert_true(info.range_count <= BOOT_MAX_RANGES);
		free(b.bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_mb1_qemu),
	        cmocka_unit_test(test_mb1_grub_keeps_first_word),
	        cmocka_unit_test(test_mb1_damaged),
	        cmocka_unit_test(test_mb1_long_cmdline_is_cut),
	        cmocka_unit_test(test_mb2_grub),
	        cmocka_unit_test(test_mb2_without_map_or_end),
	        cmocka_unit_test(test_mb2_flipped_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
