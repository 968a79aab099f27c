/* SPDX-License-Identifier: BSD-2-Clause */
/* Flash commands on bytes in the VM's memory, and their way into a file. */
#include "vmm/flash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "vmm/layout.h"
#include "vmm/log.h"

#define BLOCK_BYTES   4096u
#define LOCK_WAIT_MS  3000u
#define LOCK_PAUSE_MS 10u

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

static uint64_t first(const struct flash *flash)
{
	return LAYOUT_FOUR_GIB - flash->memory_bytes;
}

/* The byte at a guest-physical address in the flash. */
static uint8_t *at(const struct flash *flash, uint64_t gpa)
{
	return flash->memory + (gpa - first(flash));
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

static bool write_out(const struct flash *flash)
{
	uint64_t from = flash->dirty_from;

	while (from < flash->dirty_to) {
		ssize_t done = pwrite(flash->fd, at(flash, flash->state.gpa + from),
		        flash->dirty_to - from, (off_t)from);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		from += (uint64_t)done;
	}
	return fdatasync(flash->fd) == 0;
}

/* What did not reach the file stays marked for the next time. */
static void save(struct flash *flash)
{
	if (flash->dirty_from >= flash->dirty_to)
		return;
	errno = 0;
	if (write_out(flash)) {
		flash->failed = false;
		flash->dirty_from = flash->dirty_to = 0;
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

/* A predecessor that was killed holds the lock until the kernel has ended it. */
static bool lock_file(int fd)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000l};
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	for (unsigned waited_ms = 0; fcntl(fd, F_OFD_SETLK, &lock) != 0;
	        waited_ms += LOCK_PAUSE_MS) {
		if ((errno != EAGAIN && errno != EACCES) || waited_ms >= LOCK_WAIT_MS)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

static int open_file(struct flash *flash, char *error, size_t error_bytes)
{
	int code;

	flash->fd = open(flash->path, O_RDWR | O_CLOEXEC);
	if (flash->fd < 0)
		return refuse(flash, error, error_bytes, strerror(errno));
	if (lock_file(flash->fd))
		return 0;
	code = errno;
	close(flash->fd);
	return refuse(flash, error, error_bytes,
	        code == EAGAIN || code == EACCES
	                ? "is in use: another process has it locked; give each VM its own"
	                : strerror(code));
}

static bool is_sound(const struct flash *flash)
{
	const struct flash_state *s = &flash->state;

	return s->bytes == 0 || (s->gpa >= first(flash) && s->gpa < LAYOUT_FOUR_GIB &&
	                                s->bytes <= LAYOUT_FOUR_GIB - s->gpa);
}

int flash_attach(struct flash *flash, const char *path, uint8_t *memory, uint64_t memory_bytes,
        const struct vault *vault, char *error, size_t error_bytes)
{
	int rc;

	*flash = (struct flash){.vault = vault,
	        .memory = memory,
	        .memory_bytes = memory_bytes,
	        .path = path,
	        .fd = -1};
	rc = vault_record(
	        vault, VAULT_FLASH, 0, &flash->state, sizeof(flash->state), &flash->section);
	if (rc == -ENOSPC)
		return refuse(flash, error, error_bytes, "the vault is full");
	if (rc != 0 || !is_sound(flash))
		return refuse(flash, error, error_bytes, "its state in the vault is damaged");
	rc = open_file(flash, error, error_bytes);
	if (rc != 0)
		return rc;
	mark(flash, 0, flash->state.bytes);
	/* Else a byte in memory is not the flash's; the guest's next write puts it right. */
	if (!flash->state.shown)
		save(flash);
	return 0;
}

static void hide_status(struct flash *flash)
{
	if (flash->state.shown)
		*at(flash, flash->state.shown_at) = flash->state.hidden;
	flash->state.shown = 0;
}

void flash_reset(struct flash *flash)
{
	if (flash->section == NULL || flash->state.bytes == 0)
		return;
	hide_status(flash);
	flash->state.mode = READING;
	flash->state.status = 0;
	mark(flash, 0, flash->state.bytes);
	save(flash);
	if (!flash->failed)
		flash->state = (struct flash_state){0};
	keep(flash);
}

int flash_load(struct flash *flash, uint64_t end, char *error, size_t error_bytes)
{
	struct stat info;
	uint64_t bytes;

	if (flash->state.bytes != 0 && flash->state.gpa + flash->state.bytes == end)
		return 0; /* newer than the file */
	if (fstat(flash->fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0 ||
	        info.st_size % BLOCK_BYTES != 0)
		return refuse(flash, error, error_bytes,
		        "must be a file of whole pages; copy one that belongs to the firmware, as "
		        "/usr/share/OVMF/OVMF_VARS_4M.fd");
	bytes = (uint64_t)info.st_size;
	if (bytes > end - first(flash))
		return refuse(flash, error, error_bytes,
		        "has more than the VM was made with; end the VM with 'keel vm kill' and "
		        "start it");
	memset(flash->memory, 0, end - first(flash));
	if (pread(flash->fd, at(flash, end - bytes), bytes, 0) != (ssize_t)bytes)
		return refuse(flash, error, error_bytes, "cannot be read");
	flash->dirty_from = flash->dirty_to = 0;
	flash->state = (struct flash_state){.gpa = end - bytes, .bytes = bytes};
	keep(flash);
	return 0;
}

static void show_status(struct flash *flash)
{
	*at(flash, flash->state.shown_at) = flash->state.status;
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
		s->hidden = *at(flash, gpa);
		s->shown = 1;
		break;
	case COMMAND_READ: save(flash); break;
	}
}

static void program(struct flash *flash, const struct hv_exit *exit)
{
	uint64_t from = exit->address - flash->state.gpa;

	memcpy(at(flash, exit->address), &exit->data, exit->size);
	mark(flash, from, from + exit->size);
	flash->state.status |= STATUS_READY;
}

static void erase(struct flash *flash, const struct hv_exit *exit)
{
	uint64_t from = (exit->address - flash->state.gpa) / BLOCK_BYTES * BLOCK_BYTES;

	flash->state.status |= STATUS_READY;
	flash->state.mode = READING;
	if ((uint8_t)exit->data != COMMAND_CONFIRM) {
		flash->state.status |= STATUS_ERASE_FAILED;
		return;
	}
	memset(at(flash, flash->state.gpa + from), 0xff, BLOCK_BYTES);
	mark(flash, from, from + BLOCK_BYTES);
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
	uint64_t from = exit->address - s->gpa;

	if (flash->section == NULL || exit->address < s->gpa || from >= s->bytes ||
	        exit->size > s->bytes - from)
		return false;
	if (s->sequence != exit->sequence || s->vcpu != exit->vcpu) {
		hide_status(flash);
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
