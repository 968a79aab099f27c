/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows that ELF kernels land where they say, are told what Multiboot 1 and PVH promise, and are
 * refused with a reason. */
/* sources: vmm/boot.c vmm/boot_linux.c vmm/boot_elf.c lib/elf_host.c vmm/acpi.c vmm/aml.c */
/* sources: vmm/gmem.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "hw/multiboot.h"
#include "hw/pvh.h"
#include "lib/elf.h"
#include "tests/unit/vmm/elf_image.h"
#include "vmm/boot.h"
#include "vmm/layout.h"

#define MIB       (1ull << 20)
#define RAM_BYTES (64 * MIB)

static uint8_t *ram;
static struct gmem gmem;
static char kernel[64], initrd[64], error[400];
static struct keel_vcpu_state start;

static int load(const struct elf_recipe *recipe, size_t bytes, const char *cmdline)
{
	const struct boot_config config = {kernel, initrd, cmdline, 2, RAM_BYTES};
	int rc;

	memset(ram, 0xcc, RAM_BYTES);
	strcpy(kernel, "/tmp/keel-elf-XXXXXX");
	elf_write(kernel, recipe, bytes);
	error[0] = '\0';
	memset(&start, 0, sizeof(start));
	rc = boot_load(&config, &gmem, &start, error, sizeof(error));
	unlink(kernel);
	return rc;
}

static void make_initrd(size_t bytes)
{
	FILE *out;

	strcpy(initrd, "/tmp/keel-mod-XXXXXX");
	close(mkstemp(initrd));
	out = fopen(initrd, "w");
	for (size_t i = 0; i < bytes; i++)
		fputc((int)(i & 0xff), out);
	fclose(out);
}

static int set_up(void **state)
{
	(void)state;
	ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(ram != MAP_FAILED);
	gmem_init(&gmem, ram, RAM_BYTES, RAM_BYTES);
	initrd[0] = '\0';
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (initrd[0] != '\0')
		unlink(initrd);
	munmap(ram, RAM_BYTES);
	return 0;
}

static const char *text(uint32_t gpa)
{
	return (const char *)ram + gpa;
}

/* The segment's bytes, and zeroes behind them. */
static void assert_loaded(const struct elf_recipe *recipe)
{
	uint8_t image[ELF_IMAGE_MAX];

	elf_make(recipe, image);
	assert_memory_equal(ram + recipe->address, image + ELF_TEXT_AT, ELF_TEXT_BYTES);
	for (uint64_t i = ELF_TEXT_BYTES; i < recipe->memory_bytes; i++)
		assert_int_equal(ram[recipe->address + i], 0);
	assert_int_equal(ram[recipe->address + recipe->memory_bytes], 0xcc);
}

static void assert_flat_32_bits(void)
{
	assert_int_equal(start.groups, KEEL_VCPU_ALL);
	assert_int_equal(start.cr0, 0x11);
	assert_int_equal(start.cr4, 0);
	assert_int_equal(start.efer, 0);
	assert_int_equal(start.rflags, 2);
	assert_int_equal(start.segs[KEEL_CS].attr, 0xc9b);
	assert_int_equal(start.segs[KEEL_SS].attr, 0xc93);
	assert_int_equal(start.segs[KEEL_TR].attr, 0x8b);
	for (unsigned i = KEEL_ES; i <= KEEL_GS; i++) {
		assert_int_equal(start.segs[i].base, 0);
		assert_int_equal(start.segs[i].limit, 0xffffffff);
	}
	assert_memory_equal(ram + LAYOUT_ACPI, "RSD PTR ", 8);
}

static void multiboot(bool wide)
{
	struct elf_recipe recipe = elf_recipe();
	const struct mb1_info *info;
	const struct mb1_module *module;
	const struct mb1_mmap_entry *map;
	uint64_t usable = 0;

	recipe.wide = wide;
	recipe.multiboot = true;
	recipe.flags = MB1_HEADER_PAGE_ALIGN | MB1_HEADER_MEMORY;
	recipe.pvh = 0x100020; /* Multiboot is preferred, as QEMU does */
	make_initrd(5000);
	assert_int_equal(load(&recipe, 0, "a b=1"), 0);
	assert_string_equal(error, "");
	assert_loaded(&recipe);
	assert_flat_32_bits();
	/* By way of code that leaves 8259s and 8254 as a BIOS does, to the entry in ECX. */
	assert_memory_equal(ram + start.rip, "\x89\xc6\xb0\x11\xe6\x20", 6);
	assert_memory_equal(ram + start.rip + 54, "\x89\xf0\xb9", 3);
	assert_memory_equal(ram + start.rip + 57, &recipe.entry, 4);
	assert_memory_equal(ram + start.rip + 61, "\xff\xe1", 2);
	assert_memory_equal(ram + 0x08 * 4, "\x10\xff\x00\xf0", 4);
	assert_memory_equal(ram + 0x70 * 4, "\x20\xff\x00\xf0", 4);
	assert_memory_equal(ram + 0xfff20, "\x50\xb0\x20\xe6\xa0\xe6\x20\x58\xcf", 9);
	assert_int_equal(start.gpr[KEEL_RAX], MB1_LOADER_MAGIC);
	info = (const struct mb1_info *)(ram + start.gpr[KEEL_RBX]);
	assert_int_equal(info->flags, MB1_INFO_MEMORY | MB1_INFO_CMDLINE | MB1_INFO_MODULES |
	                                      MB1_INFO_MMAP | MB1_INFO_LOADER);
	assert_memory_equal(text(info->cmdline), kernel, strlen(kernel));
	assert_string_equal(text(info->cmdline) + strlen(kernel), " a b=1");
	assert_string_equal(text(info->loader_name), "keelvm");
	assert_int_equal(info->mem_lower, 639);
	assert_int_equal(info->mem_upper, 63 * 1024);
	assert_int_equal(info->module_count, 1);
	module = (const struct mb1_module *)(ram + info->modules);
	assert_int_equal(module->start % 4096, 0);
	assert_int_equal(module->end - module->start, 5000);
	assert_true(module->start >= recipe.address + recipe.memory_bytes);
	assert_string_equal(text(module->cmdline), initrd);
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(ram[module->start + i], i & 0xff);
	for (uint32_t at = 0; at < info->mmap_length; at += map->size + 4) {
		map = (const struct mb1_mmap_entry *)(ram + info->mmap + at);
		assert_int_equal(map->size, 20);
		usable += map->type == BOOT_E820_RAM ? map->length_low : 0;
	}
	assert_int_equal(usable, RAM_BYTES - (MIB - LAYOUT_EBDA));
}

static void test_multiboot_32(void **state)
{
	(void)state;
	multiboot(false);
}

static void test_multiboot_64(void **state)
{
	(void)state;
	multiboot(true);
}

static void test_multiboot_without_a_module(void **state)
{
	struct elf_recipe recipe = elf_recipe();
	const struct mb1_info *info;

	(void)state;
	recipe.multiboot = true;
	assert_int_equal(load(&recipe, 0, ""), 0);
	info = (const struct mb1_info *)(ram + start.gpr[KEEL_RBX]);
	assert_string_equal(text(info->cmdline), kernel);
	assert_int_equal(info->module_count, 0);
}

static void test_pvh(void **state)
{
	struct elf_recipe recipe = elf_recipe();
	const struct pvh_start_info *info;
	const struct pvh_module *module;
	const struct pvh_memmap_entry *map;

	(void)state;
	recipe.wide = true;
	recipe.pvh = 0x100040;
	make_initrd(100);
	assert_int_equal(load(&recipe, 0, "console=ttyS0"), 0);
	assert_loaded(&recipe);
	assert_flat_32_bits();
	assert_int_equal(start.rip, 0x100040);
	info = (const struct pvh_start_info *)(ram + start.gpr[KEEL_RBX]);
	assert_int_equal(info->magic, PVH_MAGIC);
	assert_int_equal(info->version, 1);
	assert_int_equal(info->flags, 0);
	assert_int_equal(info->rsdp, LAYOUT_ACPI);
	assert_string_equal(text((uint32_t)info->cmdline), "console=ttyS0");
	assert_int_equal(info->module_count, 1);
	module = (const struct pvh_module *)(ram + info->modules);
	assert_int_equal(module->bytes, 100);
	assert_int_equal(ram[module->address + 99], 99);
	map = (const struct pvh_memmap_entry *)(ram + info->memmap);
	assert_int_equal(map[0].address, 0);
	assert_int_equal(map[0].bytes, LAYOUT_EBDA);
	assert_int_equal(map[0].type, BOOT_E820_RAM);
	assert_int_equal(map[2].address + map[2].bytes, RAM_BYTES);
	assert_true(info->memmap_entries >= 4);
}

static void test_refuses(void **state)
{
	struct elf_recipe recipe = elf_recipe();

	(void)state;
	assert_int_equal(load(&recipe, 0, ""), -EINVAL);
	assert_non_null(strstr(error, "neither a Multiboot 1 header nor a PVH note"));
	recipe.multiboot = true;
	recipe.flags = 4; /* a video mode */
	assert_int_equal(load(&recipe, 0, ""), -EINVAL);
	assert_non_null(strstr(error, "asks for 0x4"));
	recipe.flags = 1u << 16; /* by addresses in the header */
	assert_int_equal(load(&recipe, 0, ""), -EINVAL);
	assert_non_null(strstr(error, "asks for 0x10000"));
	recipe.flags = 0;
	recipe.memory_bytes = RAM_BYTES;
	assert_int_equal(load(&recipe, 0, ""), -EINVAL);
	assert_non_null(strstr(error, "has no memory"));
	recipe.memory_bytes = 0x3000;
	recipe.address = LAYOUT_HANDED - 0x2fff;
	assert_int_equal(load(&recipe, 0, ""), -EINVAL);
	assert_non_null(strstr(error, "where the boot information lies"));
	recipe.address = 0xffffffffu - 0x1000;
	assert_int_equal(load(&recipe, 0, ""), -EINVAL);
	recipe = elf_recipe();
	recipe.multiboot = true;
	assert_int_equal(load(&recipe, ELF_TEXT_AT + 1, ""), -EINVAL);
	assert_non_null(strstr(error, "is cut short"));
	assert_int_equal(load(&recipe, 60, ""), -EINVAL);
	make_initrd((size_t)RAM_BYTES);
	assert_int_equal(load(&recipe, 0, ""), -EINVAL);
	assert_non_null(strstr(error, "do not fit beside the kernel"));
}

/* realmode.flat of kvm-unit-tests is linked to 16 KiB. */
static void test_low_segment(void **state)
{
	struct elf_recipe recipe = elf_recipe();

	(void)state;
	recipe.multiboot = true;
	recipe.address = 0x4000;
	recipe.entry = 0x4000;
	assert_int_equal(load(&recipe, 0, ""), 0);
	assert_loaded(&recipe);
}

static void test_notes(void **state)
{
	/* One of GNU's with a build id of 5 bytes, then Xen's. */
	static const uint8_t notes[] = {4, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 1, 2,
	        3, 4, 5, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 18, 0, 0, 0, 'X', 'e', 'n', 0, 0x78, 0x56,
	        0x34, 0x12};
	uint32_t entry = 0;

	(void)state;
	assert_true(elf_find_pvh(notes, sizeof(notes), &entry));
	assert_int_equal(entry, 0x12345678);
	for (size_t bytes = 0; bytes < sizeof(notes); bytes++)
		assert_false(elf_find_pvh(notes, bytes, &entry));
}

/* Whatever stands in the headers: an answer, and no access outside of what was read. */
static void test_rubbish(void **state)
{
	struct elf_recipe recipe = elf_recipe();
	uint8_t *image = malloc(ELF_IMAGE_MAX);
	struct elf_image out;
	uint64_t random = 1;
	unsigned good = 0;

	(void)state;
	recipe.multiboot = true;
	for (unsigned round = 0; round < 20000; round++) {
		size_t bytes;
		uint8_t *exact;

		recipe.wide = round & 1;
		elf_make(&recipe, image);
		for (unsigned i = 0; i < 4; i++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			image[(random >> 33) % 160] = (uint8_t)(random >> 56);
		}
		bytes = (random >> 20) % ELF_IMAGE_MAX;
		exact = malloc(bytes + 1);
		memcpy(exact, image, bytes);
		good += elf_parse(exact, bytes, bytes, &out) == NULL;
		assert_true(out.count <= ELF_MAX_SEGMENTS);
		for (unsigned i = 0; i < out.count; i++)
			assert_true(out.segments[i].offset + out.segments[i].file_bytes <= bytes);
		free(exact);
	}
	assert_true(good > 100);
	free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_multiboot_32, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_multiboot_64, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_multiboot_without_a_module, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_pvh, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_low_segment, set_up, tear_down),
	        cmocka_unit_test(test_notes),
	        cmocka_unit_test(test_rubbish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
