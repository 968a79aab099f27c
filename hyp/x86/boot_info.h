/* SPDX-License-Identifier: BSD-2-Clause */
/* What the boot loader told us, in one form for Multiboot 1 and 2, copied out of low memory before
 * anything is written there. */
#pragma once

#include "abi/types.h"
#include "hyp/x86/addr.h"

#define BOOT_MAX_RANGES  128u
#define BOOT_MAX_MODULES 4u
#define BOOT_CMDLINE_MAX 2048u

enum boot_range_type { /* e820 type numbers, as Linux takes them */
	BOOT_RANGE_RAM = 1,
	BOOT_RANGE_RESERVED = 2,
	BOOT_RANGE_ACPI = 3,
	BOOT_RANGE_NVS = 4,
	BOOT_RANGE_UNUSABLE = 5,
};

struct boot_range {
	uint64_t start; /* bytes */
	uint64_t size;  /* bytes */
	uint32_t type;  /* enum boot_range_type */
};

struct boot_module {
	hpa_t start;
	uint64_t size_bytes;
	char cmdline[BOOT_CMDLINE_MAX];
};

struct boot_info {
	char loader[64];
	char cmdline[BOOT_CMDLINE_MAX]; /* hyp's own */
	/* The firmware's map, sorted, without overlaps; hyp's own memory is still RAM in it. */
	struct boot_range ranges[BOOT_MAX_RANGES];
	unsigned range_count;
	/*
	 * 0: root's bzImage (its command line is root's), 1: root's initramfs. They were moved
	 * directly below hyp, and are still RAM in the map: who keeps them for a later root
	 * reserves them.
	 */
	struct boot_module modules[BOOT_MAX_MODULES];
	unsigned module_count;
	uint64_t rsdp;      /* HPA of the ACPI RSDP, 0: not known */
	bool uefi;          /* booted through UEFI firmware */
	uint64_t entry_tsc; /* TSC at hyp's first instruction */
};
