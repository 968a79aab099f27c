/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows the test device's ports, lines and memory, and that they outlive the device process. */
/* sources: vmm/testdev.c vmm/vault.c vmm/crc32c.c vmm/log.c tests/unit/vmm/hv_fake.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/vmm/hv_fake.h"
#include "vmm/testdev.h"

static struct hv_fake *fake;
static struct vault vault;
static struct testdev dev;

static void attach(void)
{
	vault = hv_fake_vault(fake);
	assert_int_equal(testdev_attach(&dev, &fake->hv, &vault), 0);
}

static int set_up(void **state)
{
	(void)state;
	fake = hv_fake_new(1, 64ull << 20, 2u << 20, "{}");
	attach();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	hv_fake_free(fake);
	return 0;
}

static void out(uint64_t port, unsigned size, uint64_t value)
{
	assert_true(testdev_pio(&dev, port, size, true, &value));
}

static uint64_t in(uint64_t port, unsigned size)
{
	uint64_t value = 0;

	assert_true(testdev_pio(&dev, port, size, false, &value));
	return value;
}

static void test_echo(void **state)
{
	(void)state;
	out(0xe0, 4, 0x12345678);
	assert_int_equal(in(0xe0, 4), 0x12345678);
	assert_int_equal(in(0xe1, 2), 0x3456);
	out(0xe2, 1, 0xff);
	assert_int_equal(in(0xe0, 4), 0x12ff5678);
	attach(); /* another process */
	assert_int_equal(in(0xe0, 4), 0x12ff5678);
	testdev_reset(&dev);
	assert_int_equal(in(0xe0, 4), 0);
}

static void test_echo_ends_at_e3(void **state)
{
	uint64_t value = 1;

	(void)state;
	assert_false(testdev_pio(&dev, 0xe2, 4, true, &value));
	assert_false(testdev_pio(&dev, 0xdf, 1, true, &value));
	assert_true(testdev_pio(&dev, 0xe4, 4, true, &value));
	assert_false(testdev_pio(&dev, 0xe4, 4, false, &value));
}

static void test_lines(void **state)
{
	uint64_t value = 1;

	(void)state;
	out(0x2000 + 14, 4, 1);
	assert_true(fake->pins[14]);
	out(0x2000, 1, 1); /* a PC's line 0 is the IOAPIC's pin 2 */
	assert_true(fake->pins[2]);
	assert_false(fake->pins[0]);
	fake->pins[14] = false;
	attach();
	assert_true(fake->pins[14]);
	out(0x2000 + 14, 4, 0);
	assert_false(fake->pins[14]);
	assert_false(testdev_pio(&dev, 0x2000 + 24, 4, true, &value));
	testdev_reset(&dev);
	assert_false(fake->pins[2]);
}

static void test_exit(void **state)
{
	(void)state;
	assert_false(dev.ended);
	out(0xf4, 4, 77);
	assert_true(dev.ended);
	assert_int_equal(dev.result, 77);
}

static void test_memory(void **state)
{
	uint64_t value = 0x1122334455667788ull;

	(void)state;
	assert_true(testdev_mmio(&dev, 0xff000ffc, 8, true, &value));
	value = 0;
	assert_true(testdev_mmio(&dev, 0xff001000, 4, false, &value));
	assert_int_equal(value, 0x11223344);
	attach();
	assert_true(testdev_mmio(&dev, 0xff000fff, 1, false, &value));
	assert_int_equal(value, 0x55);
	assert_true(testdev_mmio(&dev, 0xff00ffff, 1, true, &value));
	assert_false(testdev_mmio(&dev, 0xff00ffff, 2, true, &value));
	assert_false(testdev_mmio(&dev, 0xff010000, 1, false, &value));
	assert_false(testdev_mmio(&dev, 0xfeffffff, 1, false, &value));
}

/* Most VMs have none. */
static void test_none(void **state)
{
	struct testdev none = {.hv = &fake->hv};
	uint64_t value = 1;

	(void)state;
	assert_false(testdev_pio(&none, 0xf4, 1, true, &value));
	assert_false(testdev_pio(&none, 0xe0, 1, false, &value));
	assert_false(testdev_mmio(&none, 0xff000000, 1, false, &value));
	testdev_reset(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_echo, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_echo_ends_at_e3, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_lines, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_exit, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_none, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
