/* SPDX-License-Identifier: BSD-2-Clause */
/* Configuration space of the hyp PCI function, by two tables: what is there at power-on, what can
 * be written. */
#include "hyp/core/hyppci.h"

#include "abi/pci.h"

/* PCI Local Bus 3.0 §6.1 (header type 0) and §6.8.1.4 (MSI, 64-bit address, per-vector masking).
 * Byte offsets. */
#define REG_ID           0x00u
#define REG_COMMAND      0x04u
#define REG_CLASS        0x08u
#define REG_SUBSYSTEM    0x2cu
#define REG_CAPABILITIES 0x34u
#define REG_INTERRUPT    0x3cu
#define REG_MSI          0x40u
#define REG_MSI_ADDRESS  0x44u
#define REG_MSI_UPPER    0x48u
#define REG_MSI_DATA     0x4cu
#define REG_MSI_MASK     0x50u
#define REG_MSI_PENDING  0x54u

#define COMMAND_BUS_MASTER   (1u << 2)
#define COMMAND_INTX_DISABLE (1u << 10)
#define STATUS_CAPABILITIES  (1u << 4)

#define CAPABILITY_MSI 0x05u
#define MSI_ENABLE     (1u << 0)
#define MSI_64BIT      (1u << 7)
#define MSI_MASKABLE   (1u << 8)

#define VECTOR_0 1u /* in the mask and pending registers */

#define REGS (HYPPCI_CONFIG_BYTES / 4)

static const uint32_t power_on[REGS] = {
        [REG_ID / 4] = KEEL_PCI_DEVICE << 16 | KEEL_PCI_VENDOR,
        [REG_COMMAND / 4] = STATUS_CAPABILITIES << 16,
        [REG_CLASS / 4] = KEEL_PCI_CLASS << 8 | KEEL_PCI_REVISION,
        [REG_SUBSYSTEM / 4] = KEEL_PCI_DEVICE << 16 | KEEL_PCI_VENDOR,
        [REG_CAPABILITIES / 4] = REG_MSI,
        [REG_MSI / 4] = (MSI_64BIT | MSI_MASKABLE) << 16 | CAPABILITY_MSI,
};

/* One vector: the multiple message enable field stays 0. No BAR, no INTx pin, no memory or port
 * space to decode. */
static const uint32_t writable[REGS] = {
        [REG_COMMAND / 4] = COMMAND_BUS_MASTER | COMMAND_INTX_DISABLE,
        [REG_INTERRUPT / 4] = 0xff,
        [REG_MSI / 4] = MSI_ENABLE << 16,
        [REG_MSI_ADDRESS / 4] = 0xfffffffcu,
        [REG_MSI_UPPER / 4] = 0xffffffffu,
        [REG_MSI_DATA / 4] = 0xffff,
        [REG_MSI_MASK / 4] = VECTOR_0,
};

static bool is_access(unsigned offset, unsigned size)
{
	return (size == 1 || size == 2 || size == 4) && offset < HYPPCI_CONFIG_BYTES &&
	       offset % size == 0;
}

static uint32_t size_mask(unsigned size)
{
	return size == 4 ? 0xffffffffu : (1u << size * 8) - 1;
}

static bool can_send(const struct hyppci *pci)
{
	return (pci->config[REG_COMMAND / 4] & COMMAND_BUS_MASTER) != 0 &&
	       (pci->config[REG_MSI / 4] & MSI_ENABLE << 16) != 0 &&
	       (pci->config[REG_MSI_MASK / 4] & VECTOR_0) == 0;
}

void hyppci_init(struct hyppci *pci)
{
	for (unsigned i = 0; i < REGS; i++)
		pci->config[i] = power_on[i];
}

uint32_t hyppci_config_read(const struct hyppci *pci, unsigned offset, unsigned size)
{
	if (!is_access(offset, size))
		return 0xffffffffu;
	return pci->config[offset / 4] >> offset % 4 * 8 & size_mask(size);
}

bool hyppci_config_write(struct hyppci *pci, unsigned offset, unsigned size, uint32_t value)
{
	unsigned shift = offset % 4 * 8;
	uint32_t mask;

	if (!is_access(offset, size))
		return false;
	mask = size_mask(size) << shift & writable[offset / 4];
	pci->config[offset / 4] = (pci->config[offset / 4] & ~mask) | (value << shift & mask);
	return (pci->config[REG_MSI_PENDING / 4] & VECTOR_0) != 0 && can_send(pci);
}

bool hyppci_interrupt(struct hyppci *pci, uint64_t *address, uint32_t *data)
{
	if (!can_send(pci)) {
		pci->config[REG_MSI_PENDING / 4] |= VECTOR_0;
		return false;
	}
	pci->config[REG_MSI_PENDING / 4] &= ~VECTOR_0;
	*address = (uint64_t)pci->config[REG_MSI_UPPER / 4] << 32 |
	           pci->config[REG_MSI_ADDRESS / 4];
	*data = pci->config[REG_MSI_DATA / 4];
	return true;
}
