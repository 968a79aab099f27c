/* SPDX-License-Identifier: BSD-2-Clause */
/* The seam between a virtio device and its transport: what each side must give the other, and on
 * which thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/gmem.h"

/*
 * A device (virtio_blk.c …) embeds struct virtio_device and fills it before it hands it to a
 * transport. The transport (virtio_pci.c) keeps everything that the driver programs (features,
 * status, queue addresses, vectors) in the vault, checks it, and calls the device.
 *
 * Threads. All ops are called on the control thread, one at a time. virtio_signal_* and
 * virtio_set_broken may be called on any thread (an engine's), also from within an op. They are
 * cheap: at most one system call.
 *
 * Order. queue_start is called for each enabled queue once the driver has set DRIVER_OK (or, on
 * attach, was found to have done so), and again only after a reset. reset is called when the driver
 * resets the device, when the machine is reset and before the process leaves after a power-off:
 * when it returns no thread of the device touches guest memory, the in-flight areas or the kick
 * descriptors of its queues any more.
 *
 * Attach. The device process may have died while the queues ran. queue_start then gets the
 * in-flight area as it was left. A queue fresh from reset has a zeroed area: ring indices 0,
 * nothing in flight. On every start the device looks at the ring once without being kicked and
 * signals once (C-49): neither kicks nor interrupts of the time between are known.
 */

#define VIRTIO_MAX_QUEUES     64u
#define VIRTIO_MAX_QUEUE_SIZE 1024u

struct virtio_device;

struct virtio_queue_setup {
	unsigned index;
	unsigned size;     /* a power of two, 1..queue_size_max */
	uint64_t features; /* as negotiated */
	uint64_t desc_gpa; /* aligned (16, 2, 4); each of the three areas lies whole in guest RAM */
	uint64_t driver_gpa; /* available ring */
	uint64_t device_gpa; /* used ring */
	int kick_fd;         /* eventfd, non-blocking, the transport's; signalled by the driver's
	                        notifications */
	bool resumed;        /* on attach: the queue was running before */
	void *inflight; /* in the vault; inflight_bytes(size) long; 64-byte aligned; NULL if that is
	                   0 */
	size_t inflight_bytes;
};

struct virtio_device_stats {
	uint64_t requests;
	uint64_t bytes_in;  /* to the guest */
	uint64_t bytes_out; /* from the guest */
	uint64_t errors;
	/* Those below are 0 where a device does not count them. */
	uint64_t kicks;   /* seen; many notifications may be one */
	uint64_t calls;   /* times the driver was signalled */
	uint64_t waits;   /* times a thread of the device went to sleep */
	uint64_t time_ns; /* in the device, summed over the requests */
	/* Of disks. */
	const char *backend; /* how root's kernel is asked; NULL: no disk */
	uint64_t size_bytes;
	uint64_t reads, writes, flushes;
	uint64_t polled; /* requests whose answers the device was asked for */
	uint64_t held;   /* requests that waited for the disk's rate limits */
	uint64_t in_flight;
	uint64_t watch_hits; /* times that the ring watch found work */
	uint64_t watch_misses;
	uint64_t resumed; /* requests taken over from a predecessor */
};

struct virtio_device_ops {
	/* Device-specific configuration. offset + bytes <= config_bytes is checked; bytes is 1, 2,
	 * 4 or 8. A NULL write ignores it. */
	void (*config_read)(struct virtio_device *dev, unsigned offset, void *out, unsigned bytes);
	void (*config_write)(
	        struct virtio_device *dev, unsigned offset, const void *in, unsigned bytes);
	/* How much vault a queue of that size needs. NULL: none. Asked for queue_size_max when the
	 * machine is built. */
	size_t (*inflight_bytes)(struct virtio_device *dev, unsigned queue, unsigned size);
	/* 0, or a negative errno: the transport then sets DEVICE_NEEDS_RESET. */
	int (*queue_start)(struct virtio_device *dev, const struct virtio_queue_setup *setup);
	void (*reset)(struct virtio_device *dev);
	void (*stats)(struct virtio_device *dev, struct virtio_device_stats *out);
	/* Looks at the size of what the device stands on, and tells the driver if it changed
	 * (virtio_signal_config). 1: it did; 0: it did not; a negative errno. NULL: there is no
	 * size. */
	int (*resize)(struct virtio_device *dev, uint64_t *bytes);
};

struct virtio_device {
	const struct virtio_device_ops *ops;
	const char *name;        /* for logs: "disk0" */
	uint16_t device_id;      /* virtio 1.2 §5: 1 net, 2 block, 4 entropy */
	uint32_t class_code;     /* PCI: class << 16 | subclass << 8 | interface, e.g. 018000h */
	unsigned queues;         /* 1..VIRTIO_MAX_QUEUES */
	unsigned queue_size_max; /* power of two, at most VIRTIO_MAX_QUEUE_SIZE */
	uint64_t features; /* offered; the transport adds VIRTIO_F_VERSION_1 and takes care of bits
	                      24-41 it cannot do */
	unsigned config_bytes;        /* of the device-specific configuration, at most 256 */
	struct virtio_pci *transport; /* set by the transport */
};

/* The queue has used entries that the driver wants to hear of (the device judged suppression
 * itself). */
void virtio_signal_queue(struct virtio_device *dev, unsigned queue);
/* The device-specific configuration changed: new generation, configuration interrupt. */
void virtio_signal_config(struct virtio_device *dev);
/* The driver broke a rule that leaves the device nothing to go on with: DEVICE_NEEDS_RESET and a
 * configuration interrupt. */
void virtio_set_broken(struct virtio_device *dev);
