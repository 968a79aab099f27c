/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads what the boot loader left: written for loaders that are right, and bounded for those that
 * are not. */
#include "hyp/x86/multiboot.h"

#include "hyp/x86/e820.h"
#include "lib/string.h"

#define MB2_BLOCK_MAX (1u << 20) /* no loader's block is larger; a larger figure is rubbish */

/* Of at most max bytes at from; cut where it does not fit. */
static void copy_text(char *to, size_t size, const char *from, size_t max)
{
	size_t n = strnlen(from, max);

	if (n >= size)
		n = size - 1;
	memcpy(to, from, n);
	to[n] = 0;
}

/* QEMU's loader puts the file's name in front of each command line; GRUB does not. */
static void drop_first_word(char *text)
{
	char *rest = strchr(text, ' ');

	if (rest)
		memmove(text, rest + 1, strlen(rest + 1) + 1);
	else
		text[0] = 0;
}

static bool add_range(struct boot_info *info, uint64_t start, uint64_t size, uint32_t type)
{
	if (type < BOOT_RANGE_RAM || type > BOOT_RANGE_UNUSABLE)
		type = BOOT_RANGE_RESERVED;
	if (info->range_count == BOOT_MAX_RANGES)
		return false;
	info->ranges[info->range_count++] = (struct boot_range){start, size, type};
	return true;
}

static bool add_module(
        struct boot_info *info, uint32_t start, uint32_t end, const char *cmdline, size_t max)
{
	struct boot_module *m;

	if (info->module_count == BOOT_MAX_MODULES || end < start)
		return false;
	m = &info->modules[info->module_count++];
	m->start = HPA(start);
	m->size_bytes = end - start;
	copy_text(m->cmdline, sizeof(m->cmdline), cmdline, max);
	return true;
}

static const char *finish_ranges(struct boot_info *info)
{
	if (!info->range_count)
		return "the boot loader gave no memory map";
	if (!e820_normalize(info->ranges, &info->range_count, BOOT_MAX_RANGES))
		return "the boot loader's memory map has too many ranges";
	return NULL;
}

static const char *read_mb1_ranges(
        const struct mb1_info *block, multiboot_phys_fn phys, struct boot_info *info)
{
	const unsigned char *map = phys(block->mmap);
	struct mb1_mmap_entry e;
	uint32_t at = 0;

	while (at <= block->mmap_length && block->mmap_length - at >= sizeof(e)) {
		memcpy(&e, map + at, sizeof(e));
		if (e.size < sizeof(e) - sizeof(e.size) || e.size > block->mmap_length)
			return "the boot loader's memory map is damaged";
		if (!add_range(info, (uint64_t)e.start_high << 32 | e.start_low,
		            (uint64_t)e.length_high << 32 | e.length_low, e.type))
			return "the boot loader's memory map has too many ranges";
		at += e.size + (uint32_t)sizeof(e.size);
	}
	return NULL;
}

static const char *read_mb1_modules(
        const struct mb1_info *block, multiboot_phys_fn phys, struct boot_info *info)
{
	const unsigned char *modules = phys(block->modules);
	struct mb1_module m;

	for (uint32_t i = 0; i < block->module_count; i++) {
		memcpy(&m, modules + i * sizeof(m), sizeof(m));
		if (!add_module(info, m.start, m.end, m.cmdline ? phys(m.cmdline) : "",
		            BOOT_CMDLINE_MAX))
			return "too many or damaged boot modules";
	}
	return NULL;
}

const char *multiboot1_parse(
        const struct mb1_info *block, multiboot_phys_fn phys, struct boot_info *info)
{
	const char *why = NULL;

	info->range_count = info->module_count = 0;
	info->loader[0] = info->cmdline[0] = 0;
	if (block->flags & MB1_INFO_LOADER)
		copy_text(info->loader, sizeof(info->loader), phys(block->loader_name),
		        sizeof(info->loader));
	if (block->flags & MB1_INFO_CMDLINE)
		copy_text(info->cmdline, sizeof(info->cmdline), phys(block->cmdline),
		        sizeof(info->cmdline));
	if (block->flags & MB1_INFO_MODULES)
		why = read_mb1_modules(block, phys, info);
	if (!why && block->flags & MB1_INFO_MMAP)
		why = read_mb1_ranges(block, phys, info);
	if (why)
		return why;
	if (!strncmp(info->loader, "qemu", 4)) {
		drop_first_word(info->cmdline);
		for (unsigned i = 0; i < info->module_count; i++)
			drop_first_word(info->modules[i].cmdline);
	}
	return finish_ranges(info);
}

static const char *read_mb2_ranges(const unsigned char *tag, uint32_t size, struct boot_info *info)
{
	struct mb2_tag_mmap head;
	struct mb2_mmap_entry e;

	if (size < sizeof(head))
		return "the boot loader's memory map is damaged";
	memcpy(&head, tag, sizeof(head));
	if (head.entry_size < sizeof(e))
		return "the boot loader's memory map is damaged";
	for (uint32_t at = sizeof(head); at <= size && size - at >= sizeof(e);
	        at += head.entry_size) {
		memcpy(&e, tag + at, sizeof(e));
		if (!add_range(info, e.start, e.length, e.type))
			return "the boot loader's memory map has too many ranges";
		if (head.entry_size > size)
			break;
	}
	return NULL;
}

static const char *read_mb2_module(const unsigned char *tag, uint32_t size, struct boot_info *info)
{
	struct mb2_tag_module m;

	if (size < sizeof(m))
		return "a boot module's tag is damaged";
	memcpy(&m, tag, sizeof(m));
	if (!add_module(info, m.start, m.end, (const char *)tag + sizeof(m), size - sizeof(m)))
		return "too many or damaged boot modules";
	return NULL;
}

static void read_mb2_rsdp(const unsigned char *data, uint32_t size, struct acpi_rsdp *rsdp)
{
	uint32_t n = size < sizeof(*rsdp) ? size : (uint32_t)sizeof(*rsdp);

	if (n < ACPI_RSDP_V1_BYTES || n < rsdp->length)
		return; /* version 2 wins over version 1 */
	memset(rsdp, 0, sizeof(*rsdp));
	memcpy(rsdp, data, n);
	rsdp->length = n;
}

static const char *read_mb2_tag(const unsigned char *tag, const struct mb2_tag *head,
        struct boot_info *info, struct acpi_rsdp *rsdp)
{
	const unsigned char *data = tag + sizeof(*head);
	uint32_t data_size = head->size - (uint32_t)sizeof(*head);

	switch (head->type) {
	case MB2_TAG_CMDLINE:
		copy_text(info->cmdline, sizeof(info->cmdline), (const char *)data, data_size);
		return NULL;
	case MB2_TAG_LOADER:
		copy_text(info->loader, sizeof(info->loader), (const char *)data, data_size);
		return NULL;
	case MB2_TAG_MODULE: return read_mb2_module(tag, head->size, info);
	case MB2_TAG_MMAP: return read_mb2_ranges(tag, head->size, info);
	case MB2_TAG_EFI32:
	case MB2_TAG_EFI64:
	case MB2_TAG_EFI_MMAP: info->uefi = true; return NULL;
	case MB2_TAG_RSDP_V1:
	case MB2_TAG_RSDP_V2: read_mb2_rsdp(data, data_size, rsdp); return NULL;
	default: return NULL;
	}
}

const char *multiboot2_parse(const void *block, struct boot_info *info, struct acpi_rsdp *rsdp)
{
	const unsigned char *bytes = block;
	struct mb2_info head;
	struct mb2_tag tag;
	const char *why;

	info->range_count = info->module_count = 0;
	info->loader[0] = info->cmdline[0] = 0;
	memset(rsdp, 0, sizeof(*rsdp));
	memcpy(&head, bytes, sizeof(head));
	if (head.total_size > MB2_BLOCK_MAX)
		return "the boot loader's information block is damaged";
	for (uint32_t at = sizeof(head); at + sizeof(tag) <= head.total_size;
	        at += (tag.size + 7) & ~7u) {
		memcpy(&tag, bytes + at, sizeof(tag));
		if (tag.type == MB2_TAG_END)
			return finish_ranges(info);
		if (tag.size < sizeof(tag) || tag.size > head.total_size - at)
			return "the boot loader's information block is damaged";
		why = read_mb2_tag(bytes + at, &tag, info, rsdp);
		if (why)
			return why;
	}
	return "the boot loader's information block has no end";
}
