/* SPDX-License-Identifier: BSD-2-Clause */
/* Turns a Multiboot 1 or 2 block into struct boot_info. */
#pragma once

#include "hw/acpi.h"
#include "hw/multiboot.h"
#include "hyp/x86/boot_info.h"

/* Where physical addresses below 4 GiB can be read. */
typedef const void *(*multiboot_phys_fn)(uint32_t address);

/*
 * Both copy all they take, and leave info->ranges normalized. NULL: done; else why the block cannot
 * be used. rsdp_copy: Multiboot 2 hands over a copy of the RSDP, not its place; length 0 if there
 * was none.
 */
const char *multiboot1_parse(
        const struct mb1_info *block, multiboot_phys_fn phys, struct boot_info *info);
const char *multiboot2_parse(
        const void *block, struct boot_info *info, struct acpi_rsdp *rsdp_copy);
