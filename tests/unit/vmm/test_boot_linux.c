/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows that a kernel lands where the protocol wants it, that the memory map adds up (C-46), and
 * what is refused with which words. */
/* sources: vmm/boot.c vmm/boot_linux.c vmm/boot_elf.c lib/elf_host.c */
/* sources: vmm/acpi.c vmm/aml.c vmm/gmem.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/unit/vmm/bzimage.h"
#include "vmm/boot.h"
#include "vmm/layout.h"

#define KERNEL_BYTES (600u * 1024u)
#define FILE_BYTES   (KERNEL_BYTES + (BZIMAGE_SETUP_SECTS + 1) * 512u)
#define MIB          (1ull << 20)

static uint8_t *ram;
static uint64_t ram_bytes;
static struct gmem gmem;
static char kernel[64], initrd[64], error[300];
static struct keel_vcpu_state start;

static void new_ram(uint64_t bytes)
{
	if (ram != NULL)
		munmap(ram, ram_bytes);
	ram_bytes = bytes;
	ram = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	        -1, 0);
	assert_true(ram != MAP_FAILED);
	gmem_init(&gmem, ram, bytes, layout_ram_low(bytes));
}

static void new_file(char *path, const struct linux_setup_header *header, size_t bytes)
{
	if (path[0] != '\0')
		unlink(path);
	strcpy(path, "/tmp/keel-boot-XXXXXX");
	bzimage_write(path, header, bytes);
}

static int load(const char *cmdline)
{
	const struct boot_config config = {kernel, initrd, cmdline, 2, ram_bytes};

	error[0] = '\0';
	memset(&start, 0, sizeof(start));
	return boot_load(&config, &gmem, &start, error, sizeof(error));
}

static int set_up(void **state)
{
	struct linux_setup_header header = bzimage_header(KERNEL_BYTES);

	(void)state;
	new_ram(256 * MIB);
	new_file(kernel, &header, FILE_BYTES);
	initrd[0] = '\0';
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(kernel);
	if (initrd[0] != '\0')
		unlink(initrd);
	kernel[0] = initrd[0] = '\0';
	return 0;
}

static struct linux_boot_params *zero_page(void)
{
	return (struct linux_boot_params *)(ram + start.gpr[KEEL_RSI]);
}

static uint8_t pattern(size_t at)
{
	return (uint8_t)(at * 7 + (at >> 8));
}

static void test_loads_as_the_protocol_says(void **state)
{
	struct linux_setup_header header = bzimage_header(KERNEL_BYTES);
	const struct linux_boot_params *params;

	(void)state;
	new_file(initrd, &header, 123457);
	assert_int_equal(load("console=ttyS0"), 0);
	assert_string_equal(error, "");
	assert_int_equal(start.groups, KEEL_VCPU_ALL);
	assert_int_equal(start.rip, 0x1000200);
	params = zero_page();
	for (size_t i = 0; i < KERNEL_BYTES; i += 997)
		assert_int_equal(ram[0x1000000 + i], pattern(i + (BZIMAGE_SETUP_SECTS + 1) * 512));
	assert_string_equal((char *)ram + params->hdr.cmd_line_ptr, "console=ttyS0");
	assert_int_equal(params->hdr.type_of_loader, 0xff);
	assert_int_equal(params->hdr.ramdisk_size, 123457);
	assert_int_equal(params->hdr.ramdisk_image % 4096, 0);
	assert_true(params->hdr.ramdisk_image >= 0x1000000 + 0x800000);
	assert_true(params->hdr.ramdisk_image + 123457 <= 256 * MIB);
	for (size_t i = 0; i < LINUX_HEADER_OFFSET; i += 13)
		assert_int_equal(ram[params->hdr.ramdisk_image + i], pattern(i));
	assert_memory_equal(ram + params->acpi_rsdp_addr, "RSD PTR ", 8);
	/* Where a BIOS begins: out 0cf9h, 6 (C-59). */
	assert_memory_equal(ram + 0xffff0, "\xba\xf9\x0c\xb0\x06\xee\xf4\xeb\xfd", 9);
}

/* Follows the page tables as the CPU would. */
static uint64_t translate(uint64_t address)
{
	uint64_t table = start.cr3, entry = 0;

	for (unsigned shift = 39; shift >= 21; shift -= 9) {
		memcpy(&entry, ram + table + (address >> shift & 511) * 8, 8);
		assert_int_equal(entry & 3, 3);
		if (entry & 0x80)
			break;
		table = entry & ~0xfffull;
	}
	return (entry & ~0x1fffffull) | (address & 0x1fffff);
}

static void test_cpu_state(void **state)
{
	uint64_t gdt[4];

	(void)state;
	assert_int_equal(load(""), 0);
	assert_int_equal(start.cr0 & 0x80000001, 0x80000001);
	assert_int_equal(start.cr4, 0x20);
	assert_int_equal(start.efer, 0x500);
	assert_int_equal(start.rflags, 2);
	for (uint64_t at = 0; at < 1ull << 32; at += 0x12345000)
		assert_int_equal(translate(at), at);
	assert_int_equal(translate(0xffffffff), 0xffffffff);
	memcpy(gdt, ram + start.gdtr.base, sizeof(gdt));
	/* What the segments' attributes say is what the table holds (bits 40-47 and 52-55). */
	assert_int_equal(start.segs[KEEL_CS].selector, 0x10);
	assert_int_equal(
	        start.segs[KEEL_CS].attr, (gdt[2] >> 40 & 0xff) | (gdt[2] >> 52 & 0xf) << 8);
	assert_int_equal(start.segs[KEEL_DS].selector, 0x18);
	assert_int_equal(
	        start.segs[KEEL_DS].attr, (gdt[3] >> 40 & 0xff) | (gdt[3] >> 52 & 0xf) << 8);
	assert_int_equal(start.segs[KEEL_CS].attr >> 9 & 1, 1); /* 64-bit code */
	assert_int_equal(start.segs[KEEL_TR].attr, 0x8b);
}

static void test_memory_map_sums(void **state)
{
	static const uint64_t sizes[] = {32 * MIB, 3072 * MIB - 2 * MIB, 3072 * MIB,
	        3072 * MIB + 2 * MIB, 4096 * MIB, 5120 * MIB, 4674 * MIB, 8192 * MIB, 990ull << 30};

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct linux_e820_entry map[BOOT_E820_MAX];
		unsigned count = boot_make_e820(sizes[i], map);
		uint64_t low = layout_ram_low(sizes[i]), sum = 0, end = 0, usable = 0;

		assert_true(count <= BOOT_E820_MAX);
		for (unsigned k = 0; k < count; k++) {
			uint64_t last = map[k].start + map[k].size;
			bool ram_backed = last <= low || map[k].start >= LAYOUT_FOUR_GIB;

			assert_true(map[k].start >= end); /* rising, no overlap */
			assert_true(map[k].size > 0);
			end = last;
			sum += ram_backed ? map[k].size : 0;
			usable += map[k].type == BOOT_E820_RAM ? map[k].size : 0;
			/* No RAM over BAR windows, ECAM, IOAPIC, HPET, LAPIC. */
			if (map[k].type == BOOT_E820_RAM)
				assert_true(
				        last <= LAYOUT_PCI32 || map[k].start >= LAYOUT_FOUR_GIB);
		}
		assert_int_equal(sum, sizes[i]);
		assert_int_equal(usable, sizes[i] - (LAYOUT_HIGH_MEMORY - LAYOUT_EBDA));
		/* The 64-bit window is above all RAM. */
		assert_true(layout_pci64(sizes[i]) >= end);
		assert_int_equal(layout_pci64(sizes[i]) % LAYOUT_PCI64_BYTES, 0);
	}
}

static void test_memory_map_is_what_the_guest_gets(void **state)
{
	struct linux_e820_entry map[BOOT_E820_MAX];
	unsigned count;

	(void)state;
	new_ram(5120 * MIB);
	assert_int_equal(load(""), 0);
	count = boot_make_e820(5120 * MIB, map);
	assert_int_equal(zero_page()->e820_entries, count);
	assert_memory_equal(zero_page()->e820_table, map, count * sizeof(map[0]));
	new_ram(256 * MIB);
}

static void expect_refusal(const char *words)
{
	assert_int_equal(load("x"), -EINVAL);
	assert_non_null(strstr(error, words));
	assert_null(strchr(error, '\n'));
}

/* A kernel whose header differs in one thing. */
static struct linux_setup_header header;
#define REFUSE_WITH(change, words)                                                                 \
	do {                                                                                       \
		header = bzimage_header(KERNEL_BYTES);                                             \
		change;                                                                            \
		new_file(kernel, &header, FILE_BYTES);                                             \
		expect_refusal(words);                                                             \
		assert_non_null(strstr(error, kernel));                                            \
	} while (0)

static void test_what_is_no_kernel(void **state)
{
	(void)state;
	REFUSE_WITH(header.boot_flag = 0, "is no bzImage");
	REFUSE_WITH(header.header = 0x12345678, "is no bzImage");
	REFUSE_WITH(header.version = 0x0209, "2.09 is too old");
	REFUSE_WITH(header.loadflags = 0, "no 64-bit bzImage");
	REFUSE_WITH(header.xloadflags = 2, "no 64-bit bzImage");
	REFUSE_WITH(header.kernel_alignment = 0, "alignment");
	REFUSE_WITH(header.kernel_alignment = 0x300000, "alignment");
	REFUSE_WITH(header.syssize = KERNEL_BYTES / 16 + 1, "cut short");
	REFUSE_WITH(header.syssize = 0xffffffff, "cut short");
	REFUSE_WITH(header.init_size = 0xffffffff, "needs 4095 MiB");
	REFUSE_WITH(
	        (header.pref_address = ~0ull, header.relocatable_kernel = 0), "the VM has 256 MiB");
	REFUSE_WITH((header.pref_address = 0x1000, header.relocatable_kernel = 0), "the VM has");
	static const size_t lengths[] = {
	        0, 1, 511, 512, 600, 620, 2047, 2048, 2559, 2560, FILE_BYTES - 16};

	header = bzimage_header(KERNEL_BYTES);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		new_file(kernel, &header, lengths[i]);
		expect_refusal(lengths[i] < 620 ? "too short" : "cut short");
	}
	unlink(kernel);
	expect_refusal("No such file");
	strcpy(kernel, "/tmp");
	expect_refusal("no regular file");
	kernel[0] = '\0';
}

static void test_little_memory(void **state)
{
	(void)state;
	/* 16 MiB + 8 MiB do not fit: lower if the kernel may move. */
	new_ram(24 * MIB - 4096);
	assert_int_equal(load(""), 0);
	assert_int_equal(start.rip, 0x200200);
	new_ram(8 * MIB);
	expect_refusal("needs 8 MiB at 2 MiB, the VM has 8 MiB");
	new_ram(4096);
	expect_refusal("less than 1 MiB");
	new_ram(256 * MIB);
}

static void test_initrd_limits(void **state)
{
	(void)state;
	header = bzimage_header(KERNEL_BYTES);
	new_file(initrd, &header, 0);
	expect_refusal("is empty");
	/* Below what the kernel names as the last byte. */
	header.initrd_addr_max = 64 * MIB - 1;
	new_file(kernel, &header, FILE_BYTES);
	new_file(initrd, &header, 10000);
	assert_int_equal(load(""), 0);
	assert_int_equal(zero_page()->hdr.ramdisk_image, 64 * MIB - 12288);
	/* Exactly the room there is, and a byte more. */
	header.initrd_addr_max = 25 * MIB - 1;
	new_file(kernel, &header, FILE_BYTES);
	new_file(initrd, &header, MIB);
	assert_int_equal(load(""), 0);
	assert_int_equal(zero_page()->hdr.ramdisk_image, 24 * MIB);
	new_file(initrd, &header, MIB + 1);
	expect_refusal("do not fit");
	unlink(initrd);
	expect_refusal("No such file");
}

static void test_long_command_line(void **state)
{
	char line[2100];

	(void)state;
	memset(line, 'a', sizeof(line));
	line[2047] = '\0';
	assert_int_equal(load(line), 0);
	line[2047] = 'a';
	line[2048] = '\0';
	assert_int_equal(load(line), -EINVAL);
	assert_non_null(strstr(error, "2048 bytes, the kernel takes 2047"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(test_loads_as_the_protocol_says),
	        TEST(test_cpu_state),
	        TEST(test_memory_map_sums),
	        TEST(test_memory_map_is_what_the_guest_gets),
	        TEST(test_what_is_no_kernel),
	        TEST(test_little_memory),
	        TEST(test_initrd_limits),
	        TEST(test_long_command_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
