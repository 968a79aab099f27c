/* SPDX-License-Identifier: BSD-2-Clause */
/* The hyp PCI function: what root's kernel reads, what it can write, and no interrupt lost by
 * masking. */
/* sources: hyp/core/hyppci.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "abi/pci.h"
#include "hyp/core/hyppci.h"

#define MSI 0x40u

static struct hyppci fresh(void)
{
	struct hyppci pci;

	memset(&pci, 0xa5, sizeof(pci));
	hyppci_init(&pci);
	return pci;
}

/* As Linux does it: bus mastering, masked, message, enable; unmasked last. */
static void enable(struct hyppci *pci)
{
	assert_false(hyppci_config_write(pci, 0x04, 2, 0x0404));
	assert_false(hyppci_config_write(pci, MSI + 0x10, 4, 1));
	assert_false(hyppci_config_write(pci, MSI + 0x04, 4, 0xfee01000));
	assert_false(hyppci_config_write(pci, MSI + 0x08, 4, 0));
	assert_false(hyppci_config_write(pci, MSI + 0x0c, 2, 0x4022));
	assert_false(hyppci_config_write(pci, MSI + 0x02, 2, 0x0181));
	hyppci_config_write(pci, MSI + 0x10, 4, 0);
}

static void is_found_by_linux(void **state)
{
	struct hyppci pci = fresh();

	(void)state;
	assert_int_equal(
	        hyppci_config_read(&pci, 0x00, 4), KEEL_PCI_DEVICE << 16 | KEEL_PCI_VENDOR);
	assert_int_equal(hyppci_config_read(&pci, 0x00, 2), KEEL_PCI_VENDOR);
	assert_int_equal(hyppci_config_read(&pci, 0x02, 2), KEEL_PCI_DEVICE);
	assert_int_equal(hyppci_config_read(&pci, 0x08, 4) >> 8, KEEL_PCI_CLASS);
	assert_int_equal(hyppci_config_read(&pci, 0x0b, 1), 0x08);
	assert_int_equal(hyppci_config_read(&pci, 0x0e, 1), 0x00); /* type 0, one function */
	assert_int_equal(hyppci_config_read(&pci, 0x3d, 1), 0);    /* no pin */
	assert_true(hyppci_config_read(&pci, 0x06, 2) & 0x10);
	assert_int_equal(hyppci_config_read(&pci, 0x34, 1), MSI);
	assert_int_equal(hyppci_config_read(&pci, MSI, 1), 0x05);
	assert_int_equal(hyppci_config_read(&pci, MSI + 1, 1), 0); /* end of the list */
	assert_int_equal(hyppci_config_read(&pci, MSI + 2, 2), 0x0180);
}

static void has_no_bars(void **state)
{
	struct hyppci pci = fresh();

	(void)state;
	for (unsigned bar = 0x10; bar <= 0x30; bar += 4) {
		if (bar == 0x28 || bar == 0x2c)
			continue;
		hyppci_config_write(&pci, bar, 4, 0xffffffff);
		assert_int_equal(hyppci_config_read(&pci, bar, 4), 0);
	}
}

/* All ones and all zeroes to every byte: only what is listed changes, and nothing next to it. */
static void read_only_bits_stay(void **state)
{
	struct hyppci pci = fresh(), before = fresh();
	static const struct {
		unsigned offset;
		uint8_t bits;
	} writable[] = {{0x04, 0x04}, {0x05, 0x04}, {0x3c, 0xff}, {0x42, 0x01}, {0x44, 0xfc},
	        {0x45, 0xff}, {0x46, 0xff}, {0x47, 0xff}, {0x48, 0xff}, {0x49, 0xff}, {0x4a, 0xff},
	        {0x4b, 0xff}, {0x4c, 0xff}, {0x4d, 0xff}, {0x50, 0x01}};

	(void)state;
	for (unsigned offset = 0; offset < 256; offset++) {
		uint8_t bits = 0;

		for (size_t i = 0; i < sizeof(writable) / sizeof(writable[0]); i++)
			if (writable[i].offset == offset)
				bits = writable[i].bits;
		hyppci_config_write(&pci, offset, 1, 0xff);
		for (unsigned at = 0; at < 256; at++)
			assert_int_equal(hyppci_config_read(&pci, at, 1),
			        hyppci_config_read(&before, at, 1) | (at == offset ? bits : 0));
		hyppci_config_write(&pci, offset, 1, 0);
		assert_memory_equal(&pci, &before, sizeof(pci));
	}
}

/* A word or byte access reaches its own register and no other (C-11). */
static void small_accesses_hit_their_bytes(void **state)
{
	struct hyppci pci = fresh();

	(void)state;
	hyppci_config_write(&pci, 0x06, 2, 0xffff); /* status, not command */
	assert_int_equal(hyppci_config_read(&pci, 0x04, 2), 0);
	hyppci_config_write(&pci, 0x44, 4, 0x11223344);
	hyppci_config_write(&pci, 0x46, 2, 0xaabb);
	assert_int_equal(hyppci_config_read(&pci, 0x44, 4), 0xaabb3344);
	hyppci_config_write(&pci, 0x45, 1, 0xcc);
	assert_int_equal(hyppci_config_read(&pci, 0x44, 4), 0xaabbcc44);
	assert_int_equal(hyppci_config_read(&pci, 0x47, 1), 0xaa);
	assert_int_equal(hyppci_config_read(&pci, 0x45, 1), 0xcc);
}

static void odd_accesses_do_nothing(void **state)
{
	static const struct {
		unsigned offset, size;
	} odd[] = {{0x45, 2}, {0x45, 4}, {0x46, 4}, {0x44, 3}, {0x44, 0}, {0x44, 8}, {0x100, 4},
	        {0x1000, 1}, {0xffffffff, 1}, {0xfe, 4}};
	struct hyppci pci = fresh(), before = fresh();

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		assert_false(hyppci_config_write(&pci, odd[i].offset, odd[i].size, 0xffffffff));
		assert_int_equal(hyppci_config_read(&pci, odd[i].offset, odd[i].size), 0xffffffff);
	}
	assert_memory_equal(&pci, &before, sizeof(pci));
}

static void sends_what_was_programmed(void **state)
{
	struct hyppci pci = fresh();
	uint64_t address = 0;
	uint32_t data = 0;

	(void)state;
	enable(&pci);
	assert_true(hyppci_interrupt(&pci, &address, &data));
	assert_int_equal(address, 0xfee01000);
	assert_int_equal(data, 0x4022);
	hyppci_config_write(&pci, MSI + 8, 4, 0x12);
	assert_true(hyppci_interrupt(&pci, &address, &data));
	assert_true(address == 0x12fee01000ull);
	assert_int_equal(hyppci_config_read(&pci, MSI + 0x14, 4), 0);
}

/* C-09: pending while masked; one interrupt on the new route after the unmask; the bit is 0 then.
 */
static void masked_is_kept_once(void **state)
{
	struct hyppci pci = fresh();
	uint64_t address = 1;
	uint32_t data = 2;

	(void)state;
	enable(&pci);
	assert_false(hyppci_config_write(&pci, MSI + 0x10, 4, 1));
	assert_int_equal(hyppci_config_read(&pci, MSI + 0x14, 4), 0);
	for (int i = 0; i < 5; i++)
		assert_false(hyppci_interrupt(&pci, &address, &data));
	assert_int_equal(address, 1);
	assert_int_equal(data, 2);
	assert_int_equal(hyppci_config_read(&pci, MSI + 0x14, 4), 1);
	assert_false(hyppci_config_write(&pci, MSI + 0x04, 4, 0xfee02000));
	assert_false(hyppci_config_write(&pci, MSI + 0x0c, 2, 0x33));
	assert_true(hyppci_config_write(&pci, MSI + 0x10, 4, 0));
	assert_true(hyppci_interrupt(&pci, &address, &data));
	assert_int_equal(address, 0xfee02000);
	assert_int_equal(data, 0x33);
	assert_int_equal(hyppci_config_read(&pci, MSI + 0x14, 4), 0);
	assert_false(hyppci_config_write(&pci, MSI + 0x10, 4, 0));
}

/* Whatever of the three comes last is what lets the interrupt go, in any order. */
static void waits_for_all_three_gates(void **state)
{
	static const struct {
		unsigned offset;
		uint32_t open, shut;
	} gates[] = {{0x04, 0x4, 0}, {MSI + 2, 1, 0}, {MSI + 0x10, 0, 1}};
	struct hyppci pci;
	uint64_t address;
	uint32_t data;

	(void)state;
	for (unsigned last = 0; last < 3; last++) {
		pci = fresh();
		enable(&pci);
		for (unsigned i = 0; i < 3; i++)
			assert_false(hyppci_config_write(&pci, gates[i].offset, 2, gates[i].shut));
		assert_false(hyppci_interrupt(&pci, &address, &data));
		for (unsigned i = 1; i < 3; i++)
			assert_false(hyppci_config_write(
			        &pci, gates[(last + i) % 3].offset, 2, gates[(last + i) % 3].open));
		assert_true(hyppci_config_write(&pci, gates[last].offset, 2, gates[last].open));
		assert_true(hyppci_interrupt(&pci, &address, &data));
	}
}

static void event_before_the_driver_is_not_lost(void **state)
{
	struct hyppci pci = fresh();
	uint64_t address;
	uint32_t data;

	(void)state;
	assert_false(hyppci_interrupt(&pci, &address, &data));
	enable(&pci);
	assert_int_equal(hyppci_config_read(&pci, MSI + 0x14, 4), 1);
	assert_true(hyppci_interrupt(&pci, &address, &data));
	assert_int_equal(data, 0x4022);
}

static void pending_bit_is_not_writable(void **state)
{
	struct hyppci pci = fresh();
	uint64_t address;
	uint32_t data;

	(void)state;
	assert_false(hyppci_interrupt(&pci, &address, &data));
	hyppci_config_write(&pci, MSI + 0x14, 4, 0);
	assert_int_equal(hyppci_config_read(&pci, MSI + 0x14, 4), 1);
	hyppci_init(&pci);
	assert_int_equal(hyppci_config_read(&pci, MSI + 0x14, 4), 0);
	hyppci_config_write(&pci, MSI + 0x14, 4, 1);
	assert_int_equal(hyppci_config_read(&pci, MSI + 0x14, 4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(is_found_by_linux),
	        cmocka_unit_test(has_no_bars),
	        cmocka_unit_test(read_only_bits_stay),
	        cmocka_unit_test(small_accesses_hit_their_bytes),
	        cmocka_unit_test(odd_accesses_do_nothing),
	        cmocka_unit_test(sends_what_was_programmed),
	        cmocka_unit_test(masked_is_kept_once),
	        cmocka_unit_test(waits_for_all_three_gates),
	        cmocka_unit_test(event_before_the_driver_is_not_lost),
	        cmocka_unit_test(pending_bit_is_not_writable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
