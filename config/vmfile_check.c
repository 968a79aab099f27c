/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds in advance what would make a VM's start fail: files that are missing, locked or of the
 * wrong kind, memory that the pool has not. */
#include "config/vmfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/hypercall.h"
#include "hw/linux_boot.h"
#include "lib/elf.h"

/* The bytes that a disk's user locks: QEMU's, and one of keelvm's own (engine/blk_file.c). */
#define LOCK_FIRST      100
#define LOCK_COUNT      200
#define LOCK_WRITERS    101
#define LOCK_WRITERS_NR 3
#define LOCK_PAGED      300

__attribute__((format(printf, 4, 5))) static bool refuse(
        struct vmfile_error *error, const struct vmfile *vm, unsigned line, const char *format, ...)
{
	int head = snprintf(error->text, sizeof(error->text), "%s:%u: ", vm->file, line);
	va_list args;

	va_start(args, format);
	vsnprintf(error->text + head, sizeof(error->text) - (size_t)head, format, args);
	va_end(args);
	return false;
}

static bool has_pvh_note(int fd, const struct elf_image *image)
{
	static uint8_t notes[ELF_MAX_NOTES];
	uint32_t entry;

	for (unsigned i = 0; i < image->count; i++) {
		const struct elf_segment *segment = &image->segments[i];

		if (segment->type == ELF_NOTE && segment->file_bytes <= sizeof(notes) &&
		        pread(fd, notes, segment->file_bytes, (off_t)segment->offset) ==
		                (ssize_t)segment->file_bytes &&
		        elf_find_pvh(notes, segment->file_bytes, &entry))
			return true;
	}
	return false;
}

/* What vmm/boot.h takes beside a bzImage. */
static bool check_elf(const struct vmfile *vm, int fd, const uint8_t *head, size_t bytes,
        struct vmfile_error *error)
{
	struct elf_image image;
	struct stat info;
	const char *why = fstat(fd, &info) != 0
	                          ? "cannot be read"
	                          : elf_parse(head, bytes, (uint64_t)info.st_size, &image);

	if (why != NULL)
		return refuse(error, vm, vm->line.kernel,
		        "kernel %s %s; give the path of a kernel, as /boot/vmlinuz-*", vm->kernel,
		        why);
	if (image.multiboot || has_pvh_note(fd, &image))
		return true;
	return refuse(error, vm, vm->line.kernel,
	        "kernel %s is an ELF file with neither a Multiboot 1 header nor a PVH note; give "
	        "the path of a kernel, as /boot/vmlinuz-*",
	        vm->kernel);
}

static bool check_bzimage(
        const struct vmfile *vm, const uint8_t *head, ssize_t got, struct vmfile_error *error)
{
	const unsigned line = vm->line.kernel;
	struct linux_setup_header setup;

	if (got < (ssize_t)(LINUX_HEADER_OFFSET + sizeof(setup)))
		return refuse(error, vm, line,
		        "kernel %s is no bzImage (%s); give the path of one, as /boot/vmlinuz-*",
		        vm->kernel, got < 0 ? strerror(errno) : "it is too short");
	memcpy(&setup, head + LINUX_HEADER_OFFSET, sizeof(setup));
	if (setup.boot_flag != LINUX_BOOT_FLAG || setup.header != LINUX_HEADER_MAGIC)
		return refuse(error, vm, line,
		        "kernel %s is no bzImage, nor an ELF kernel; give the path of one, as "
		        "/boot/vmlinuz-*",
		        vm->kernel);
	if (setup.version < LINUX_PROTOCOL_MIN || !(setup.xloadflags & LINUX_XLF_KERNEL_64))
		return refuse(error, vm, line,
		        "kernel %s has no 64-bit entry; give a 64-bit Linux 3.8 or newer",
		        vm->kernel);
	return true;
}

static bool check_kernel(const struct vmfile *vm, struct vmfile_error *error)
{
	static uint8_t head[ELF_HEAD_BYTES];
	int fd = open(vm->kernel, O_RDONLY | O_CLOEXEC);
	ssize_t got;
	bool good;

	if (fd < 0)
		return refuse(error, vm, vm->line.kernel,
		        "kernel %s: %s; give the path of a Linux bzImage, as /boot/vmlinuz-*",
		        vm->kernel, strerror(errno));
	got = pread(fd, head, sizeof(head), 0);
	if (got > 0 && elf_is_elf(head, (size_t)got))
		good = check_elf(vm, fd, head, (size_t)got, error);
	else
		good = check_bzimage(vm, head, got, error);
	close(fd);
	return good;
}

static bool check_initrd(const struct vmfile *vm, struct vmfile_error *error)
{
	struct stat info;

	if (vm->initrd[0] == '\0')
		return true;
	if (access(vm->initrd, R_OK) != 0 || stat(vm->initrd, &info) != 0)
		return refuse(error, vm, vm->line.initrd,
		        "initrd %s: %s; give the path of one, or remove the line", vm->initrd,
		        strerror(errno));
	if (!S_ISREG(info.st_mode))
		return refuse(error, vm, vm->line.initrd,
		        "initrd %s is no file; give the path of one, or remove the line",
		        vm->initrd);
	return true;
}

#define FIRMWARE_MIN 65536 /* a BIOS has its segment F000h */
#define PAGE_OF_HYP  (2u << 20)

static bool check_firmware(const struct vmfile *vm, struct vmfile_error *error)
{
	struct stat info;

	if (access(vm->firmware, R_OK) != 0 || stat(vm->firmware, &info) != 0)
		return refuse(error, vm, vm->line.firmware,
		        "firmware %s: %s; give the path of one, as /usr/share/ovmf/OVMF.fd of "
		        "Debian's package ovmf",
		        vm->firmware, strerror(errno));
	if (!S_ISREG(info.st_mode) || info.st_size < FIRMWARE_MIN ||
	        (uint64_t)info.st_size > KEEL_FIRMWARE_MAX)
		return refuse(error, vm, vm->line.firmware,
		        "firmware %s is no file of 64 KiB to 16 MiB; give the path of one, as "
		        "/usr/share/ovmf/OVMF.fd of Debian's package ovmf",
		        vm->firmware);
	return true;
}

static bool check_firmware_vars(const struct vmfile *vm, struct vmfile_error *error)
{
	struct stat info;

	if (vm->firmware_vars[0] == '\0')
		return true;
	if (access(vm->firmware_vars, R_OK | W_OK) != 0 || stat(vm->firmware_vars, &info) != 0)
		return refuse(error, vm, vm->line.firmware_vars,
		        "firmware_vars %s: %s; copy the file that belongs to the firmware there, "
		        "as /usr/share/OVMF/OVMF_VARS_4M.fd to OVMF_CODE_4M.fd",
		        vm->firmware_vars, strerror(errno));
	if (!S_ISREG(info.st_mode) || info.st_size == 0 || info.st_size % 4096 != 0 ||
	        (uint64_t)info.st_size > KEEL_FIRMWARE_MAX ||
	        vmfile_firmware_bytes(vm) > KEEL_FIRMWARE_MAX)
		return refuse(error, vm, vm->line.firmware_vars,
		        "firmware_vars %s is no file of whole pages, or larger than 16 MiB with "
		        "the firmware; copy the one that belongs to the firmware, as "
		        "/usr/share/OVMF/OVMF_VARS_4M.fd to OVMF_CODE_4M.fd",
		        vm->firmware_vars);
	return true;
}

static uint64_t size_of(const char *path)
{
	struct stat info;

	return path[0] == '\0' || stat(path, &info) != 0 || info.st_size < 0 ||
	                       (uint64_t)info.st_size > KEEL_FIRMWARE_MAX
	               ? 0
	               : (uint64_t)info.st_size;
}

uint32_t vmfile_firmware_bytes(const struct vmfile *vm)
{
	uint64_t bytes = size_of(vm->firmware) + size_of(vm->firmware_vars);

	return (uint32_t)((bytes + PAGE_OF_HYP - 1) / PAGE_OF_HYP * PAGE_OF_HYP);
}

/* Whether someone holds a lock that excludes one of ours there. */
static bool is_locked(int fd, off_t start, off_t count)
{
	struct flock lock = {
	        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = count};

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static bool check_disk(const struct vmfile *vm, const struct vmfile_disk *disk, bool start,
        struct stat *info, struct vmfile_error *error)
{
	/* Not to wait for the writer of a FIFO that someone named here. */
	int fd = open(disk->path, (disk->readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK);
	bool locked;

	if (fd < 0)
		return refuse(error, vm, disk->line, "disk %s: %s; %s", disk->path, strerror(errno),
		        errno == ENOENT  ? "create it, for example with truncate -s 10G"
		        : errno == EROFS ? "or say readonly = yes"
		                         : "give the path of an image or a block device");
	locked = disk->readonly ? is_locked(fd, LOCK_WRITERS, LOCK_WRITERS_NR)
	                        : is_locked(fd, LOCK_FIRST, LOCK_COUNT);
	locked = locked || (!disk->readonly && is_locked(fd, LOCK_PAGED, 1));
	if (fstat(fd, info) != 0 || (!S_ISREG(info->st_mode) && !S_ISBLK(info->st_mode))) {
		close(fd);
		return refuse(error, vm, disk->line,
		        "disk %s is neither a file nor a block device; give one of those",
		        disk->path);
	}
	close(fd);
	if (locked && start)
		return refuse(error, vm, disk->line,
		        "disk %s is in use: another process has it locked; stop the VM that has it "
		        "('keel vm list'), or use a copy%s",
		        disk->path,
		        disk->readonly ? "" : ", or share it with readonly = yes in both");
	if (S_ISREG(info->st_mode) && info->st_size < 512)
		return refuse(error, vm, disk->line,
		        "disk %s has %lld bytes, less than a sector; enlarge it, for example with "
		        "truncate -s 10G",
		        disk->path, (long long)info->st_size);
	return true;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode))
		return a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool check_disks(const struct vmfile *vm, bool start, struct vmfile_error *error)
{
	struct stat info[DEFINITION_MAX_DISKS];

	for (unsigned i = 0; i < vm->disk_count; i++) {
		if (!check_disk(vm, &vm->disks[i], start, &info[i], error))
			return false;
		for (unsigned j = 0; j < i; j++)
			if (is_same(&info[i], &info[j]) &&
			        !(vm->disks[i].readonly && vm->disks[j].readonly))
				return refuse(error, vm, vm->disks[i].line,
				        "disk %s is the disk of line %u again; use a copy, or say "
				        "readonly = yes in both",
				        vm->disks[i].path, vm->disks[j].line);
	}
	return true;
}

bool vmfile_check_files(const struct vmfile *vm, bool start, struct vmfile_error *error)
{
	return (vm->firmware[0] != '\0'
	                       ? check_firmware(vm, error) && check_firmware_vars(vm, error)
	                       : check_kernel(vm, error) && check_initrd(vm, error)) &&
	       check_disks(vm, start, error);
}

/* 256 KiB for the definition and all devices' records; for each queue its in-flight log, of 1,024
 * requests at most. */
uint64_t vmfile_vault_bytes(const struct vmfile *vm)
{
	uint64_t queues = (uint64_t)vm->disk_count * vm->cpus + (uint64_t)vm->net_count * 3 + 1;
	uint64_t bytes = (256u << 10) + queues * (32u << 10);

	return (bytes + KEEL_VM_VAULT_MIN - 1) / KEEL_VM_VAULT_MIN * KEEL_VM_VAULT_MIN;
}

bool vmfile_check_room(
        const struct vmfile *vm, const struct vmfile_room *room, struct vmfile_error *error)
{
	uint64_t needed = vm->memory_bytes + vmfile_firmware_bytes(vm) + vmfile_vault_bytes(vm);

	if (needed <= room->pool_free_bytes)
		return true;
	return refuse(error, vm, vm->line.memory,
	        "the VM needs %llu MiB of the pool, which has %llu of %llu MiB free; give it less "
	        "memory, stop another VM, or start hyp with a larger pool=",
	        (unsigned long long)(needed >> 20),
	        (unsigned long long)(room->pool_free_bytes >> 20),
	        (unsigned long long)(room->pool_bytes >> 20));
}
