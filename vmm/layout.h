/* SPDX-License-Identifier: BSD-2-Clause */
/* Where everything lies in a VM's physical address space and ports: one list, so that no two
 * overlap (hyp's own part: abi/hypercall.h). */
#pragma once

#include "abi/hypercall.h"

#define LAYOUT_FOUR_GIB (1ull << 32)

/* Low memory that boot fills, in RAM. Linux's trampoline takes what it likes below LAYOUT_EBDA. */
#define LAYOUT_GDT          0x1000u
#define LAYOUT_PAGE_TABLES  0x2000u /* six pages: PML4, PDPT, four PDs */
#define LAYOUT_ZERO_PAGE    0x8000u
#define LAYOUT_CMDLINE      0x9000u
#define LAYOUT_CMDLINE_MAX  0x1000u
#define LAYOUT_HANDED       0x9d000u /* what a Multiboot or PVH kernel is told */
#define LAYOUT_HANDED_BYTES 0x2000u
#define LAYOUT_EBDA         0x9fc00u /* to A0000h: reserved, as a BIOS leaves it */
#define LAYOUT_VGA_HOLE     0xa0000u
#define LAYOUT_ACPI         0xe0000u /* tables, RSDP first (found by scanning too: ACPI 6.4 §5.2.5.1) */
#define LAYOUT_ACPI_BYTES   0x1ff00u
#define LAYOUT_BIOS_CODE    0xfff00u /* what real-mode interrupts find */
#define LAYOUT_RESET_CODE                                                                          \
	0xffff0u /* F000:FFF0, where a BIOS begins: 16 bytes that ask for a reset */
#define LAYOUT_HIGH_MEMORY 0x100000u

/* 32-bit hole: RAM ends at KEEL_RAM_BELOW_4G (C0000000h) at the latest. */
#define LAYOUT_PCI32       0xc0000000ull
#define LAYOUT_PCI32_BYTES 0x20000000ull
#define LAYOUT_ECAM        0xe0000000ull
#define LAYOUT_ECAM_BYTES  0x100000ull /* bus 0 only */
/* Where SeaBIOS places BARs: downwards from the IOAPIC. */
#define LAYOUT_PCI32_UPPER       0xf0000000ull
#define LAYOUT_PCI32_UPPER_BYTES 0xec00000ull
#define LAYOUT_IOAPIC            0xfec00000u /* hyp's */
#define LAYOUT_HPET              0xfed00000u
#define LAYOUT_LAPIC             0xfee00000u

/* The 64-bit window begins above RAM, at a multiple of its size. */
#define LAYOUT_PCI64_BYTES (1ull << 34)

_Static_assert(LAYOUT_PCI32 >= KEEL_RAM_BELOW_4G, "BAR window above low RAM");
_Static_assert(LAYOUT_PCI32 + LAYOUT_PCI32_BYTES <= LAYOUT_ECAM, "ECAM above the BAR window");
_Static_assert(LAYOUT_ECAM + LAYOUT_ECAM_BYTES <= LAYOUT_PCI32_UPPER, "and the other above it");
_Static_assert(LAYOUT_PCI32_UPPER + LAYOUT_PCI32_UPPER_BYTES <= LAYOUT_IOAPIC,
        "platform above all that is PCI's");
_Static_assert(LAYOUT_LAPIC < LAYOUT_FOUR_GIB - KEEL_FIRMWARE_MAX, "firmware above all");
_Static_assert(LAYOUT_CMDLINE + LAYOUT_CMDLINE_MAX <= LAYOUT_EBDA, "boot data below the EBDA");
_Static_assert(LAYOUT_HANDED + LAYOUT_HANDED_BYTES <= LAYOUT_EBDA, "and what kernels are told");

/* Ports. hyp answers the PM timer, CF9h and its other devices by itself. */
#define LAYOUT_PM1A_EVENT   0x600u
#define LAYOUT_PM1A_CONTROL 0x604u
#define LAYOUT_PM_TIMER     0x608u
#define LAYOUT_SMI_COMMAND  0xb2u
#define LAYOUT_RESET_PORT   0xcf9u
#define LAYOUT_SCI          9u  /* IOAPIC pin */
#define LAYOUT_INTX_FIRST   16u /* INTA#-INTD# of all slots: pins 16-23 */
#define LAYOUT_INTX_PINS    8u

/* The IOAPIC pin of a slot's INTx: DSDT's _PRT and pci.c agree by this. line: 0 for INTA#. */
static inline unsigned layout_intx_pin(unsigned slot, unsigned line)
{
	return LAYOUT_INTX_FIRST + (slot + line) % LAYOUT_INTX_PINS;
}

static inline uint64_t layout_ram_low(uint64_t ram_bytes)
{
	return ram_bytes < KEEL_RAM_BELOW_4G ? ram_bytes : KEEL_RAM_BELOW_4G;
}

static inline uint64_t layout_pci64(uint64_t ram_bytes)
{
	uint64_t end = LAYOUT_FOUR_GIB + (ram_bytes - layout_ram_low(ram_bytes));

	return (end + LAYOUT_PCI64_BYTES - 1) & ~(LAYOUT_PCI64_BYTES - 1);
}
