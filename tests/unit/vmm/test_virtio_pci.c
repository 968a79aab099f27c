/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows the virtio PCI transport against a device that writes down what it was told: C-13, C-15,
 * C-18, C-49, negotiation, reset. */
/* sources: vmm/virtio_pci.c vmm/virtio_common.c vmm/msix.c vmm/pci.c vmm/gmem.c vmm/vault.c */
/* sources: vmm/crc32c.c vmm/log.c tests/unit/vmm/hv_fake.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/vmm/hv_fake.h"
#include "vmm/layout.h"
#include "vmm/virtio_pci.h"

#define QUEUES     3u
#define QUEUE_MAX  256u
#define RAM_BYTES  (64ull << 20)
#define DEVICE_BIT 5u

struct toy {
	struct virtio_device dev; /* first */
	uint8_t config[24];
	unsigned starts, resets, refuse;
	struct virtio_queue_setup last[QUEUES];
	uint8_t inflight_first[QUEUES]; /* its first byte when the queue started */
};

static struct hv_fake *fake;
static struct vault vault;
static struct pci_bus bus;
static struct gmem gmem;
static struct toy toy;
static struct virtio_pci *vp;
static struct hv_exit current;

static void toy_config_read(struct virtio_device *dev, unsigned offset, void *out, unsigned bytes)
{
	memcpy(out, ((struct toy *)dev)->config + offset, bytes);
}

static void toy_config_write(
        struct virtio_device *dev, unsigned offset, const void *in, unsigned bytes)
{
	memcpy(((struct toy *)dev)->config + offset, in, bytes);
}

static size_t toy_inflight_bytes(struct virtio_device *dev, unsigned queue, unsigned size)
{
	(void)dev, (void)queue;
	return 64 + 16 * size;
}

static int toy_queue_start(struct virtio_device *dev, const struct virtio_queue_setup *setup)
{
	struct toy *t = (struct toy *)dev;

	t->starts++;
	t->last[setup->index] = *setup;
	t->inflight_first[setup->index] = *(uint8_t *)setup->inflight;
	memset(setup->inflight, 0x77, setup->inflight_bytes);
	return t->refuse ? -EIO : 0;
}

static void toy_reset(struct virtio_device *dev)
{
	((struct toy *)dev)->resets++;
}

static const struct virtio_device_ops toy_ops = {
        .config_read = toy_config_read,
        .config_write = toy_config_write,
        .inflight_bytes = toy_inflight_bytes,
        .queue_start = toy_queue_start,
        .reset = toy_reset,
};

static void attach(void)
{
	char error[200] = "";

	vault = hv_fake_vault(fake);
	assert_int_equal(pci_bus_init(&bus, &fake->hv, &vault), 0);
	gmem_init(&gmem, fake->hv.ram, RAM_BYTES, RAM_BYTES);
	memset(&toy, 0, sizeof(toy));
	for (unsigned i = 0; i < sizeof(toy.config); i++)
		toy.config[i] = (uint8_t)(0xc0 + i);
	toy.dev = (struct virtio_device){.ops = &toy_ops,
	        .name = "toy",
	        .device_id = 2,
	        .class_code = 0x018000,
	        .queues = QUEUES,
	        .queue_size_max = QUEUE_MAX,
	        .features = 1ull << DEVICE_BIT | 1ull << VIRTIO_F_EVENT_IDX |
	                    1ull << VIRTIO_F_RING_PACKED | 1ull << VIRTIO_F_SR_IOV | 1ull << 55,
	        .config_bytes = sizeof(toy.config)};
	vp = virtio_pci_create(&bus, 1, &toy.dev, &gmem, 10, error, sizeof(error));
	assert_string_equal(error, "");
	assert_non_null(vp);
}

static void detach(void)
{
	for (unsigned q = 0; q < QUEUES; q++)
		close(vp->kick_fds[q]);
	free(vp);
}

static int set_up(void **state)
{
	(void)state;
	fake = hv_fake_new(2, RAM_BYTES, 1u << 20, "{}");
	attach();
	pci_assign(&bus);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	detach();
	hv_fake_free(fake);
	return 0;
}

static uint64_t bar(void)
{
	return pci_bar_address(&vp->fn, 0);
}

static uint64_t get(unsigned offset, unsigned size)
{
	uint64_t value = 0;

	assert_true(pci_mmio(&bus, bar() + offset, size, false, &value));
	return value;
}

static void set(unsigned offset, unsigned size, uint64_t value)
{
	assert_true(pci_mmio(&bus, bar() + offset, size, true, &value));
}

#define AT(field)         ((unsigned)offsetof(struct virtio_pci_common, field))
#define GET(field)        get(AT(field), sizeof(((struct virtio_pci_common *)0)->field))
#define SET(field, value) set(AT(field), sizeof(((struct virtio_pci_common *)0)->field), value)

static void negotiate(uint64_t features)
{
	SET(device_status, 0);
	SET(device_status, 1);
	SET(device_status, 3);
	SET(driver_feature_select, 0);
	SET(driver_feature, (uint32_t)features);
	SET(driver_feature_select, 1);
	SET(driver_feature, features >> 32);
	SET(device_status, 3 | 8);
}

#define FEATURES (1ull << VIRTIO_F_VERSION_1 | 1ull << DEVICE_BIT)

static void program(unsigned q, unsigned size)
{
	SET(queue_select, q);
	SET(queue_size, size);
	SET(queue_msix_vector, q + 1);
	SET(queue_desc, 0x10000 + q * 0x10000);
	set(AT(queue_driver), 4, 0x14000 + q * 0x10000);
	set(AT(queue_driver) + 4, 4, 0);
	SET(queue_device, 0x18000 + q * 0x10000);
}

static void enable_msix(void)
{
	pci_config_write(&vp->fn, vp->msix.cap + 2, 2, PCI_MSIX_ENABLE);
	for (unsigned i = 0; i < QUEUES + 1; i++) {
		set(VIRTIO_PCI_TABLE_AT + i * 16, 8, 0xfee00000 + (i << 12));
		set(VIRTIO_PCI_TABLE_AT + i * 16 + 8, 8, 0x30 + i);
	}
}

/* As a driver does it, with all queues. */
static void bring_up(void)
{
	enable_msix();
	negotiate(FEATURES);
	assert_int_equal(GET(device_status), 3 | 8);
	SET(config_msix_vector, 0);
	for (unsigned q = 0; q < QUEUES; q++) {
		program(q, 64);
		SET(queue_enable, 1);
	}
	toy.starts = 0;
	SET(device_status, 0xf);
	assert_int_equal(GET(device_status), 0xf);
}

static void test_capabilities(void **state)
{
	unsigned found[6] = {0}, at = (unsigned)pci_config_read(&vp->fn, 0x34, 1), count = 0;

	(void)state;
	assert_int_equal(pci_config_read(&vp->fn, 0, 4), 0x10421af4);
	assert_int_equal(pci_config_read(&vp->fn, 8, 4), 0x01800001);
	assert_int_equal(pci_config_read(&vp->fn, 6, 2) & PCI_STATUS_CAPS, PCI_STATUS_CAPS);
	for (; at != 0 && count < 20; at = (unsigned)pci_config_read(&vp->fn, at + 1, 1), count++)
		if (pci_config_read(&vp->fn, at, 1) == PCI_CAP_VENDOR)
			found[pci_config_read(&vp->fn, at + 3, 1)]++;
	assert_int_equal(count, 6); /* MSI-X and five of virtio's */
	for (unsigned type = 1; type <= 5; type++)
		assert_int_equal(found[type], 1);
	assert_int_equal(GET(num_queues), QUEUES);
	for (unsigned q = 0; q < QUEUES; q++) {
		SET(queue_select, q);
		assert_int_equal(GET(queue_notify_off), q);
		assert_int_equal(GET(queue_size), QUEUE_MAX);
		assert_int_equal(GET(queue_msix_vector), VIRTIO_PCI_NO_VECTOR);
	}
}

static void test_feature_negotiation(void **state)
{
	(void)state;
	SET(device_feature_select, 0);
	assert_int_equal(GET(device_feature), 1u << DEVICE_BIT | 1u << VIRTIO_F_EVENT_IDX);
	SET(device_feature_select, 1);
	/* Version 1 and bit 55; packed rings and SR-IOV are not ours to offer. */
	assert_int_equal(GET(device_feature), 1u | 1u << (55 - 32));
	SET(device_feature_select, 2);
	assert_int_equal(GET(device_feature), 0);
	SET(device_feature_select, 0xffffffff);
	assert_int_equal(GET(device_feature), 0);

	negotiate(1ull << DEVICE_BIT); /* no version 1 */
	assert_int_equal(GET(device_status), 3);
	negotiate(FEATURES | 1ull << 7); /* not offered */
	assert_int_equal(GET(device_status), 3);
	negotiate(FEATURES | 1ull << VIRTIO_F_RING_PACKED);
	assert_int_equal(GET(device_status), 3);
	/* Without FEATURES_OK no DRIVER_OK. */
	SET(device_status, 3 | 4);
	assert_int_equal(GET(device_status), 3);
	negotiate(FEATURES);
	assert_int_equal(GET(device_status), 3 | 8);
	/* Settled features stay, and bits are only added. */
	SET(driver_feature_select, 0);
	SET(driver_feature, 0);
	assert_int_equal(GET(driver_feature), (uint32_t)FEATURES);
	SET(device_status, 1);
	assert_int_equal(GET(device_status), 3 | 8);
	SET(device_status, 0xff);
	assert_int_equal(GET(device_status), 0x8f); /* NEEDS_RESET is the device's */
}

static void test_queues_start_with_driver_ok(void **state)
{
	(void)state;
	negotiate(FEATURES);
	program(0, 64);
	SET(queue_enable, 1);
	assert_int_equal(toy.starts, 0);
	bring_up();
	assert_int_equal(toy.starts, QUEUES);
	for (unsigned q = 0; q < QUEUES; q++) {
		const struct virtio_queue_setup *setup = &toy.last[q];

		assert_int_equal(setup->index, q);
		assert_int_equal(setup->size, 64);
		assert_int_equal(setup->features, FEATURES);
		assert_int_equal(setup->desc_gpa, 0x10000 + q * 0x10000);
		assert_int_equal(setup->driver_gpa, 0x14000 + q * 0x10000);
		assert_int_equal(setup->device_gpa, 0x18000 + q * 0x10000);
		assert_int_equal(setup->inflight_bytes, 64 + 16 * 64);
		assert_int_equal((uintptr_t)setup->inflight % 64, 0);
		assert_false(setup->resumed);
		assert_int_equal(toy.inflight_first[q], 0);
	}
	/* A queue enabled after DRIVER_OK starts at once; enabling twice is once. */
	SET(device_status, 0xf);
	SET(queue_enable, 1);
	assert_int_equal(toy.starts, QUEUES);
}

static void test_a_live_queue_is_latched(void **state)
{
	static const uint32_t sizes[] = {0, 3, 32768, 128, 65535};

	(void)state;
	bring_up();
	/* C-13. */
	SET(queue_select, 1);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		SET(queue_size, sizes[i]);
		SET(queue_desc, 0x30000);
		set(AT(queue_driver), 4, 0x31000);
		SET(queue_device, 0xffffffffffffffff);
		assert_int_equal(GET(queue_size), 64);
		assert_int_equal(GET(queue_desc), 0x20000);
		assert_int_equal(GET(queue_driver), 0x24000);
		assert_int_equal(GET(queue_device), 0x28000);
	}
	SET(queue_enable, 0);
	assert_int_equal(GET(queue_enable), 1);
	assert_int_equal(toy.starts, QUEUES);
	/* Until the reset. */
	SET(device_status, 0);
	assert_int_equal(GET(queue_enable), 0);
	assert_int_equal(GET(queue_size), QUEUE_MAX);
	assert_int_equal(GET(queue_desc), 0);
	SET(queue_size, 32);
	assert_int_equal(GET(queue_size), 32);
}

static void test_bad_sizes_are_not_taken(void **state)
{
	static const uint32_t bad[] = {0, 3, 5, 100, 512, 32768, 65535};

	(void)state;
	negotiate(FEATURES);
	SET(queue_select, 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		SET(queue_size, bad[i]);
		assert_int_equal(GET(queue_size), QUEUE_MAX);
	}
	for (unsigned size = 1; size <= QUEUE_MAX; size *= 2) {
		SET(queue_size, size);
		assert_int_equal(GET(queue_size), size);
	}
}

static void test_rings_outside_memory(void **state)
{
	static const struct {
		uint64_t desc, driver, device;
	} bad[] = {
	        {RAM_BYTES - 1024 + 16, 0x14000, 0x18000}, /* one descriptor past the end */
	        {RAM_BYTES, 0x14000, 0x18000},
	        {0xfffffffffffff000, 0x14000, 0x18000},
	        {0x10000, RAM_BYTES - 132,
	                0x18000}, /* the event word past the end: 6 + 2 * 64 = 134 */
	        {0x10000, 0x14000, RAM_BYTES - 516},
	        {0x10000, 0x14000, 0xc0000000}, /* in a BAR: C-15 */
	        {0x10008, 0x14000, 0x18000},
	        {0x10000, 0x14001, 0x18000},
	        {0x10000, 0x14000, 0x18002},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		negotiate(FEATURES);
		SET(queue_select, 0);
		SET(queue_size, 64);
		SET(queue_desc, bad[i].desc);
		SET(queue_driver, bad[i].driver);
		SET(queue_device, bad[i].device);
		SET(queue_enable, 1);
		assert_int_equal(GET(queue_enable), 0);
		assert_int_equal(
		        GET(device_status) & VIRTIO_STATUS_NEEDS_RESET, VIRTIO_STATUS_NEEDS_RESET);
	}
	/* The last ones that fit. */
	negotiate(FEATURES);
	SET(queue_select, 0);
	SET(queue_size, 64);
	SET(queue_desc, RAM_BYTES - 1024);
	SET(queue_driver, RAM_BYTES - 1024 - 134);
	SET(queue_device, RAM_BYTES - 2048 - 520);
	SET(queue_enable, 1);
	assert_int_equal(GET(queue_enable), 1);
	assert_int_equal(GET(device_status), 3 | 8);
}

static void test_queue_select_out_of_range(void **state)
{
	(void)state;
	bring_up();
	for (unsigned select = QUEUES; select <= 0xffff; select += 13) {
		SET(queue_select, select);
		assert_int_equal(GET(queue_select), select);
		for (unsigned offset = AT(queue_size); offset < sizeof(struct virtio_pci_common);
		        offset++)
			for (unsigned size = 1; size <= 8; size *= 2) {
				set(offset, size, 1);
				assert_int_equal(get(offset, size), 0);
			}
	}
	assert_int_equal(toy.starts, QUEUES);
	SET(queue_select, 2);
	assert_int_equal(GET(queue_size), 64);
}

static void test_vectors_out_of_range(void **state)
{
	(void)state;
	bring_up();
	SET(queue_select, 1);
	SET(queue_msix_vector, 0x7fff);
	assert_int_equal(GET(queue_msix_vector), VIRTIO_PCI_NO_VECTOR);
	SET(config_msix_vector, QUEUES + 1);
	assert_int_equal(GET(config_msix_vector), VIRTIO_PCI_NO_VECTOR);
	virtio_signal_queue(&toy.dev, 1);
	virtio_signal_config(&toy.dev);
	assert_int_equal(fake->msi_count, 0);
	SET(queue_msix_vector, QUEUES);
	assert_int_equal(GET(queue_msix_vector), QUEUES);
	virtio_signal_queue(&toy.dev, 1);
	assert_int_equal(fake->msi_count, 1);
	assert_int_equal(fake->msis[0].data, 0x30 + QUEUES);
}

static void test_messages(void **state)
{
	uint64_t generation;

	(void)state;
	bring_up();
	virtio_signal_queue(&toy.dev, 2);
	assert_int_equal(fake->msi_count, 1);
	assert_int_equal(fake->msis[0].address, 0xfee03000);
	assert_int_equal(fake->msis[0].data, 0x33);
	generation = GET(config_generation);
	virtio_signal_config(&toy.dev);
	assert_int_equal(fake->msis[1].data, 0x30);
	assert_int_equal(GET(config_generation), (generation + 1) & 0xff);
	assert_int_equal(get(VIRTIO_PCI_ISR_AT, 1), 0); /* not with MSI-X */
	/* Masked: pending, then one. */
	set(VIRTIO_PCI_TABLE_AT + 3 * 16 + 12, 4, 1);
	virtio_signal_queue(&toy.dev, 2);
	virtio_signal_queue(&toy.dev, 2);
	assert_int_equal(fake->msi_count, 2);
	assert_int_equal(get(VIRTIO_PCI_PENDING_AT, 8), 8);
	set(VIRTIO_PCI_TABLE_AT + 3 * 16 + 12, 4, 0);
	assert_int_equal(fake->msi_count, 3);
}

static void test_intx_and_isr(void **state)
{
	unsigned pin = layout_intx_pin(1, 0);

	(void)state;
	bring_up();
	pci_config_write(&vp->fn, vp->msix.cap + 2, 2, 0);
	virtio_signal_queue(&toy.dev, 0);
	assert_true(fake->pins[pin]);
	virtio_signal_config(&toy.dev);
	assert_int_equal(get(VIRTIO_PCI_ISR_AT, 1), 3);
	assert_false(fake->pins[pin]);
	assert_int_equal(get(VIRTIO_PCI_ISR_AT, 1), 0);
	assert_int_equal(fake->msi_count, 0);
	/* Turning MSI-X on takes the line down. */
	virtio_signal_queue(&toy.dev, 0);
	assert_true(fake->pins[pin]);
	pci_config_write(&vp->fn, vp->msix.cap + 2, 2, PCI_MSIX_ENABLE);
	assert_false(fake->pins[pin]);
}

static void test_the_same_exit_reads_the_same_isr(void **state)
{
	(void)state;
	pci_config_write(&vp->fn, vp->msix.cap + 2, 2, 0);
	negotiate(FEATURES);
	SET(device_status, 0xf);
	virtio_signal_queue(&toy.dev, 0);
	current = (struct hv_exit){.vcpu = 1, .sequence = 17};
	bus.current = &current;
	assert_int_equal(get(VIRTIO_PCI_ISR_AT, 1), 1);
	/* Killed before the exit was completed. */
	detach();
	hv_fake_forget(fake);
	attach();
	bus.current = &current;
	assert_int_equal(get(VIRTIO_PCI_ISR_AT, 1), 1);
	current.sequence++;
	assert_int_equal(get(VIRTIO_PCI_ISR_AT, 1), 0);
	current.vcpu = 0;
	assert_int_equal(get(VIRTIO_PCI_ISR_AT, 1), 0);
	bus.current = NULL;
}

static void test_kicks(void **state)
{
	uint64_t count = 0;

	(void)state;
	bring_up();
	for (unsigned q = 0; q < QUEUES; q++) {
		/* As a doorbell: the guest's write never comes here. */
		int index = hv_fake_find(fake, bar() + VIRTIO_PCI_NOTIFY_AT + 4 * q);

		assert_int_equal(index, 10 + q);
		assert_int_equal(fake->doorbells[index].fd, vp->kick_fds[q]);
		assert_int_equal(toy.last[q].kick_fd, vp->kick_fds[q]);
		/* As an exit. */
		set(VIRTIO_PCI_NOTIFY_AT + 4 * q, 2, q);
		assert_int_equal(read(vp->kick_fds[q], &count, sizeof(count)), sizeof(count));
		assert_int_equal(count, 1);
	}
	set(VIRTIO_PCI_NOTIFY_AT + 4 * QUEUES, 2, 0);
	set(VIRTIO_PCI_NOTIFY_AT + 1, 2, 0);
	set(VIRTIO_PCI_TABLE_AT - 4, 4, 0);
	for (unsigned q = 0; q < QUEUES; q++)
		assert_int_equal(read(vp->kick_fds[q], &count, sizeof(count)), -1);
	assert_int_equal(get(VIRTIO_PCI_NOTIFY_AT, 2), 0);
}

static void test_doorbells_follow_the_bar(void **state)
{
	uint64_t old = bar();

	(void)state;
	bring_up();
	pci_config_write(&vp->fn, 0x10, 4, 0xc1000000);
	assert_int_equal(hv_fake_find(fake, old + VIRTIO_PCI_NOTIFY_AT), -1);
	for (unsigned q = 0; q < QUEUES; q++)
		assert_int_equal(
		        hv_fake_find(fake, 0xc1000000 + VIRTIO_PCI_NOTIFY_AT + 4 * q), 10 + q);
	pci_config_write(&vp->fn, 4, 2, 0);
	for (unsigned i = 0; i < KEEL_MAX_DOORBELLS; i++)
		assert_false(fake->doorbells[i].used);
	assert_int_equal(toy.starts, QUEUES);
	assert_int_equal(toy.resets, 1); /* negotiate's own */
}

static void test_device_configuration(void **state)
{
	(void)state;
	assert_int_equal(get(VIRTIO_PCI_DEVICE_AT, 1), 0xc0);
	assert_int_equal(get(VIRTIO_PCI_DEVICE_AT + 4, 4), 0xc7c6c5c4);
	assert_int_equal(get(VIRTIO_PCI_DEVICE_AT + 16, 8), 0xd7d6d5d4d3d2d1d0);
	assert_int_equal(get(VIRTIO_PCI_DEVICE_AT + 17, 8), 0);
	assert_int_equal(get(VIRTIO_PCI_DEVICE_AT + 24, 1), 0);
	assert_int_equal(get(VIRTIO_PCI_DEVICE_AT + 0xffc, 4), 0);
	set(VIRTIO_PCI_DEVICE_AT + 2, 2, 0x1234);
	assert_int_equal(get(VIRTIO_PCI_DEVICE_AT, 4), 0x1234c1c0);
	set(VIRTIO_PCI_DEVICE_AT + 23, 2, 0xffff);
	assert_int_equal(get(VIRTIO_PCI_DEVICE_AT + 23, 1), 0xd7);
}

static void test_configuration_window(void **state)
{
	unsigned cap = vp->cfg_cap;

	(void)state;
	/* num_queues by way of configuration space alone. */
	pci_config_write(&vp->fn, cap + 4, 1, 0);
	pci_config_write(&vp->fn, cap + 8, 4, AT(num_queues));
	pci_config_write(&vp->fn, cap + 12, 4, 2);
	assert_int_equal(pci_config_read(&vp->fn, cap + 16, 2), QUEUES);
	pci_config_write(&vp->fn, cap + 8, 4, AT(device_status));
	pci_config_write(&vp->fn, cap + 12, 4, 1);
	pci_config_write(&vp->fn, cap + 16, 1, 3);
	assert_int_equal(GET(device_status), 3);
	/* Lengths and places that are nothing, with all widths. */
	for (unsigned length = 0; length < 9; length++) {
		pci_config_write(&vp->fn, cap + 12, 4, length);
		pci_config_write(&vp->fn, cap + 8, 4, 0xfffffffe);
		pci_config_write(&vp->fn, cap + 16, 4, ~0ull);
		pci_config_read(&vp->fn, cap + 16, 4);
		pci_config_write(&vp->fn, cap + 4, 1, 3);
		pci_config_write(&vp->fn, cap + 16, 4, ~0ull);
		pci_config_write(&vp->fn, cap + 4, 1, 0);
	}
	assert_int_equal(GET(device_status), 3);
}

static void test_reset(void **state)
{
	(void)state;
	bring_up();
	virtio_set_broken(&toy.dev);
	assert_int_equal(GET(device_status), 0x4f);
	assert_int_equal(fake->msi_count, 1);
	virtio_set_broken(&toy.dev);
	assert_int_equal(fake->msi_count, 1);
	SET(device_status, 0);
	assert_int_equal(toy.resets, 2);
	assert_int_equal(GET(device_status), 0);
	SET(driver_feature_select, 0);
	assert_int_equal(GET(driver_feature), 0);
	/* Signals of an engine that come late do nothing. */
	virtio_signal_queue(&toy.dev, 0);
	virtio_signal_config(&toy.dev);
	assert_int_equal(fake->msi_count, 1);
	/* Up again: the in-flight areas are fresh, whatever the last life left there (C-51). */
	bring_up();
	for (unsigned q = 0; q < QUEUES; q++)
		assert_int_equal(toy.inflight_first[q], 0);
}

static void test_a_device_that_refuses(void **state)
{
	(void)state;
	toy.refuse = 1;
	for (unsigned round = 0; round < 2; round++) {
		enable_msix();
		negotiate(FEATURES);
		program(0, 64);
		SET(queue_enable, 1);
		SET(device_status, 0xf);
		assert_int_equal(GET(device_status), 0x4f);
	}
}

static void test_a_successor_goes_on(void **state)
{
	(void)state;
	bring_up();
	SET(queue_select, 1);
	detach();
	hv_fake_forget(fake);
	memset(fake->doorbells, 0, sizeof(fake->doorbells));
	attach();
	assert_int_equal(toy.starts, 0);
	pci_sync(&bus);
	virtio_pci_resume(vp);
	assert_int_equal(toy.starts, QUEUES);
	for (unsigned q = 0; q < QUEUES; q++) {
		assert_true(toy.last[q].resumed);
		assert_int_equal(toy.last[q].size, 64);
		assert_int_equal(toy.last[q].features, FEATURES);
		assert_int_equal(toy.last[q].desc_gpa, 0x10000 + q * 0x10000);
		assert_int_equal(toy.inflight_first[q], 0x77); /* as the predecessor left it */
		assert_true(hv_fake_find(fake, bar() + VIRTIO_PCI_NOTIFY_AT + 4 * q) >= 0);
	}
	assert_int_equal(GET(device_status), 0xf);
	assert_int_equal(GET(queue_select), 1);
	virtio_signal_queue(&toy.dev, 1);
	assert_int_equal(fake->msis[0].data, 0x32);
	/* The driver that resets after that finds indices at 0. */
	bring_up();
	assert_int_equal(toy.inflight_first[0], 0);
	assert_false(toy.last[0].resumed);
}

static void test_rubbish_everywhere(void **state)
{
	uint64_t seed = 0x9e3779b97f4a7c15ull;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		uint64_t value = seed >> 63 ? seed : seed & 0xff;
		unsigned offset = seed >> 8 & 1 ? (unsigned)(seed >> 16) % 64
		                                : (unsigned)(seed >> 16) % 0xfff8;

		pci_mmio(&bus, 0xc0000000 + offset, 1u << (seed >> 60 & 3), seed >> 59 & 1, &value);
		if (i % 64 == 0)
			virtio_signal_queue(&toy.dev, (unsigned)(seed >> 20) % QUEUES);
	}
	bring_up();
	assert_int_equal(GET(device_status), 0xf);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(test_capabilities),
	        TEST(test_feature_negotiation),
	        TEST(test_queues_start_with_driver_ok),
	        TEST(test_a_live_queue_is_latched),
	        TEST(test_bad_sizes_are_not_taken),
	        TEST(test_rings_outside_memory),
	        TEST(test_queue_select_out_of_range),
	        TEST(test_vectors_out_of_range),
	        TEST(test_messages),
	        TEST(test_intx_and_isr),
	        TEST(test_the_same_exit_reads_the_same_isr),
	        TEST(test_kicks),
	        TEST(test_doorbells_follow_the_bar),
	        TEST(test_device_configuration),
	        TEST(test_configuration_window),
	        TEST(test_reset),
	        TEST(test_a_device_that_refuses),
	        TEST(test_a_successor_goes_on),
	        TEST(test_rubbish_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
