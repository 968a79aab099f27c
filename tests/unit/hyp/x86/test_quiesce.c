/* SPDX-License-Identifier: BSD-2-Clause */
/* What is left of a root's devices when it is gone, on a machine whose functions are an array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hw/pci.h"
#include "hyp/x86/internal.h"
#include "hyp/x86/pci_reset.h"

static struct percpu this_cpu;
static uint64_t now_ms;
#define percpu()    (&this_cpu)
#define tsc_now()   (now_ms)
#define cpu_pause() ((void)now_ms++)
#define outb(p, v)  ((void)(p), (void)(v))
#include "hyp/x86/pci_reset.c"
#include "hyp/x86/quiesce.c"

uint64_t tsc_hz = 1000;
struct acpi_info acpi_info;

#define MSI_AT     0x40u
#define EXPRESS_AT 0x50u
#define AF_AT      0x90u
#define MSIX_AT    0xc8u
#define BAR        0xfe000004u
#define CONTROL    0x5936u /* device control as firmware left it */
#define CONTROL2   0x0400u
#define CONTROL_0  0x2810u /* and after a reset */

static struct device {
	struct pci_function at;
	uint8_t config[PCI_CONFIG_BYTES];
	unsigned resets;
	uint64_t reset_ms;
	bool deaf; /* does not come back from a reset */
} devices[8];
static unsigned device_count;
static unsigned touched_early; /* accesses of a function less than 100 ms after its reset */
static unsigned log_lines;

static void put(struct device *d, unsigned at, unsigned bytes, uint32_t value)
{
	memcpy(d->config + at, &value, bytes);
}

static uint32_t get(const struct device *d, unsigned at, unsigned bytes)
{
	uint32_t value = 0;

	memcpy(&value, d->config + at, bytes);
	return value;
}

static struct device *find(struct pci_function f)
{
	for (unsigned i = 0; i < device_count; i++)
		if (memcmp(&devices[i].at, &f, sizeof(f)) == 0) {
			struct device *d = &devices[i];

			touched_early += d->resets > 0 && now_ms - d->reset_ms < 100;
			return d;
		}
	return NULL;
}

static void reset(struct device *d)
{
	d->resets++;
	d->reset_ms = now_ms;
	put(d, PCI_COMMAND, 2, 0);
	put(d, PCI_BAR0, 4, 4);
	put(d, EXPRESS_AT + PCI_EXPRESS_CONTROL, 2, CONTROL_0);
	put(d, EXPRESS_AT + PCI_EXPRESS_CONTROL2, 2, 0);
	if (d->deaf)
		put(d, 0, 4, 0xffff0001);
}

static void written(struct device *d, unsigned at)
{
	if (get(d, EXPRESS_AT, 1) == PCI_CAP_EXPRESS && at == EXPRESS_AT + PCI_EXPRESS_CONTROL &&
	        get(d, at, 2) & PCI_EXPRESS_CONTROL_RESET)
		reset(d);
	if (get(d, AF_AT, 1) == PCI_CAP_ADVANCED && at == AF_AT + PCI_AF_CONTROL)
		reset(d);
}

uint32_t pci_config_read(struct pci_function f, unsigned offset)
{
	struct device *d = find(f);

	if (d == NULL)
		return 0xffffffff >> (8 * (offset & 3));
	return get(d, offset, 4 - (offset & 3));
}

void pci_config_write16(struct pci_function f, unsigned offset, uint16_t value)
{
	struct device *d = find(f);

	assert_non_null(d);
	put(d, offset, 2, value);
	written(d, offset);
}

void pci_config_write32(struct pci_function f, unsigned offset, uint32_t value)
{
	struct device *d = find(f);

	assert_non_null(d);
	put(d, offset, 4, value);
	written(d, offset);
}

void pci_config_release(void)
{
}
void log_line(const char *format, ...)
{
	(void)format;
	log_lines++;
}
uint32_t apic_read(uint32_t reg)
{
	(void)reg;
	return 0;
}
void apic_write(uint32_t reg, uint32_t value)
{
	(void)reg;
	(void)value;
}
void apic_eoi(void)
{
}
void interrupts_take(void)
{
}

static int setup(void **state)
{
	(void)state;
	memset(devices, 0, sizeof(devices));
	device_count = touched_early = log_lines = 0;
	now_ms = 5000;
	return 0;
}

/* A master with MSI and MSI-X on and no reset. */
static struct device *add(unsigned bus, unsigned slot, uint32_t id, uint32_t class)
{
	struct device *d = &devices[device_count++];

	d->at = (struct pci_function){(uint8_t)bus, (uint8_t)slot, 0};
	put(d, 0, 4, id);
	put(d, PCI_COMMAND, 2, PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
	put(d, PCI_STATUS, 2, PCI_STATUS_CAPS);
	put(d, PCI_REVISION, 4, class << 8);
	put(d, PCI_BAR0, 4, BAR);
	put(d, PCI_CAPS_POINTER, 1, MSI_AT);
	put(d, MSI_AT, 4, PCI_CAP_MSI | MSIX_AT << 8 | PCI_MSI_ENABLE << 16);
	put(d, MSIX_AT, 4, PCI_CAP_MSIX | (uint32_t)PCI_MSIX_ENABLE << 16);
	return d;
}

static void add_cap(struct device *d, unsigned at, unsigned id)
{
	put(d, at, 1, id);
	put(d, at + 1, 1, get(d, PCI_CAPS_POINTER, 1));
	put(d, PCI_CAPS_POINTER, 1, at);
}

static struct device *add_express(unsigned bus, unsigned slot, uint32_t id, uint32_t class)
{
	struct device *d = add(bus, slot, id, class);

	add_cap(d, EXPRESS_AT, PCI_CAP_EXPRESS);
	put(d, EXPRESS_AT + PCI_EXPRESS_FLAGS, 2, 2);
	put(d, EXPRESS_AT + PCI_EXPRESS_DEVICE, 4, PCI_EXPRESS_DEVICE_RESET);
	put(d, EXPRESS_AT + PCI_EXPRESS_CONTROL, 2, CONTROL);
	put(d, EXPRESS_AT + PCI_EXPRESS_CONTROL2, 2, CONTROL2);
	return d;
}

#define NVME 0x010802u

static unsigned reset_count;

static unsigned quiesce(void)
{
	return machine_quiesce(&reset_count);
}

static void assert_quiet(const struct device *d, unsigned resets)
{
	assert_int_equal(get(d, PCI_COMMAND, 2), PCI_COMMAND_MEMORY | PCI_COMMAND_INTX_OFF);
	assert_int_equal(get(d, MSI_AT + 2, 2) & PCI_MSI_ENABLE, 0);
	assert_int_equal(get(d, MSIX_AT + 2, 2) & PCI_MSIX_ENABLE, 0);
	assert_int_equal(get(d, PCI_BAR0, 4), BAR);
	assert_int_equal(d->resets, resets);
}

static void wait_quiet(void)
{
	uint64_t began = now_ms;

	while (!machine_is_quiet()) {
		now_ms++;
		assert_in_range(now_ms, began, began + 1001);
	}
	assert_int_equal(touched_early, 0);
}

static void test_reset_and_put_back(void **state)
{
	struct device *d = add_express(0, 3, 0x12345678, NVME);

	(void)state;
	assert_int_equal(quiesce(), 1);
	assert_int_equal(d->resets, 1);
	assert_int_equal(reset_count, 1);
	assert_int_equal(get(d, PCI_BAR0, 4), 4);
	wait_quiet();
	assert_int_equal(now_ms, 5100);
	assert_quiet(d, 1);
	assert_int_equal(get(d, EXPRESS_AT + PCI_EXPRESS_CONTROL, 2), CONTROL);
	assert_int_equal(get(d, EXPRESS_AT + PCI_EXPRESS_CONTROL2, 2), CONTROL2);
	assert_int_equal(log_lines, 0);
}

static void test_each_root_has_its_reset(void **state)
{
	struct device *d = add_express(0, 3, 0x12345678, NVME);

	(void)state;
	for (unsigned i = 1; i < 100; i++) {
		put(d, PCI_COMMAND, 2, PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
		assert_int_equal(quiesce(), 1);
		wait_quiet();
		assert_quiet(d, i);
	}
}

static void test_controls_that_were_off(void **state)
{
	struct device *d = add_express(0, 3, 0x12345678, NVME);

	(void)state;
	put(d, EXPRESS_AT + PCI_EXPRESS_CONTROL, 2, 0);
	quiesce();
	wait_quiet();
	assert_int_equal(get(d, EXPRESS_AT + PCI_EXPRESS_CONTROL, 2), 0);
}

/* A machine with more root buses than one: no bridge leads there. */
static void test_another_root_bus(void **state)
{
	struct device *d = add_express(0xe0, 1, 0x12345678, NVME);

	(void)state;
	assert_int_equal(quiesce(), 1);
	wait_quiet();
	assert_quiet(d, 1);
}

static void test_no_second_control_in_old_devices(void **state)
{
	struct device *d = add_express(0, 3, 0x12345678, NVME);

	(void)state;
	put(d, EXPRESS_AT + PCI_EXPRESS_FLAGS, 2, 1);
	quiesce();
	put(d, EXPRESS_AT + PCI_EXPRESS_CONTROL2, 2, 0x1111);
	wait_quiet();
	assert_int_equal(get(d, EXPRESS_AT + PCI_EXPRESS_CONTROL2, 2), 0x1111);
}

static void test_conventional_reset(void **state)
{
	struct device *d = add(0, 3, 0x12345678, 0x0c0330);

	(void)state;
	add_cap(d, AF_AT, PCI_CAP_ADVANCED);
	put(d, AF_AT + PCI_AF_DEVICE, 1, PCI_AF_DEVICE_RESET);
	put(d, AF_AT + PCI_AF_STATUS, 1, PCI_AF_PENDING); /* for ever: it is waited 100 ms for */
	quiesce();
	assert_int_equal(d->reset_ms, 5100);
	wait_quiet();
	assert_quiet(d, 1);
}

static void test_left_without_a_reset(void **state)
{
	struct device *display = add_express(0, 1, 0x11111234, 0x030000);
	struct device *hangs = add_express(0, 2, 0x149c1022, 0x0c0330);
	struct device *idle = add_express(0, 3, 0x12345678, NVME);
	struct device *cannot = add(0, 4, 0x12345678, NVME);

	(void)state;
	put(idle, PCI_COMMAND, 2, PCI_COMMAND_MEMORY);
	assert_int_equal(quiesce(), 3);
	assert_true(machine_is_quiet());
	assert_quiet(display, 0);
	assert_quiet(hangs, 0);
	assert_quiet(idle, 0);
	assert_quiet(cannot, 0);
}

static void test_one_that_does_not_come_back(void **state)
{
	struct device *d = add_express(0, 3, 0x12345678, NVME);
	struct device *good = add_express(0, 4, 0x12345678, NVME);

	(void)state;
	d->deaf = true;
	quiesce();
	wait_quiet();
	assert_int_equal(now_ms, 6000);
	assert_int_equal(log_lines, 1);
	assert_quiet(good, 1);
}

static void test_behind_bridges(void **state)
{
	struct device *bridge = add(0, 1, 0x00011b36, 0x060400);
	struct device *d = add_express(9, 0, 0x12345678, NVME);

	(void)state;
	put(bridge, PCI_HEADER_TYPE, 1, PCI_HEADER_BRIDGE);
	assert_int_equal(quiesce(), 1);
	wait_quiet();
	assert_quiet(d, 1);
	assert_true(get(bridge, PCI_COMMAND, 2) & PCI_COMMAND_MASTER);
}

static void test_a_list_without_end(void **state)
{
	struct device *d = add(0, 3, 0x12345678, NVME);

	(void)state;
	put(d, MSIX_AT + 1, 1, MSI_AT);
	assert_int_equal(quiesce(), 1);
	assert_quiet(d, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_reset_and_put_back, setup),
	        cmocka_unit_test_setup(test_each_root_has_its_reset, setup),
	        cmocka_unit_test_setup(test_controls_that_were_off, setup),
	        cmocka_unit_test_setup(test_another_root_bus, setup),
	        cmocka_unit_test_setup(test_no_second_control_in_old_devices, setup),
	        cmocka_unit_test_setup(test_conventional_reset, setup),
	        cmocka_unit_test_setup(test_left_without_a_reset, setup),
	        cmocka_unit_test_setup(test_one_that_does_not_come_back, setup),
	        cmocka_unit_test_setup(test_behind_bridges, setup),
	        cmocka_unit_test_setup(test_a_list_without_end, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
