/* SPDX-License-Identifier: BSD-2-Clause */
/* Judges a bzImage and finds places for what Linux's 64-bit boot protocol wants in memory; writes
 * nothing. */
#pragma once

#include "hw/linux_boot.h"
#include "hyp/x86/x86.h"

/* One block for the zero page, the command line, the stack with the GDT at its bottom, and the page
 * tables. */
#define LINUX_BLOCK_ZERO_PAGE 0u
#define LINUX_BLOCK_CMDLINE   0x1000u
#define LINUX_BLOCK_STACK     0x2000u
#define LINUX_BLOCK_TABLES    0x3000u /* PML4, PDPT, four PDs: the first 4 GiB */
#define LINUX_BLOCK_BYTES     0x9000u
#define LINUX_CMDLINE_BYTES   4096u

struct linux_layout {
	struct linux_setup_header header;
	uint64_t payload_offset; /* of the protected-mode code in the bzImage */
	uint64_t payload_bytes;
	uint64_t span_bytes; /* what the kernel needs at its place while it unpacks itself */
	uint64_t kernel;     /* where the protected-mode code goes */
	uint64_t initrd;     /* where the initrd goes; the place it has already if that will do */
	uint64_t block;
};

/* Fills header, payload_* and span_bytes. NULL: done; else what is wrong with the image. */
const char *linux_image_parse(const void *image, uint64_t size, struct linux_layout *l);
/* Fills kernel, initrd and block. Nothing is placed over a source. Needs: parsed, image->e820
 * normalized. NULL or why not. */
const char *linux_image_place(const struct linux_image *image, struct linux_layout *l);
