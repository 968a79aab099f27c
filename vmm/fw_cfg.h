/* SPDX-License-Identifier: BSD-2-Clause */
/* The device that firmware asks what machine it is in: items to be read, by ports or by DMA. */
#pragma once

#include <stdbool.h>

#include "hw/fw_cfg.h"
#include "vmm/gmem.h"
#include "vmm/hv.h"
#include "vmm/vault.h"

/*
 * The items are made from the definition when the device process attaches, so a successor of the
 * same version has the same. The vault has how far which item was read. The last exit that a
 * predecessor had begun to answer is known by its sequence number and answered again from where it
 * began; firmware uses the device on one vCPU.
 */
struct fw_cfg_state { /* VAULT_FW_CFG */
	uint16_t selector;
	uint16_t vcpu; /* of the last access that moved the offset */
	uint32_t sequence;
	uint32_t offset;
	uint32_t before;         /* that access */
	uint32_t address_high;   /* of the next transfer: each takes it */
	uint32_t address_before; /* that access's */
	uint32_t reserved[2];
};
KEEL_ASSERT_SIZE(struct fw_cfg_state, 32);

#define FW_CFG_FILES_MAX       8u
#define FW_CFG_DIRECTORY_BYTES (4u + FW_CFG_FILES_MAX * sizeof(struct fw_cfg_file))

struct fw_cfg_item {
	const void *data;
	uint32_t bytes;
};

struct fw_cfg {
	const struct gmem *gmem;
	const struct vault *vault;
	struct vault_section *section; /* NULL: this VM has no such device */
	struct fw_cfg_state state;
	uint16_t cpus;
	unsigned file_count;
	struct fw_cfg_item files[FW_CFG_FILES_MAX];
	uint8_t directory[FW_CFG_DIRECTORY_BYTES];
};

/* 0 or a negative errno. */
int fw_cfg_attach(
        struct fw_cfg *dev, const struct gmem *gmem, const struct vault *vault, unsigned cpus);
/* After fw_cfg_attach, in the same order always. data stays the caller's, and there. */
void fw_cfg_add_file(struct fw_cfg *dev, const char *name, const void *data, uint32_t bytes);
void fw_cfg_reset(struct fw_cfg *dev);
/* A port access. False: not ours, or no such device. */
bool fw_cfg_pio(struct fw_cfg *dev, const struct hv_exit *exit, uint64_t *value);
