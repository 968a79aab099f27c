/* SPDX-License-Identifier: BSD-2-Clause */
/* PCI Local Bus 3.0 §6: configuration header, base addresses, MSI-X; and the two ways to reach
 * configuration space. */
#pragma once

#include "abi/types.h"

#define PCI_CONFIG_ADDRESS_PORT 0xcf8u /* §3.2.2.3.2 */
#define PCI_CONFIG_DATA_PORT    0xcfcu
#define PCI_CONFIG_ENABLE       0x80000000u

#define PCI_CONFIG_BYTES 256u
#define PCI_ECAM_CONFIG_BYTES                                                                      \
	4096u /* PCI Express 3.0 §7.2.2: bus << 20 | device << 15 | function << 12 */
#define PCI_SLOTS     32u
#define PCI_FUNCTIONS 8u
#define PCI_BARS      6u

struct pci_header { /* §6.1, header type 0 */
	uint16_t vendor_id;
	uint16_t device_id;
	uint16_t command;
	uint16_t status;
	uint8_t revision;
	uint8_t interface;
	uint8_t subclass;
	uint8_t class_code;
	uint8_t cache_line_size;
	uint8_t latency_timer;
	uint8_t header_type;
	uint8_t bist;
	uint32_t bars[PCI_BARS];
	uint32_t cardbus_cis;
	uint16_t subsystem_vendor_id;
	uint16_t subsystem_id;
	uint32_t rom;
	uint8_t capabilities;
	uint8_t reserved[7];
	uint8_t interrupt_line;
	uint8_t interrupt_pin; /* 1: INTA# … 4: INTD#, 0: none */
	uint8_t min_grant;
	uint8_t max_latency;
};
KEEL_ASSERT_SIZE(struct pci_header, 64);
KEEL_ASSERT_OFFSET(struct pci_header, command, 0x04);
KEEL_ASSERT_OFFSET(struct pci_header, revision, 0x08);
KEEL_ASSERT_OFFSET(struct pci_header, header_type, 0x0e);
KEEL_ASSERT_OFFSET(struct pci_header, bars, 0x10);
KEEL_ASSERT_OFFSET(struct pci_header, subsystem_vendor_id, 0x2c);
KEEL_ASSERT_OFFSET(struct pci_header, rom, 0x30);
KEEL_ASSERT_OFFSET(struct pci_header, capabilities, 0x34);
KEEL_ASSERT_OFFSET(struct pci_header, interrupt_line, 0x3c);

#define PCI_COMMAND          0x04u
#define PCI_COMMAND_IO       0x0001u
#define PCI_COMMAND_MEMORY   0x0002u
#define PCI_COMMAND_MASTER   0x0004u
#define PCI_COMMAND_PARITY   0x0040u
#define PCI_COMMAND_SERR     0x0100u
#define PCI_COMMAND_INTX_OFF 0x0400u
#define PCI_STATUS           0x06u
#define PCI_STATUS_INTX      0x0008u
#define PCI_STATUS_CAPS      0x0010u
#define PCI_BAR0             0x10u
#define PCI_INTERRUPT_LINE   0x3cu

#define PCI_BAR_IO       0x1u /* §6.2.5.1 */
#define PCI_BAR_64       0x4u
#define PCI_BAR_PREFETCH 0x8u

#define PCI_CLASS_HOST_BRIDGE 0x060000u /* class << 16 | subclass << 8 | interface */

#define PCI_CAP_VENDOR 0x09u
#define PCI_CAP_MSIX   0x11u

struct pci_msix_cap { /* §6.8.2.1 */
	uint8_t id;
	uint8_t next;
	uint16_t control;
	uint32_t table; /* offset | BAR */
	uint32_t pba;
};
KEEL_ASSERT_SIZE(struct pci_msix_cap, 12);
#define PCI_MSIX_ENABLE        0x8000u
#define PCI_MSIX_FUNCTION_MASK 0x4000u

struct pci_msix_entry { /* §6.8.2.6 */
	uint32_t address_low;
	uint32_t address_high;
	uint32_t data;
	uint32_t control;
};
KEEL_ASSERT_SIZE(struct pci_msix_entry, 16);
#define PCI_MSIX_ENTRY_MASKED 1u
