/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes small files that look like a bzImage, for tests of booting. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hw/linux_boot.h"

#define BZIMAGE_SETUP_SECTS 3u

/* As Debian's kernels have it, but small. */
static inline struct linux_setup_header bzimage_header(size_t kernel_bytes)
{
	return (struct linux_setup_header){
	        .setup_sects = BZIMAGE_SETUP_SECTS,
	        .syssize = (uint32_t)(kernel_bytes / 16),
	        .boot_flag = LINUX_BOOT_FLAG,
	        .header_length = 0x6a,
	        .header = LINUX_HEADER_MAGIC,
	        .version = 0x020f,
	        .loadflags = LINUX_LOADED_HIGH,
	        .initrd_addr_max = 0x7fffffff,
	        .kernel_alignment = 0x200000,
	        .relocatable_kernel = 1,
	        .xloadflags = LINUX_XLF_KERNEL_64,
	        .cmdline_size = 2047,
	        .pref_address = 0x1000000,
	        .init_size = 0x800000,
	};
}

/* Writes `bytes` of the image (head, then a pattern) into a new file; path has mkstemp's form. */
static inline void bzimage_write(char *path, const struct linux_setup_header *header, size_t bytes)
{
	uint8_t *image = malloc(bytes + 4096);
	int fd = mkstemp(path);

	for (size_t i = 0; i < bytes + 4096; i++)
		image[i] = (uint8_t)(i * 7 + (i >> 8));
	memcpy(image + LINUX_HEADER_OFFSET, header, sizeof(*header));
	if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes)
		abort();
	close(fd);
	free(image);
}
