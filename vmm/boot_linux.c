/* SPDX-License-Identifier: BSD-2-Clause */
/* Lays a bzImage, its initrd, zero page, tables and page tables out in guest memory (Linux's x86
 * boot protocol, 64-bit). */
#include "vmm/boot.h"

#include <string.h>

#include "vmm/layout.h"

#define PAGE_BYTES   4096u
#define LARGE_PAGE   0x200000ull
#define PAGE_PRESENT 0x003u /* present, writable */
#define PAGE_LARGE   0x083u
#define GDT_CODE     0x00af9b000000ffffull
#define GDT_DATA     0x00cf93000000ffffull

#define CR0_START  0x80000031ull /* PG, NE, ET, PE */
#define CR4_START  0x20ull       /* PAE */
#define EFER_START 0x500ull      /* LMA, LME */

struct loader {
	struct boot *boot;
	const struct boot_config *config;
	const struct gmem *gmem;
	struct linux_setup_header header;
	uint64_t kernel_gpa, kernel_end; /* with what it needs while it unpacks itself */
	uint64_t initrd_gpa, initrd_bytes;
};

static int check_header(struct loader *loader)
{
	const struct linux_setup_header *header = &loader->header;
	const char *path = loader->config->kernel;

	if (header->boot_flag != LINUX_BOOT_FLAG || header->header != LINUX_HEADER_MAGIC)
		return boot_refuse(
		        loader->boot, "kernel %s: is no bzImage (no Linux boot header)", path);
	if (header->version < LINUX_PROTOCOL_MIN)
		return boot_refuse(loader->boot,
		        "kernel %s: boot protocol %u.%02u is too old, 2.12 is needed", path,
		        header->version >> 8, header->version & 0xff);
	if (!(header->loadflags & LINUX_LOADED_HIGH) || !(header->xloadflags & LINUX_XLF_KERNEL_64))
		return boot_refuse(loader->boot, "kernel %s: is no 64-bit bzImage", path);
	return 0;
}

/* Where the kernel wants to be if that fits, else as low as it may. */
static int place_kernel(struct loader *loader, uint64_t file_bytes)
{
	const struct linux_setup_header *header = &loader->header;
	uint64_t low = layout_ram_low(loader->config->ram_bytes);
	uint64_t need = header->init_size > file_bytes ? header->init_size : file_bytes;
	uint64_t align = header->kernel_alignment;
	uint64_t at = header->pref_address;

	if (align == 0 || (align & (align - 1)) != 0 || align > 1u << 30)
		return boot_refuse(loader->boot, "kernel %s: alignment %llu is not usable",
		        loader->config->kernel, (unsigned long long)align);
	if (header->relocatable_kernel && (at < LAYOUT_HIGH_MEMORY || at > low || need > low - at))
		at = (LAYOUT_HIGH_MEMORY + align - 1) & ~(align - 1);
	if (at < LAYOUT_HIGH_MEMORY || at > low || need > low - at)
		return boot_refuse(loader->boot,
		        "kernel %s: needs %llu MiB at %llu MiB, the VM has %llu MiB",
		        loader->config->kernel, (unsigned long long)(need >> 20),
		        (unsigned long long)(at >> 20), (unsigned long long)(low >> 20));
	loader->kernel_gpa = at;
	loader->kernel_end = at + need;
	return 0;
}

static int load_kernel(struct loader *loader, uint64_t file_bytes)
{
	uint8_t head[LINUX_HEADER_OFFSET + sizeof(struct linux_setup_header)];
	uint64_t setup_bytes, kernel_bytes;
	unsigned sectors;
	int rc;

	if (file_bytes < sizeof(head) || !boot_read(loader->boot->fd, 0, head, sizeof(head)))
		return boot_refuse(loader->boot, "kernel %s: is no bzImage (too short)",
		        loader->config->kernel);
	memcpy(&loader->header, head + LINUX_HEADER_OFFSET, sizeof(loader->header));
	rc = check_header(loader);
	if (rc != 0)
		return rc;
	sectors = loader->header.setup_sects ? loader->header.setup_sects
	                                     : LINUX_SETUP_SECTS_IF_ZERO;
	setup_bytes = (sectors + 1ull) * LINUX_SECTOR_BYTES;
	if (file_bytes <= setup_bytes + LINUX_ENTRY_64_OFFSET)
		return boot_refuse(loader->boot, "kernel %s: is cut short", loader->config->kernel);
	kernel_bytes = file_bytes - setup_bytes;
	if (kernel_bytes + 15 < loader->header.syssize * 16ull)
		return boot_refuse(loader->boot, "kernel %s: is cut short", loader->config->kernel);
	rc = place_kernel(loader, kernel_bytes);
	if (rc != 0)
		return rc;
	if (!boot_read(loader->boot->fd, setup_bytes,
	            gmem_range(loader->gmem, loader->kernel_gpa, kernel_bytes), kernel_bytes))
		return boot_refuse(
		        loader->boot, "kernel %s: cannot be read", loader->config->kernel);
	return 0;
}

static int load_cmdline(struct loader *loader)
{
	size_t bytes = strlen(loader->config->cmdline) + 1;
	size_t max = loader->header.cmdline_size;

	if (max > LAYOUT_CMDLINE_MAX - 1)
		max = LAYOUT_CMDLINE_MAX - 1;
	if (bytes - 1 > max)
		return boot_refuse(
		        loader->boot, "cmdline: %zu bytes, the kernel takes %zu", bytes - 1, max);
	gmem_write(loader->gmem, LAYOUT_CMDLINE, loader->config->cmdline, bytes);
	return 0;
}

static void load_zero_page(struct loader *loader)
{
	struct linux_boot_params params;

	memset(&params, 0, sizeof(params));
	params.hdr = loader->header;
	params.hdr.type_of_loader = LINUX_LOADER_UNDEFINED;
	params.hdr.code32_start = (uint32_t)loader->kernel_gpa;
	params.hdr.ramdisk_image = (uint32_t)loader->initrd_gpa;
	params.hdr.ramdisk_size = (uint32_t)loader->initrd_bytes;
	params.hdr.cmd_line_ptr = LAYOUT_CMDLINE;
	params.acpi_rsdp_addr = LAYOUT_ACPI;
	params.e820_entries = (uint8_t)boot_make_e820(loader->config->ram_bytes, params.e820_table);
	gmem_write(loader->gmem, LAYOUT_ZERO_PAGE, &params, sizeof(params));
}

/* Identity map of the first 4 GiB in 2 MiB pages, and a GDT with __BOOT_CS and __BOOT_DS. */
static void load_cpu_tables(struct loader *loader)
{
	const uint64_t gdt[4] = {0, 0, GDT_CODE, GDT_DATA};
	uint64_t page[512];

	gmem_write(loader->gmem, LAYOUT_GDT, gdt, sizeof(gdt));
	memset(page, 0, sizeof(page));
	page[0] = (LAYOUT_PAGE_TABLES + PAGE_BYTES) | PAGE_PRESENT;
	gmem_write(loader->gmem, LAYOUT_PAGE_TABLES, page, sizeof(page));
	for (unsigned i = 0; i < 4; i++)
		page[i] = (LAYOUT_PAGE_TABLES + (2 + i) * PAGE_BYTES) | PAGE_PRESENT;
	gmem_write(loader->gmem, LAYOUT_PAGE_TABLES + PAGE_BYTES, page, sizeof(page));
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned k = 0; k < 512; k++)
			page[k] = (i * 512ull + k) * LARGE_PAGE | PAGE_LARGE;
		gmem_write(loader->gmem, LAYOUT_PAGE_TABLES + (2 + i) * PAGE_BYTES, page,
		        sizeof(page));
	}
}

static void fill_start(const struct loader *loader, struct keel_vcpu_state *start)
{
	const struct keel_segment data = {0, 0xffffffff, LINUX_DS, 0xc93};

	*start = (struct keel_vcpu_state){
	        .groups = KEEL_VCPU_ALL,
	        .run_state = KEEL_RUN_READY,
	        .rip = loader->kernel_gpa + LINUX_ENTRY_64_OFFSET,
	        .rflags = 2,
	        .gdtr = {LAYOUT_GDT, 4 * 8 - 1, 0, 0},
	        .cr0 = CR0_START,
	        .cr3 = LAYOUT_PAGE_TABLES,
	        .cr4 = CR4_START,
	        .efer = EFER_START,
	        .pat = BOOT_PAT_RESET,
	};
	start->gpr[KEEL_RSI] = LAYOUT_ZERO_PAGE;
	for (unsigned i = 0; i < 8; i++)
		start->segs[i] = data;
	start->segs[KEEL_CS] = (struct keel_segment){0, 0xffffffff, LINUX_CS, 0xa9b};
	start->segs[KEEL_LDTR] = (struct keel_segment){0, 0xffff, 0, 0x082};
	start->segs[KEEL_TR] = (struct keel_segment){0, 0xffff, 0, 0x08b};
}

int boot_load_linux(struct boot *boot, struct keel_vcpu_state *start)
{
	struct loader loader = {.boot = boot, .config = boot->config, .gmem = boot->gmem};
	uint64_t limit = layout_ram_low(boot->config->ram_bytes);
	int rc = load_kernel(&loader, boot->file_bytes);

	if (rc != 0)
		return rc;
	if (limit > loader.header.initrd_addr_max + 1ull)
		limit = loader.header.initrd_addr_max + 1ull;
	rc = boot_load_initrd(
	        boot, loader.kernel_end, limit, &loader.initrd_gpa, &loader.initrd_bytes);
	if (rc == 0)
		rc = load_cmdline(&loader);
	if (rc != 0)
		return rc;
	load_zero_page(&loader);
	load_cpu_tables(&loader);
	fill_start(&loader, start);
	return 0;
}
