/* SPDX-License-Identifier: BSD-2-Clause */
/* QEMU's firmware configuration device (its docs/specs/fw_cfg.rst) and the loader's script that
 * tells firmware how to lay out ACPI tables: what SeaBIOS and OVMF ask a machine with. */
#pragma once

#include "abi/types.h"

#define FW_CFG_SELECTOR_PORT 0x510u /* 16 bits, write */
#define FW_CFG_DATA_PORT     0x511u /* one byte of the item after the other */
#define FW_CFG_DMA_PORT      0x514u /* high half, then low half, both big endian */

#define FW_CFG_SIGNATURE  0x00u /* "QEMU" */
#define FW_CFG_ID         0x01u
#define FW_CFG_ID_PORTS   1u
#define FW_CFG_ID_DMA     2u
#define FW_CFG_CPUS       0x05u
#define FW_CFG_MAX_CPUS   0x0fu
#define FW_CFG_DIRECTORY  0x19u
#define FW_CFG_FILE_FIRST 0x20u

#define FW_CFG_DMA_SIGNATURE 0x51454d5520434647ull /* "QEMU CFG", big endian */

#define FW_CFG_NAME_BYTES 56u
struct fw_cfg_file { /* after a 32-bit count; all big endian */
	uint32_t bytes;
	uint16_t selector;
	uint16_t reserved;
	char name[FW_CFG_NAME_BYTES];
};
KEEL_ASSERT_SIZE(struct fw_cfg_file, 64);

#define FW_CFG_DMA_ERROR  0x01u
#define FW_CFG_DMA_READ   0x02u
#define FW_CFG_DMA_SKIP   0x04u
#define FW_CFG_DMA_SELECT 0x08u /* the item's number is in the upper half */
#define FW_CFG_DMA_WRITE  0x10u
struct fw_cfg_dma { /* all big endian */
	uint32_t control;
	uint32_t bytes;
	uint64_t address;
};
KEEL_ASSERT_SIZE(struct fw_cfg_dma, 16);

struct fw_cfg_e820 { /* a file's entry; little endian */
	uint64_t address;
	uint64_t bytes;
	uint32_t type;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct fw_cfg_e820, 20);

/* The loader's commands, in the file etc/table-loader. Little endian. */
#define FW_CFG_LOADER_ALLOCATE 1u
#define FW_CFG_LOADER_POINTER  2u
#define FW_CFG_LOADER_CHECKSUM 3u
#define FW_CFG_LOADER_HIGH     1u /* below 4 GiB, anywhere */
#define FW_CFG_LOADER_LOW      2u /* where the RSDP is looked for */
struct fw_cfg_loader {
	uint32_t command;
	union {
		struct {
			char file[FW_CFG_NAME_BYTES];
			uint32_t align;
			uint8_t zone;
		} allocate;
		struct { /* adds the address of `target` to what lies at the offset in `file` */
			char file[FW_CFG_NAME_BYTES];
			char target[FW_CFG_NAME_BYTES];
			uint32_t offset;
			uint8_t bytes;
		} pointer;
		struct {
			char file[FW_CFG_NAME_BYTES];
			uint32_t offset; /* of the sum */
			uint32_t start;
			uint32_t bytes;
		} checksum;
		uint8_t pad[124];
	};
};
KEEL_ASSERT_SIZE(struct fw_cfg_loader, 128);
