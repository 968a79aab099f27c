/* SPDX-License-Identifier: BSD-2-Clause */
/* Lays a bzImage, its initrd, zero page, tables and page tables out in guest memory (Linux's x86
 * boot protocol, 64-bit). */
#include "vmm/boot_linux.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/acpi.h"
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
#define PAT_RESET  0x0007040600070406ull

struct loader {
	const struct boot_linux_config *config;
	const struct gmem *gmem;
	char *error;
	size_t error_bytes;
	struct linux_setup_header header;
	uint64_t kernel_gpa, kernel_end; /* with what it needs while it unpacks itself */
	uint64_t initrd_gpa, initrd_bytes;
};

__attribute__((format(printf, 2, 3))) static int refuse(
        struct loader *loader, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(loader->error, loader->error_bytes, format, args);
	va_end(args);
	return -EINVAL;
}

unsigned boot_linux_make_e820(uint64_t ram_bytes, struct linux_e820_entry *entries)
{
	uint64_t low = layout_ram_low(ram_bytes);
	unsigned count = 0;

	entries[count++] = (struct linux_e820_entry){0, LAYOUT_EBDA, BOOT_E820_RAM};
	/* RAM too, but Linux is not to use it: EBDA, the hole of old, the ACPI tables. */
	entries[count++] = (struct linux_e820_entry){
	        LAYOUT_EBDA, LAYOUT_HIGH_MEMORY - LAYOUT_EBDA, BOOT_E820_RESERVED};
	entries[count++] = (struct linux_e820_entry){
	        LAYOUT_HIGH_MEMORY, low - LAYOUT_HIGH_MEMORY, BOOT_E820_RAM};
	entries[count++] = (struct linux_e820_entry){
	        LAYOUT_ECAM, LAYOUT_ECAM_BYTES, BOOT_E820_RESERVED};
	if (ram_bytes > low)
		entries[count++] = (struct linux_e820_entry){
		        LAYOUT_FOUR_GIB, ram_bytes - low, BOOT_E820_RAM};
	return count;
}

static bool read_all(int fd, off_t offset, void *out, size_t bytes)
{
	uint8_t *at = out;

	while (bytes > 0) {
		ssize_t got = pread(fd, at, bytes, offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += got;
		offset += got;
		bytes -= (size_t)got;
	}
	return true;
}

static int open_file(struct loader *loader, const char *what, const char *path, uint64_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat info;

	if (fd < 0)
		return refuse(loader, "%s %s: %s", what, path, strerror(errno));
	if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
		close(fd);
		return refuse(loader, "%s %s: no regular file", what, path);
	}
	*bytes = (uint64_t)info.st_size;
	return fd;
}

static int check_header(struct loader *loader)
{
	const struct linux_setup_header *header = &loader->header;
	const char *path = loader->config->kernel;

	if (header->boot_flag != LINUX_BOOT_FLAG || header->header != LINUX_HEADER_MAGIC)
		return refuse(loader, "kernel %s: is no bzImage (no Linux boot header)", path);
	if (header->version < LINUX_PROTOCOL_MIN)
		return refuse(loader, "kernel %s: boot protocol %u.%02u is too old, 2.12 is needed",
		        path, header->version >> 8, header->version & 0xff);
	if (!(header->loadflags & LINUX_LOADED_HIGH) || !(header->xloadflags & LINUX_XLF_KERNEL_64))
		return refuse(loader, "kernel %s: is no 64-bit bzImage", path);
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
		return refuse(loader, "kernel %s: alignment %llu is not usable",
		        loader->config->kernel, (unsigned long long)align);
	if (header->relocatable_kernel && (at < LAYOUT_HIGH_MEMORY || at > low || need > low - at))
		at = (LAYOUT_HIGH_MEMORY + align - 1) & ~(align - 1);
	if (at < LAYOUT_HIGH_MEMORY || at > low || need > low - at)
		return refuse(loader, "kernel %s: needs %llu MiB at %llu MiB, the VM has %llu MiB",
		        loader->config->kernel, (unsigned long long)(need >> 20),
		        (unsigned long long)(at >> 20), (unsigned long long)(low >> 20));
	loader->kernel_gpa = at;
	loader->kernel_end = at + need;
	return 0;
}

static int load_kernel_from(struct loader *loader, int fd, uint64_t file_bytes)
{
	uint8_t head[LINUX_HEADER_OFFSET + sizeof(struct linux_setup_header)];
	uint64_t setup_bytes, kernel_bytes;
	unsigned sectors;
	int rc;

	if (file_bytes < sizeof(head) || !read_all(fd, 0, head, sizeof(head)))
		return refuse(
		        loader, "kernel %s: is no bzImage (too short)", loader->config->kernel);
	memcpy(&loader->header, head + LINUX_HEADER_OFFSET, sizeof(loader->header));
	rc = check_header(loader);
	if (rc != 0)
		return rc;
	sectors = loader->header.setup_sects ? loader->header.setup_sects
	                                     : LINUX_SETUP_SECTS_IF_ZERO;
	setup_bytes = (sectors + 1ull) * LINUX_SECTOR_BYTES;
	if (file_bytes <= setup_bytes + LINUX_ENTRY_64_OFFSET)
		return refuse(loader, "kernel %s: is cut short", loader->config->kernel);
	kernel_bytes = file_bytes - setup_bytes;
	if (kernel_bytes + 15 < loader->header.syssize * 16ull)
		return refuse(loader, "kernel %s: is cut short", loader->config->kernel);
	rc = place_kernel(loader, kernel_bytes);
	if (rc != 0)
		return rc;
	if (!read_all(fd, (off_t)setup_bytes,
	            gmem_range(loader->gmem, loader->kernel_gpa, kernel_bytes), kernel_bytes))
		return refuse(loader, "kernel %s: cannot be read", loader->config->kernel);
	return 0;
}

static int load_kernel(struct loader *loader)
{
	uint64_t bytes = 0;
	int rc, fd = open_file(loader, "kernel", loader->config->kernel, &bytes);

	if (fd < 0)
		return fd;
	rc = load_kernel_from(loader, fd, bytes);
	close(fd);
	return rc;
}

/* As high as the kernel allows, so that it is out of the way of what unpacks itself. */
static int load_initrd(struct loader *loader)
{
	uint64_t limit = layout_ram_low(loader->config->ram_bytes), bytes = 0;
	const char *path = loader->config->initrd;
	bool good;
	int fd;

	if (path[0] == '\0')
		return 0;
	fd = open_file(loader, "initrd", path, &bytes);
	if (fd < 0)
		return fd;
	if (limit > loader->header.initrd_addr_max + 1ull)
		limit = loader->header.initrd_addr_max + 1ull;
	if (bytes == 0 || bytes > limit - loader->kernel_end ||
	        ((limit - bytes) & ~(uint64_t)(PAGE_BYTES - 1)) < loader->kernel_end) {
		close(fd);
		return bytes == 0 ? refuse(loader, "initrd %s: is empty", path)
		                  : refuse(loader,
		                            "initrd %s: %llu MiB do not fit beside the kernel in "
		                            "%llu MiB",
		                            path, (unsigned long long)(bytes >> 20),
		                            (unsigned long long)(limit >> 20));
	}
	loader->initrd_gpa = (limit - bytes) & ~(uint64_t)(PAGE_BYTES - 1);
	loader->initrd_bytes = bytes;
	good = read_all(fd, 0, gmem_range(loader->gmem, loader->initrd_gpa, bytes), bytes);
	close(fd);
	return good ? 0 : refuse(loader, "initrd %s: cannot be read", path);
}

static int load_cmdline(struct loader *loader)
{
	size_t bytes = strlen(loader->config->cmdline) + 1;
	size_t max = loader->header.cmdline_size;

	if (max > LAYOUT_CMDLINE_MAX - 1)
		max = LAYOUT_CMDLINE_MAX - 1;
	if (bytes - 1 > max)
		return refuse(loader, "cmdline: %zu bytes, the kernel takes %zu", bytes - 1, max);
	gmem_write(loader->gmem, LAYOUT_CMDLINE, loader->config->cmdline, bytes);
	return 0;
}

static int load_acpi(struct loader *loader)
{
	const struct acpi_config config = {loader->config->cpus, loader->config->ram_bytes};
	uint8_t *at = gmem_range(loader->gmem, LAYOUT_ACPI, LAYOUT_ACPI_BYTES);

	memset(at, 0, LAYOUT_ACPI_BYTES);
	if (acpi_build(&config, LAYOUT_ACPI, at, LAYOUT_ACPI_BYTES) == 0)
		return refuse(loader, "ACPI tables do not fit");
	return 0;
}

/* A guest that reboots through the BIOS (Linux's reboot=bios) jumps to F000:FFF0 in real mode and
 * must come out at a reset (C-59). */
static void load_reset_code(struct loader *loader)
{
	static const uint8_t code[] = {
	        0xba, LAYOUT_RESET_PORT & 0xff, LAYOUT_RESET_PORT >> 8, /* mov dx, 0cf9h */
	        0xb0, 0x06,                                             /* mov al, 6 */
	        0xee,                                                   /* out dx, al */
	        0xf4,                                                   /* hlt */
	        0xeb, 0xfd,                                             /* jmp back to it */
	};

	_Static_assert(sizeof(code) <= LAYOUT_HIGH_MEMORY - LAYOUT_RESET_CODE, "fits below 1 MiB");
	gmem_write(loader->gmem, LAYOUT_RESET_CODE, code, sizeof(code));
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
	params.e820_entries = (uint8_t)boot_linux_make_e820(
	        loader->config->ram_bytes, params.e820_table);
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
	        .pat = PAT_RESET,
	};
	start->gpr[KEEL_RSI] = LAYOUT_ZERO_PAGE;
	for (unsigned i = 0; i < 8; i++)
		start->segs[i] = data;
	start->segs[KEEL_CS] = (struct keel_segment){0, 0xffffffff, LINUX_CS, 0xa9b};
	start->segs[KEEL_LDTR] = (struct keel_segment){0, 0xffff, 0, 0x082};
	start->segs[KEEL_TR] = (struct keel_segment){0, 0xffff, 0, 0x08b};
}

int boot_linux_load(const struct boot_linux_config *config, const struct gmem *gmem,
        struct keel_vcpu_state *start, char *error, size_t error_bytes)
{
	struct loader loader = {
	        .config = config, .gmem = gmem, .error = error, .error_bytes = error_bytes};
	int rc;

	if (gmem_range(gmem, 0, LAYOUT_HIGH_MEMORY) == NULL)
		return refuse(&loader, "the VM has less than 1 MiB of memory");
	rc = load_kernel(&loader);
	if (rc == 0)
		rc = load_initrd(&loader);
	if (rc == 0)
		rc = load_cmdline(&loader);
	if (rc == 0)
		rc = load_acpi(&loader);
	if (rc != 0)
		return rc;
	load_reset_code(&loader);
	load_zero_page(&loader);
	load_cpu_tables(&loader);
	fill_start(&loader, start);
	return 0;
}
