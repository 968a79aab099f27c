/* SPDX-License-Identifier: BSD-2-Clause */
/* Direct boot of a Linux bzImage by the 64-bit protocol: memory map, what goes where, and the first
 * vCPU's state. */
#pragma once

#include "abi/vcpu.h"
#include "hw/linux_boot.h"
#include "vmm/gmem.h"

struct boot_linux_config {
	const char *kernel;
	const char *initrd; /* empty: none */
	const char *cmdline;
	unsigned cpus;
	uint64_t ram_bytes;
};

#define BOOT_E820_RAM      1u
#define BOOT_E820_RESERVED 2u
#define BOOT_E820_MAX      8u

/* The memory map: every byte of RAM is in it once, and what is no RAM but must be left alone.
 * Returns the count. */
unsigned boot_linux_make_e820(uint64_t ram_bytes, struct linux_e820_entry *entries);
/*
 * Loads everything into guest memory (also the ACPI tables) and says how vCPU 0 starts. Needs: no
 * vCPU runs. -EINVAL and the like with one line in `error`: a file cannot be read, is no bzImage,
 * or memory is too small.
 */
int boot_linux_load(const struct boot_linux_config *config, const struct gmem *gmem,
        struct keel_vcpu_state *start, char *error, size_t error_bytes);
