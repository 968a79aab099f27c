/* SPDX-License-Identifier: BSD-2-Clause */
/* HAND C-59: every way by which a PC's software resets it gives one reset with its cause; and the
 * empty 8042 answers probes at once. */
#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

#define GHZ 1000000000ull

static void expect_reset(struct pc *pc, enum platform_reset_cause cause)
{
	struct platform_config config = pc_config(pc, 1, GHZ);

	assert_int_equal(pc->resets, cause == PLATFORM_RESET_NONE ? 0 : 1);
	assert_int_equal(platform_reset_cause(&pc->p), cause);
	pc->resets = 0;
	platform_init(&pc->p, &config, true);
	assert_int_equal(platform_reset_cause(&pc->p), PLATFORM_RESET_NONE);
}

/* reboot=pci (and acpi, whose register is the same, and efi, which ends there):
 * arch/x86/kernel/reset.c BOOT_CF9. */
static void test_cf9(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);
	uint32_t value = 0x80000000;
	uint8_t cf9;

	(void)unused;
	for (unsigned round = 0; round < 20; round++) {
		cf9 = pc_inb(pc, 0xcf9) & (uint8_t)~0x0e;
		pc_outb(pc, 0xcf9, cf9 | 2);
		assert_int_equal(pc->resets, 0);
		pc_outb(pc, 0xcf9, cf9 | 6);
		pc_outb(pc, 0xcf9, 0);
		pc_outb(pc, 0xcf9, 6); /* again before the core has come to it */
		expect_reset(pc, PLATFORM_RESET_CF9);
	}
	pc_outb(pc, 0xcf9, 0x0f);
	expect_reset(pc, PLATFORM_RESET_CF9);
	/* HAND C-11 (e): CONFIG_ADDRESS is not the reset register, whatever its second byte. */
	value = 0x80000600;
	assert_false(platform_pio(&pc->p, 0, 0xcf8, 4, true, &value, 0));
	assert_false(platform_pio(&pc->p, 0, 0xcfc, 4, false, &value, 0));
	expect_reset(pc, PLATFORM_RESET_NONE);
	pc_free(pc);
}

/* reboot=kbd: wait for the input buffer, pulse FEh; also the output port's bit 0, and port 92h. */
static void test_keyboard_and_92h(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);

	(void)unused;
	for (unsigned round = 0; round < 20; round++) {
		assert_int_equal(pc_inb(pc, 0x64) & 0x02, 0);
		pc_outb(pc, 0x64, 0xfe);
		expect_reset(pc, PLATFORM_RESET_KEYBOARD);
	}
	pc_outb(pc, 0x64, 0xff); /* pulses nothing */
	pc_outb(pc, 0x64, 0xd1);
	pc_outb(pc, 0x60, 0xdf); /* A20 on */
	expect_reset(pc, PLATFORM_RESET_NONE);
	pc_outb(pc, 0x64, 0xd1);
	pc_outb(pc, 0x60, 0xfe);
	expect_reset(pc, PLATFORM_RESET_KEYBOARD);
	pc_outb(pc, 0x92, pc_inb(pc, 0x92) | 2);
	assert_int_equal(pc_inb(pc, 0x92), 2);
	expect_reset(pc, PLATFORM_RESET_NONE);
	pc_outb(pc, 0x92, 3);
	pc_outb(pc, 0x92, 3);
	expect_reset(pc, PLATFORM_RESET_PORT_92H);
	pc_free(pc);
}

static uint8_t command(struct pc *pc, uint8_t value)
{
	pc_outb(pc, 0x64, value);
	assert_int_equal(pc_inb(pc, 0x64) & 1, 1); /* no wait: the answer is there */
	return pc_inb(pc, 0x60);
}

/* Linux's drivers/input/serio/i8042.c: flush, self-test, command byte, AUX loop and test, keyboard
 * identify. */
static void test_i8042_probe(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);

	(void)unused;
	pc_enable_all(pc);
	pc_outb(pc, 0x21, 0xff);
	pc_set_redirect(pc, 1, 0x41);
	assert_int_equal(pc_inb(pc, 0x64) & 1, 0);
	assert_int_equal(command(pc, 0xaa), 0x55);
	assert_int_equal(command(pc, 0xab), 0x00);
	pc_outb(pc, 0x64, 0x60);
	pc_outb(pc, 0x60, 0x75);
	assert_int_equal(command(pc, 0x20), 0x75);
	pc_outb(pc, 0x64, 0xd3);
	pc_outb(pc, 0x60, 0x5a);
	assert_int_equal(pc_inb(pc, 0x64) & 0x21, 0x01); /* back, but not from an AUX port */
	assert_int_equal(pc_inb(pc, 0x60), 0x5a);
	assert_true(command(pc, 0xa9) != 0);
	pc_serve(pc, 0);
	pc_outb(pc, 0x60, 0xf2);
	assert_int_equal(pc_serve(pc, 0), 0x41);
	assert_int_equal(pc_inb(pc, 0x64) & 0x41, 0x41); /* time-out flag: no keyboard */
	assert_int_equal(pc_inb(pc, 0x60), 0xfe);
	assert_int_equal(pc_inb(pc, 0x64) & 0x41, 0);
	pc_outb(pc, 0x64, 0xd4);
	pc_outb(pc, 0x60, 0xf2);
	assert_int_equal(pc_inb(pc, 0x64) & 0x61, 0x61);
	pc_outb(pc, 0x64, 0xad);
	assert_int_equal(command(pc, 0x20) & 0x10, 0x10);
	assert_int_equal(command(pc, 0xd0) & 3, 3);
	pc_free(pc);
}

/* Ports that only take time. */
static void test_delay_ports(void **unused)
{
	struct pc *pc = pc_new(1, GHZ);

	(void)unused;
	pc_outb(pc, 0x80, 0x12);
	pc_outb(pc, 0xed, 0x12);
	assert_int_equal(pc_inb(pc, 0x80), 0xff);
	pc_free(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_cf9),
	        cmocka_unit_test(test_keyboard_and_92h),
	        cmocka_unit_test(test_i8042_probe),
	        cmocka_unit_test(test_delay_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
