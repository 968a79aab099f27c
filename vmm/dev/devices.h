/* SPDX-License-Identifier: BSD-2-Clause */
/* The makers of all devices that a definition can ask for; machine.c has the list in which they are
 * called. */
#pragma once

#include "vmm/definition.h"
#include "vmm/virtio.h"

/* What every device may use of the machine. Lives as long as the process. */
struct device_env {
	const struct gmem *gmem;
	unsigned vcpus;
	const uint8_t *uuid; /* the VM's, 16 bytes: tells its own predecessor from other VMs */
};

/*
 * Each opens what the device stands on (image with its lock, tap, random source), and returns the
 * device, ready for a transport; or NULL with one line in `error`. Nothing of the VM is touched
 * before queue_start.
 */
struct virtio_device *virtio_blk_create(const struct definition_disk *disk, unsigned number,
        const struct device_env *env, char *error, size_t error_bytes);
struct virtio_device *virtio_net_create(const struct definition_net *net, unsigned number,
        const struct device_env *env, char *error, size_t error_bytes);
struct virtio_device *virtio_rng_create(
        const struct device_env *env, char *error, size_t error_bytes);
