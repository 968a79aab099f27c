/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows the power button, SCI and soft-off in every order a guest can have them (C-37). */
/* sources: vmm/pm.c vmm/vault.c vmm/crc32c.c vmm/log.c tests/unit/vmm/hv_fake.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "hw/acpi.h"
#include "tests/unit/vmm/hv_fake.h"
#include "vmm/acpi.h"
#include "vmm/layout.h"
#include "vmm/pm.h"

#define STATUS  0x600u
#define ENABLE  0x602u
#define CONTROL 0x604u
#define BUTTON  ACPI_PM1_STATUS_PWRBTN

static struct hv_fake *fake;
static struct vault vault;
static struct pm pm;

static void attach(void)
{
	vault = hv_fake_vault(fake);
	assert_int_equal(pm_attach(&pm, &fake->hv, &vault), 0);
}

static int set_up(void **state)
{
	(void)state;
	fake = hv_fake_new(1, 64ull << 20, 1u << 20, "{}");
	attach();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	hv_fake_free(fake);
	return 0;
}

static unsigned in(unsigned port, unsigned size)
{
	uint64_t value = 0;

	assert_true(pm_pio(&pm, port, size, false, &value));
	return (unsigned)value;
}

static void out(unsigned port, unsigned size, uint64_t value)
{
	assert_true(pm_pio(&pm, port, size, true, &value));
}

static bool sci(void)
{
	return fake->pins[LAYOUT_SCI];
}

static void test_press_before_acpi_mode(void **state)
{
	(void)state;
	pm_press_power_button(&pm);
	assert_int_equal(in(STATUS, 2), BUTTON);
	assert_false(sci());
	out(ENABLE, 2, BUTTON);
	assert_false(sci());
	out(0xb2, 1, 0xf1);
	assert_int_equal(in(CONTROL, 2), ACPI_PM1_CONTROL_SCI_EN);
	assert_true(sci());
}

static void test_press_before_enable(void **state)
{
	(void)state;
	out(0xb2, 1, 0xf1);
	pm_press_power_button(&pm);
	assert_false(sci());
	assert_int_equal(in(STATUS, 2), BUTTON);
	out(ENABLE, 2, BUTTON);
	assert_true(sci());
}

static void test_press_after_both(void **state)
{
	unsigned writes;

	(void)state;
	out(0xb2, 1, 0xf1);
	out(ENABLE, 2, BUTTON);
	assert_false(sci());
	writes = fake->pin_writes[LAYOUT_SCI];
	pm_press_power_button(&pm);
	pm_press_power_button(&pm);
	assert_true(sci());
	assert_int_equal(fake->pin_writes[LAYOUT_SCI], writes + 1); /* one event */
	out(STATUS, 2, 0); /* writing zero clears nothing */
	assert_true(sci());
	out(STATUS, 2, BUTTON);
	assert_false(sci());
	assert_int_equal(in(STATUS, 2), 0);
	pm_press_power_button(&pm);
	assert_true(sci());
	out(ENABLE, 2, 0);
	assert_false(sci());
	assert_int_equal(in(STATUS, 2), BUTTON);
	out(ENABLE, 2, BUTTON);
	out(0xb2, 1, 0xf0);
	assert_false(sci());
}

static void test_registers_by_bytes(void **state)
{
	(void)state;
	out(ENABLE + 1, 1, 0x01);
	assert_int_equal(in(ENABLE, 2), BUTTON);
	out(ENABLE, 1, 0xff); /* timer and global lock; the rest is not there */
	assert_int_equal(in(ENABLE, 2), BUTTON | 0x21);
	assert_int_equal(in(STATUS, 4), (BUTTON | 0x21) << 16);
	pm_press_power_button(&pm);
	out(STATUS, 1, 0xff);
	assert_int_equal(in(STATUS, 2), BUTTON);
	out(STATUS + 1, 1, 0x01);
	assert_int_equal(in(STATUS, 2), 0);
	out(STATUS, 4, 0xffffffff);
	assert_int_equal(in(ENABLE, 2), BUTTON | 0x421);
	/* SCI_EN is not the guest's to write, sleep type is; SLP_EN reads 0. */
	out(CONTROL, 2, 0xffff & ~ACPI_PM1_CONTROL_SLP_EN);
	assert_int_equal(in(CONTROL, 2), 0x1c02);
	out(CONTROL + 1, 1, 0);
	assert_int_equal(in(CONTROL, 2), 2);
}

static void test_soft_off(void **state)
{
	(void)state;
	for (unsigned type = 0; type < 8; type++) {
		out(CONTROL, 2, type << 10 | ACPI_PM1_CONTROL_SLP_EN);
		assert_int_equal(pm.off_asked, type == ACPI_S5_SLEEP_TYPE);
		assert_int_equal(in(CONTROL, 2), type << 10);
		pm.off_asked = false;
	}
	/* Type first, enable after, and in the upper byte alone. */
	out(CONTROL, 2, ACPI_S5_SLEEP_TYPE << 10);
	assert_false(pm.off_asked);
	out(CONTROL + 1, 1, ACPI_S5_SLEEP_TYPE << 2 | 0x20);
	assert_true(pm.off_asked);
}

static void test_what_is_not_ours(void **state)
{
	uint64_t value = 5;

	(void)state;
	assert_false(pm_pio(&pm, 0x5ff, 1, false, &value));
	assert_false(pm_pio(&pm, 0x5ff, 2, true, &value));
	assert_false(pm_pio(&pm, 0x604, 4, true, &value));
	assert_false(pm_pio(&pm, 0x605, 2, false, &value));
	assert_false(pm_pio(&pm, 0x606, 1, false, &value));
	assert_false(pm_pio(&pm, 0x608, 4, false, &value));
	assert_false(pm_pio(&pm, 0xb2, 2, true, &value));
	assert_false(pm_pio(&pm, 0xb3, 1, true, &value));
	assert_int_equal(in(0xb2, 1), 0);
}

static void test_a_successor_has_it_all(void **state)
{
	(void)state;
	out(0xb2, 1, 0xf1);
	out(ENABLE, 2, BUTTON);
	pm_press_power_button(&pm);
	fake->pins[LAYOUT_SCI] = false;
	attach();
	assert_true(sci());
	assert_int_equal(in(STATUS, 2), BUTTON);
	pm_reset(&pm);
	assert_false(sci());
	attach();
	assert_int_equal(in(STATUS, 4), 0);
	assert_int_equal(in(CONTROL, 2), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(test_press_before_acpi_mode),
	        TEST(test_press_before_enable),
	        TEST(test_press_after_both),
	        TEST(test_registers_by_bytes),
	        TEST(test_soft_off),
	        TEST(test_what_is_not_ours),
	        TEST(test_a_successor_has_it_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
