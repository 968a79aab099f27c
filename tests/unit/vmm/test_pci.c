/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows that configuration accesses hit their bytes (C-11) and that base addresses may be moved
 * anywhere and back (C-10). */
/* sources: vmm/pci.c vmm/vault.c vmm/crc32c.c tests/unit/vmm/hv_fake.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/vmm/hv_fake.h"
#include "vmm/layout.h"
#include "vmm/pci.h"

/* A function with one doorbell at the start of its BAR 0, as a virtio device has, and memory behind
 * BARs. */
struct toy {
	struct pci_function fn;
	unsigned index;
	uint64_t doorbell_at;
	uint64_t last_offset, last_value;
	unsigned last_bar, last_size, writes;
};

static struct hv_fake *fake;
static struct vault vault;
static struct pci_bus bus;
static struct pci_function bridge;
static struct toy a, b;

static uint64_t toy_read(struct pci_function *fn, unsigned bar, uint64_t offset, unsigned size)
{
	struct toy *toy = (struct toy *)fn;

	(void)size;
	return toy->index << 16 | bar << 12 | offset;
}

static void toy_write(
        struct pci_function *fn, unsigned bar, uint64_t offset, unsigned size, uint64_t value)
{
	struct toy *toy = (struct toy *)fn;

	toy->last_bar = bar;
	toy->last_offset = offset;
	toy->last_size = size;
	toy->last_value = value;
	toy->writes++;
}

static void toy_decode_changed(struct pci_function *fn, bool come)
{
	struct toy *toy = (struct toy *)fn;
	uint64_t want = pci_bar_address(fn, 0);
	struct hv_doorbell doorbell = {
	        .index = toy->index, .space = KEEL_DOORBELL_MMIO, .address = want, .fd = -1};

	if (toy->doorbell_at == want)
		return;
	if (toy->doorbell_at != PCI_BAR_SILENT)
		fake->hv.ops->doorbell_remove(&fake->hv, toy->index);
	toy->doorbell_at = PCI_BAR_SILENT;
	if (come && want != PCI_BAR_SILENT && fake->hv.ops->doorbell_add(&fake->hv, &doorbell) == 0)
		toy->doorbell_at = want;
}

static const struct pci_function_ops toy_ops = {
        .bar_read = toy_read,
        .bar_write = toy_write,
        .decode_changed = toy_decode_changed,
};

static void add_toy(struct toy *toy, unsigned index, unsigned slot)
{
	memset(toy, 0, sizeof(*toy));
	toy->index = index;
	toy->doorbell_at = PCI_BAR_SILENT;
	toy->fn.ops = &toy_ops;
	pci_function_init(&toy->fn, 0x1234, (uint16_t)(0x5670 + index), 0x010203);
	toy->fn.config[offsetof(struct pci_header, interrupt_pin)] = 1;
	pci_function_add_bar(&toy->fn, 0, 0x10000, PCI_BAR_64);
	pci_function_add_bar(&toy->fn, 2, 0x1000, 0);
	assert_int_equal(pci_add(&bus, &toy->fn, slot), 0);
}

static void attach(void)
{
	vault = hv_fake_vault(fake);
	assert_int_equal(pci_bus_init(&bus, &fake->hv, &vault), 0);
	memset(&bridge, 0, sizeof(bridge));
	pci_function_init(&bridge, 0x1b36, 8, PCI_CLASS_HOST_BRIDGE);
	assert_int_equal(pci_add(&bus, &bridge, 0), 0);
	add_toy(&a, 1, 1);
	add_toy(&b, 2, 2);
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

static bool out(uint64_t port, unsigned size, uint64_t value)
{
	return pci_pio(&bus, port, size, true, &value);
}

static uint64_t in(uint64_t port, unsigned size)
{
	uint64_t value = 0xdeadbeef;

	/* What no device takes reads as all ones: machine.c. */
	return pci_pio(&bus, port, size, false, &value) ? value : ~0ull >> (64 - 8 * size);
}

static void select_register(unsigned slot, unsigned offset)
{
	assert_true(out(0xcf8, 4, 0x80000000u | slot << 11 | offset));
}

static uint64_t ecam(unsigned slot, unsigned offset, unsigned size)
{
	uint64_t value = 0;

	assert_true(pci_mmio(&bus, LAYOUT_ECAM + (slot << 15) + offset, size, false, &value));
	return value;
}

static void test_port_offsets_and_widths(void **state)
{
	(void)state;
	/* C-11 (a): the low two bits of CONFIG_ADDRESS are no offset. */
	select_register(1, 2);
	assert_int_equal(in(0xcfe, 2), 0x5671);
	assert_int_equal(in(0xcfc, 4), 0x56711234);
	/* (b): a word write at CFEh is the status register; the command stays. */
	select_register(1, 4);
	assert_true(out(0xcfc, 2, 0x0007));
	assert_true(out(0xcfe, 2, 0xffff));
	assert_int_equal(in(0xcfc, 2), 0x0007);
	/* (c): each byte alone. */
	select_register(1, 0x2c);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(in(0xcfc + i, 1), a.fn.config[0x2c + i]);
	select_register(1, 0x3c);
	assert_true(out(0xcfc, 1, 0x55));
	assert_true(out(0xcfd, 1, 0xff)); /* the pin is not writable */
	assert_int_equal(in(0xcfc, 2), 0x0155);
	/* (d): the same through ECAM, and beyond 256 nothing. */
	assert_int_equal(ecam(1, 0x3c, 2), 0x0155);
	assert_int_equal(ecam(1, 0x02, 2), 0x5671);
	assert_int_equal(ecam(1, 0x03, 1), 0x56);
	assert_int_equal(ecam(1, 0x00, 8), *(uint64_t *)a.fn.config);
	assert_int_equal(ecam(1, 0x100, 4), 0);
	assert_int_equal(ecam(1, 0xffc, 4), 0);
	assert_int_equal(ecam(1, 0xfe, 4), 0);
	/* (e): CF9h is not ours, nor is anything at CF8h that is no double word. */
	assert_false(out(0xcf9, 1, 6));
	assert_false(out(0xcf8, 1, 6));
	assert_false(out(0xcfa, 2, 6));
	assert_false(out(0xcf8, 2, 6));
	select_register(1, 0x3c);
	assert_int_equal(in(0xcf8, 4), 0x80000000 | 1 << 11 | 0x3c);
	/* Accesses that leave the double word. */
	assert_int_equal(in(0xcfd, 4), 0xffffffff);
	assert_int_equal(in(0xcff, 2), 0xffff);
}

static void test_what_is_not_there(void **state)
{
	uint64_t value = 0;

	(void)state;
	select_register(5, 0);
	assert_int_equal(in(0xcfc, 4), 0xffffffff);
	assert_true(out(0xcfc, 4, 0x12345678));
	out(0xcf8, 4, 0x80000000u | 1 << 11 | 1 << 8); /* function 1 */
	assert_int_equal(in(0xcfc, 2), 0xffff);
	out(0xcf8, 4, 0x80000000u | 1 << 16 | 1 << 11); /* bus 1 */
	assert_int_equal(in(0xcfc, 2), 0xffff);
	out(0xcf8, 4, 1 << 11); /* not enabled */
	assert_int_equal(in(0xcfc, 2), 0xffff);
	assert_true(pci_mmio(&bus, LAYOUT_ECAM + (9 << 15), 4, false, &value));
	assert_int_equal(value, 0xffffffff);
	assert_false(pci_mmio(&bus, LAYOUT_ECAM + LAYOUT_ECAM_BYTES, 4, false, &value));
	assert_false(pci_mmio(&bus, LAYOUT_ECAM + 0xffd, 4, false, &value));
}

static void set_bar0(struct toy *toy, uint64_t address)
{
	pci_config_write(&toy->fn, 0x10, 4, (uint32_t)address);
	pci_config_write(&toy->fn, 0x14, 4, address >> 32);
}

static uint64_t get_bar0(struct toy *toy)
{
	return (pci_config_read(&toy->fn, 0x10, 4) & ~0xfull) | pci_config_read(&toy->fn, 0x14, 4)
	                                                                << 32;
}

static void decode(struct toy *toy, bool on)
{
	pci_config_write(&toy->fn, 4, 2, on ? PCI_COMMAND_MEMORY : 0);
}

/* Which toy answers at an address: its index, 0 if none. */
static unsigned who(uint64_t address)
{
	uint64_t value = 0;

	return pci_mmio(&bus, address, 4, false, &value) ? (unsigned)(value >> 16) : 0;
}

static void test_bars_are_sized_and_flags_fixed(void **state)
{
	(void)state;
	set_bar0(&a, ~0ull);
	assert_int_equal(pci_config_read(&a.fn, 0x10, 4), 0xffff0000 | PCI_BAR_64);
	assert_int_equal(pci_config_read(&a.fn, 0x14, 4), 0xffffffff);
	pci_config_write(&a.fn, 0x18, 4, ~0ull);
	assert_int_equal(pci_config_read(&a.fn, 0x18, 4), 0xfffff000);
	pci_config_write(&a.fn, 0x1c, 4, ~0ull);
	assert_int_equal(pci_config_read(&a.fn, 0x1c, 4), 0);
	pci_config_write(&a.fn, 0x30, 4, ~0ull); /* no ROM */
	assert_int_equal(pci_config_read(&a.fn, 0x30, 4), 0);
	/* By bytes. */
	pci_config_write(&a.fn, 0x13, 1, 0xc0);
	pci_config_write(&a.fn, 0x12, 1, 0x01);
	pci_config_write(&a.fn, 0x14, 4, 0);
	assert_int_equal(get_bar0(&a), 0xc0010000);
}

static void test_decoding_follows_the_command(void **state)
{
	uint64_t value = 77;

	(void)state;
	set_bar0(&a, 0xc0000000);
	assert_int_equal(who(0xc0000000), 0);
	decode(&a, true);
	assert_int_equal(who(0xc0000000), 1);
	assert_int_equal(who(0xc000fffc), 1);
	assert_int_equal(who(0xc0010000), 0);
	assert_int_equal(who(0xbffffffc), 0);
	assert_int_equal(hv_fake_find(fake, 0xc0000000), 1);
	assert_true(pci_mmio(&bus, 0xc0000124, 2, true, &value));
	assert_int_equal(a.last_offset, 0x124);
	assert_int_equal(a.last_size, 2);
	assert_int_equal(a.last_value, 77);
	/* Across the end: no one's. */
	assert_false(pci_mmio(&bus, 0xc000fffe, 4, true, &value));
	decode(&a, false);
	assert_int_equal(who(0xc0000000), 0);
	assert_int_equal(hv_fake_find(fake, 0xc0000000), -1);
}

static void test_swap_of_live_bars(void **state)
{
	(void)state;
	set_bar0(&a, 0xc0000000);
	set_bar0(&b, 0xc0010000);
	decode(&a, true);
	decode(&b, true);
	/* C-10 (a). */
	pci_config_write(&a.fn, 0x10, 4, 0xc0010000);
	assert_int_equal(get_bar0(&a), 0xc0010000);
	assert_true(fake->doorbell_refusals > 0);
	pci_config_write(&b.fn, 0x10, 4, 0xc0000000);
	assert_int_equal(get_bar0(&b), 0xc0000000);
	assert_int_equal(who(0xc0010000), 1);
	assert_int_equal(who(0xc0000000), 2);
	assert_int_equal(hv_fake_find(fake, 0xc0010000), 1);
	assert_int_equal(hv_fake_find(fake, 0xc0000000), 2);
}

static void test_bar_outside_the_windows_is_silent(void **state)
{
	static const uint64_t places[] = {0, 0x100000, 0xbfff0000, LAYOUT_ECAM, 0xfec00000,
	        0xfee00000, 0xffff0000, 1ull << 32, 1ull << 40, 0xffffffffffff0000};
	uint64_t window = layout_pci64(64ull << 20);

	(void)state;
	decode(&a, true);
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		set_bar0(&a, places[i]);
		assert_int_equal(get_bar0(&a), places[i]);
		assert_int_equal(pci_bar_address(&a.fn, 0), PCI_BAR_SILENT);
		assert_int_equal(who(places[i]) == 1 && places[i] != LAYOUT_ECAM, 0);
	}
	/* And back, also into the 64-bit window and to its end. */
	set_bar0(&a, window);
	assert_int_equal(who(window), 1);
	assert_int_equal(hv_fake_find(fake, window), 1);
	set_bar0(&a, window + LAYOUT_PCI64_BYTES - 0x10000);
	assert_int_equal(who(window + LAYOUT_PCI64_BYTES - 4), 1);
	set_bar0(&a, window + LAYOUT_PCI64_BYTES);
	assert_int_equal(who(window + LAYOUT_PCI64_BYTES), 0);
	set_bar0(&a, 0xdfff0000);
	assert_int_equal(who(0xdffffffc), 1);
}

static void test_two_bars_of_one_function_on_one_place(void **state)
{
	(void)state;
	/* C-10 (c). */
	set_bar0(&a, 0xc0000000);
	pci_config_write(&a.fn, 0x18, 4, 0xc0000000);
	decode(&a, true);
	assert_int_equal(who(0xc0000000), 1);
	pci_config_write(&a.fn, 0x18, 4, 0xc0100000);
	uint64_t value = 0;

	assert_true(pci_mmio(&bus, 0xc0100004, 4, false, &value));
	assert_int_equal(value, 1 << 16 | 2 << 12 | 4);
	assert_true(pci_mmio(&bus, 0xc0000004, 4, false, &value));
	assert_int_equal(value, 1 << 16 | 0 << 12 | 4);
}

static void test_assign_and_reset(void **state)
{
	(void)state;
	pci_assign(&bus);
	assert_int_equal(pci_bar_address(&a.fn, 0), 0xc0000000);
	assert_int_equal(pci_bar_address(&a.fn, 2), 0xc0010000);
	assert_int_equal(pci_bar_address(&b.fn, 0), 0xc0020000);
	assert_int_equal(pci_config_read(&b.fn, 0x3c, 1), layout_intx_pin(2, 0));
	assert_int_equal(hv_fake_find(fake, 0xc0020000), 2);
	pci_reset(&bus);
	assert_int_equal(get_bar0(&a), 0);
	assert_int_equal(pci_command(&a.fn), 0);
	assert_int_equal(hv_fake_find(fake, 0xc0000000), -1);
	assert_int_equal(hv_fake_find(fake, 0xc0020000), -1);
}

static void test_intx_is_ored_and_gated(void **state)
{
	unsigned pin = layout_intx_pin(1, 0);

	(void)state;
	assert_int_equal(pin, 17);
	pci_intx_set(&a.fn, true);
	assert_true(fake->pins[pin]);
	assert_int_equal(pci_config_read(&a.fn, 6, 1) & PCI_STATUS_INTX, PCI_STATUS_INTX);
	pci_config_write(&a.fn, 4, 2, PCI_COMMAND_INTX_OFF);
	assert_false(fake->pins[pin]);
	assert_int_equal(pci_config_read(&a.fn, 6, 1) & PCI_STATUS_INTX, PCI_STATUS_INTX);
	pci_config_write(&a.fn, 4, 2, 0);
	assert_true(fake->pins[pin]);
	/* Slot 9 has the same pin: high as long as one of the two asks. */
	static struct toy c;

	add_toy(&c, 3, 9);
	assert_int_equal(layout_intx_pin(9, 0), pin);
	pci_intx_set(&c.fn, true);
	pci_intx_set(&a.fn, false);
	assert_true(fake->pins[pin]);
	pci_intx_set(&c.fn, false);
	assert_false(fake->pins[pin]);
}

static void test_a_successor_finds_the_configuration(void **state)
{
	(void)state;
	pci_assign(&bus);
	set_bar0(&a, 0xc0500000);
	pci_config_write(&a.fn, 0x3c, 1, 42);
	select_register(2, 0x10);
	hv_fake_forget(fake);
	memset(fake->doorbells, 0, sizeof(fake->doorbells));
	attach();
	pci_sync(&bus);
	assert_int_equal(pci_bar_address(&a.fn, 0), 0xc0500000);
	assert_int_equal(pci_config_read(&a.fn, 0x3c, 1), 42);
	assert_int_equal(in(0xcfc, 4), 0xc0020000 | PCI_BAR_64);
	assert_int_equal(hv_fake_find(fake, 0xc0500000), 1);
	assert_true(fake->pin_writes[17] > 0);
}

static void test_another_device_in_the_slot_is_refused(void **state)
{
	static struct pci_function other;

	(void)state;
	vault = hv_fake_vault(fake);
	assert_int_equal(pci_bus_init(&bus, &fake->hv, &vault), 0);
	pci_function_init(&other, 0x1234, 0x9999, 0x010203);
	assert_int_equal(pci_add(&bus, &other, 1), -EEXIST);
}

static void test_rubbish_everywhere(void **state)
{
	uint64_t seed = 88172645463325252ull;

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		uint64_t value = seed;
		unsigned size = 1u << (seed >> 60 & 3);
		bool write = seed >> 59 & 1;

		if (seed >> 58 & 1)
			pci_pio(&bus, 0xcf8 + (seed >> 40 & 7), size == 8 ? 4 : size, write,
			        &value);
		else
			pci_mmio(&bus, LAYOUT_ECAM + (seed >> 40 & 0x1ffff), size, write, &value);
	}
	/* Still usable. */
	pci_reset(&bus);
	pci_assign(&bus);
	assert_int_equal(who(0xc0000000), 1);
	assert_int_equal(pci_config_read(&a.fn, 0, 4), 0x56711234);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(test_port_offsets_and_widths),
	        TEST(test_what_is_not_there),
	        TEST(test_bars_are_sized_and_flags_fixed),
	        TEST(test_decoding_follows_the_command),
	        TEST(test_swap_of_live_bars),
	        TEST(test_bar_outside_the_windows_is_silent),
	        TEST(test_two_bars_of_one_function_on_one_place),
	        TEST(test_assign_and_reset),
	        TEST(test_intx_is_ored_and_gated),
	        TEST(test_a_successor_finds_the_configuration),
	        TEST(test_another_device_in_the_slot_is_refused),
	        TEST(test_rubbish_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
