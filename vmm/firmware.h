/* SPDX-License-Identifier: BSD-2-Clause */
/* A VM that begins as a PC does: a firmware image below 4 GiB, and what OVMF and SeaBIOS want to
 * find of a PC of the 440FX's time. */
#pragma once

#include "vmm/definition.h"
#include "vmm/flash.h"
#include "vmm/fw_cfg.h"
#include "vmm/gmem.h"
#include "vmm/pci.h"

/*
 * The image is copied to the end of the VM's firmware memory at each start, its last 256 KiB to the
 * end of the first MiB too; the flash with its variables, if there is one, lies below the image.
 * The guest cannot write to that memory. Without a flash OVMF keeps its variables in RAM. vCPU 0
 * begins at the reset vector.
 *
 * Slot 0 has the device id of a 440FX, whose configuration space lies at the ports alone; slot 1
 * has an ISA bridge (below which OVMF looks for the serial port) and the power-management function
 * that tells where the PM timer is. Neither keeps anything that the guest writes.
 */
#define FIRMWARE_HOST_BRIDGE  0x1237u /* Intel's 82441FX: OVMF knows the board by it */
#define FIRMWARE_ISA_SLOT     1u
#define FIRMWARE_TABLES_BYTES 0x20000u
#define FIRMWARE_SCRIPT_MAX   32u

struct firmware {
	const struct definition *definition; /* NULL: this VM has none */
	const struct gmem *gmem;
	uint8_t *memory; /* of the guest's, ending at 4 GiB; no RAM for devices */
	uint64_t memory_bytes;
	struct flash flash;
	struct fw_cfg fw_cfg;
	struct pci_function isa, power;
	struct fw_cfg_e820 e820[2];
	struct fw_cfg_loader script[FIRMWARE_SCRIPT_MAX];
	uint8_t tables[FIRMWARE_TABLES_BYTES];
};

/* The subsystem ids by which SeaBIOS knows a machine that has fw_cfg. Before pci_add. */
void firmware_mark_bridge(struct pci_function *host_bridge);
/* 0, or a negative errno with one line in `error`. Needs: definition has a firmware and stays where
 * it is. */
int firmware_attach(struct firmware *firmware, const struct definition *definition,
        struct pci_bus *pci, const struct gmem *gmem, const struct vault *vault,
        const struct hv *hv, char *error, size_t error_bytes);
/* Before a start: what the flash has is in its file. */
void firmware_reset(struct firmware *firmware);
/* Copies the image and the variables. -EINVAL with one line in `error`. Needs: firmware_reset; no
 * vCPU runs. */
int firmware_load(struct firmware *firmware, char *error, size_t error_bytes);
/* A write to its memory. False: not there. */
bool firmware_write(struct firmware *firmware, const struct hv_exit *exit);
