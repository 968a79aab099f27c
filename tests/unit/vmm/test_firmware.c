/* SPDX-License-Identifier: BSD-2-Clause */
/* sources: vmm/firmware.c vmm/fw_cfg.c vmm/flash.c vmm/acpi.c vmm/aml.c vmm/pci.c vmm/gmem.c */
/* sources: vmm/vault.c vmm/crc32c.c vmm/log.c vmm/boot.c vmm/boot_linux.c vmm/boot_elf.c */
/* sources: lib/elf_host.c vmm/hv.c tests/unit/vmm/hv_fake.c */
/* What firmware is told of its machine, read as OVMF reads it; also by a device process that dies
 * in between. */
#include <endian.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hw/acpi.h"
#include "tests/unit/vmm/hv_fake.h"
#include "vmm/firmware.h"
#include "vmm/layout.h"

#define RAM_BYTES      (8ull << 20)
#define FIRMWARE_BYTES (2ull << 20)
#define DMA_AT         0x10000u
#define DATA_AT        0x20000u
#define BLOB_AT        0x100000u /* where this firmware puts what it is told to allocate */

static struct hv_fake *fake;
static struct vault vault;
static struct gmem gmem;
static struct pci_bus pci;
static struct firmware firmware;
static uint32_t sequence;
static struct definition definition;
static char error[256];

/* A byte of the firmware's memory. */
static uint8_t *rom(uint64_t gpa)
{
	return fake->hv.ram + RAM_BYTES + FIRMWARE_BYTES - (LAYOUT_FOUR_GIB - gpa);
}

static int load(void)
{
	return firmware_load(&firmware, error, sizeof(error));
}

static void attach(void)
{
	vault = hv_fake_vault(fake);
	gmem_init(&gmem, fake->hv.ram, RAM_BYTES, RAM_BYTES);
	assert_int_equal(pci_bus_init(&pci, &fake->hv, &vault), 0);
	assert_int_equal(firmware_attach(&firmware, &definition, &pci, &gmem, &vault, &fake->hv,
	                         error, sizeof(error)),
	        0);
}

static int setup(void **state)
{
	(void)state;
	fake = hv_fake_new(3, RAM_BYTES + FIRMWARE_BYTES, 1u << 20, "{}");
	fake->hv.ram_bytes = RAM_BYTES;
	fake->hv.firmware_bytes = FIRMWARE_BYTES;
	sequence = 1;
	definition = (struct definition){.cpus = 3, .memory_bytes = RAM_BYTES, .firmware = "/none"};
	attach();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake->hv.ram_bytes += FIRMWARE_BYTES; /* as it was mapped */
	hv_fake_free(fake);
	return 0;
}

static struct hv_exit make_exit(uint32_t kind, uint64_t port, uint32_t size, uint64_t data)
{
	return (struct hv_exit){.vcpu = 0,
	        .sequence = sequence++,
	        .kind = kind,
	        .size = size,
	        .address = port,
	        .data = data};
}

static void out(uint64_t port, uint32_t size, uint64_t data)
{
	struct hv_exit exit = make_exit(KEEL_EXIT_PIO_WRITE, port, size, data);
	uint64_t value = data;

	assert_true(fw_cfg_pio(&firmware.fw_cfg, &exit, &value));
}

static uint64_t in(uint64_t port, uint32_t size)
{
	struct hv_exit exit = make_exit(KEEL_EXIT_PIO_READ, port, size, 0);
	uint64_t value = 0;

	assert_true(fw_cfg_pio(&firmware.fw_cfg, &exit, &value));
	return value;
}

/* The exit that a DMA of these words ends with, so that it can be answered twice. */
static struct hv_exit begin_dma(uint32_t control, uint32_t bytes, uint64_t address)
{
	struct fw_cfg_dma dma = {htobe32(control), htobe32(bytes), htobe64(address)};

	assert_true(gmem_write(&gmem, DMA_AT, &dma, sizeof(dma)));
	out(FW_CFG_DMA_PORT, 4, 0);
	return make_exit(KEEL_EXIT_PIO_WRITE, FW_CFG_DMA_PORT + 4, 4, htobe32(DMA_AT));
}

static uint32_t answer_dma(const struct hv_exit *exit)
{
	uint64_t value = exit->data;
	uint32_t control = 0;

	assert_true(fw_cfg_pio(&firmware.fw_cfg, exit, &value));
	assert_true(gmem_read(&gmem, DMA_AT, &control, sizeof(control)));
	return be32toh(control);
}

static uint32_t dma(uint32_t control, uint32_t bytes, uint64_t address)
{
	struct hv_exit exit = begin_dma(control, bytes, address);

	return answer_dma(&exit);
}

static uint32_t read_item(unsigned selector, uint32_t bytes, uint64_t to)
{
	return dma(selector << 16 | FW_CFG_DMA_SELECT | FW_CFG_DMA_READ, bytes, to);
}

/* The selector of a file and its size; 0: there is none. */
static unsigned find_file(const char *name, uint32_t *bytes)
{
	struct fw_cfg_file file;
	uint32_t count = 0;

	out(FW_CFG_SELECTOR_PORT, 2, FW_CFG_DIRECTORY);
	assert_int_equal(dma(FW_CFG_DMA_READ, 4, DATA_AT), 0);
	gmem_read(&gmem, DATA_AT, &count, sizeof(count));
	for (unsigned i = 0; i < be32toh(count); i++) {
		assert_int_equal(dma(FW_CFG_DMA_READ, sizeof(file), DATA_AT), 0);
		gmem_read(&gmem, DATA_AT, &file, sizeof(file));
		*bytes = be32toh(file.bytes);
		if (strcmp(file.name, name) == 0)
			return be16toh(file.selector);
	}
	return 0;
}

static void test_signature_by_ports(void **state)
{
	char seen[5] = "";

	(void)state;
	out(FW_CFG_SELECTOR_PORT, 2, FW_CFG_SIGNATURE);
	for (unsigned i = 0; i < 4; i++)
		seen[i] = (char)in(FW_CFG_DATA_PORT, 1);
	assert_string_equal(seen, "QEMU");
	assert_int_equal(in(FW_CFG_DATA_PORT, 1), 0);
	out(FW_CFG_SELECTOR_PORT, 2, FW_CFG_CPUS);
	assert_int_equal(in(FW_CFG_DATA_PORT, 1), 3);
	assert_int_equal(be32toh((uint32_t)in(FW_CFG_DMA_PORT, 4)), 0x51454d55);
	assert_int_equal(be32toh((uint32_t)in(FW_CFG_DMA_PORT + 4, 4)), 0x20434647);
}

static void test_memory_map(void **state)
{
	struct fw_cfg_e820 entry;
	uint32_t bytes = 0;
	unsigned file = find_file("etc/e820", &bytes);

	(void)state;
	assert_int_equal(bytes, sizeof(entry));
	assert_int_equal(read_item(file, bytes, DATA_AT), 0);
	gmem_read(&gmem, DATA_AT, &entry, sizeof(entry));
	assert_int_equal(entry.address, 0);
	assert_int_equal(entry.bytes, RAM_BYTES);
	assert_int_equal(entry.type, 1);
}

/* What a firmware makes of the script: two blobs, at these places. */
static uint64_t place_of(const char *file)
{
	return strcmp(file, "etc/acpi/rsdp") == 0 ? BLOB_AT : BLOB_AT + 0x1000;
}

static void run_pointer(const struct fw_cfg_loader *entry)
{
	uint64_t at = place_of(entry->pointer.file) + entry->pointer.offset, value = 0;
	uint32_t target_bytes = 0;

	assert_int_not_equal(find_file(entry->pointer.target, &target_bytes), 0);
	assert_true(gmem_read(&gmem, at, &value, entry->pointer.bytes));
	assert_in_range(value, 0, target_bytes - 1);
	value += place_of(entry->pointer.target);
	assert_true(gmem_write(&gmem, at, &value, entry->pointer.bytes));
}

/* As OVMF computes it: what is there already is in the sum. */
static void run_checksum(const struct fw_cfg_loader *entry)
{
	uint64_t base = place_of(entry->checksum.file);
	const uint8_t *at = gmem_range(&gmem, base + entry->checksum.start, entry->checksum.bytes);
	uint8_t sum = 0;

	assert_non_null(at);
	for (uint32_t i = 0; i < entry->checksum.bytes; i++)
		sum = (uint8_t)(sum + at[i]);
	sum = (uint8_t)-sum;
	assert_true(gmem_write(&gmem, base + entry->checksum.offset, &sum, 1));
}

static void run_script(void)
{
	struct fw_cfg_loader entry;
	uint32_t script_bytes = 0, bytes = 0;
	unsigned script = find_file("etc/table-loader", &script_bytes);

	assert_int_equal(script_bytes % sizeof(entry), 0);
	for (uint32_t at = 0; at < script_bytes; at += (uint32_t)sizeof(entry)) {
		assert_int_equal(dma(script << 16 | FW_CFG_DMA_SELECT | FW_CFG_DMA_SKIP, at, 0), 0);
		assert_int_equal(dma(FW_CFG_DMA_READ, sizeof(entry), DATA_AT), 0);
		gmem_read(&gmem, DATA_AT, &entry, sizeof(entry));
		switch (entry.command) {
		case FW_CFG_LOADER_ALLOCATE: {
			unsigned file = find_file(entry.allocate.file, &bytes);

			assert_int_equal(read_item(file, bytes, place_of(entry.allocate.file)), 0);
			break;
		}
		case FW_CFG_LOADER_POINTER: run_pointer(&entry); break;
		case FW_CFG_LOADER_CHECKSUM: run_checksum(&entry); break;
		default: fail_msg("command %u", entry.command);
		}
	}
}

static uint8_t sum_of(uint64_t gpa, uint64_t bytes)
{
	const uint8_t *at = gmem_range(&gmem, gpa, bytes);
	uint8_t sum = 0;

	assert_non_null(at);
	while (bytes-- > 0)
		sum = (uint8_t)(sum + *at++);
	return sum;
}

static struct acpi_header read_table(uint64_t gpa)
{
	struct acpi_header header;

	assert_true(gmem_read(&gmem, gpa, &header, sizeof(header)));
	assert_int_equal(sum_of(gpa, header.length), 0);
	return header;
}

static void test_acpi_tables(void **state)
{
	struct acpi_rsdp rsdp;
	struct acpi_header xsdt;
	struct acpi_fadt fadt;
	unsigned fadts = 0;

	(void)state;
	run_script();
	gmem_read(&gmem, BLOB_AT, &rsdp, sizeof(rsdp));
	assert_memory_equal(rsdp.signature, "RSD PTR ", 8);
	assert_int_equal(sum_of(BLOB_AT, ACPI_RSDP_V1_BYTES), 0);
	assert_int_equal(sum_of(BLOB_AT, sizeof(rsdp)), 0);
	xsdt = read_table(rsdp.xsdt);
	assert_memory_equal(xsdt.signature, "XSDT", 4);
	for (uint64_t at = sizeof(xsdt); at < xsdt.length; at += 8) {
		uint64_t table = 0;

		gmem_read(&gmem, rsdp.xsdt + at, &table, sizeof(table));
		if (memcmp(read_table(table).signature, "FACP", 4) != 0)
			continue;
		fadts++;
		gmem_read(&gmem, table, &fadt, sizeof(fadt));
	}
	assert_int_equal(fadts, 1);
	assert_memory_equal(read_table(fadt.dsdt).signature, "DSDT", 4);
	assert_int_equal(fadt.x_dsdt, fadt.dsdt);
	assert_memory_equal(gmem_range(&gmem, fadt.firmware_ctrl, 4), "FACS", 4);
}

/* The device process dies after each part of an answer that it might have done: what the guest
 * reads is the same. */
static void test_answered_again(void **state)
{
	struct hv_exit exit, byte;
	uint8_t first[16], again[16];
	uint64_t value = 0;
	uint32_t bytes = 0;
	unsigned file = find_file("etc/acpi/tables", &bytes);

	(void)state;
	out(FW_CFG_SELECTOR_PORT, 2, file);
	assert_int_equal(dma(FW_CFG_DMA_READ, 16, DATA_AT), 0);
	exit = begin_dma(FW_CFG_DMA_READ, 16, DATA_AT);
	assert_int_equal(answer_dma(&exit), 0);
	gmem_read(&gmem, DATA_AT, first, sizeof(first));
	/* Everything was done but the completion. */
	attach();
	assert_int_equal(answer_dma(&exit), 0);
	gmem_read(&gmem, DATA_AT, again, sizeof(again));
	assert_memory_equal(first, again, sizeof(first));
	/* The control word was not cleared yet. */
	const uint32_t control = htobe32(FW_CFG_DMA_READ);

	gmem_write(&gmem, DMA_AT, &control, sizeof(control));
	gmem_zero(&gmem, DATA_AT, 16);
	attach();
	assert_int_equal(answer_dma(&exit), 0);
	gmem_read(&gmem, DATA_AT, again, sizeof(again));
	assert_memory_equal(first, again, sizeof(first));
	/* And the port: one byte, asked for once by the guest. */
	byte = make_exit(KEEL_EXIT_PIO_READ, FW_CFG_DATA_PORT, 1, 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(fw_cfg_pio(&firmware.fw_cfg, &byte, &value));
		assert_int_equal(value, firmware.tables[32]);
		attach();
	}
	assert_int_equal(in(FW_CFG_DATA_PORT, 1), firmware.tables[33]);
}

static void test_bad_dma(void **state)
{
	uint64_t value;
	struct hv_exit exit;

	(void)state;
	assert_int_equal(read_item(FW_CFG_SIGNATURE, 4, RAM_BYTES), FW_CFG_DMA_ERROR);
	assert_int_equal(read_item(FW_CFG_SIGNATURE, 0xffffffff, DATA_AT), FW_CFG_DMA_ERROR);
	assert_int_equal(dma(FW_CFG_DMA_WRITE, 4, DATA_AT), FW_CFG_DMA_ERROR);
	/* An item that there is not reads as zeroes. */
	memset(gmem_range(&gmem, DATA_AT, 8), 0xff, 8);
	assert_int_equal(read_item(0x7777, 4, DATA_AT), 0);
	assert_int_equal(gmem_range(&gmem, DATA_AT, 8)[3], 0);
	assert_int_equal(gmem_range(&gmem, DATA_AT, 8)[4], 0xff);
	/* Half an address is of one transfer, not of the next too. */
	out(FW_CFG_DMA_PORT, 4, htobe32(1));
	exit = make_exit(KEEL_EXIT_PIO_WRITE, FW_CFG_DMA_PORT + 4, 4, htobe32(DMA_AT));
	value = exit.data;
	assert_true(fw_cfg_pio(&firmware.fw_cfg, &exit, &value)); /* at 4 GiB: ignored */
	assert_int_equal(firmware.fw_cfg.state.address_high, 0);
	/* A descriptor in no RAM. */
	exit = make_exit(KEEL_EXIT_PIO_WRITE, FW_CFG_DMA_PORT + 4, 4, htobe32(RAM_BYTES));
	value = exit.data;
	assert_true(fw_cfg_pio(&firmware.fw_cfg, &exit, &value));
}

static uint32_t config(unsigned device, unsigned function, unsigned offset)
{
	uint64_t value = 0x80000000u | device << 11 | function << 8 | offset;

	assert_true(pci_pio(&pci, PCI_CONFIG_ADDRESS_PORT, 4, true, &value));
	assert_true(pci_pio(&pci, PCI_CONFIG_DATA_PORT, 4, false, &value));
	return (uint32_t)value;
}

static void test_old_functions(void **state)
{
	uint64_t value = 0;

	(void)state;
	assert_int_equal(config(1, 0, PCI_REVISION) >> 16, 0x0601);
	assert_int_equal(config(1, 0, 0xc) >> 16 & 0xff, PCI_HEADER_MULTI);
	assert_int_equal(config(1, 3, 0x40), LAYOUT_PM1A_EVENT | 1);
	assert_int_equal(config(1, 3, 0x80) & 1, 1);
	assert_int_equal(config(1, 1, 0), 0xffffffff);
	assert_true(pci_pio(&pci, PCI_CONFIG_DATA_PORT, 4, true, &value));
	config(1, 3, 0x40);
	assert_true(pci_pio(&pci, PCI_CONFIG_DATA_PORT, 4, true, &value));
	assert_int_equal(config(1, 3, 0x40), LAYOUT_PM1A_EVENT | 1);
}

static void test_image(void **state)
{
	char path[] = "/tmp/keel-firmware-XXXXXX";
	static uint8_t image[128 * 1024];
	int fd = mkstemp(path);

	(void)state;
	for (unsigned i = 0; i < sizeof(image); i++)
		image[i] = (uint8_t)(i * 7);
	assert_int_equal(write(fd, image, sizeof(image)), sizeof(image));
	strcpy(definition.firmware, path);
	*rom(LAYOUT_FOUR_GIB - FIRMWARE_BYTES) = 0xff;
	assert_int_equal(load(), 0);
	assert_memory_equal(rom(LAYOUT_FOUR_GIB - sizeof(image)), image, sizeof(image));
	/* No memory for a device to write to. */
	assert_null(gmem_range(&gmem, LAYOUT_FOUR_GIB - 16, 1));
	/* And below 1 MiB, where a BIOS goes on. */
	assert_memory_equal(gmem_range(&gmem, LAYOUT_HIGH_MEMORY - sizeof(image), sizeof(image)),
	        image, sizeof(image));
	assert_int_equal(*rom(LAYOUT_FOUR_GIB - FIRMWARE_BYTES), 0);
	assert_int_equal(ftruncate(fd, (off_t)FIRMWARE_BYTES + 1), 0);
	assert_int_equal(load(), -EINVAL);
	assert_non_null(strstr(error, "has more than the 2 MiB that the VM was made with"));
	unlink(path);
	close(fd);
	assert_int_equal(load(), -EINVAL);
	assert_non_null(strstr(error, "No such file"));
}

/* ---- the flash ---- */

#define VARS_BYTES (64ull << 10)
#define VARS_AT    (LAYOUT_FOUR_GIB - (128u << 10) - VARS_BYTES)

static char vars_path[] = "/tmp/keel-vars-XXXXXX";

static void make_file(const char *path, uint64_t bytes, uint8_t value)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	for (uint64_t i = 0; i < bytes; i++)
		putc(value, file);
	fclose(file);
}

static uint8_t file_byte(uint64_t at)
{
	FILE *file = fopen(vars_path, "r");
	int value;

	assert_non_null(file);
	fseek(file, (long)at, SEEK_SET);
	value = getc(file);
	fclose(file);
	return (uint8_t)value;
}

/* A guest that starts, with both files. */
static void start_flash(void)
{
	strcpy(vars_path, "/tmp/keel-vars-XXXXXX");
	close(mkstemp(vars_path));
	strcpy(definition.firmware, vars_path);
	strcat(definition.firmware, ".code");
	strcpy(definition.firmware_vars, vars_path);
	make_file(definition.firmware, 128u << 10, 0xc0);
	make_file(vars_path, VARS_BYTES, 0x11);
	attach();
	assert_int_equal(load(), 0);
}

static void end_flash(void)
{
	close(firmware.flash.fd);
	unlink(definition.firmware);
	unlink(vars_path);
}

static void die(void)
{
	close(firmware.flash.fd);
	attach();
}

static struct hv_exit flash_exit(uint64_t at, uint64_t value)
{
	return make_exit(KEEL_EXIT_MMIO_WRITE, VARS_AT + at, 1, value);
}

static void put(uint64_t at, uint64_t value)
{
	struct hv_exit exit = flash_exit(at, value);

	assert_true(firmware_write(&firmware, &exit));
}

static uint8_t seen(uint64_t at)
{
	return *rom(VARS_AT + at);
}

/* As OVMF looks whether there is a flash. */
static void test_flash_is_found(void **state)
{
	(void)state;
	start_flash();
	assert_int_equal(seen(0), 0x11);
	put(0, 0x50);
	assert_int_equal(seen(0), 0x11);
	put(0, 0x70);
	assert_int_equal(seen(0), 0x00);
	put(0, 0xff);
	assert_int_equal(seen(0), 0x11);
	assert_int_equal(*rom(VARS_AT + VARS_BYTES), 0xc0);
	end_flash();
}

static void test_flash_is_written(void **state)
{
	(void)state;
	start_flash();
	put(0x1003, 0x20);
	put(0x1003, 0xd0);
	assert_int_equal(seen(0x0fff), 0x11);
	assert_int_equal(seen(0x1000), 0xff);
	assert_int_equal(seen(0x1fff), 0xff);
	assert_int_equal(seen(0x2000), 0x11);
	put(0x1005, 0x10);
	put(0x1005, 0x42);
	put(0x1000, 0xe8);
	put(0x1000, 1);
	put(0x1010, 0x20);
	put(0x1011, 0xff);
	put(0x1000, 0xd0);
	assert_int_equal(file_byte(0x1005), 0x11);
	put(0x1005, 0xff);
	assert_int_equal(file_byte(0x0fff), 0x11);
	assert_int_equal(file_byte(0x1000), 0xff);
	assert_int_equal(file_byte(0x1005), 0x42);
	assert_int_equal(file_byte(0x1010), 0x20);
	assert_int_equal(file_byte(0x1011), 0xff);
	assert_int_equal(file_byte(0x2000), 0x11);
	/* The next start has it. */
	firmware_reset(&firmware);
	assert_int_equal(load(), 0);
	assert_int_equal(seen(0x1005), 0x42);
	end_flash();
}

/* Each write is answered twice, by two processes; one reads the status in between. */
static void test_flash_over_deaths(void **state)
{
	static const uint8_t writes[][2] = {{0x20, 5}, {0xd0, 5}, {0x10, 7}, {0x10, 7}, {0x70, 7},
	        {0xff, 7}, {0x40, 8}, {0x20, 8}, {0xff, 8}};

	(void)state;
	start_flash();
	for (unsigned i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		struct hv_exit exit = flash_exit(writes[i][1], writes[i][0]);

		assert_true(firmware_write(&firmware, &exit));
		die();
		assert_true(firmware_write(&firmware, &exit));
		if (i == 5) /* what was written while the status was seen */
			assert_int_equal(file_byte(7), 0x10);
		assert_int_equal(seen(7), i == 4 ? 0x80 : i == 0 ? 0x11 : i < 3 ? 0xff : 0x10);
	}
	assert_int_equal(seen(8), 0x20);
	assert_int_equal(seen(5), 0xff);
	assert_int_equal(file_byte(8), 0x20);
	assert_int_equal(file_byte(7), 0x10);
	end_flash();
}

/* A start in which the process dies, or that fails: the file is what it was. */
static void test_flash_over_starts(void **state)
{
	(void)state;
	start_flash();
	put(0, 0x10);
	put(0, 0x42); /* not followed by a return to reading */
	put(3, 0x70);
	firmware_reset(&firmware);
	assert_int_equal(file_byte(0), 0x42);
	assert_int_equal(file_byte(3), 0x11);
	/* It dies while the image is copied: what lies there now is not the flash's content. */
	memset(rom(LAYOUT_FOUR_GIB - FIRMWARE_BYTES), 0, FIRMWARE_BYTES);
	die();
	firmware_reset(&firmware);
	assert_int_equal(file_byte(0), 0x42);
	assert_int_equal(load(), 0);
	assert_int_equal(seen(0), 0x42);
	/* The file is another one, and too large: it stays as the user left it. */
	firmware_reset(&firmware);
	make_file(vars_path, 4 << 20, 0x33);
	assert_int_equal(load(), -EINVAL);
	die();
	assert_int_equal(file_byte(0), 0x33);
	end_flash();
}

/* The file's file system is full, or gone: memory keeps what the guest was told is written. */
static void test_flash_without_its_file(void **state)
{
	int fd, null;

	(void)state;
	start_flash();
	fd = dup(firmware.flash.fd);
	null = open("/dev/full", O_RDWR);
	assert_true(dup2(null, firmware.flash.fd) >= 0);
	put(0, 0x10);
	put(0, 0x42);
	put(0, 0xff);
	firmware_reset(&firmware);
	assert_int_equal(load(), 0);
	assert_int_equal(seen(0), 0x42);
	assert_int_equal(file_byte(0), 0x11);
	/* Room again: the next return to reading writes it. */
	assert_true(dup2(fd, firmware.flash.fd) >= 0);
	put(0, 0xff);
	assert_int_equal(file_byte(0), 0x42);
	close(fd);
	close(null);
	end_flash();
}

static void test_flash_that_cannot_be(void **state)
{
	struct flash second;

	(void)state;
	start_flash();
	assert_int_equal(flash_attach(&second, vars_path, rom(LAYOUT_FOUR_GIB - FIRMWARE_BYTES),
	                         FIRMWARE_BYTES, &vault, error, sizeof(error)),
	        -EINVAL);
	assert_non_null(strstr(error, "is in use: another process has it locked"));
	firmware_reset(&firmware);
	assert_int_equal(truncate(vars_path, 1000), 0);
	assert_int_equal(load(), -EINVAL);
	assert_non_null(strstr(error, "must be a file of whole pages"));
	assert_int_equal(truncate(vars_path, 4 << 20), 0);
	assert_int_equal(load(), -EINVAL);
	assert_non_null(strstr(error, "has more than the VM was made with"));
	unlink(vars_path);
	close(firmware.flash.fd);
	assert_int_equal(flash_attach(&second, vars_path, rom(LAYOUT_FOUR_GIB - FIRMWARE_BYTES),
	                         FIRMWARE_BYTES, &vault, error, sizeof(error)),
	        -EINVAL);
	assert_non_null(strstr(error, "No such file"));
	unlink(definition.firmware);
}

static void test_rom(void **state)
{
	struct hv_exit exit = make_exit(KEEL_EXIT_MMIO_WRITE, LAYOUT_FOUR_GIB - 16, 1, 0x50);

	(void)state;
	assert_true(firmware_write(&firmware, &exit));
	assert_int_equal(*rom(LAYOUT_FOUR_GIB - 16), 0);
	exit.address = LAYOUT_LAPIC;
	assert_false(firmware_write(&firmware, &exit));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_signature_by_ports, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_memory_map, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_acpi_tables, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_answered_again, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_bad_dma, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_old_functions, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_image, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_flash_is_found, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_flash_is_written, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_flash_over_deaths, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_flash_over_starts, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_flash_without_its_file, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_flash_that_cannot_be, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_rom, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
