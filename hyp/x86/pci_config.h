/* SPDX-License-Identifier: BSD-2-Clause */
/* Configuration space of segment 0, its first 256 bytes of each function. */
#pragma once

#include "abi/types.h"

struct pci_function {
	uint8_t bus, device, function;
};

/* From offset on, to the end of the dword that it lies in. Needs, like the others: no CPU of root's
 * runs, for the ports are its too. */
uint32_t pci_config_read(struct pci_function f, unsigned offset);
void pci_config_write16(struct pci_function f, unsigned offset, uint16_t value); /* offset: even */
void pci_config_write32(struct pci_function f, unsigned offset, uint32_t value); /* of a dword */
void pci_config_release(void); /* the address register holds nothing, as after a reset */
