/* SPDX-License-Identifier: BSD-2-Clause */
/* virtio-blk: feature bits, configuration space and requests (virtio 1.2 §5.2). */
#pragma once

#include "abi/types.h"

/* virtio 1.2 §5.2.3 */
#define VIRTIO_BLK_F_SIZE_MAX     1u
#define VIRTIO_BLK_F_SEG_MAX      2u
#define VIRTIO_BLK_F_GEOMETRY     4u
#define VIRTIO_BLK_F_RO           5u
#define VIRTIO_BLK_F_BLK_SIZE     6u
#define VIRTIO_BLK_F_FLUSH        9u
#define VIRTIO_BLK_F_TOPOLOGY     10u
#define VIRTIO_BLK_F_CONFIG_WCE   11u
#define VIRTIO_BLK_F_MQ           12u
#define VIRTIO_BLK_F_DISCARD      13u
#define VIRTIO_BLK_F_WRITE_ZEROES 14u
#define VIRTIO_BLK_F_LIFETIME     15u
#define VIRTIO_BLK_F_SECURE_ERASE 16u

/* virtio 1.2 §5.2.6 */
#define VIRTIO_BLK_T_IN           0u
#define VIRTIO_BLK_T_OUT          1u
#define VIRTIO_BLK_T_FLUSH        4u
#define VIRTIO_BLK_T_GET_ID       8u
#define VIRTIO_BLK_T_GET_LIFETIME 10u
#define VIRTIO_BLK_T_DISCARD      11u
#define VIRTIO_BLK_T_WRITE_ZEROES 13u
#define VIRTIO_BLK_T_SECURE_ERASE 14u

#define VIRTIO_BLK_S_OK     0u
#define VIRTIO_BLK_S_IOERR  1u
#define VIRTIO_BLK_S_UNSUPP 2u

#define VIRTIO_BLK_SECTOR_BYTES 512u
#define VIRTIO_BLK_ID_BYTES     20u

/* Bit 0 of virtio_blk_discard.flags; all others are reserved. */
#define VIRTIO_BLK_WRITE_ZEROES_F_UNMAP 1u

struct virtio_blk_config {
	uint64_t capacity; /* sectors of 512 bytes, whatever blk_size says */
	uint32_t size_max;
	uint32_t seg_max;
	uint16_t cylinders;
	uint8_t heads;
	uint8_t sectors;
	uint32_t blk_size;
	uint8_t physical_block_exp;
	uint8_t alignment_offset;
	uint16_t min_io_size;
	uint32_t opt_io_size;
	uint8_t writeback; /* the one field that a driver writes (VIRTIO_BLK_F_CONFIG_WCE) */
	uint8_t unused0;
	uint16_t num_queues;
	uint32_t max_discard_sectors;
	uint32_t max_discard_seg;
	uint32_t discard_sector_alignment;
	uint32_t max_write_zeroes_sectors;
	uint32_t max_write_zeroes_seg;
	uint8_t write_zeroes_may_unmap;
	uint8_t unused1[3];
};
KEEL_ASSERT_SIZE(struct virtio_blk_config, 64);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, capacity, 0);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, size_max, 8);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, seg_max, 12);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, cylinders, 16);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, heads, 18);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, sectors, 19);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, blk_size, 20);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, physical_block_exp, 24);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, alignment_offset, 25);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, min_io_size, 26);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, opt_io_size, 28);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, writeback, 32);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, unused0, 33);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, num_queues, 34);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, max_discard_sectors, 36);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, max_discard_seg, 40);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, discard_sector_alignment, 44);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, max_write_zeroes_sectors, 48);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, max_write_zeroes_seg, 52);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, write_zeroes_may_unmap, 56);
KEEL_ASSERT_OFFSET(struct virtio_blk_config, unused1, 57);

/* The first 16 device-readable bytes of every request. */
struct virtio_blk_req_head {
	uint32_t type;
	uint32_t reserved;
	uint64_t sector;
};
KEEL_ASSERT_SIZE(struct virtio_blk_req_head, 16);
KEEL_ASSERT_OFFSET(struct virtio_blk_req_head, type, 0);
KEEL_ASSERT_OFFSET(struct virtio_blk_req_head, reserved, 4);
KEEL_ASSERT_OFFSET(struct virtio_blk_req_head, sector, 8);

/* struct virtio_blk_discard_write_zeroes: the data of DISCARD and WRITE_ZEROES is an array of them.
 */
struct virtio_blk_range {
	uint64_t sector;
	uint32_t num_sectors;
	uint32_t flags;
};
KEEL_ASSERT_SIZE(struct virtio_blk_range, 16);
KEEL_ASSERT_OFFSET(struct virtio_blk_range, sector, 0);
KEEL_ASSERT_OFFSET(struct virtio_blk_range, num_sectors, 8);
KEEL_ASSERT_OFFSET(struct virtio_blk_range, flags, 12);
