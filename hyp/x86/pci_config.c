/* SPDX-License-Identifier: BSD-2-Clause */
/* Configuration space by the ports: they reach every bus of segment 0 on every machine, and nobody
 * else uses them now. */

#include "hyp/x86/pci_config.h"

#include "hw/pci.h"
#include "hyp/x86/x86.h"

static void select(struct pci_function f, unsigned offset)
{
	outl(PCI_CONFIG_ADDRESS_PORT, PCI_CONFIG_ENABLE | (uint32_t)f.bus << 16 |
	                                      (uint32_t)f.device << 11 | (uint32_t)f.function << 8 |
	                                      (offset & 0xfcu));
}

uint32_t pci_config_read(struct pci_function f, unsigned offset)
{
	select(f, offset);
	return inl(PCI_CONFIG_DATA_PORT) >> (8 * (offset & 3));
}

void pci_config_write16(struct pci_function f, unsigned offset, uint16_t value)
{
	select(f, offset);
	outw((uint16_t)(PCI_CONFIG_DATA_PORT + (offset & 2u)), value);
}

void pci_config_write32(struct pci_function f, unsigned offset, uint32_t value)
{
	select(f, offset);
	outl(PCI_CONFIG_DATA_PORT, value);
}

void pci_config_release(void)
{
	outl(PCI_CONFIG_ADDRESS_PORT, 0);
}
