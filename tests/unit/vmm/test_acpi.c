/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows that the ACPI tables add up, point where they should, and that ACPICA's own compiler reads
 * them. */
/* sources: vmm/acpi.c vmm/aml.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hw/acpi.h"
#include "vmm/acpi.h"
#include "vmm/layout.h"

#define IMAGE_BYTES 65536u

static uint8_t image[IMAGE_BYTES];
static size_t image_bytes;

static void build(unsigned cpus, uint64_t ram_bytes)
{
	struct acpi_config config = {cpus, ram_bytes, LAYOUT_PCI64_BYTES};

	memset(image, 0, sizeof(image));
	image_bytes = acpi_build(&config, LAYOUT_ACPI, image, sizeof(image));
	assert_true(image_bytes > 0 && image_bytes <= LAYOUT_ACPI_BYTES);
}

static uint8_t sum(const void *at, size_t bytes)
{
	uint8_t total = 0;

	for (size_t i = 0; i < bytes; i++)
		total = (uint8_t)(total + ((const uint8_t *)at)[i]);
	return total;
}

/* What a pointer in the tables points to. */
static void *at(uint64_t address)
{
	assert_in_range(address, LAYOUT_ACPI, LAYOUT_ACPI + image_bytes - 1);
	return image + (address - LAYOUT_ACPI);
}

static struct acpi_header *find(const char *signature)
{
	struct acpi_rsdp *rsdp = (struct acpi_rsdp *)image;
	struct acpi_header *xsdt = at(rsdp->xsdt);

	for (size_t i = sizeof(*xsdt); i < xsdt->length; i += 8) {
		uint64_t address;

		memcpy(&address, (uint8_t *)xsdt + i, 8);
		if (memcmp(at(address), signature, 4) == 0)
			return at(address);
	}
	return NULL;
}

static void check_table(const struct acpi_header *table)
{
	assert_non_null(table);
	assert_true((const uint8_t *)table + table->length <= image + image_bytes);
	assert_int_equal(sum(table, table->length), 0);
}

static void test_sums_and_pointers(void **state)
{
	struct acpi_rsdp *rsdp = (struct acpi_rsdp *)image;
	struct acpi_fadt *fadt;

	(void)state;
	build(2, 1ull << 30);
	assert_memory_equal(rsdp->signature, "RSD PTR ", 8);
	assert_int_equal(sum(rsdp, 20), 0);
	assert_int_equal(sum(rsdp, 36), 0);
	check_table(at(rsdp->xsdt));
	fadt = (struct acpi_fadt *)find("FACP");
	check_table(&fadt->header);
	check_table(find("APIC"));
	check_table(find("HPET"));
	check_table(find("MCFG"));
	check_table(at(fadt->dsdt));
	assert_memory_equal(at(fadt->dsdt), "DSDT", 4);
	assert_int_equal(fadt->dsdt, fadt->x_dsdt);
	assert_memory_equal(at(fadt->firmware_ctrl), "FACS", 4);
	assert_int_equal(fadt->firmware_ctrl % 64, 0);
	assert_int_equal(fadt->x_pm_tmr_blk.address, 0x608);
	assert_int_equal(fadt->sci_int, 9);
	assert_int_equal(
	        fadt->flags & (1u << 4), 0); /* the power button is fixed hardware (C-37) */
}

static void test_madt_lists_every_cpu(void **state)
{
	static const unsigned counts[] = {1, 2, 3, 64};

	(void)state;
	for (unsigned n = 0; n < 4; n++) {
		unsigned lapics = 0, ioapics = 0, overrides = 0;
		uint8_t *entry, *end;

		build(counts[n], 1ull << 30);
		entry = (uint8_t *)find("APIC") + sizeof(struct acpi_madt);
		end = (uint8_t *)find("APIC") + find("APIC")->length;
		for (; entry < end; entry += entry[1]) {
			assert_true(entry[1] >= 2);
			if (entry[0] == ACPI_MADT_LAPIC)
				assert_int_equal(
				        ((struct acpi_madt_lapic *)entry)->apic_id, lapics++);
			ioapics += entry[0] == ACPI_MADT_IOAPIC;
			overrides += entry[0] == ACPI_MADT_OVERRIDE;
		}
		assert_ptr_equal(entry, end);
		assert_int_equal(lapics, counts[n]);
		assert_int_equal(ioapics, 1);
		assert_int_equal(overrides, 2);
	}
}

static void test_too_little_room_is_refused(void **state)
{
	struct acpi_config config = {64, 1ull << 30, LAYOUT_PCI64_BYTES};
	uint8_t *small;

	(void)state;
	build(64, 1ull << 30);
	for (size_t bytes = 0; bytes < image_bytes; bytes += 7) {
		small = malloc(bytes + 1); /* the sanitizer watches its end */
		assert_int_equal(acpi_build(&config, LAYOUT_ACPI, small, bytes), 0);
		free(small);
	}
}

/* Runs a command in a directory of its own; its output goes into `output`. */
static int run(const char *directory, const char *command, char *output, size_t bytes)
{
	char line[512];
	FILE *pipe;
	size_t got;

	snprintf(line, sizeof(line), "cd %s && %s 2>&1", directory, command);
	pipe = popen(line, "r");
	assert_non_null(pipe);
	got = fread(output, 1, bytes - 1, pipe);
	output[got] = '\0';
	return pclose(pipe);
}

static void write_table(const char *directory, const char *name, const struct acpi_header *table)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.dat", directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(table, 1, table->length, file), table->length);
	fclose(file);
}

static void test_iasl_reads_them(void **state)
{
	char directory[] = "/tmp/keel-acpi-XXXXXX", output[65536], text[65536];
	static const char *const wanted[] = {"Device (PCI0)", "Name (\\_S5", "0xC0000000",
	        "IO (Decode16", "Device (C001)", "EisaId (\"PNP0A08\")", "0x0010FFFF"};
	struct acpi_fadt *fadt;

	(void)state;
	if (system("iasl -v >/dev/null 2>&1") != 0)
		skip();
	build(2, 6ull << 30);
	fadt = (struct acpi_fadt *)find("FACP");
	assert_non_null(mkdtemp(directory));
	write_table(directory, "dsdt", at(fadt->dsdt));
	write_table(directory, "facp", &fadt->header);
	write_table(directory, "apic", find("APIC"));
	write_table(directory, "hpet", find("HPET"));
	write_table(directory, "mcfg", find("MCFG"));
	assert_int_equal(run(directory, "iasl -d dsdt.dat facp.dat apic.dat hpet.dat mcfg.dat",
	                         output, sizeof(output)),
	        0);
	assert_null(strstr(output, "Error"));
	assert_null(strstr(output, "Warning"));
	/* Compiling what was taken apart must give no error and no warning either. */
	assert_int_equal(run(directory, "iasl -tc dsdt.dsl", output, sizeof(output)), 0);
	assert_non_null(strstr(output, "0 Errors, 0 Warnings"));
	run(directory, "cat *.dsl", text, sizeof(text));
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (strstr(text, wanted[i]) == NULL)
			fail_msg("not in the tables: %s", wanted[i]);
	assert_non_null(strstr(text, "E0000000")); /* ECAM, in MCFG */
	assert_null(strstr(text, "Invalid"));
	run(directory, "rm -rf -- \"$PWD\"", output, sizeof(output));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_sums_and_pointers),
	        cmocka_unit_test(test_madt_lists_every_cpu),
	        cmocka_unit_test(test_too_little_room_is_refused),
	        cmocka_unit_test(test_iasl_reads_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
