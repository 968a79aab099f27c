/* SPDX-License-Identifier: BSD-2-Clause */
/* virtio-net: feature bits, configuration space and the packet header (virtio 1.2 §5.1). */
#pragma once

#include "abi/types.h"

/* virtio 1.2 §5.1.3 */
#define VIRTIO_NET_F_CSUM           0u
#define VIRTIO_NET_F_GUEST_CSUM     1u
#define VIRTIO_NET_F_MTU            3u
#define VIRTIO_NET_F_MAC            5u
#define VIRTIO_NET_F_GUEST_TSO4     7u
#define VIRTIO_NET_F_GUEST_TSO6     8u
#define VIRTIO_NET_F_GUEST_ECN      9u
#define VIRTIO_NET_F_GUEST_UFO      10u
#define VIRTIO_NET_F_HOST_TSO4      11u
#define VIRTIO_NET_F_HOST_TSO6      12u
#define VIRTIO_NET_F_HOST_ECN       13u
#define VIRTIO_NET_F_HOST_UFO       14u
#define VIRTIO_NET_F_MRG_RXBUF      15u
#define VIRTIO_NET_F_STATUS         16u
#define VIRTIO_NET_F_CTRL_VQ        17u
#define VIRTIO_NET_F_GUEST_ANNOUNCE 21u
#define VIRTIO_NET_F_MQ             22u

#define VIRTIO_NET_S_LINK_UP  1u
#define VIRTIO_NET_S_ANNOUNCE 2u

struct virtio_net_config {
	uint8_t mac[6];
	uint16_t status;
	uint16_t max_virtqueue_pairs;
	uint16_t mtu;
};
KEEL_ASSERT_SIZE(struct virtio_net_config, 12);
KEEL_ASSERT_OFFSET(struct virtio_net_config, mac, 0);
KEEL_ASSERT_OFFSET(struct virtio_net_config, status, 6);
KEEL_ASSERT_OFFSET(struct virtio_net_config, max_virtqueue_pairs, 8);
KEEL_ASSERT_OFFSET(struct virtio_net_config, mtu, 10);

/* virtio 1.2 §5.1.6 */
#define VIRTIO_NET_HDR_F_NEEDS_CSUM 1u
#define VIRTIO_NET_HDR_F_DATA_VALID 2u
#define VIRTIO_NET_HDR_F_RSC_INFO   4u

#define VIRTIO_NET_HDR_GSO_NONE  0u
#define VIRTIO_NET_HDR_GSO_TCPV4 1u
#define VIRTIO_NET_HDR_GSO_UDP   3u
#define VIRTIO_NET_HDR_GSO_TCPV6 4u
#define VIRTIO_NET_HDR_GSO_ECN   0x80u

/* With VIRTIO_F_VERSION_1 always 12 bytes. */
struct virtio_net_hdr {
	uint8_t flags;
	uint8_t gso_type;
	uint16_t hdr_len;
	uint16_t gso_size;
	uint16_t csum_start;
	uint16_t csum_offset;
	uint16_t num_buffers;
};
KEEL_ASSERT_SIZE(struct virtio_net_hdr, 12);
KEEL_ASSERT_OFFSET(struct virtio_net_hdr, flags, 0);
KEEL_ASSERT_OFFSET(struct virtio_net_hdr, gso_type, 1);
KEEL_ASSERT_OFFSET(struct virtio_net_hdr, hdr_len, 2);
KEEL_ASSERT_OFFSET(struct virtio_net_hdr, gso_size, 4);
KEEL_ASSERT_OFFSET(struct virtio_net_hdr, csum_start, 6);
KEEL_ASSERT_OFFSET(struct virtio_net_hdr, csum_offset, 8);
KEEL_ASSERT_OFFSET(struct virtio_net_hdr, num_buffers, 10);
