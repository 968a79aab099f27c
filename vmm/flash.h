/* SPDX-License-Identifier: BSD-2-Clause */
/* The flash in which UEFI firmware keeps its variables, and the file behind it. */
#pragma once

#include "vmm/hv.h"
#include "vmm/vault.h"

/*
 * The bytes lie in the VM's firmware memory, which the guest reads without an exit and which hyp
 * does not let it write to: each write comes here, as one to Intel's command set (JESD68.01; the
 * commands are those of QEMU's flash, which OVMF is made for). Only a status that the guest asked
 * for is seen instead of the byte that it reads; it is put in the byte's place until the next
 * write.
 *
 * The file gets what was written when the guest goes back to reading, and everything once when a
 * device process attaches. The vault has the state; an exit that a predecessor had answered is
 * known by its sequence number, and what it does to memory may be done twice.
 */
struct flash_state { /* VAULT_FLASH */
	uint64_t gpa;
	uint64_t bytes; /* 0: there is no flash */
	uint64_t shown_at;
	uint32_t sequence; /* of the last write that was answered */
	uint32_t vcpu;
	uint32_t mode; /* enum flash_mode */
	uint32_t left; /* of a buffer */
	uint8_t status;
	uint8_t shown; /* the byte at shown_at is in `hidden`, the guest sees the status */
	uint8_t hidden;
	uint8_t reserved0[5];
	uint64_t reserved[2];
};
KEEL_ASSERT_SIZE(struct flash_state, 64);

struct flash {
	const struct vault *vault;
	struct vault_section *section; /* NULL: this VM has no such device */
	struct flash_state state;
	uint8_t *memory; /* the VM's firmware memory, which ends at 4 GiB */
	uint64_t memory_bytes;
	const char *path;
	int fd;
	uint64_t dirty_from, dirty_to; /* not in the file yet; empty: from >= to */
	bool failed;                   /* was told */
};

/* Opens the file, for this process alone, and gives it what memory has. 0, or a negative errno with
 * one line in `error`. Needs: path stays where it is. */
int flash_attach(struct flash *flash, const char *path, uint8_t *memory, uint64_t memory_bytes,
        const struct vault *vault, char *error, size_t error_bytes);
/* Before a start: the file gets what it has not, and from here on there is no flash, so that
 * whoever comes next does not take what lies in memory meanwhile for its content. If the file
 * cannot take it the flash stays as it is. */
void flash_reset(struct flash *flash);
/* The file's content, or what flash_reset had to leave, to where it ends at `end`. Zeroes what is
 * below. 0 or a negative errno. Needs: no vCPU runs. */
int flash_load(struct flash *flash, uint64_t end, char *error, size_t error_bytes);
/* A write of the guest's. False: not there. */
bool flash_write(struct flash *flash, const struct hv_exit *exit);
