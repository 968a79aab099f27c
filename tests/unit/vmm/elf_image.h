/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes small ELF kernels of 32 and 64 bits, with a Multiboot header or a PVH note, for tests of
 * booting. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ELF_TEXT_AT    0x1000u /* in the file */
#define ELF_TEXT_BYTES 0x800u
#define ELF_NOTE_AT    0x200u
#define ELF_IMAGE_MAX  0x2000u

struct elf_recipe {
	bool wide; /* ELF64 */
	uint64_t address;
	uint64_t memory_bytes; /* of the one segment */
	uint32_t entry;
	bool multiboot;
	uint32_t flags; /* of its header */
	uint32_t pvh;   /* entry in the note; 0: no note */
};

static inline struct elf_recipe elf_recipe(void)
{
	return (struct elf_recipe){.address = 0x100000, .memory_bytes = 0x3000, .entry = 0x100010};
}

static inline void elf_put_heads(const struct elf_recipe *r, uint8_t *image)
{
	const unsigned notes = r->pvh != 0 ? 20 + 4 : 0;

	if (r->wide) {
		Elf64_Ehdr head = {.e_type = ET_EXEC,
		        .e_machine = EM_X86_64,
		        .e_version = 1,
		        .e_entry = r->entry,
		        .e_phoff = sizeof(head),
		        .e_ehsize = sizeof(head),
		        .e_phentsize = sizeof(Elf64_Phdr),
		        .e_phnum = 2};
		Elf64_Phdr parts[2] = {
		        {.p_type = PT_LOAD,
		                .p_offset = ELF_TEXT_AT,
		                .p_vaddr = 0xffffffff80000000ull + r->address,
		                .p_paddr = r->address,
		                .p_filesz = ELF_TEXT_BYTES,
		                .p_memsz = r->memory_bytes},
		        {.p_type = PT_NOTE, .p_offset = ELF_NOTE_AT, .p_filesz = notes},
		};

		memcpy(head.e_ident, ELFMAG "\2\1\1", 7);
		memcpy(image, &head, sizeof(head));
		memcpy(image + sizeof(head), parts, sizeof(parts));
	} else {
		Elf32_Ehdr head = {.e_type = ET_EXEC,
		        .e_machine = EM_386,
		        .e_version = 1,
		        .e_entry = r->entry,
		        .e_phoff = sizeof(head),
		        .e_ehsize = sizeof(head),
		        .e_phentsize = sizeof(Elf32_Phdr),
		        .e_phnum = 2};
		Elf32_Phdr parts[2] = {
		        {.p_type = PT_LOAD,
		                .p_offset = ELF_TEXT_AT,
		                .p_vaddr = 0x80000000u + (uint32_t)r->address,
		                .p_paddr = (uint32_t)r->address,
		                .p_filesz = ELF_TEXT_BYTES,
		                .p_memsz = (uint32_t)r->memory_bytes},
		        {.p_type = PT_NOTE, .p_offset = ELF_NOTE_AT, .p_filesz = notes},
		};

		memcpy(head.e_ident, ELFMAG "\1\1\1", 7);
		memcpy(image, &head, sizeof(head));
		memcpy(image + sizeof(head), parts, sizeof(parts));
	}
}

/* Fills ELF_IMAGE_MAX bytes; returns how many of them are the file. */
static inline size_t elf_make(const struct elf_recipe *r, uint8_t *image)
{
	memset(image, 0, ELF_IMAGE_MAX);
	for (unsigned i = 0; i < ELF_TEXT_BYTES; i++)
		image[ELF_TEXT_AT + i] = (uint8_t)(i * 11 + 1);
	elf_put_heads(r, image);
	if (r->multiboot) {
		const uint32_t words[3] = {0x1badb002, r->flags, 0u - 0x1badb002u - r->flags};

		memcpy(image + ELF_TEXT_AT + 0x20, words, sizeof(words));
	}
	if (r->pvh != 0) {
		/* A note of another's before it would only move it; test_elf.c has that. */
		const uint32_t note[3] = {4, 8, 18}, value[2] = {r->pvh, 0};

		memcpy(image + ELF_NOTE_AT, note, sizeof(note));
		memcpy(image + ELF_NOTE_AT + 12, "Xen", 4);
		memcpy(image + ELF_NOTE_AT + 16, value, sizeof(value));
	}
	return ELF_TEXT_AT + ELF_TEXT_BYTES;
}

/* As a new file; path has mkstemp's form. */
static inline void elf_write(char *path, const struct elf_recipe *r, size_t bytes)
{
	uint8_t image[ELF_IMAGE_MAX];
	size_t all = elf_make(r, image);
	int fd = mkstemp(path);

	if (bytes == 0 || bytes > all)
		bytes = all;
	if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes)
		abort();
	close(fd);
}
