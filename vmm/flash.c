/* SPDX-License-Identifier: BSD-2-Clause */
/* Flash commands on bytes in the VM's memory, and their way into a file. */
#include "vmm/flash.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/log.h"

#define BLOCK_BYTES 4096u

enum flash_mode {
	READING,
	PROGRAM, /* the next write is data */
	ERASE,   /* … confirms */
	COUNT,   /* … says how many writes a buffer has, less one */
	BUFFER,
	CONFIRM,
};

#define COMMAND_PROGRAM     0x10u
#define COMMAND_PROGRAM_ALT 0x40u
#define COMMAND_ERASE       0x20u
#define COMMAND_CLEAR       0x50u
#define COMMAND_STATUS      0x70u
#define COMMAND_CONFIRM     0xd0u
#define COMMAND_BUFFER      0xe8u
#define COMMAND_READ        0xffu
#define STATUS_READY        0x80u
#define STATUS_ERASE_FAILED 0x20u

static void keep(struct flash *flash)
{
	vault_write(flash->vault, flash->section, &flash->state, sizeof(flash->state));
}

static uint8_t *memory(const struct flash *flash)
{
	return gmem_range(flash->gmem, flash->state.gpa, flash->state.bytes);
}

static void mark(struct flash *flash, uint64_t from, uint64_t to)
{
	if (flash->dirty_from >= flash->dirty_to) {
		flash->dirty_from = from;
		flash->dirty_to = to;
		return;
	}
	flash->dirty_from = from < flash->dirty_from ? from : flash->dirty_from;
	flash->dirty_to = to > flash->dirty_to ? to : flash->dirty_to;
}

/* What is not written stays marked for the next time. */
static void save(struct flash *flash)
{
	while (flash->dirty_from < flash->dirty_to) {
		ssize_t done = pwrite(flash->fd, memory(flash) + flash->dirty_from,
		        flash->dirty_to - flash->dirty_from, (off_t)flash->dirty_from);

		if (done <= 0 && errno == EINTR)
			continue;
		if (done <= 0)
			break;
		flash->dirty_from += (uint64_t)done;
	}
	if (flash->dirty_from >= flash->dirty_to && fdatasync(flash->fd) == 0) {
		flash->failed = false;
		return;
	}
	if (!flash->failed)
		log_line("firmware_vars %s: %s: what the firmware writes is kept in memory for now",
		        flash->path, strerror(errno));
	flash->failed = true;
}

static int refuse(const struct flash *flash, char *error, size_t error_bytes, const char *why)
{
	snprintf(error, error_bytes, "firmware_vars %s: %s", flash->path, why);
	return -EINVAL;
}

static int open_file(struct flash *flash, char *error, size_t error_bytes)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	flash->fd = open(flash->path, O_RDWR | O_CLOEXEC);
	if (flash->fd < 0)
		return refuse(flash, error, error_bytes, strerror(errno));
	if (fcntl(flash->fd, F_OFD_SETLK, &lock) == 0)
		return 0;
	close(flash->fd);
	return refuse(flash, error, error_bytes, "is in use by another VM");
}

int flash_attach(struct flash *flash, const char *path, const struct gmem *gmem,
        const struct vault *vault, char *error, size_t error_bytes)
{
	int rc;

	*flash = (struct flash){.gmem = gmem, .vault = vault, .path = path, .fd = -1};
	flash->section = vault_make(vault, VAULT_FLASH, 0, VAULT_RECORD, 1, sizeof(flash->state));
	if (flash->section == NULL)
		return refuse(flash, error, error_bytes, "the vault is full");
	rc = vault_read(vault, flash->section, &flash->state, sizeof(flash->state));
	if (rc == -ENOENT)
		keep(flash);
	else if (rc != (int)sizeof(flash->state))
		return refuse(flash, error, error_bytes, "its state in the vault is damaged");
	rc = open_file(flash, error, error_bytes);
	if (rc != 0 || flash->state.bytes == 0)
		return rc;
	if (memory(flash) == NULL)
		return refuse(flash, error, error_bytes, "its state in the vault is damaged");
	if (!flash->state.shown) {
		mark(flash, 0, flash->state.bytes);
		save(flash);
	}
	return 0;
}

int flash_load(struct flash *flash, uint64_t first, uint64_t end, char *error, size_t error_bytes)
{
	struct stat info;
	uint64_t bytes;

	if (fstat(flash->fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0 ||
	        info.st_size % BLOCK_BYTES != 0)
		return refuse(flash, error, error_bytes,
		        "must be a file of whole pages; copy one that belongs to the firmware, as "
		        "/usr/share/OVMF/OVMF_VARS_4M.fd");
	bytes = (uint64_t)info.st_size;
	if (first > end || bytes > end - first)
		return refuse(flash, error, error_bytes,
		        "does not fit below the firmware; it grew since the VM was made: end the "
		        "VM "
		        "with 'keel vm kill' and start it");
	flash->state = (struct flash_state){.gpa = end - bytes, .bytes = bytes};
	flash->dirty_from = flash->dirty_to = 0;
	if (pread(flash->fd, memory(flash), bytes, 0) != (ssize_t)bytes)
		return refuse(flash, error, error_bytes, "cannot be read");
	keep(flash);
	return 0;
}

static void show_status(struct flash *flash)
{
	gmem_write(flash->gmem, flash->state.shown_at, &flash->state.status, 1);
}

static void command(struct flash *flash, uint64_t gpa, uint8_t what)
{
	struct flash_state *s = &flash->state;

	switch (what) {
	case COMMAND_PROGRAM:
	case COMMAND_PROGRAM_ALT: s->mode = PROGRAM; break;
	case COMMAND_ERASE: s->mode = ERASE; break;
	case COMMAND_BUFFER:
		s->status |= STATUS_READY;
		s->mode = COUNT;
		break;
	case COMMAND_CLEAR: s->status = 0; break;
	case COMMAND_STATUS:
		s->shown_at = gpa;
		gmem_read(flash->gmem, gpa, &s->hidden, 1);
		s->shown = 1;
		break;
	case COMMAND_READ: save(flash); break;
	}
}

static void program(struct flash *flash, const struct hv_exit *exit)
{
	uint64_t at = exit->address - flash->state.gpa;

	gmem_write(flash->gmem, exit->address, &exit->data, exit->size);
	mark(flash, at, at + exit->size);
	flash->state.status |= STATUS_READY;
}

static void erase(struct flash *flash, const struct hv_exit *exit)
{
	uint64_t at = (exit->address - flash->state.gpa) / BLOCK_BYTES * BLOCK_BYTES;

	flash->state.status |= STATUS_READY;
	flash->state.mode = READING;
	if ((uint8_t)exit->data != COMMAND_CONFIRM) {
		flash->state.status |= STATUS_ERASE_FAILED;
		return;
	}
	memset(memory(flash) + at, 0xff, BLOCK_BYTES);
	mark(flash, at, at + BLOCK_BYTES);
}

static void step(struct flash *flash, const struct hv_exit *exit)
{
	struct flash_state *s = &flash->state;

	switch (s->mode) {
	case READING: command(flash, exit->address, (uint8_t)exit->data); break;
	case PROGRAM:
		program(flash, exit);
		s->mode = READING;
		break;
	case ERASE: erase(flash, exit); break;
	case COUNT:
		s->left = (uint8_t)exit->data + 1u;
		s->mode = BUFFER;
		break;
	case BUFFER:
		program(flash, exit);
		if (--s->left == 0)
			s->mode = CONFIRM;
		break;
	default: s->mode = READING; break;
	}
}

bool flash_write(struct flash *flash, const struct hv_exit *exit)
{
	struct flash_state *s = &flash->state;
	uint64_t at = exit->address - s->gpa;

	if (flash->section == NULL || exit->address < s->gpa || at >= s->bytes ||
	        exit->size > s->bytes - at)
		return false;
	if (s->sequence != exit->sequence || s->vcpu != exit->vcpu) {
		if (s->shown)
			gmem_write(flash->gmem, s->shown_at, &s->hidden, 1);
		s->shown = 0;
		step(flash, exit);
		s->sequence = exit->sequence;
		s->vcpu = exit->vcpu;
		keep(flash);
	}
	/* Not before the vault has the byte that it hides. */
	if (s->shown)
		show_status(flash);
	return true;
}
