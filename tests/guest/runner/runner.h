/* SPDX-License-Identifier: BSD-2-Clause */
/* The runner's one VM, and what its parts do for each other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/exits.h"
#include "abi/ioctl.h"
#include "tests/guest/board.h"

struct options {
	const char *elf;
	const char *arguments;
	unsigned vcpus;
	unsigned ram_mib;
	unsigned limit_s;
	unsigned resets; /* how often a reset starts the guest again, before it ends the run */
	unsigned mode;   /* 16 or 64 */
	uint64_t seed;
	unsigned restart_ms;
	bool counters;
	bool read_late;
	bool quiet; /* the guest's console is read, but not shown */
};

struct board {
	struct board_access log[BOARD_LOG_MAX];
	uint32_t logged;
	uint8_t memory[BOARD_MMIO_BYTES];
	uint8_t ports[8];
	uint8_t fifo;
	uint8_t typed[256];
	unsigned typed_count;
	uint32_t msi_target;
};

struct vm {
	struct options options;
	int fd;
	uint32_t id;
	uint8_t *ram;
	uint64_t ram_bytes;
	uint64_t vault_bytes;
	uint8_t *vault;
	struct keel_vm_shared *shared;
	uint64_t tsc_hz;
	uint64_t boots;
	uint64_t console_position;
	uint64_t console_bytes;
	struct board board;
	int result; /* -1: runs on */
};

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* load.c: memory and registers as the guest starts with. */
void load_guest(struct vm *vm);
/* board.c: the answer to one access; a read's value. */
uint64_t board_access(struct vm *vm, const struct keel_exit_slot *s);
