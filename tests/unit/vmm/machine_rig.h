/* SPDX-License-Identifier: BSD-2-Clause */
/* A whole machine on the fake hypervisor, with devices that count what they are told; its process
 * can be killed and started again. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/vmm/bzimage.h"
#include "tests/unit/vmm/hv_fake.h"
#include "vmm/machine.h"

#define RAM_BYTES    (64ull << 20)
#define KERNEL_BYTES 100000u

/* A device of one queue for each that a definition can ask for. */
struct toy {
	struct virtio_device dev; /* first */
	unsigned starts, resumes, resets;
};

static struct toy toys[8];
static unsigned toy_count;
static bool refuse_devices;

static void toy_config_read(struct virtio_device *dev, unsigned offset, void *out, unsigned bytes)
{
	(void)dev, (void)offset;
	memset(out, 0, bytes);
}

static size_t toy_inflight(struct virtio_device *dev, unsigned queue, unsigned size)
{
	(void)dev, (void)queue;
	return size;
}

static int toy_start(struct virtio_device *dev, const struct virtio_queue_setup *setup)
{
	((struct toy *)dev)->starts++;
	((struct toy *)dev)->resumes += setup->resumed;
	return 0;
}

static void toy_reset(struct virtio_device *dev)
{
	((struct toy *)dev)->resets++;
}

static void toy_stats(struct virtio_device *dev, struct virtio_device_stats *out)
{
	(void)dev;
	out->requests = 42;
}

/* The size that it has, and whether that is new. */
static uint64_t toy_bytes = 4096;
static int toy_changed = 1;

static int toy_resize(struct virtio_device *dev, uint64_t *bytes)
{
	(void)dev;
	*bytes = toy_bytes;
	return toy_changed;
}

static const struct virtio_device_ops toy_ops = {
        .config_read = toy_config_read,
        .inflight_bytes = toy_inflight,
        .queue_start = toy_start,
        .reset = toy_reset,
        .stats = toy_stats,
        .resize = toy_resize,
};

static struct virtio_device *make_toy(
        uint16_t id, const char *name, char *error, size_t error_bytes)
{
	struct toy *toy = &toys[toy_count];

	if (refuse_devices) {
		snprintf(error, error_bytes, "%s: no such image", name);
		return NULL;
	}
	toy_count++;
	*toy = (struct toy){.dev = {.ops = &toy_ops,
	                            .name = name,
	                            .device_id = id,
	                            .class_code = 0x018000,
	                            .queues = 1,
	                            .queue_size_max = 128,
	                            .config_bytes = 8}};
	return &toy->dev;
}

struct virtio_device *virtio_blk_create(const struct definition_disk *disk, unsigned number,
        const struct device_env *env, char *error, size_t error_bytes)
{
	(void)disk, (void)env;
	return make_toy(2, number == 0 ? "disk0" : "disk1", error, error_bytes);
}

struct virtio_device *virtio_net_create(const struct definition_net *net, unsigned number,
        const struct device_env *env, char *error, size_t error_bytes)
{
	(void)net, (void)number, (void)env;
	return make_toy(1, "net0", error, error_bytes);
}

struct virtio_device *virtio_rng_create(
        const struct device_env *env, char *error, size_t error_bytes)
{
	(void)env;
	return make_toy(4, "rng0", error, error_bytes);
}

static char kernel[64];
static struct hv_fake *fake;
static struct machine *machine;
static char error[512];
static const char *reboot_policy = "restart", *off_policy = "destroy";

static void new_vm(void)
{
	char json[2048];

	snprintf(json, sizeof(json),
	        "{\"name\":\"one\",\"uuid\":\"123e4567-e89b-12d3-a456-426614174000\",\"cpus\":2,"
	        "\"memory_bytes\":%llu,\"kernel\":\"%s\",\"disks\":[{\"path\":\"/a\"},{\"path\":\"/"
	        "b\"}],"
	        "\"nets\":[{\"tap\":\"t\",\"mac\":\"52:54:00:00:00:01\"}],\"rng\":true,\"testdev\":"
	        "true,"
	        "\"on_reboot\":\"%s\",\"on_poweroff\":\"%s\"}",
	        RAM_BYTES, kernel, reboot_policy, off_policy);
	fake = hv_fake_new(2, RAM_BYTES, 2u << 20, json);
}

/* The process is gone; what it had open is closed, hyp and the vault stay. */
static void kill_process(void)
{
	if (machine == NULL)
		return;
	for (unsigned i = 0; i < machine->device_count; i++) {
		for (unsigned q = 0; q < machine->devices[i]->dev->queues; q++)
			close(machine->devices[i]->kick_fds[q]);
		free(machine->devices[i]);
	}
	free(machine);
	machine = NULL;
	hv_fake_forget(fake);
}

static int attach(void)
{
	kill_process();
	toy_count = 0;
	machine = calloc(1, sizeof(*machine));
	error[0] = '\0';
	return machine_attach(machine, &fake->hv, error, sizeof(error));
}

static enum machine_next start(void)
{
	enum machine_next next = MACHINE_DEAD;

	assert_int_equal(attach(), 0);
	assert_int_equal(machine_start(machine, false, &next, error, sizeof(error)), 0);
	assert_string_equal(error, "");
	return next;
}
