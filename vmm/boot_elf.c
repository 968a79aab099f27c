/* SPDX-License-Identifier: BSD-2-Clause */
/* Lays an ELF kernel out in guest memory and enters it as Multiboot 1 or PVH says: 32-bit, without
 * paging. */
#include "vmm/boot.h"

#include <stdio.h>
#include <string.h>

#include "hw/multiboot.h"
#include "hw/pvh.h"
#include "lib/elf.h"
#include "vmm/layout.h"

#define PAGE_BYTES 4096u
#define LOADER     "keelvm"

/* Bits of a Multiboot header that ask for more than is done (§3.1.2): modules lie on pages and
 * memory is told; not the others of 0-15, nor 16, a loader that goes by no ELF header. */
#define MULTIBOOT_REFUSED (0x1ffffu & ~(uint32_t)(MB1_HEADER_PAGE_ALIGN | MB1_HEADER_MEMORY))

/* What the kernel is handed lies here, in one piece that no segment may touch. */
struct handed {
	union {
		struct mb1_info multiboot;
		struct pvh_start_info pvh;
	};
	union {
		struct mb1_module multiboot;
		struct pvh_module pvh;
	} module;
	union {
		struct mb1_mmap_entry multiboot[BOOT_E820_MAX];
		struct pvh_memmap_entry pvh[BOOT_E820_MAX];
	} map;
	char loader[8];
	uint8_t code[64];
	char module_line[1024];
	char line[LAYOUT_HANDED_BYTES - 2048];
};
_Static_assert(sizeof(struct handed) <= LAYOUT_HANDED_BYTES, "fits where layout.h puts it");

#define HANDED(field) ((uint32_t)(LAYOUT_HANDED + offsetof(struct handed, field)))

struct kernel {
	struct elf_image image;
	uint64_t end; /* of its highest segment */
	uint32_t pvh_entry;
	uint64_t module, module_bytes;
};

static bool is_taken(uint64_t start, uint64_t bytes)
{
	return start < LAYOUT_HIGH_MEMORY && start + bytes > LAYOUT_HANDED;
}

static int load_segment(struct boot *boot, struct kernel *kernel, const struct elf_segment *segment)
{
	const char *path = boot->config->kernel;
	uint8_t *at = gmem_range(boot->gmem, segment->address, segment->memory_bytes);

	if (segment->memory_bytes == 0)
		return 0;
	if (at == NULL || segment->address >= LAYOUT_FOUR_GIB)
		return boot_refuse(boot,
		        "kernel %s: wants %llu KiB at %#llx, where the VM of %llu MiB has no "
		        "memory",
		        path, (unsigned long long)(segment->memory_bytes >> 10),
		        (unsigned long long)segment->address,
		        (unsigned long long)(boot->config->ram_bytes >> 20));
	if (is_taken(segment->address, segment->memory_bytes))
		return boot_refuse(boot,
		        "kernel %s: wants %#llx, where the boot information lies (%#x to 1 MiB)",
		        path, (unsigned long long)segment->address, LAYOUT_HANDED);
	if (segment->file_bytes != 0 &&
	        !boot_read(boot->fd, segment->offset, at, segment->file_bytes))
		return boot_refuse(boot, "kernel %s: cannot be read", path);
	memset(at + segment->file_bytes, 0, segment->memory_bytes - segment->file_bytes);
	if (segment->address + segment->memory_bytes > kernel->end)
		kernel->end = segment->address + segment->memory_bytes;
	return 0;
}

static bool find_pvh(struct boot *boot, struct kernel *kernel)
{
	static uint8_t notes[ELF_MAX_NOTES];

	for (unsigned i = 0; i < kernel->image.count; i++) {
		const struct elf_segment *segment = &kernel->image.segments[i];

		if (segment->type == ELF_NOTE && segment->file_bytes <= sizeof(notes) &&
		        boot_read(boot->fd, segment->offset, notes, segment->file_bytes) &&
		        elf_find_pvh(notes, segment->file_bytes, &kernel->pvh_entry))
			return true;
	}
	return false;
}

static int check_kind(struct boot *boot, struct kernel *kernel)
{
	const char *path = boot->config->kernel;
	uint32_t flags = kernel->image.multiboot_flags & MULTIBOOT_REFUSED;

	if (kernel->image.multiboot && flags != 0)
		return boot_refuse(boot,
		        "kernel %s: its Multiboot header asks for %#x, which is not offered", path,
		        flags);
	if (kernel->image.multiboot && kernel->image.entry >= LAYOUT_FOUR_GIB)
		return boot_refuse(boot, "kernel %s: its entry is above 4 GiB", path);
	if (!kernel->image.multiboot && !find_pvh(boot, kernel))
		return boot_refuse(boot,
		        "kernel %s: is an ELF file with neither a Multiboot 1 header nor a PVH "
		        "note",
		        path);
	return 0;
}

static int load_kernel(struct boot *boot, struct kernel *kernel)
{
	static uint8_t head[ELF_HEAD_BYTES];
	uint64_t bytes = boot->file_bytes < sizeof(head) ? boot->file_bytes : sizeof(head);
	const char *why;
	int rc;

	if (!boot_read(boot->fd, 0, head, bytes))
		return boot_refuse(boot, "kernel %s: cannot be read", boot->config->kernel);
	why = elf_parse(head, bytes, boot->file_bytes, &kernel->image);
	if (why != NULL)
		return boot_refuse(boot, "kernel %s: %s", boot->config->kernel, why);
	rc = check_kind(boot, kernel);
	for (unsigned i = 0; rc == 0 && i < kernel->image.count; i++)
		if (kernel->image.segments[i].type == ELF_LOAD)
			rc = load_segment(boot, kernel, &kernel->image.segments[i]);
	return rc;
}

/* Texts for the kernel; false: too long. */
static bool put_text(char *out, size_t out_bytes, const char *first, const char *rest)
{
	return snprintf(out, out_bytes, "%s%s%s", first,
	               first[0] != '\0' && rest[0] != '\0' ? " " : "", rest) < (int)out_bytes;
}

/* As GRUB 1 and QEMU do it, the kernel's path is the first word of its line. */
static int put_texts(struct boot *boot, const struct kernel *kernel, struct handed *handed)
{
	const struct boot_config *config = boot->config;
	const char *first = kernel->image.multiboot ? config->kernel : "";

	strcpy(handed->loader, LOADER);
	if (!put_text(handed->line, sizeof(handed->line), first, config->cmdline))
		return boot_refuse(boot, "cmdline: longer than %zu bytes with the kernel's path",
		        sizeof(handed->line) - 1);
	if (!put_text(handed->module_line, sizeof(handed->module_line), config->initrd, ""))
		return boot_refuse(boot, "initrd: its path is longer than %zu bytes",
		        sizeof(handed->module_line) - 1);
	return 0;
}

static void fill_multiboot(const struct boot *boot, const struct kernel *kernel,
        const struct linux_e820_entry *map, unsigned count, struct handed *handed)
{
	uint64_t low = layout_ram_low(boot->config->ram_bytes);

	handed->multiboot = (struct mb1_info){
	        .flags = MB1_INFO_MEMORY | MB1_INFO_CMDLINE | MB1_INFO_MODULES | MB1_INFO_MMAP |
	                 MB1_INFO_LOADER,
	        .mem_lower = LAYOUT_EBDA >> 10,
	        .mem_upper = (uint32_t)((low - LAYOUT_HIGH_MEMORY) >> 10),
	        .cmdline = HANDED(line),
	        .module_count = kernel->module_bytes != 0,
	        .modules = HANDED(module),
	        .mmap_length = (uint32_t)(count * sizeof(struct mb1_mmap_entry)),
	        .mmap = HANDED(map),
	        .loader_name = HANDED(loader),
	};
	handed->module.multiboot = (struct mb1_module){
	        .start = (uint32_t)kernel->module,
	        .end = (uint32_t)(kernel->module + kernel->module_bytes),
	        .cmdline = HANDED(module_line),
	};
	for (unsigned i = 0; i < count; i++)
		handed->map.multiboot[i] = (struct mb1_mmap_entry){
		        .size = sizeof(struct mb1_mmap_entry) - sizeof(uint32_t),
		        .start_low = (uint32_t)map[i].start,
		        .start_high = (uint32_t)(map[i].start >> 32),
		        .length_low = (uint32_t)map[i].size,
		        .length_high = (uint32_t)(map[i].size >> 32),
		        .type = map[i].type,
		};
}

static void fill_pvh(const struct kernel *kernel, const struct linux_e820_entry *map,
        unsigned count, struct handed *handed)
{
	handed->pvh = (struct pvh_start_info){
	        .magic = PVH_MAGIC,
	        .version = PVH_VERSION,
	        .module_count = kernel->module_bytes != 0,
	        .modules = HANDED(module),
	        .cmdline = HANDED(line),
	        .rsdp = LAYOUT_ACPI,
	        .memmap = HANDED(map),
	        .memmap_entries = count,
	};
	handed->module.pvh = (struct pvh_module){
	        .address = kernel->module,
	        .bytes = kernel->module_bytes,
	        .cmdline = HANDED(module_line),
	};
	for (unsigned i = 0; i < count; i++)
		handed->map.pvh[i] = (struct pvh_memmap_entry){
		        .address = map[i].start, .bytes = map[i].size, .type = map[i].type};
}

/*
 * A Multiboot image starts as from a BIOS: the 8259s at vectors 8h and 70h with the timer alone let
 * through, the 8254 at 18.2 Hz. Only the guest can reach these, so it runs this first. EAX and EBX
 * are the protocol's, the rest may change (§3.2).
 */
static void load_bios_state(const struct kernel *kernel, struct handed *handed)
{
	static const uint8_t outs[13][2] = {/* port, value */
	        {0x20, 0x11}, {0xa0, 0x11}, {0x21, 0x08}, {0xa1, 0x70}, {0x21, 0x04}, {0xa1, 0x02},
	        {0x21, 0x01}, {0xa1, 0x01}, {0x21, 0xfa}, {0xa1, 0xff}, {0x43, 0x34}, {0x40, 0x00},
	        {0x40, 0x00}};
	const uint32_t entry = (uint32_t)kernel->image.entry;
	uint8_t *at = handed->code;

	_Static_assert(sizeof(handed->code) >= 2 + 4 * 13 + 9, "room for all");
	*at++ = 0x89, *at++ = 0xc6; /* mov esi, eax */
	for (unsigned i = 0; i < sizeof(outs) / sizeof(outs[0]); i++) {
		*at++ = 0xb0, *at++ = outs[i][1]; /* mov al, value */
		*at++ = 0xe6, *at++ = outs[i][0]; /* out port, al */
	}
	*at++ = 0x89, *at++ = 0xf0; /* mov eax, esi */
	*at++ = 0xb9;               /* mov ecx, entry */
	memcpy(at, &entry, sizeof(entry));
	at += sizeof(entry);
	*at++ = 0xff, *at++ = 0xe1; /* jmp ecx */
}

/* Both protocols' machine state: flat 32-bit segments, protected mode, no paging, interrupts off
 * (Multiboot §3.2; Xen's docs/misc/pvh.pandoc). */
static void fill_start(const struct kernel *kernel, struct keel_vcpu_state *start)
{
	const struct keel_segment data = {0, 0xffffffff, 0x10, 0xc93};
	bool multiboot = kernel->image.multiboot;

	*start = (struct keel_vcpu_state){
	        .groups = KEEL_VCPU_ALL,
	        .run_state = KEEL_RUN_READY,
	        .rip = multiboot ? HANDED(code) : kernel->pvh_entry,
	        .rflags = 2,
	        .cr0 = 0x11, /* ET, PE */
	        .pat = BOOT_PAT_RESET,
	};
	start->gpr[KEEL_RAX] = multiboot ? MB1_LOADER_MAGIC : 0;
	start->gpr[KEEL_RBX] = LAYOUT_HANDED;
	for (unsigned i = 0; i < 8; i++)
		start->segs[i] = data;
	start->segs[KEEL_CS] = (struct keel_segment){0, 0xffffffff, 8, 0xc9b};
	start->segs[KEEL_LDTR] = (struct keel_segment){0, 0xffff, 0, 0x082};
	start->segs[KEEL_TR] = (struct keel_segment){0, 0x67, 0, 0x08b};
}

int boot_load_elf(struct boot *boot, struct keel_vcpu_state *start)
{
	struct linux_e820_entry map[BOOT_E820_MAX];
	static struct handed handed;
	struct kernel kernel = {.end = LAYOUT_HIGH_MEMORY};
	unsigned count = boot_make_e820(boot->config->ram_bytes, map);
	int rc = load_kernel(boot, &kernel);

	memset(&handed, 0, sizeof(handed));
	if (rc == 0)
		rc = boot_load_initrd(boot, kernel.end, layout_ram_low(boot->config->ram_bytes),
		        &kernel.module, &kernel.module_bytes);
	if (rc == 0)
		rc = put_texts(boot, &kernel, &handed);
	if (rc != 0)
		return rc;
	if (kernel.image.multiboot) {
		fill_multiboot(boot, &kernel, map, count, &handed);
		load_bios_state(&kernel, &handed);
	} else {
		fill_pvh(&kernel, map, count, &handed);
	}
	gmem_write(boot->gmem, LAYOUT_HANDED, &handed, sizeof(handed));
	fill_start(&kernel, start);
	return 0;
}
