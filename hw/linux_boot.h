/* SPDX-License-Identifier: BSD-2-Clause */
/* Linux's x86 boot protocol 2.15 (Documentation/arch/x86/boot.rst, zero-page.rst): bzImage head and
 * zero page. */
#pragma once

#include "abi/types.h"

#define LINUX_BOOT_FLAG           0xaa55u
#define LINUX_HEADER_MAGIC        0x53726448u /* "HdrS" */
#define LINUX_HEADER_OFFSET       0x1f1u
#define LINUX_HEADER_END_BASE     0x202u  /* the head ends at this plus the byte at 0x201 */
#define LINUX_PROTOCOL_MIN        0x020cu /* the first with xloadflags */
#define LINUX_SECTOR_BYTES        512u
#define LINUX_SETUP_SECTS_IF_ZERO 4u
#define LINUX_ENTRY_64_OFFSET     0x200u
#define LINUX_LOADER_UNDEFINED    0xffu
#define LINUX_E820_MAX            128u
#define LINUX_CS                  0x10u
#define LINUX_DS                  0x18u

#define LINUX_LOADED_HIGH  0x01u /* loadflags */
#define LINUX_QUIET        0x20u
#define LINUX_CAN_USE_HEAP 0x80u

#define LINUX_XLF_KERNEL_64              0x01u /* xloadflags */
#define LINUX_XLF_CAN_BE_LOADED_ABOVE_4G 0x02u

struct linux_setup_header { /* in a bzImage and in the zero page at 1F1h */
	uint8_t setup_sects;
	uint16_t root_flags;
	uint32_t syssize; /* 16-byte units of the protected-mode code */
	uint16_t ram_size;
	uint16_t vid_mode;
	uint16_t root_dev;
	uint16_t boot_flag;
	uint8_t jump;
	uint8_t header_length;
	uint32_t header;
	uint16_t version;
	uint32_t realmode_swtch;
	uint16_t start_sys_seg;
	uint16_t kernel_version;
	uint8_t type_of_loader;
	uint8_t loadflags;
	uint16_t setup_move_size;
	uint32_t code32_start;
	uint32_t ramdisk_image;
	uint32_t ramdisk_size;
	uint32_t bootsect_kludge;
	uint16_t heap_end_ptr;
	uint8_t ext_loader_ver;
	uint8_t ext_loader_type;
	uint32_t cmd_line_ptr;
	uint32_t initrd_addr_max;
	uint32_t kernel_alignment;
	uint8_t relocatable_kernel;
	uint8_t min_alignment;
	uint16_t xloadflags;
	uint32_t cmdline_size; /* without the final zero */
	uint32_t hardware_subarch;
	uint64_t hardware_subarch_data;
	uint32_t payload_offset;
	uint32_t payload_length;
	uint64_t setup_data;
	uint64_t pref_address;
	uint32_t init_size;
	uint32_t handover_offset;
	uint32_t kernel_info_offset;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct linux_setup_header, 0x26c - 0x1f1);
#define LINUX_ASSERT_HEADER(field, off)                                                            \
	KEEL_ASSERT_OFFSET(struct linux_setup_header, field, (off)-LINUX_HEADER_OFFSET)
LINUX_ASSERT_HEADER(boot_flag, 0x1fe);
LINUX_ASSERT_HEADER(header_length, 0x201);
LINUX_ASSERT_HEADER(header, 0x202);
LINUX_ASSERT_HEADER(version, 0x206);
LINUX_ASSERT_HEADER(type_of_loader, 0x210);
LINUX_ASSERT_HEADER(loadflags, 0x211);
LINUX_ASSERT_HEADER(code32_start, 0x214);
LINUX_ASSERT_HEADER(ramdisk_image, 0x218);
LINUX_ASSERT_HEADER(ramdisk_size, 0x21c);
LINUX_ASSERT_HEADER(cmd_line_ptr, 0x228);
LINUX_ASSERT_HEADER(initrd_addr_max, 0x22c);
LINUX_ASSERT_HEADER(kernel_alignment, 0x230);
LINUX_ASSERT_HEADER(relocatable_kernel, 0x234);
LINUX_ASSERT_HEADER(xloadflags, 0x236);
LINUX_ASSERT_HEADER(cmdline_size, 0x238);
LINUX_ASSERT_HEADER(setup_data, 0x250);
LINUX_ASSERT_HEADER(pref_address, 0x258);
LINUX_ASSERT_HEADER(init_size, 0x260);

struct linux_e820_entry {
	uint64_t start;
	uint64_t size;
	uint32_t type;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct linux_e820_entry, 20);

struct linux_boot_params { /* the zero page */
	uint8_t screen_info[0x40];
	uint8_t apm_bios_info[0x14];
	uint8_t reserved0[4];
	uint64_t tboot_addr;
	uint8_t ist_info[0x10];
	uint64_t acpi_rsdp_addr;
	uint8_t reserved1[8];
	uint8_t hd_info[0x20];
	uint8_t sys_desc_table[0x10];
	uint8_t olpc_ofw_header[0x10];
	uint32_t ext_ramdisk_image; /* upper halves */
	uint32_t ext_ramdisk_size;
	uint32_t ext_cmd_line_ptr;
	uint8_t reserved2[0x70];
	uint32_t cc_blob_address;
	uint8_t edid_info[0x80];
	uint8_t efi_info[0x20];
	uint32_t alt_mem_k;
	uint32_t scratch;
	uint8_t e820_entries;
	uint8_t eddbuf_entries;
	uint8_t edd_mbr_sig_buf_entries;
	uint8_t kbd_status;
	uint8_t secure_boot;
	uint8_t reserved3[2];
	uint8_t sentinel;
	uint8_t reserved4;
	struct linux_setup_header hdr;
	uint8_t reserved5[0x290 - 0x26c];
	uint32_t edd_mbr_sig_buffer[16];
	struct linux_e820_entry e820_table[LINUX_E820_MAX];
	uint8_t reserved6[0x30];
	uint8_t eddbuf[0x1ec];
	uint8_t reserved7[0x114];
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct linux_boot_params, 4096);
KEEL_ASSERT_OFFSET(struct linux_boot_params, acpi_rsdp_addr, 0x070);
KEEL_ASSERT_OFFSET(struct linux_boot_params, ext_ramdisk_image, 0x0c0);
KEEL_ASSERT_OFFSET(struct linux_boot_params, ext_cmd_line_ptr, 0x0c8);
KEEL_ASSERT_OFFSET(struct linux_boot_params, efi_info, 0x1c0);
KEEL_ASSERT_OFFSET(struct linux_boot_params, alt_mem_k, 0x1e0);
KEEL_ASSERT_OFFSET(struct linux_boot_params, e820_entries, 0x1e8);
KEEL_ASSERT_OFFSET(struct linux_boot_params, sentinel, 0x1ef);
KEEL_ASSERT_OFFSET(struct linux_boot_params, hdr, LINUX_HEADER_OFFSET);
KEEL_ASSERT_OFFSET(struct linux_boot_params, e820_table, 0x2d0);
KEEL_ASSERT_OFFSET(struct linux_boot_params, eddbuf, 0xd00);
