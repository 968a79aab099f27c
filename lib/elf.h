/* SPDX-License-Identifier: BSD-2-Clause */
/* What an ELF file says of itself that a loader needs: segments, a Multiboot header, a PVH note. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "abi/types.h"

/*
 * Works on bytes that someone read: nothing of a file is trusted, every offset is checked. The
 * program headers and a Multiboot header have to be in the first ELF_HEAD_BYTES, where linkers and
 * Multiboot 0.6.96 §3.1 put them.
 */
#define ELF_HEAD_BYTES   8192u
#define ELF_MAX_SEGMENTS 32u
#define ELF_MAX_NOTES    65536u /* bytes of one note segment that are looked at */

#define ELF_LOAD 1u
#define ELF_NOTE 4u

struct elf_segment {
	uint32_t type; /* ELF_LOAD or ELF_NOTE; others are left out */
	uint64_t offset;
	uint64_t address; /* physical */
	uint64_t file_bytes;
	uint64_t memory_bytes; /* not less than file_bytes */
};

struct elf_image {
	uint64_t entry;
	unsigned count;
	struct elf_segment segments[ELF_MAX_SEGMENTS];
	bool multiboot; /* has a Multiboot 1 header */
	uint32_t multiboot_flags;
};

bool elf_is_elf(const uint8_t *head, size_t bytes);
/* Reads what the first bytes of a file of file_bytes say. NULL, or why it is of no use, as "is …".
 */
const char *elf_parse(
        const uint8_t *head, size_t bytes, uint64_t file_bytes, struct elf_image *out);
/* Looks in a note segment for Xen's PHYS32_ENTRY, the entry point of PVH boot. */
bool elf_find_pvh(const uint8_t *notes, size_t bytes, uint32_t *entry);
