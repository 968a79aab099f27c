/* SPDX-License-Identifier: BSD-2-Clause */
/* The vhost-user protocol's messages (QEMU docs/interop/vhost-user.rst), as far as keelOS speaks
 * it. */
#pragma once

#include "abi/types.h"

/* "Front-end message types": the numbers, with those that are refused left out. */
enum vhost_request {
	VHOST_GET_FEATURES = 1,
	VHOST_SET_FEATURES = 2,
	VHOST_SET_OWNER = 3,
	VHOST_RESET_OWNER = 4,
	VHOST_SET_MEM_TABLE = 5,
	VHOST_SET_VRING_NUM = 8,
	VHOST_SET_VRING_ADDR = 9,
	VHOST_SET_VRING_BASE = 10,
	VHOST_GET_VRING_BASE = 11,
	VHOST_SET_VRING_KICK = 12,
	VHOST_SET_VRING_CALL = 13,
	VHOST_SET_VRING_ERR = 14,
	VHOST_GET_PROTOCOL_FEATURES = 15,
	VHOST_SET_PROTOCOL_FEATURES = 16,
	VHOST_GET_QUEUE_NUM = 17,
	VHOST_SET_VRING_ENABLE = 18,
	VHOST_SET_BACKEND_REQ_FD = 21,
	VHOST_GET_CONFIG = 24,
	VHOST_SET_CONFIG = 25,
	VHOST_GET_INFLIGHT_FD = 31,
	VHOST_SET_INFLIGHT_FD = 32,
	VHOST_GET_MAX_MEM_SLOTS = 36,
	VHOST_ADD_MEM_REG = 37,
	VHOST_REM_MEM_REG = 38,
	VHOST_REQUESTS = 39,
};

/* "Back-end message types". */
#define VHOST_BACKEND_CONFIG_CHANGE 2u

/* A feature bit beside the device's own. */
#define VHOST_F_PROTOCOL_FEATURES 30u

/* "Protocol features", bit numbers. */
#define VHOST_PROTOCOL_F_MQ                  0u
#define VHOST_PROTOCOL_F_REPLY_ACK           3u
#define VHOST_PROTOCOL_F_BACKEND_REQ         5u
#define VHOST_PROTOCOL_F_CONFIG              9u
#define VHOST_PROTOCOL_F_INFLIGHT_SHMFD      12u
#define VHOST_PROTOCOL_F_CONFIGURE_MEM_SLOTS 15u

#define VHOST_VERSION         1u
#define VHOST_FLAG_VERSION    3u /* a mask */
#define VHOST_FLAG_REPLY      4u
#define VHOST_FLAG_NEED_REPLY 8u

/* In the payload of SET_VRING_KICK, CALL and ERR. */
#define VHOST_VRING_INDEX 0xffu
#define VHOST_VRING_NOFD  0x100u

#define VHOST_TABLE_REGIONS 8u
#define VHOST_CONFIG_BYTES  256u
#define VHOST_PAYLOAD_MAX   512u
#define VHOST_FDS_MAX       8u

struct vhost_header {
	uint32_t request;
	uint32_t flags;
	uint32_t payload_bytes;
};
KEEL_ASSERT_SIZE(struct vhost_header, 12);
KEEL_ASSERT_OFFSET(struct vhost_header, request, 0);
KEEL_ASSERT_OFFSET(struct vhost_header, flags, 4);
KEEL_ASSERT_OFFSET(struct vhost_header, payload_bytes, 8);

struct vhost_vring_state {
	uint32_t index;
	uint32_t num;
};
KEEL_ASSERT_SIZE(struct vhost_vring_state, 8);
KEEL_ASSERT_OFFSET(struct vhost_vring_state, num, 4);

/* The addresses are the front end's own, as in vhost_region.user_addr. */
struct vhost_vring_addr {
	uint32_t index;
	uint32_t flags;
	uint64_t desc;
	uint64_t used;
	uint64_t avail;
	uint64_t log;
};
KEEL_ASSERT_SIZE(struct vhost_vring_addr, 40);
KEEL_ASSERT_OFFSET(struct vhost_vring_addr, flags, 4);
KEEL_ASSERT_OFFSET(struct vhost_vring_addr, desc, 8);
KEEL_ASSERT_OFFSET(struct vhost_vring_addr, used, 16);
KEEL_ASSERT_OFFSET(struct vhost_vring_addr, avail, 24);
KEEL_ASSERT_OFFSET(struct vhost_vring_addr, log, 32);

struct vhost_region {
	uint64_t gpa;
	uint64_t size_bytes;
	uint64_t user_addr;
	uint64_t mmap_offset;
};
KEEL_ASSERT_SIZE(struct vhost_region, 32);
KEEL_ASSERT_OFFSET(struct vhost_region, size_bytes, 8);
KEEL_ASSERT_OFFSET(struct vhost_region, user_addr, 16);
KEEL_ASSERT_OFFSET(struct vhost_region, mmap_offset, 24);

struct vhost_table {
	uint32_t count;
	uint32_t padding;
	struct vhost_region regions[VHOST_TABLE_REGIONS];
};
KEEL_ASSERT_SIZE(struct vhost_table, 264);
KEEL_ASSERT_OFFSET(struct vhost_table, regions, 8);

struct vhost_one_region {
	uint64_t padding;
	struct vhost_region region;
};
KEEL_ASSERT_SIZE(struct vhost_one_region, 40);
KEEL_ASSERT_OFFSET(struct vhost_one_region, region, 8);

struct vhost_config {
	uint32_t offset;
	uint32_t size;
	uint32_t flags;
	uint8_t data[VHOST_CONFIG_BYTES];
};
KEEL_ASSERT_SIZE(struct vhost_config, 268);
KEEL_ASSERT_OFFSET(struct vhost_config, size, 4);
KEEL_ASSERT_OFFSET(struct vhost_config, flags, 8);
KEEL_ASSERT_OFFSET(struct vhost_config, data, 12);
#define VHOST_CONFIG_HEAD_BYTES 12u

/* 20 bytes of it are sent by QEMU, 24 where the compiler pads. */
struct vhost_inflight {
	uint64_t mmap_size;
	uint64_t mmap_offset;
	uint16_t queue_count;
	uint16_t queue_size;
	uint32_t padding;
};
KEEL_ASSERT_SIZE(struct vhost_inflight, 24);
KEEL_ASSERT_OFFSET(struct vhost_inflight, mmap_offset, 8);
KEEL_ASSERT_OFFSET(struct vhost_inflight, queue_count, 16);
KEEL_ASSERT_OFFSET(struct vhost_inflight, queue_size, 18);
#define VHOST_INFLIGHT_BYTES 20u

union vhost_payload {
	uint64_t u64;
	struct vhost_vring_state state;
	struct vhost_vring_addr addr;
	struct vhost_table table;
	struct vhost_one_region region;
	struct vhost_config config;
	struct vhost_inflight inflight;
	uint8_t bytes[VHOST_PAYLOAD_MAX];
};
