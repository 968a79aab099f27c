/* SPDX-License-Identifier: BSD-2-Clause */
/* Quiescing devices between one root and the next (PCI 3.0 §6.2.2, §6.8; PCI Express 3.0 §7.8.5).
 */

#include "hyp/x86/quiesce.h"

#include "hw/acpi.h"
#include "hw/apic.h"
#include "hw/pci.h"
#include "hyp/x86/internal.h"
#include "lib/string.h"

#define BUSES_MAX       256u
#define CAPS_MAX        48u /* a list in 192 bytes cannot be longer; a longer one is a loop */
#define HEADER_TYPE     0x0eu
#define HEADER_MULTI    0x80u
#define HEADER_BRIDGE   1u
#define SECONDARY_BUS   0x19u
#define CAPS_POINTER    0x34u
#define CAP_MSI         0x05u
#define CAP_EXPRESS     0x10u
#define MSI_ENABLE      0x0001u
#define EXPRESS_STATUS  0x0au
#define EXPRESS_PENDING 0x0020u
#define PENDING_WAIT_US                                                                            \
	100000u /* PCI Express 3.0 §2.8: a completion timeout is at most 50 ms by default */
#define IOAPIC_PINS_MAX 240u
#define PIC1_DATA       0x21u
#define PIC2_DATA       0xa1u

struct function {
	unsigned bus, device, function;
};

/* By the ports: they reach every bus of segment 0 on every machine, and nobody else uses them now.
 */
static void select(struct function f, unsigned offset)
{
	outl(PCI_CONFIG_ADDRESS_PORT, PCI_CONFIG_ENABLE | f.bus << 16 | f.device << 11 |
	                                      f.function << 8 | (offset & 0xfcu));
}

static uint32_t config_read(struct function f, unsigned offset)
{
	select(f, offset);
	return inl(PCI_CONFIG_DATA_PORT) >> (8 * (offset & 3));
}

static void config_write16(struct function f, unsigned offset, uint16_t value)
{
	select(f, offset);
	outw((uint16_t)(PCI_CONFIG_DATA_PORT + (offset & 2u)), value);
}

static void capability_off(struct function f, unsigned id, unsigned at)
{
	uint16_t control = (uint16_t)config_read(f, at + 2);

	if (id == CAP_MSI)
		config_write16(f, at + 2, (uint16_t)(control & ~MSI_ENABLE));
	else if (id == PCI_CAP_MSIX)
		config_write16(f, at + 2,
		        (uint16_t)((control & ~PCI_MSIX_ENABLE) | PCI_MSIX_FUNCTION_MASK));
}

/* Reads that this function still waits for have come back, or will not. */
static void wait_for_transactions(struct function f, unsigned express)
{
	uint64_t end = tsc_now() + tsc_hz / 1000000 * PENDING_WAIT_US;

	while (config_read(f, express + EXPRESS_STATUS) & EXPRESS_PENDING && tsc_now() < end)
		cpu_pause();
}

static bool function_quiesce(struct function f)
{
	uint16_t command = (uint16_t)config_read(f, PCI_COMMAND);
	unsigned express = 0, at, n = 0;

	config_write16(
	        f, PCI_COMMAND, (uint16_t)((command & ~PCI_COMMAND_MASTER) | PCI_COMMAND_INTX_OFF));
	if (config_read(f, PCI_STATUS) & PCI_STATUS_CAPS) {
		at = config_read(f, CAPS_POINTER) & 0xfcu;
		for (; at >= 0x40 && n < CAPS_MAX; n++) {
			uint32_t head = config_read(f, at);

			capability_off(f, head & 0xff, at);
			if ((head & 0xff) == CAP_EXPRESS)
				express = at;
			at = (head >> 8) & 0xfcu;
		}
	}
	if (express != 0)
		wait_for_transactions(f, express);
	config_read(f, PCI_COMMAND); /* pushes posted writes out of the way back */
	return command & PCI_COMMAND_MASTER;
}

/* One device's functions. Bridges keep bus mastering: what is behind them has none left; their
 * secondary buses are noted. */
static unsigned device_quiesce(unsigned bus, unsigned device, uint64_t found[BUSES_MAX / 64])
{
	unsigned masters = 0, functions = 1;

	for (unsigned i = 0; i < functions; i++) {
		struct function f = {bus, device, i};
		uint8_t header;

		if ((config_read(f, 0) & 0xffff) == 0xffff)
			continue;
		header = (uint8_t)config_read(f, HEADER_TYPE);
		if (i == 0 && header & HEADER_MULTI)
			functions = PCI_FUNCTIONS;
		if ((header & 0x7f) == HEADER_BRIDGE) {
			unsigned secondary = config_read(f, SECONDARY_BUS) & 0xff;

			found[secondary / 64] |= 1ull << (secondary % 64);
		} else if (function_quiesce(f)) {
			masters++;
		}
	}
	return masters;
}

static unsigned pci_quiesce(void)
{
	uint64_t found[BUSES_MAX / 64] = {1};
	uint64_t done[BUSES_MAX / 64] = {0};
	unsigned masters = 0;
	bool more = true;

	/* Each round does at least one bus more, so this ends after BUSES_MAX rounds at the latest.
	 */
	while (more) {
		more = false;
		for (unsigned bus = 0; bus < BUSES_MAX; bus++) {
			uint64_t bit = 1ull << (bus % 64);

			if (!(found[bus / 64] & ~done[bus / 64] & bit))
				continue;
			done[bus / 64] |= bit;
			more = true;
			for (unsigned device = 0; device < PCI_SLOTS; device++)
				masters += device_quiesce(bus, device, found);
		}
	}
	outl(PCI_CONFIG_ADDRESS_PORT, 0);
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

unsigned machine_quiesce(void)
{
	unsigned masters = pci_quiesce();

	for (unsigned i = 0; i < acpi_info.ioapic_count; i++)
		ioapic_quiesce(acpi_info.ioapics[i]);
	outb(PIC1_DATA, 0xff);
	outb(PIC2_DATA, 0xff);
	return masters;
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
