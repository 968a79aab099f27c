/* SPDX-License-Identifier: BSD-2-Clause */
/* Power-on of a VM without firmware: what kind of kernel it is given, and what all kinds share. */
#pragma once

#include "abi/vcpu.h"
#include "hw/linux_boot.h"
#include "vmm/gmem.h"

/*
 * The kernel file says by itself what it is, in this order, as QEMU's -kernel takes them:
 *   ELF with a Multiboot 1 header   32-bit entry, EBX: struct mb1_info    (vmm/boot_elf.c)
 *   ELF with a PVH note             32-bit entry, EBX: struct pvh_start_info (vmm/boot_elf.c)
 *   bzImage                         64-bit entry, RSI: the zero page      (vmm/boot_linux.c)
 * All get the ACPI tables, the memory map and the code at F000:FFF0.
 */
struct boot_config {
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
unsigned boot_make_e820(uint64_t ram_bytes, struct linux_e820_entry *entries);
/*
 * Loads everything into guest memory (also the ACPI tables) and says how vCPU 0 starts. Needs: no
 * vCPU runs. -EINVAL and the like with one line in `error`: a file cannot be read, is no kernel of
 * these kinds, or memory is too small.
 */
int boot_load(const struct boot_config *config, const struct gmem *gmem,
        struct keel_vcpu_state *start, char *error, size_t error_bytes);

/* What the kinds share; for boot*.c and firmware.c only. */
struct boot {
	const struct boot_config *config;
	const struct gmem *gmem;
	char *error;
	size_t error_bytes;
	int fd; /* of the kernel */
	uint64_t file_bytes;
};

#define BOOT_PAT_RESET 0x0007040600070406ull

/* Writes the line and returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int boot_refuse(struct boot *boot, const char *format, ...);
/* A regular file, and its size; what: the word for it in errors. Negative: refused. */
int boot_open(struct boot *boot, const char *what, const char *path, uint64_t *bytes);
bool boot_read(int fd, uint64_t offset, void *out, uint64_t bytes);
/* Loads the initrd as high below `limit` as it fits, on a page of its own, but not below `lowest`.
 * No initrd: *bytes is 0. */
int boot_load_initrd(
        struct boot *boot, uint64_t lowest, uint64_t limit, uint64_t *gpa, uint64_t *bytes);

int boot_load_linux(struct boot *boot, struct keel_vcpu_state *start);
int boot_load_elf(struct boot *boot, struct keel_vcpu_state *start);
