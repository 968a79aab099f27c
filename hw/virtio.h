/* SPDX-License-Identifier: BSD-2-Clause */
/* Virtio 1.2: status, reserved feature bits, and the PCI transport (§4.1). */
#pragma once

#include "abi/types.h"

#define VIRTIO_STATUS_ACKNOWLEDGE 0x01u /* §2.1 */
#define VIRTIO_STATUS_DRIVER      0x02u
#define VIRTIO_STATUS_DRIVER_OK   0x04u
#define VIRTIO_STATUS_FEATURES_OK 0x08u
#define VIRTIO_STATUS_NEEDS_RESET 0x40u
#define VIRTIO_STATUS_FAILED      0x80u

#define VIRTIO_F_INDIRECT_DESC     28u /* §6; bit numbers */
#define VIRTIO_F_EVENT_IDX         29u
#define VIRTIO_F_VERSION_1         32u
#define VIRTIO_F_ACCESS_PLATFORM   33u
#define VIRTIO_F_RING_PACKED       34u
#define VIRTIO_F_IN_ORDER          35u
#define VIRTIO_F_ORDER_PLATFORM    36u
#define VIRTIO_F_SR_IOV            37u
#define VIRTIO_F_NOTIFICATION_DATA 38u
#define VIRTIO_F_RING_RESET        40u
#define VIRTIO_F_RESERVED_FIRST                                                                    \
	24u /* bits 24-49 are the transport's and the queue's, the rest the device's */
#define VIRTIO_F_RESERVED_LAST 49u

#define VIRTIO_ID_NET     1u /* §5 */
#define VIRTIO_ID_BLOCK   2u
#define VIRTIO_ID_ENTROPY 4u

#define VIRTIO_PCI_VENDOR      0x1af4u /* §4.1.2 */
#define VIRTIO_PCI_DEVICE_BASE 0x1040u

enum virtio_pci_cfg_type { /* §4.1.4 */
	VIRTIO_PCI_CAP_COMMON = 1,
	VIRTIO_PCI_CAP_NOTIFY = 2,
	VIRTIO_PCI_CAP_ISR = 3,
	VIRTIO_PCI_CAP_DEVICE = 4,
	VIRTIO_PCI_CAP_PCI_CFG = 5,
};

struct virtio_pci_cap {
	uint8_t id; /* PCI_CAP_VENDOR */
	uint8_t next;
	uint8_t cap_bytes;
	uint8_t type; /* enum virtio_pci_cfg_type */
	uint8_t bar;
	uint8_t instance;
	uint8_t padding[2];
	uint32_t offset;
	uint32_t length;
};
KEEL_ASSERT_SIZE(struct virtio_pci_cap, 16);
KEEL_ASSERT_OFFSET(struct virtio_pci_cap, bar, 4);
KEEL_ASSERT_OFFSET(struct virtio_pci_cap, offset, 8);

struct virtio_pci_notify_cap {
	struct virtio_pci_cap cap;
	uint32_t multiplier;
};
KEEL_ASSERT_SIZE(struct virtio_pci_notify_cap, 20);

struct virtio_pci_cfg_cap {
	struct virtio_pci_cap cap;
	uint8_t data[4];
};
KEEL_ASSERT_SIZE(struct virtio_pci_cfg_cap, 20);

struct virtio_pci_common { /* §4.1.4.3 */
	uint32_t device_feature_select;
	uint32_t device_feature;
	uint32_t driver_feature_select;
	uint32_t driver_feature;
	uint16_t config_msix_vector;
	uint16_t num_queues;
	uint8_t device_status;
	uint8_t config_generation;
	uint16_t queue_select;
	uint16_t queue_size;
	uint16_t queue_msix_vector;
	uint16_t queue_enable;
	uint16_t queue_notify_off;
	uint64_t queue_desc;
	uint64_t queue_driver;
	uint64_t queue_device;
	uint16_t queue_notify_data;
	uint16_t queue_reset;
	uint8_t padding[4];
};
KEEL_ASSERT_SIZE(struct virtio_pci_common, 64);
KEEL_ASSERT_OFFSET(struct virtio_pci_common, config_msix_vector, 0x10);
KEEL_ASSERT_OFFSET(struct virtio_pci_common, device_status, 0x14);
KEEL_ASSERT_OFFSET(struct virtio_pci_common, queue_select, 0x16);
KEEL_ASSERT_OFFSET(struct virtio_pci_common, queue_notify_off, 0x1e);
KEEL_ASSERT_OFFSET(struct virtio_pci_common, queue_desc, 0x20);
KEEL_ASSERT_OFFSET(struct virtio_pci_common, queue_device, 0x30);
KEEL_ASSERT_OFFSET(struct virtio_pci_common, queue_reset, 0x3a);

#define VIRTIO_PCI_NO_VECTOR  0xffffu /* §4.1.5.1.2 */
#define VIRTIO_PCI_ISR_QUEUE  0x1u    /* §4.1.4.5 */
#define VIRTIO_PCI_ISR_CONFIG 0x2u

#define VIRTIO_RING_DESC_ALIGN   16u /* §2.7 */
#define VIRTIO_RING_DRIVER_ALIGN 2u
#define VIRTIO_RING_DEVICE_ALIGN 4u
