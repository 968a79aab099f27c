/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds what kind of kernel a VM is given and has it loaded; files, memory map and tables for all
 * kinds. */
#include "vmm/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/elf.h"
#include "vmm/acpi.h"
#include "vmm/layout.h"

#define PAGE_BYTES 4096u

int boot_refuse(struct boot *boot, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(boot->error, boot->error_bytes, format, args);
	va_end(args);
	return -EINVAL;
}

unsigned boot_make_e820(uint64_t ram_bytes, struct linux_e820_entry *entries)
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

bool boot_read(int fd, uint64_t offset, void *out, uint64_t bytes)
{
	uint8_t *at = out;

	while (bytes > 0) {
		ssize_t got = pread(fd, at, bytes, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += got;
		offset += (uint64_t)got;
		bytes -= (uint64_t)got;
	}
	return true;
}

int boot_open(struct boot *boot, const char *what, const char *path, uint64_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat info;

	if (fd < 0)
		return boot_refuse(boot, "%s %s: %s", what, path, strerror(errno));
	if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
		close(fd);
		return boot_refuse(boot, "%s %s: no regular file", what, path);
	}
	*bytes = (uint64_t)info.st_size;
	return fd;
}

int boot_load_initrd(
        struct boot *boot, uint64_t lowest, uint64_t limit, uint64_t *gpa, uint64_t *bytes)
{
	const char *path = boot->config->initrd;
	bool good;
	int fd;

	*bytes = 0;
	if (path[0] == '\0')
		return 0;
	fd = boot_open(boot, "initrd", path, bytes);
	if (fd < 0)
		return fd;
	if (*bytes == 0 || lowest > limit || *bytes > limit - lowest ||
	        ((limit - *bytes) & ~(uint64_t)(PAGE_BYTES - 1)) < lowest) {
		close(fd);
		return *bytes == 0 ? boot_refuse(boot, "initrd %s: is empty", path)
		                   : boot_refuse(boot,
		                             "initrd %s: %llu MiB do not fit beside the kernel in "
		                             "%llu MiB",
		                             path, (unsigned long long)(*bytes >> 20),
		                             (unsigned long long)(limit >> 20));
	}
	*gpa = (limit - *bytes) & ~(uint64_t)(PAGE_BYTES - 1);
	good = boot_read(fd, 0, gmem_range(boot->gmem, *gpa, *bytes), *bytes);
	close(fd);
	return good ? 0 : boot_refuse(boot, "initrd %s: cannot be read", path);
}

static int load_acpi(struct boot *boot)
{
	const struct acpi_config config = {
	        boot->config->cpus, boot->config->ram_bytes, LAYOUT_PCI64_BYTES};
	uint8_t *at = gmem_range(boot->gmem, LAYOUT_ACPI, LAYOUT_ACPI_BYTES);

	memset(at, 0, LAYOUT_ACPI_BYTES);
	if (acpi_build(&config, LAYOUT_ACPI, at, LAYOUT_ACPI_BYTES) == 0)
		return boot_refuse(boot, "ACPI tables do not fit");
	return 0;
}

/* A handler's code at `at` of F000h's segment, and the vectors that lead there. */
static void set_handler(struct boot *boot, unsigned offset, const uint8_t *code, size_t bytes,
        unsigned first, unsigned last)
{
	uint32_t address = LAYOUT_BIOS_CODE + offset;
	uint32_t vector = 0xf0000000u | (address & 0xffff);

	gmem_write(boot->gmem, address, code, bytes);
	for (unsigned i = first; i <= last; i++)
		gmem_write(boot->gmem, i * sizeof(vector), &vector, sizeof(vector));
}

/* What a BIOS leaves behind for code that is still in real mode: an interrupt comes back from where
 * it leads. (Services there are none.) */
static void load_bios_vectors(struct boot *boot)
{
	static const uint8_t ignore[] = {0xcf}; /* iret */
	static const uint8_t first_8259[] = {
	        0x50,       /* push ax */
	        0xb0, 0x20, /* mov al, 20h: EOI */
	        0xe6, 0x20, /* out 20h, al */
	        0x58,       /* pop ax */
	        0xcf,       /* iret */
	};
	static const uint8_t both_8259s[] = {0x50, 0xb0, 0x20, 0xe6, 0xa0, 0xe6, 0x20, 0x58, 0xcf};

	set_handler(boot, 0, ignore, sizeof(ignore), 0, 255);
	set_handler(boot, 0x10, first_8259, sizeof(first_8259), 0x08, 0x0f);
	set_handler(boot, 0x20, both_8259s, sizeof(both_8259s), 0x70, 0x77);
}

/* A guest that reboots through the BIOS (Linux's reboot=bios) jumps to F000:FFF0 in real mode and
 * must come out at a reset (C-59). */
static void load_reset_code(struct boot *boot)
{
	static const uint8_t code[] = {
	        0xba, LAYOUT_RESET_PORT & 0xff, LAYOUT_RESET_PORT >> 8, /* mov dx, 0cf9h */
	        0xb0, 0x06,                                             /* mov al, 6 */
	        0xee,                                                   /* out dx, al */
	        0xf4,                                                   /* hlt */
	        0xeb, 0xfd,                                             /* jmp back to it */
	};

	_Static_assert(sizeof(code) <= LAYOUT_HIGH_MEMORY - LAYOUT_RESET_CODE, "fits below 1 MiB");
	gmem_write(boot->gmem, LAYOUT_RESET_CODE, code, sizeof(code));
}

int boot_load(const struct boot_config *config, const struct gmem *gmem,
        struct keel_vcpu_state *start, char *error, size_t error_bytes)
{
	struct boot boot = {
	        .config = config, .gmem = gmem, .error = error, .error_bytes = error_bytes};
	uint8_t magic[4];
	int rc;

	if (gmem_range(gmem, 0, LAYOUT_HIGH_MEMORY) == NULL)
		return boot_refuse(&boot, "the VM has less than 1 MiB of memory");
	boot.fd = boot_open(&boot, "kernel", config->kernel, &boot.file_bytes);
	if (boot.fd < 0)
		return boot.fd;
	load_bios_vectors(&boot); /* below all else, which may lie over it */
	if (boot_read(boot.fd, 0, magic, sizeof(magic)) && elf_is_elf(magic, sizeof(magic)))
		rc = boot_load_elf(&boot, start);
	else
		rc = boot_load_linux(&boot, start);
	close(boot.fd);
	if (rc == 0)
		rc = load_acpi(&boot);
	if (rc == 0)
		load_reset_code(&boot);
	return rc;
}
