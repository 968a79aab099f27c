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
#define PCI_REVISION         0x08u /* and the class above it */
#define PCI_HEADER_TYPE      0x0eu
#define PCI_HEADER_MULTI     0x80u
#define PCI_HEADER_BRIDGE    1u
#define PCI_BAR0             0x10u
#define PCI_CAPS_POINTER     0x34u
#define PCI_INTERRUPT_LINE   0x3cu

#define PCI_BAR_IO       0x1u /* §6.2.5.1 */
#define PCI_BAR_64       0x4u
#define PCI_BAR_PREFETCH 0x8u

#define PCI_CLASS_HOST_BRIDGE  0x060000u /* class << 16 | subclass << 8 | interface */
#define PCI_BASE_CLASS_DISPLAY 0x03u

#define PCI_CAP_MSI      0x05u
#define PCI_CAP_VENDOR   0x09u
#define PCI_CAP_EXPRESS  0x10u
#define PCI_CAP_MSIX     0x11u
#define PCI_CAP_ADVANCED 0x13u

#define PCI_MSI_ENABLE 0x0001u /* §6.8.1.3 */

/* PCI Express 3.0 §7.8, offsets in the capability. */
#define PCI_EXPRESS_FLAGS         0x02u
#define PCI_EXPRESS_VERSION       0x000fu
#define PCI_EXPRESS_DEVICE        0x04u
#define PCI_EXPRESS_DEVICE_RESET  0x10000000u
#define PCI_EXPRESS_CONTROL       0x08u
#define PCI_EXPRESS_CONTROL_RESET 0x8000u
#define PCI_EXPRESS_STATUS        0x0au
#define PCI_EXPRESS_PENDING       0x0020u
#define PCI_EXPRESS_CONTROL2      0x28u /* from version 2 on */

/* Advanced Features for conventional PCI, an ECN of 2008. */
#define PCI_AF_DEVICE        0x03u
#define PCI_AF_DEVICE_RESET  0x02u
#define PCI_AF_CONTROL       0x04u
#define PCI_AF_CONTROL_RESET 0x01u
#define PCI_AF_STATUS        0x05u
#define PCI_AF_PENDING       0x01u

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
