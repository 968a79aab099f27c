/* SPDX-License-Identifier: BSD-2-Clause */
/* The MADT's CPUs: both forms, disabled and doubled ones, too many, and damaged tables. */
/* sources: hyp/x86/acpi.c */
#include "hyp/x86/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

void log_line(const char *format, ...)
{
	(void)format;
}

unsigned memory_phys_bits(void)
{
	return 40;
}

struct table {
	uint8_t bytes[4096];
	size_t size;
};

static void put(struct table *t, const void *data, size_t n)
{
	memcpy(t->bytes + t->size, data, n);
	t->size += n;
}

static void begin(struct table *t)
{
	struct acpi_madt head = {.lapic_address = 0xfee00000};

	t->size = 0;
	put(t, &head, sizeof(head));
}

static void put_lapic(struct table *t, uint8_t id, uint32_t flags)
{
	struct acpi_madt_lapic e = {{ACPI_MADT_LAPIC, sizeof(e)}, id, id, flags};

	put(t, &e, sizeof(e));
}

static void put_x2apic(struct table *t, uint32_t id, uint32_t flags)
{
	struct acpi_madt_x2apic e = {{ACPI_MADT_X2APIC, sizeof(e)}, 0, id, flags, id};

	put(t, &e, sizeof(e));
}

static struct acpi_info read(const struct table *t)
{
	struct acpi_info info = {.cpu_count = 0};
	uint8_t *exact = malloc(t->size); /* so that the sanitizer sees a read beyond it */

	memcpy(exact, t->bytes, t->size);
	acpi_read_madt(exact, t->size, &info);
	free(exact);
	return info;
}

static void test_both_forms(void **state)
{
	static struct table t;
	struct acpi_madt_ioapic ioapic = {{ACPI_MADT_IOAPIC, sizeof(ioapic)}, 0, 0, 0xfec00000, 0};
	struct acpi_info info;

	(void)state;
	begin(&t);
	put_lapic(&t, 0, 1);
	put(&t, &ioapic, sizeof(ioapic));
	put_lapic(&t, 2, 0); /* disabled */
	put_lapic(&t, 3, 2); /* can be plugged in later */
	put_x2apic(&t, 0x1234, 1);
	put_x2apic(&t, 0, 1); /* the first one again */
	info = read(&t);
	assert_int_equal(info.cpu_count, 2);
	assert_int_equal(info.apic_ids[0], 0);
	assert_int_equal(info.apic_ids[1], 0x1234);
	assert_int_equal(info.lapic_address, 0xfee00000);
}

static void test_address_override(void **state)
{
	static struct table t;
	struct acpi_madt_lapic_address e = {{ACPI_MADT_LAPIC_ADDRESS, sizeof(e)}, 0, 0x1fee00000};

	(void)state;
	begin(&t);
	put(&t, &e, sizeof(e));
	assert_int_equal(read(&t).lapic_address, 0x1fee00000);
}

static void test_too_many(void **state)
{
	static struct table t;
	struct acpi_info info;

	(void)state;
	begin(&t);
	for (unsigned i = 0; i < CPU_MAX + 3; i++)
		put_lapic(&t, (uint8_t)i, 1);
	info = read(&t);
	assert_int_equal(info.cpu_count, CPU_MAX);
	assert_int_equal(info.cpus_ignored, 3);
}

static void test_damaged(void **state)
{
	static struct table t;

	(void)state;
	begin(&t);
	put_lapic(&t, 0, 1);
	t.bytes[sizeof(struct acpi_madt) + 1] = 0; /* length 0 must not loop */
	assert_int_equal(read(&t).cpu_count, 0);
	begin(&t);
	put_lapic(&t, 0, 1);
	put_lapic(&t, 1, 1);
	t.size -= 3; /* cut in the last entry */
	assert_int_equal(read(&t).cpu_count, 1);
	begin(&t);
	put_lapic(&t, 0, 1);
	t.bytes[sizeof(struct acpi_madt) + 1] = 4; /* shorter than its type says */
	assert_int_equal(read(&t).cpu_count, 0);
	t.size = 10;
	assert_int_equal(read(&t).cpu_count, 0);
}

static void test_reset_register(void **state)
{
	const struct acpi_gas port = {.space = ACPI_SPACE_IO, .bit_width = 8, .address = 0xb2};
	const struct acpi_gas memory = {.space = ACPI_SPACE_MEMORY, .address = 0xfed00000};

	(void)state;
	acpi_info.reset_reg = port;
	acpi_info.reset_value = 0x73;
	assert_int_equal(acpi_reset_port(), 0xb2);
	assert_true(acpi_is_reset(0xb2, 0x73));
	assert_false(acpi_is_reset(0xb2, 0x72));
	assert_false(acpi_is_reset(0xb3, 0x73));
	acpi_info.reset_reg = memory;
	assert_int_equal(acpi_reset_port(), 0);
	assert_false(acpi_is_reset(0, 0x73));
	acpi_info.reset_reg = (struct acpi_gas){0};
	assert_int_equal(acpi_reset_port(), 0);
	assert_false(acpi_is_reset(0, 0x73));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_both_forms),
	        cmocka_unit_test(test_address_override),
	        cmocka_unit_test(test_too_many),
	        cmocka_unit_test(test_damaged),
	        cmocka_unit_test(test_reset_register),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
