/* SPDX-License-Identifier: BSD-2-Clause */
/* Quiescing devices between one root and the next (PCI 3.0 §6.2.2, §6.8; PCI Express 3.0 §7.8.5).
 */

#include "hyp/x86/quiesce.h"

#include "hw/acpi.h"
#include "hw/apic.h"
#include "hw/pci.h"
#include "hyp/x86/internal.h"
#include "hyp/x86/pci_reset.h"
#include "lib/string.h"

#define BUSES_MAX 256u
#define CAPS_MAX  48u /* a list in 192 bytes cannot be longer; a longer one is a loop */
#define PENDING_WAIT_MS                                                                            \
	100u /* PCI Express 3.0 §2.8: a completion timeout is at most 50 ms by default */
#define IOAPIC_PINS_MAX 240u
#define PIC1_DATA       0x21u
#define PIC2_DATA       0xa1u

/* Turns off what interrupts, and notes what a reset needs. */
static void capability_off(struct pci_function f, uint32_t head, unsigned at, struct pci_caps *caps)
{
	uint16_t control = (uint16_t)(head >> 16);

	switch (head & 0xff) {
	case PCI_CAP_MSI:
		pci_config_write16(f, at + 2, (uint16_t)(control & ~PCI_MSI_ENABLE));
		break;
	case PCI_CAP_MSIX:
		pci_config_write16(f, at + 2,
		        (uint16_t)((control & ~PCI_MSIX_ENABLE) | PCI_MSIX_FUNCTION_MASK));
		break;
	case PCI_CAP_EXPRESS: caps->express = (uint8_t)at; break;
	case PCI_CAP_ADVANCED: caps->advanced = (uint8_t)at; break;
	}
}

/* Reads that this function still waits for have come back, or will not. */
static void wait_for_transactions(struct pci_function f, unsigned at, uint32_t pending)
{
	uint64_t end = tsc_now() + tsc_hz / 1000 * PENDING_WAIT_MS;

	while (pci_config_read(f, at) & pending && tsc_now() < end)
		cpu_pause();
}

static bool function_quiesce(struct pci_function f)
{
	uint16_t command = (uint16_t)pci_config_read(f, PCI_COMMAND);
	struct pci_caps caps = {0};
	unsigned at = 0;

	pci_config_write16(
	        f, PCI_COMMAND, (uint16_t)((command & ~PCI_COMMAND_MASTER) | PCI_COMMAND_INTX_OFF));
	if (pci_config_read(f, PCI_STATUS) & PCI_STATUS_CAPS)
		at = pci_config_read(f, PCI_CAPS_POINTER) & 0xfcu;
	for (unsigned n = 0; at >= 0x40 && n < CAPS_MAX; n++) {
		uint32_t head = pci_config_read(f, at);

		capability_off(f, head, at, &caps);
		at = (head >> 8) & 0xfcu;
	}
	if (caps.express != 0)
		wait_for_transactions(f, caps.express + PCI_EXPRESS_STATUS, PCI_EXPRESS_PENDING);
	else if (caps.advanced != 0)
		wait_for_transactions(f, caps.advanced + PCI_AF_STATUS, PCI_AF_PENDING);
	pci_config_read(f, PCI_COMMAND); /* pushes posted writes out of the way back */
	if (!(command & PCI_COMMAND_MASTER))
		return false;
	pci_reset_begin(f, &caps);
	return true;
}

/* One device's functions. Bridges keep bus mastering: what is behind them has none left. */
static unsigned device_quiesce(unsigned bus, unsigned device)
{
	unsigned masters = 0, functions = 1;

	for (unsigned i = 0; i < functions; i++) {
		struct pci_function f = {(uint8_t)bus, (uint8_t)device, (uint8_t)i};
		uint8_t header;

		if ((pci_config_read(f, 0) & 0xffff) == 0xffff)
			continue;
		header = (uint8_t)pci_config_read(f, PCI_HEADER_TYPE);
		if (i == 0 && header & PCI_HEADER_MULTI)
			functions = PCI_FUNCTIONS;
		if ((header & 0x7f) != PCI_HEADER_BRIDGE && function_quiesce(f))
			masters++;
	}
	return masters;
}

/* Not along the bridges from bus 0: a machine may have more root buses than that one. */
static unsigned pci_quiesce(void)
{
	unsigned masters = 0;

	for (unsigned bus = 0; bus < BUSES_MAX; bus++)
		for (unsigned device = 0; device < PCI_SLOTS; device++)
			masters += device_quiesce(bus, device);
	return masters;
}

static void ioapic_quiesce(uint64_t hpa)
{
	volatile uint32_t *select_at = hpa_to_virt(HPA(hpa + IOAPIC_MMIO_SELECT));
	volatile uint32_t *window = hpa_to_virt(HPA(hpa + IOAPIC_MMIO_WINDOW));
	unsigned pins;

	*select_at = IOAPIC_REG_VERSION;
	pins = ((*window >> 16) & 0xff) + 1;
	for (unsigned pin = 0; pin < pins && pin < IOAPIC_PINS_MAX; pin++) {
		*select_at = IOAPIC_REG_REDIRECT + 2 * pin;
		*window = APIC_LVT_MASKED;
	}
}

unsigned machine_quiesce(unsigned *reset)
{
	unsigned masters = pci_quiesce();

	*reset = pci_reset_count();
	for (unsigned i = 0; i < acpi_info.ioapic_count; i++)
		ioapic_quiesce(acpi_info.ioapics[i]);
	outb(PIC1_DATA, 0xff);
	outb(PIC2_DATA, 0xff);
	return masters;
}

bool machine_is_quiet(void)
{
	bool ended = pci_reset_ended();

	pci_config_release();
	return ended;
}

static bool any_vector(uint32_t first_reg)
{
	uint32_t any = 0;

	for (unsigned i = 0; i < 8; i++)
		any |= apic_read(first_reg + i);
	return any != 0;
}

void apic_quiesce(void)
{
	static const uint32_t lvts[] = {APIC_REG_LVT_THERMAL, APIC_REG_LVT_PERF, APIC_REG_LVT_LINT0,
	        APIC_REG_LVT_LINT1, APIC_REG_LVT_ERROR};

	for (size_t i = 0; i < sizeof(lvts) / sizeof(lvts[0]); i++)
		apic_write(lvts[i], APIC_LVT_MASKED);
	apic_write(APIC_REG_TPR, 0);
	/* Each turn takes what the priority lets through and ends one vector; there are 256 at
	 * most, each pending and in service. */
	for (unsigned i = 0; i < 512; i++) {
		interrupts_take();
		if (any_vector(APIC_REG_ISR))
			apic_eoi();
		else if (!any_vector(APIC_REG_IRR))
			break;
	}
	for (unsigned i = 0; i < 4; i++)
		percpu()->pending_for_root[i] = percpu()->put_off[i] = 0;
	memset(percpu()->pending_more, 0, sizeof(percpu()->pending_more));
}
