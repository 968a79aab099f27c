/* SPDX-License-Identifier: BSD-2-Clause */
/* Multiboot 0.6.96 and Multiboot2 2.0: what stands in the image, and the block that the loader
 * leaves behind. */
#pragma once

#define MB1_HEADER_MAGIC                   0x1badb002
#define MB1_HEADER_PAGE_ALIGN              0x1
#define MB1_HEADER_MEMORY                  0x2
#define MB1_LOADER_MAGIC                   0x2badb002
#define MB2_HEADER_MAGIC                   0xe85250d6
#define MB2_LOADER_MAGIC                   0x36d76289
#define MB2_HEADER_TAG_END                 0
#define MB2_HEADER_TAG_INFORMATION_REQUEST 1
#define MB2_HEADER_TAG_MODULE_ALIGN        6

#ifndef __ASSEMBLY__
#include "abi/types.h"

#define MB1_INFO_MEMORY  0x001u
#define MB1_INFO_CMDLINE 0x004u
#define MB1_INFO_MODULES 0x008u
#define MB1_INFO_MMAP    0x040u
#define MB1_INFO_LOADER  0x200u

struct mb1_info {
	uint32_t flags; /* MB1_INFO_*: which of the fields below are valid */
	uint32_t mem_lower;
	uint32_t mem_upper;
	uint32_t boot_device;
	uint32_t cmdline;
	uint32_t module_count;
	uint32_t modules;
	uint32_t syms[4];
	uint32_t mmap_length;
	uint32_t mmap;
	uint32_t drives_length;
	uint32_t drives;
	uint32_t config_table;
	uint32_t loader_name;
};
KEEL_ASSERT_SIZE(struct mb1_info, 68);
KEEL_ASSERT_OFFSET(struct mb1_info, cmdline, 16);
KEEL_ASSERT_OFFSET(struct mb1_info, module_count, 20);
KEEL_ASSERT_OFFSET(struct mb1_info, modules, 24);
KEEL_ASSERT_OFFSET(struct mb1_info, mmap_length, 44);
KEEL_ASSERT_OFFSET(struct mb1_info, mmap, 48);
KEEL_ASSERT_OFFSET(struct mb1_info, loader_name, 64);

struct mb1_module {
	uint32_t start;
	uint32_t end; /* first byte behind it */
	uint32_t cmdline;
	uint32_t reserved;
};
KEEL_ASSERT_SIZE(struct mb1_module, 16);

struct mb1_mmap_entry {
	uint32_t size; /* of the rest of this entry */
	uint32_t start_low, start_high;
	uint32_t length_low, length_high;
	uint32_t type;
};
KEEL_ASSERT_SIZE(struct mb1_mmap_entry, 24);
KEEL_ASSERT_OFFSET(struct mb1_mmap_entry, type, 20);

enum mb2_tag_type {
	MB2_TAG_END = 0,
	MB2_TAG_CMDLINE = 1,
	MB2_TAG_LOADER = 2,
	MB2_TAG_MODULE = 3,
	MB2_TAG_MMAP = 6,
	MB2_TAG_EFI32 = 11,
	MB2_TAG_EFI64 = 12,
	MB2_TAG_RSDP_V1 = 14,
	MB2_TAG_RSDP_V2 = 15,
	MB2_TAG_EFI_MMAP = 17,
};

struct mb2_info {
	uint32_t total_size; /* this head and all tags */
	uint32_t reserved;
};
KEEL_ASSERT_SIZE(struct mb2_info, 8);

struct mb2_tag { /* each starts at a multiple of 8 */
	uint32_t type;
	uint32_t size; /* this head and the data, without padding */
};
KEEL_ASSERT_SIZE(struct mb2_tag, 8);

struct mb2_tag_module {
	struct mb2_tag tag;
	uint32_t start;
	uint32_t end;
	/* char cmdline[] */
};
KEEL_ASSERT_SIZE(struct mb2_tag_module, 16);

struct mb2_tag_mmap {
	struct mb2_tag tag;
	uint32_t entry_size;
	uint32_t entry_version;
	/* struct mb2_mmap_entry[] */
};
KEEL_ASSERT_SIZE(struct mb2_tag_mmap, 16);

struct mb2_mmap_entry {
	uint64_t start;
	uint64_t length;
	uint32_t type;
	uint32_t reserved;
};
KEEL_ASSERT_SIZE(struct mb2_mmap_entry, 24);
KEEL_ASSERT_OFFSET(struct mb2_mmap_entry, type, 16);
#endif
