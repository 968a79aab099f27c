/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads ELF headers of 32 and 64 bits, the Multiboot header, and notes, without trusting any. */
#include "lib/elf.h"

#include <string.h>

#define CLASS_32      1u
#define CLASS_64      2u
#define LITTLE_ENDIAN 1u
#define MACHINE_386   3u
#define MACHINE_AMD64 62u

#define MULTIBOOT_MAGIC 0x1badb002u
#define XEN_PHYS32      18u /* XEN_ELFNOTE_PHYS32_ENTRY */

/* Little-endian value of `bytes` bytes at `at`, as the fields of a file lie. */
static uint64_t get(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

bool elf_is_elf(const uint8_t *head, size_t bytes)
{
	return bytes >= 4 && memcmp(head, "\177ELF", 4) == 0;
}

/* Multiboot 0.6.96 §3.1.1: the three words add up to 0. */
static void find_multiboot(const uint8_t *head, size_t bytes, struct elf_image *out)
{
	for (size_t at = 0; at + 12 <= bytes && at + 12 <= ELF_HEAD_BYTES; at += 4) {
		uint32_t flags = (uint32_t)get(head + at + 4, 4);

		if (get(head + at, 4) != MULTIBOOT_MAGIC ||
		        (uint32_t)(MULTIBOOT_MAGIC + flags + (uint32_t)get(head + at + 8, 4)) != 0)
			continue;
		out->multiboot = true;
		out->multiboot_flags = flags;
		return;
	}
}

static struct elf_segment read_segment(const uint8_t *at, bool wide)
{
	if (wide)
		return (struct elf_segment){.type = (uint32_t)get(at, 4),
		        .offset = get(at + 8, 8),
		        .address = get(at + 24, 8),
		        .file_bytes = get(at + 32, 8),
		        .memory_bytes = get(at + 40, 8)};
	return (struct elf_segment){.type = (uint32_t)get(at, 4),
	        .offset = get(at + 4, 4),
	        .address = get(at + 12, 4),
	        .file_bytes = get(at + 16, 4),
	        .memory_bytes = get(at + 20, 4)};
}

const char *elf_parse(const uint8_t *head, size_t bytes, uint64_t file_bytes, struct elf_image *out)
{
	bool wide;
	uint64_t table;
	unsigned entry_bytes, count;

	*out = (struct elf_image){.count = 0};
	if (!elf_is_elf(head, bytes) || bytes < 64)
		return "is no ELF file";
	wide = head[4] == CLASS_64;
	if ((!wide && head[4] != CLASS_32) || head[5] != LITTLE_ENDIAN ||
	        (get(head + 18, 2) != MACHINE_386 && get(head + 18, 2) != MACHINE_AMD64))
		return "is an ELF file of another machine";
	out->entry = wide ? get(head + 24, 8) : get(head + 24, 4);
	table = wide ? get(head + 32, 8) : get(head + 28, 4);
	entry_bytes = (unsigned)get(head + (wide ? 54 : 42), 2);
	count = (unsigned)get(head + (wide ? 56 : 44), 2);
	if (entry_bytes != (wide ? 56u : 32u) || count == 0 || table > bytes ||
	        (uint64_t)count * entry_bytes > bytes - table)
		return "is an ELF file without program headers at its beginning";
	for (unsigned i = 0; i < count; i++) {
		const struct elf_segment segment = read_segment(
		        head + table + (uint64_t)i * entry_bytes, wide);

		if (segment.type != ELF_LOAD && segment.type != ELF_NOTE)
			continue;
		if (segment.offset > file_bytes ||
		        segment.file_bytes > file_bytes - segment.offset ||
		        (segment.type == ELF_LOAD && segment.memory_bytes < segment.file_bytes))
			return "is cut short";
		if (out->count == ELF_MAX_SEGMENTS)
			return "is an ELF file of too many segments";
		out->segments[out->count++] = segment;
	}
	find_multiboot(head, bytes, out);
	return NULL;
}

static uint64_t align4(uint64_t bytes)
{
	return (bytes + 3) & ~3ull;
}

/* Each note: name bytes, description bytes, type; then both, padded to 4. */
bool elf_find_pvh(const uint8_t *notes, size_t bytes, uint32_t *entry)
{
	for (uint64_t at = 0; at + 12 <= bytes;) {
		uint64_t name = get(notes + at, 4), desc = get(notes + at + 4, 4);
		uint64_t type = get(notes + at + 8, 4), value = at + 12 + align4(name);

		if (value > bytes || desc > bytes - value)
			return false;
		if (type == XEN_PHYS32 && name == 4 && memcmp(notes + at + 12, "Xen", 4) == 0 &&
		        desc >= 4) {
			*entry = (uint32_t)get(notes + value, 4);
			return true;
		}
		at = value + align4(desc);
	}
	return false;
}
