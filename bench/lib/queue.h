/* SPDX-License-Identifier: BSD-2-Clause */
/* The driver's side of a split ring, as Linux's driver plays it. Written from the standard's text
 * and Linux's headers, and shares nothing with engine/, so that what both get wrong shows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Its struct vring is not used here, and who measures engine/ in its own process has another. */
#define vring linux_vring
#include <linux/virtio_ring.h>
#undef vring

struct queue {
	unsigned index, size;
	bool event_idx, indirect;
	struct vring_desc *desc;
	struct vring_avail *avail;
	struct vring_used *used;
	int kick_fd, call_fd;
	uint16_t avail_idx, kicked_idx, used_seen;
	uint64_t kicks, calls; /* made, and got */
};

/* Makes a head available; seen by the device after queue_publish. */
void queue_add(struct queue *q, uint16_t head);
/* Publishes and kicks if the device wants that. */
void queue_publish(struct queue *q);
bool queue_take(struct queue *q, struct vring_used_elem *out);
/* Asks for a call with the next used entry. True: there is one already. */
bool queue_want_call(struct queue *q);
/* Waits for a call: true, or false after so long. */
bool queue_wait(struct queue *q, int timeout_ms);
