/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts a guest into its VM: the ELF's segments, identity page tables, the info block, the
 * registers. */

#include "tests/guest/runner/runner.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGE_BYTES 0x200000ull
#define PTE_RW      3ull
#define PTE_LARGE   0x80ull

/* Entry point. */
static uint64_t load_elf(struct vm *vm)
{
	int fd = open(vm->options.elf, O_RDONLY | O_CLOEXEC);
	struct stat st;
	const Elf64_Ehdr *head;
	const Elf64_Phdr *part;
	const uint8_t *file;
	uint64_t entry;

	if (fd < 0 || fstat(fd, &st) != 0)
		die("%s: %s", vm->options.elf, strerror(errno));
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED || (size_t)st.st_size < sizeof(*head))
		die("%s: not readable", vm->options.elf);
	head = (const Elf64_Ehdr *)(const void *)file;
	if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_machine != EM_X86_64)
		die("%s: no ELF64", vm->options.elf);
	part = (const Elf64_Phdr *)(const void *)(file + head->e_phoff);
	for (unsigned i = 0; i < head->e_phnum; i++) {
		if (part[i].p_type != PT_LOAD || part[i].p_memsz == 0)
			continue;
		if (part[i].p_paddr + part[i].p_memsz > vm->ram_bytes)
			die("%s: does not fit into %u MiB", vm->options.elf, vm->options.ram_mib);
		memset(vm->ram + part[i].p_paddr, 0, part[i].p_memsz);
		memcpy(vm->ram + part[i].p_paddr, file + part[i].p_offset, part[i].p_filesz);
	}
	entry = head->e_entry;
	munmap((void *)(uintptr_t)file, (size_t)st.st_size);
	close(fd);
	return entry;
}

static void make_tables(struct vm *vm)
{
	uint64_t *pml4 = (uint64_t *)(void *)(vm->ram + BOARD_TABLES), *pdpt = pml4 + 512,
	         *pd = pml4 + 1024;

	memset(pml4, 0, 6 * 4096);
	pml4[0] = (BOARD_TABLES + 0x1000) | PTE_RW;
	for (unsigned i = 0; i < 4; i++)
		pdpt[i] = (BOARD_TABLES + 0x2000 + i * 0x1000) | PTE_RW;
	for (unsigned i = 0; i < 2048; i++)
		pd[i] = i * LARGE_BYTES | PTE_RW | PTE_LARGE;
}

static void make_info(struct vm *vm)
{
	struct board_info info = {
	        .magic = BOARD_MAGIC,
	        .vcpus = vm->options.vcpus,
	        .ram_bytes = vm->ram_bytes,
	        .tsc_hz = vm->tsc_hz,
	        .seed = vm->options.seed,
	        .boots = vm->boots,
	};

	snprintf(info.arguments, sizeof(info.arguments), "%s", vm->options.arguments);
	memcpy(vm->ram + BOARD_INFO, &info, sizeof(info));
}

static void set_long_mode(struct keel_vcpu_state *s)
{
	const struct keel_segment data = {.limit = 0xffffffff, .selector = 0x10, .attr = 0xc93};

	for (unsigned i = KEEL_ES; i <= KEEL_GS; i++)
		s->segs[i] = data;
	s->segs[KEEL_CS] = (struct keel_segment){.limit = 0xffffffff, .selector = 8, .attr = 0xa9b};
	s->cr0 = 0x80010033; /* PG, WP, NE, ET, MP, PE */
	s->cr3 = BOARD_TABLES;
	s->cr4 = 0x620;  /* PAE, OSFXSR, OSXMMEXCPT */
	s->efer = 0xd00; /* LME, LMA, NXE */
}

static void set_real_mode(struct keel_vcpu_state *s)
{
	s->segs[KEEL_CS].selector = (uint16_t)(s->rip >> 4);
	s->segs[KEEL_CS].base = s->rip;
	s->rip = 0;
}

void load_guest(struct vm *vm)
{
	uint64_t entry = load_elf(vm);
	struct keel_hc_vcpu block = {.vcpu = 0};
	struct keel_vcpu_state *s = &block.state;

	make_tables(vm);
	make_info(vm);
	s->groups = KEEL_VCPU_GPR | KEEL_VCPU_SEGS | KEEL_VCPU_CONTROL;
	if (ioctl(vm->fd, KEEL_IOC_VCPU_GET, &block) != 0)
		die("state: %s", strerror(errno));
	s->groups = KEEL_VCPU_GPR | KEEL_VCPU_SEGS | KEEL_VCPU_CONTROL;
	s->rip = entry;
	s->rflags = 2;
	if (vm->options.mode == 64)
		set_long_mode(s);
	else
		set_real_mode(s);
	if (ioctl(vm->fd, KEEL_IOC_VCPU_SET, &block) != 0)
		die("state: %s", strerror(errno));
}
