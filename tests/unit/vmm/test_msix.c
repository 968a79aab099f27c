/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows that a masked vector becomes pending and one message (C-09), and that odd accesses change
 * nothing (C-18). */
/* sources: vmm/msix.c vmm/pci.c vmm/vault.c vmm/crc32c.c tests/unit/vmm/hv_fake.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/vmm/hv_fake.h"
#include "vmm/msix.h"

#define VECTORS 5u

static struct hv_fake *fake;
static struct vault vault;
static struct pci_bus bus;
static struct pci_function fn;
static struct msix msix;

static void config_written(struct pci_function *function, unsigned offset, unsigned size)
{
	(void)function, (void)offset, (void)size;
	msix_control_written(&msix);
}

static const struct pci_function_ops ops = {.config_written = config_written};

static void attach(void)
{
	vault = hv_fake_vault(fake);
	assert_int_equal(pci_bus_init(&bus, &fake->hv, &vault), 0);
	memset(&fn, 0, sizeof(fn));
	pci_function_init(&fn, 1, 2, 3);
	fn.ops = &ops;
	msix_init(&msix, &fn, VECTORS, 0, 0x8000, 0xc000);
	assert_int_equal(pci_add(&bus, &fn, 3), 0);
	assert_int_equal(msix_attach(&msix), 0);
}

static void set_entry(unsigned vector, uint64_t address, uint32_t data, bool masked)
{
	msix_table_write(&msix, vector * 16, 4, (uint32_t)address);
	msix_table_write(&msix, vector * 16 + 4, 4, address >> 32);
	msix_table_write(&msix, vector * 16 + 8, 4, data);
	msix_table_write(&msix, vector * 16 + 12, 4, masked);
}

static void set_control(uint16_t control)
{
	pci_config_write(&fn, msix.cap + 2, 2, control);
}

static bool is_pending(unsigned vector)
{
	return msix_pending_read(&msix, 0, 8) >> vector & 1;
}

static int set_up(void **state)
{
	(void)state;
	fake = hv_fake_new(1, 64ull << 20, 1u << 20, "{}");
	attach();
	for (unsigned i = 0; i < VECTORS; i++)
		set_entry(i, 0xfee00000 | i << 12, 0x40 + i, false);
	set_control(PCI_MSIX_ENABLE);
	assert_int_equal(fake->msi_count, 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	hv_fake_free(fake);
	return 0;
}

static void expect_messages(unsigned count, uint64_t address, uint32_t data)
{
	assert_int_equal(fake->msi_count, count);
	if (count > 0) {
		assert_int_equal(fake->msis[count - 1].address, address);
		assert_int_equal(fake->msis[count - 1].data, data);
	}
	fake->msi_count = 0;
}

static void test_capability(void **state)
{
	(void)state;
	assert_int_equal(pci_config_read(&fn, msix.cap, 1), PCI_CAP_MSIX);
	assert_int_equal(pci_config_read(&fn, msix.cap + 2, 2), PCI_MSIX_ENABLE | (VECTORS - 1));
	set_control(0xffff);
	assert_int_equal(pci_config_read(&fn, msix.cap + 2, 2), 0xc000 | (VECTORS - 1));
	assert_int_equal(pci_config_read(&fn, msix.cap + 4, 4), 0x8000);
}

static void test_unmasked_goes_at_once(void **state)
{
	(void)state;
	msix_signal(&msix, 2);
	expect_messages(1, 0xfee02000, 0x42);
	assert_false(is_pending(2));
}

static void test_vector_mask(void **state)
{
	(void)state;
	for (unsigned times = 1; times <= 5; times += 4) {
		msix_table_write(&msix, 16 + 12, 4, 1);
		for (unsigned i = 0; i < times; i++)
			msix_signal(&msix, 1);
		expect_messages(0, 0, 0);
		assert_true(is_pending(1));
		msix_table_write(&msix, 16 + 12, 4, 0);
		expect_messages(1, 0xfee01000, 0x41);
		assert_false(is_pending(1));
	}
}

static void test_function_mask(void **state)
{
	(void)state;
	set_control(PCI_MSIX_ENABLE | PCI_MSIX_FUNCTION_MASK);
	for (unsigned i = 0; i < 5; i++)
		msix_signal(&msix, 4);
	expect_messages(0, 0, 0);
	assert_true(is_pending(4));
	/* Clearing and setting the vector's own mask under the function's is no way out. */
	msix_table_write(&msix, 64 + 12, 4, 1);
	msix_table_write(&msix, 64 + 12, 4, 0);
	expect_messages(0, 0, 0);
	set_control(PCI_MSIX_ENABLE);
	expect_messages(1, 0xfee04000, 0x44);
	assert_false(is_pending(4));
}

static void test_new_route_while_masked(void **state)
{
	(void)state;
	msix_table_write(&msix, 12, 4, 1);
	msix_signal(&msix, 0);
	set_entry(0, 0xfee07000, 0x77, true);
	expect_messages(0, 0, 0);
	assert_true(is_pending(0));
	msix_table_write(&msix, 12, 4, 0);
	expect_messages(1, 0xfee07000, 0x77);
}

static void test_off_is_off(void **state)
{
	(void)state;
	set_control(0);
	msix_signal(&msix, 0);
	set_control(PCI_MSIX_ENABLE);
	expect_messages(0, 0, 0);
	assert_false(is_pending(0));
}

static void test_pending_survives_the_process(void **state)
{
	(void)state;
	msix_table_write(&msix, 48 + 12, 4, 1);
	msix_signal(&msix, 3);
	hv_fake_forget(fake);
	attach();
	assert_true(msix.enabled);
	assert_true(is_pending(3));
	msix_table_write(&msix, 48 + 12, 4, 0);
	expect_messages(1, 0xfee03000, 0x43);
}

static void test_reset_masks_all(void **state)
{
	(void)state;
	set_control(PCI_MSIX_ENABLE | PCI_MSIX_FUNCTION_MASK);
	msix_signal(&msix, 0);
	msix_reset(&msix);
	for (unsigned i = 0; i < VECTORS; i++) {
		assert_int_equal(msix_table_read(&msix, i * 16 + 12, 4), PCI_MSIX_ENTRY_MASKED);
		assert_int_equal(msix_table_read(&msix, i * 16, 8), 0);
	}
	assert_int_equal(msix_pending_read(&msix, 0, 8), 0);
}

static void test_odd_accesses(void **state)
{
	struct msix before = msix;

	(void)state;
	for (uint64_t offset = 0; offset < 0x4000; offset++)
		for (unsigned size = 1; size <= 8; size *= 2) {
			if (size >= 4 && offset % size == 0 && offset < VECTORS * 16)
				continue;
			msix_table_write(&msix, offset, size, ~0ull);
			assert_int_equal(msix_table_read(&msix, offset, size), 0);
			if (offset >= 8 || size < 4 || offset % size != 0)
				assert_int_equal(msix_pending_read(&msix, offset, size), 0);
		}
	assert_memory_equal(&msix.state, &before.state, sizeof(msix.state));
	msix_signal(&msix, VECTORS);
	msix_signal(&msix, 64);
	msix_signal(&msix, 0xffff);
	msix_signal(&msix, ~0u);
	expect_messages(0, 0, 0);
	/* Whole words work in both sizes; of the control word only the mask is there. */
	msix_table_write(&msix, 16, 8, 0x00000001fee0a000);
	assert_int_equal(msix_table_read(&msix, 20, 4), 1);
	msix_table_write(&msix, 24, 8, 0xffffffff00000099);
	assert_int_equal(msix_table_read(&msix, 24, 8), 0x0000000100000099);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(test_capability),
	        TEST(test_unmasked_goes_at_once),
	        TEST(test_vector_mask),
	        TEST(test_function_mask),
	        TEST(test_new_route_while_masked),
	        TEST(test_off_is_off),
	        TEST(test_pending_survives_the_process),
	        TEST(test_reset_masks_all),
	        TEST(test_odd_accesses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
