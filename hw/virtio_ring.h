/* SPDX-License-Identifier: BSD-2-Clause */
/* The split virtqueue as it lies in guest memory (virtio 1.2 §2.7). */
#pragma once

#include "abi/types.h"
#include "hw/virtio.h"

/* virtio 1.2 §2.7.5: next, write and indirect flags of a descriptor. */
#define VIRTQ_DESC_F_NEXT     1u
#define VIRTQ_DESC_F_WRITE    2u
#define VIRTQ_DESC_F_INDIRECT 4u

/* virtio 1.2 §2.7.6 and §2.7.8: what either side writes when event index is not negotiated. */
#define VIRTQ_AVAIL_F_NO_INTERRUPT 1u
#define VIRTQ_USED_F_NO_NOTIFY     1u

#define VIRTIO_BIT(feature) (1ull << (feature))

struct virtq_desc {
	uint64_t addr; /* guest-physical */
	uint32_t len;
	uint16_t flags;
	uint16_t next;
};
KEEL_ASSERT_SIZE(struct virtq_desc, 16);
KEEL_ASSERT_OFFSET(struct virtq_desc, addr, 0);
KEEL_ASSERT_OFFSET(struct virtq_desc, len, 8);
KEEL_ASSERT_OFFSET(struct virtq_desc, flags, 12);
KEEL_ASSERT_OFFSET(struct virtq_desc, next, 14);

/* Written by the driver. After ring[size] comes used_event, read only with VIRTIO_F_EVENT_IDX. */
struct virtq_avail {
	uint16_t flags;
	uint16_t idx;
	uint16_t ring[];
};
KEEL_ASSERT_SIZE(struct virtq_avail, 4);
KEEL_ASSERT_OFFSET(struct virtq_avail, flags, 0);
KEEL_ASSERT_OFFSET(struct virtq_avail, idx, 2);
KEEL_ASSERT_OFFSET(struct virtq_avail, ring, 4);

struct virtq_used_elem {
	uint32_t id;
	uint32_t len;
};
KEEL_ASSERT_SIZE(struct virtq_used_elem, 8);
KEEL_ASSERT_OFFSET(struct virtq_used_elem, id, 0);
KEEL_ASSERT_OFFSET(struct virtq_used_elem, len, 4);

/* Written by the device. After ring[size] comes a u16 avail_event. */
struct virtq_used {
	uint16_t flags;
	uint16_t idx;
	struct virtq_used_elem ring[];
};
KEEL_ASSERT_SIZE(struct virtq_used, 4);
KEEL_ASSERT_OFFSET(struct virtq_used, flags, 0);
KEEL_ASSERT_OFFSET(struct virtq_used, idx, 2);
KEEL_ASSERT_OFFSET(struct virtq_used, ring, 4);

/* virtio 1.2 §2.7: alignment of the three parts, and their sizes with the event fields. */
#define VIRTQ_DESC_ALIGN  16u
#define VIRTQ_AVAIL_ALIGN 2u
#define VIRTQ_USED_ALIGN  4u

#define VIRTQ_DESC_BYTES(size)  (16ull * (size))
#define VIRTQ_AVAIL_BYTES(size) (6ull + 2ull * (size))
#define VIRTQ_USED_BYTES(size)  (6ull + 8ull * (size))
