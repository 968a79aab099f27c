/* SPDX-License-Identifier: BSD-2-Clause */
/* The PVH start info (Xen's public/arch-x86/hvm/start_info.h), version 1: what EBX points to at the
 * entry. */
#pragma once

#include "abi/types.h"

#define PVH_MAGIC   0x336ec578u
#define PVH_VERSION 1u

struct pvh_start_info {
	uint32_t magic;
	uint32_t version;
	uint32_t flags; /* SIF_*: 0 for a guest without privileges of Xen's */
	uint32_t module_count;
	uint64_t modules;
	uint64_t cmdline;
	uint64_t rsdp;
	uint64_t memmap;
	uint32_t memmap_entries;
	uint32_t reserved;
};
KEEL_ASSERT_SIZE(struct pvh_start_info, 56);
KEEL_ASSERT_OFFSET(struct pvh_start_info, cmdline, 24);
KEEL_ASSERT_OFFSET(struct pvh_start_info, rsdp, 32);
KEEL_ASSERT_OFFSET(struct pvh_start_info, memmap, 40);
KEEL_ASSERT_OFFSET(struct pvh_start_info, memmap_entries, 48);

struct pvh_module {
	uint64_t address;
	uint64_t bytes;
	uint64_t cmdline;
	uint64_t reserved;
};
KEEL_ASSERT_SIZE(struct pvh_module, 32);

struct pvh_memmap_entry { /* types as in an e820 map */
	uint64_t address;
	uint64_t bytes;
	uint32_t type;
	uint32_t reserved;
};
KEEL_ASSERT_SIZE(struct pvh_memmap_entry, 24);
