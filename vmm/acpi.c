/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds a VM's ACPI tables: fixed hardware with PM1 registers and PM timer, the bus, the interrupt
 * routing. */
#include "vmm/acpi.h"

#include <stdio.h>
#include <string.h>

#include "hw/acpi.h"
#include "hw/pci.h"
#include "vmm/aml.h"
#include "vmm/layout.h"

#define ISA_COM1 0x3f8u
#define ISA_RTC  0x70u

/* The image under construction; an offset in it plus base is a guest-physical address. */
struct builder {
	struct aml out;
	uint32_t base;
};

static uint8_t sum_bytes(const uint8_t *at, size_t bytes)
{
	uint8_t sum = 0;

	while (bytes-- > 0)
		sum = (uint8_t)(sum + *at++);
	return sum;
}

static struct acpi_header make_header(const char *signature, uint8_t revision)
{
	struct acpi_header header = {
	        .revision = revision,
	        .oem_id = {'K', 'E', 'E', 'L', 'O', 'S'},
	        .oem_table_id = {'K', 'E', 'E', 'L', 'V', 'M', ' ', ' '},
	        .oem_revision = 1,
	        .creator_id = 0x4c45454b, /* "KEEL" */
	        .creator_revision = 1,
	};

	memcpy(header.signature, signature, sizeof(header.signature));
	return header;
}

static void align(struct builder *builder, size_t to)
{
	while (builder->out.used % to != 0 && !builder->out.overflow)
		aml_byte(&builder->out, 0);
}

/* Length and checksum of the table that began at `start`, now that it is complete. Returns its
 * address. */
static uint32_t finish_table(struct builder *builder, size_t start)
{
	uint8_t *at = builder->out.buffer + start;
	struct acpi_header header;
	size_t length = builder->out.used - start;

	if (!builder->out.overflow) {
		memcpy(&header, at, sizeof(header));
		header.length = (uint32_t)length;
		header.checksum = 0;
		memcpy(at, &header, sizeof(header));
		header.checksum = (uint8_t)-sum_bytes(at, length);
		memcpy(at, &header, sizeof(header));
	}
	return builder->base + (uint32_t)start;
}

static void put_processors(struct aml *aml, unsigned cpus)
{
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		char name[12];
		size_t device;

		snprintf(name, sizeof(name), "C%03X", cpu);
		device = aml_open_device(aml, name);
		aml_name(aml, "_HID");
		aml_string(aml, "ACPI0007");
		aml_name(aml, "_UID");
		aml_integer(aml, cpu);
		aml_close(aml, device);
	}
}

static void put_bridge_windows(struct aml *aml, const struct acpi_config *config)
{
	struct aml_resources crs;

	aml_name(aml, "_CRS");
	crs = aml_open_resources(aml);
	aml_resource_bus(aml, 0, 0);
	aml_resource_io(aml, PCI_CONFIG_ADDRESS_PORT, 8);
	aml_resource_io_window(aml, 0, PCI_CONFIG_ADDRESS_PORT - 1);
	aml_resource_io_window(aml, PCI_CONFIG_ADDRESS_PORT + 8, 0xffff);
	aml_resource_memory32(aml, (uint32_t)LAYOUT_PCI32, (uint32_t)LAYOUT_PCI32_BYTES);
	aml_resource_memory32(
	        aml, (uint32_t)LAYOUT_PCI32_UPPER, (uint32_t)LAYOUT_PCI32_UPPER_BYTES);
	aml_resource_memory64(aml, layout_pci64(config->ram_bytes), config->window64_bytes);
	aml_close_resources(aml, &crs);
}

/* §6.2.13: each slot's INTA#-INTD# straight to an IOAPIC pin. */
static void put_routing(struct aml *aml)
{
	size_t table;

	aml_name(aml, "_PRT");
	table = aml_open_package(aml, PCI_SLOTS * 4);
	for (unsigned slot = 0; slot < PCI_SLOTS; slot++)
		for (unsigned line = 0; line < 4; line++) {
			size_t entry = aml_open_package(aml, 4);

			aml_integer(aml, slot << 16 | 0xffff);
			aml_integer(aml, line);
			aml_integer(aml, 0);
			aml_integer(aml, layout_intx_pin(slot, line));
			aml_close(aml, entry);
		}
	aml_close(aml, table);
}

static void put_bridge(struct aml *aml, const struct acpi_config *config)
{
	size_t device = aml_open_device(aml, "PCI0");

	aml_name(aml, "_HID");
	aml_eisa_id(aml, "PNP0A08");
	aml_name(aml, "_CID");
	aml_eisa_id(aml, "PNP0A03");
	aml_name(aml, "_UID");
	aml_integer(aml, 0);
	aml_name(aml, "_SEG");
	aml_integer(aml, 0);
	aml_name(aml, "_BBN");
	aml_integer(aml, 0);
	put_bridge_windows(aml, config);
	put_routing(aml);
	aml_close(aml, device);
}

/* A device of the old PC that has only ports and perhaps an interrupt. */
static void put_isa_device(struct aml *aml, const char *name, const char *id, unsigned port,
        unsigned bytes, unsigned irq)
{
	size_t device = aml_open_device(aml, name);
	struct aml_resources crs;

	aml_name(aml, "_HID");
	aml_eisa_id(aml, id);
	aml_name(aml, "_UID");
	aml_integer(aml, 0);
	aml_name(aml, "_CRS");
	crs = aml_open_resources(aml);
	aml_resource_io(aml, port, bytes);
	aml_resource_irq(aml, irq);
	aml_close_resources(aml, &crs);
	aml_close(aml, device);
}

/* What is taken by no device that a driver binds to: else Linux does not trust ECAM (PCI firmware
 * specification 3.2 §4.1.2). */
static void put_reserved(struct aml *aml)
{
	size_t device = aml_open_device(aml, "MBRD");
	struct aml_resources crs;

	aml_name(aml, "_HID");
	aml_eisa_id(aml, "PNP0C02");
	aml_name(aml, "_UID");
	aml_integer(aml, 0);
	aml_name(aml, "_CRS");
	crs = aml_open_resources(aml);
	aml_resource_memory(aml, (uint32_t)LAYOUT_ECAM, (uint32_t)LAYOUT_ECAM_BYTES);
	aml_resource_io(aml, LAYOUT_PM1A_EVENT, 16);
	aml_resource_io(aml, LAYOUT_SMI_COMMAND, 1);
	aml_close_resources(aml, &crs);
	aml_close(aml, device);
}

static uint32_t put_dsdt(struct builder *builder, const struct acpi_config *config)
{
	struct acpi_header header = make_header("DSDT", 2);
	struct aml *aml = &builder->out;
	size_t start = aml->used, scope, package;

	aml_put(aml, &header, sizeof(header));
	scope = aml_open_scope(aml, "\\_SB");
	put_bridge(aml, config);
	put_isa_device(aml, "COM1", "PNP0501", ISA_COM1, 8, 4);
	put_isa_device(aml, "RTC", "PNP0B00", ISA_RTC, 2, 8);
	put_reserved(aml);
	put_processors(aml, config->cpus);
	aml_close(aml, scope);
	aml_name(aml, "\\_S5");
	package = aml_open_package(aml, 4);
	aml_integer(aml, ACPI_S5_SLEEP_TYPE);
	aml_integer(aml, ACPI_S5_SLEEP_TYPE);
	aml_integer(aml, 0);
	aml_integer(aml, 0);
	aml_close(aml, package);
	return finish_table(builder, start);
}

static uint32_t put_facs(struct builder *builder)
{
	struct acpi_facs facs = {.signature = "FACS", .length = sizeof(facs), .version = 2};
	size_t start;

	align(builder, 64);
	start = builder->out.used;
	aml_put(&builder->out, &facs, sizeof(facs));
	return builder->base + (uint32_t)start;
}

static struct acpi_gas io_register(unsigned port, unsigned bytes)
{
	return (struct acpi_gas){.space = ACPI_SPACE_IO,
	        .bit_width = (uint8_t)(8 * bytes),
	        .access_size = (uint8_t)(bytes == 1   ? 1
	                                 : bytes == 2 ? 2
	                                              : 3),
	        .address = port};
}

static uint32_t put_fadt(struct builder *builder, uint32_t facs, uint32_t dsdt)
{
	size_t start = builder->out.used;
	struct acpi_fadt fadt = {
	        .header = make_header("FACP", 6),
	        .firmware_ctrl = facs,
	        .dsdt = dsdt,
	        .preferred_pm_profile = 4, /* server */
	        .sci_int = LAYOUT_SCI,
	        .smi_cmd = LAYOUT_SMI_COMMAND,
	        .acpi_enable = 0xf1, /* pm.c */
	        .acpi_disable = 0xf0,
	        .pm1a_evt_blk = LAYOUT_PM1A_EVENT,
	        .pm1a_cnt_blk = LAYOUT_PM1A_CONTROL,
	        .pm_tmr_blk = LAYOUT_PM_TIMER,
	        .pm1_evt_len = 4,
	        .pm1_cnt_len = 2,
	        .pm_tmr_len = 4,
	        .p_lvl2_lat = 0xffff, /* no C2, no C3 */
	        .p_lvl3_lat = 0xffff,
	        .century = 0x32,
	        .iapc_boot_arch = ACPI_BOOT_NO_VGA | ACPI_BOOT_NO_ASPM,
	        .flags = ACPI_FADT_WBINVD | ACPI_FADT_PROC_C1 | ACPI_FADT_SLP_BUTTON |
	                 ACPI_FADT_FIX_RTC | ACPI_FADT_TMR_VAL_EXT | ACPI_FADT_RESET_REG_SUP,
	        .reset_reg = io_register(LAYOUT_RESET_PORT, 1),
	        .reset_value = 6,
	        .minor_version = 4,
	        /* x_firmware_ctrl and the 32-bit field must not both be set (§5.2.9). */
	        .x_dsdt = dsdt,
	        .x_pm1a_evt_blk = io_register(LAYOUT_PM1A_EVENT, 4),
	        .x_pm1a_cnt_blk = io_register(LAYOUT_PM1A_CONTROL, 2),
	        .x_pm_tmr_blk = io_register(LAYOUT_PM_TIMER, 4),
	};

	/* The event block is read as two registers of two bytes. */
	fadt.x_pm1a_evt_blk.access_size = 2;
	aml_put(&builder->out, &fadt, sizeof(fadt));
	return finish_table(builder, start);
}

static void put_local_apics(struct aml *aml, unsigned cpus)
{
	/* Every LAPIC has an id below 255, so type 0 serves xAPIC and x2APIC mode alike
	 * (§5.2.12.12). */
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		struct acpi_madt_lapic lapic = {
		        .entry = {ACPI_MADT_LAPIC, sizeof(lapic)},
		        .acpi_uid = (uint8_t)cpu,
		        .apic_id = (uint8_t)cpu,
		        .flags = ACPI_MADT_ENABLED,
		};

		aml_put(aml, &lapic, sizeof(lapic));
	}
}

static uint32_t put_madt(struct builder *builder, unsigned cpus)
{
	const struct acpi_madt madt = {make_header("APIC", 5), LAYOUT_LAPIC, ACPI_MADT_PCAT_COMPAT};
	const struct acpi_madt_ioapic ioapic = {
	        {ACPI_MADT_IOAPIC, sizeof(ioapic)}, 0, 0, LAYOUT_IOAPIC, 0};
	/* The PIT's wire goes to pin 2; the SCI is level, active high. Flags: see hw/acpi.h. */
	const struct acpi_madt_override overrides[] = {
	        {{ACPI_MADT_OVERRIDE, sizeof(overrides[0])}, 0, 0, 2, 0x0},
	        {{ACPI_MADT_OVERRIDE, sizeof(overrides[0])}, 0, LAYOUT_SCI, LAYOUT_SCI, 0xd},
	};
	const struct acpi_madt_lapic_nmi nmi = {{ACPI_MADT_LAPIC_NMI, sizeof(nmi)}, 0xff, 0, 1};
	size_t start = builder->out.used;

	aml_put(&builder->out, &madt, sizeof(madt));
	put_local_apics(&builder->out, cpus);
	aml_put(&builder->out, &ioapic, sizeof(ioapic));
	aml_put(&builder->out, overrides, sizeof(overrides));
	aml_put(&builder->out, &nmi, sizeof(nmi));
	return finish_table(builder, start);
}

static uint32_t put_hpet(struct builder *builder)
{
	const struct acpi_hpet hpet = {
	        .header = make_header("HPET", 1),
	        /* As the capability register has it: Intel, legacy replacement, 64 bits, three
	           timers, revision 1. */
	        .event_timer_block_id = 0x8086a201,
	        .base = {.space = ACPI_SPACE_MEMORY, .bit_width = 64, .address = LAYOUT_HPET},
	        .min_tick = 0x80,
	};
	size_t start = builder->out.used;

	aml_put(&builder->out, &hpet, sizeof(hpet));
	return finish_table(builder, start);
}

static uint32_t put_mcfg(struct builder *builder)
{
	const struct {
		struct acpi_mcfg mcfg;
		struct acpi_mcfg_entry entry;
	} __attribute__((packed)) table = {{make_header("MCFG", 1), 0}, {.base = LAYOUT_ECAM}};
	size_t start = builder->out.used;

	aml_put(&builder->out, &table, sizeof(table));
	return finish_table(builder, start);
}

static uint32_t put_xsdt(struct builder *builder, const uint32_t *tables, unsigned count)
{
	const struct acpi_header header = make_header("XSDT", 1);
	size_t start;

	align(builder, 8);
	start = builder->out.used;
	aml_put(&builder->out, &header, sizeof(header));
	for (unsigned i = 0; i < count; i++) {
		uint64_t address = tables[i];

		aml_put(&builder->out, &address, sizeof(address));
	}
	return finish_table(builder, start);
}

size_t acpi_build(const struct acpi_config *config, uint32_t base, uint8_t *image, size_t bytes)
{
	struct builder builder = {.out = {.buffer = image, .bytes = bytes}, .base = base};
	struct acpi_rsdp rsdp = {.signature = {'R', 'S', 'D', ' ', 'P', 'T', 'R', ' '},
	        .oem_id = {'K', 'E', 'E', 'L', 'O', 'S'},
	        .revision = 2,
	        .length = sizeof(rsdp)};
	uint32_t tables[4], facs, dsdt;

	aml_put(&builder.out, &rsdp, sizeof(rsdp));
	facs = put_facs(&builder);
	dsdt = put_dsdt(&builder, config);
	align(&builder, 8);
	tables[0] = put_fadt(&builder, facs, dsdt);
	align(&builder, 8);
	tables[1] = put_madt(&builder, config->cpus);
	align(&builder, 8);
	tables[2] = put_hpet(&builder);
	align(&builder, 8);
	tables[3] = put_mcfg(&builder);
	rsdp.xsdt = put_xsdt(&builder, tables, 4);
	if (builder.out.overflow)
		return 0;
	rsdp.checksum = (uint8_t)-sum_bytes((uint8_t *)&rsdp, ACPI_RSDP_V1_BYTES);
	rsdp.checksum_all = (uint8_t)-sum_bytes((uint8_t *)&rsdp, sizeof(rsdp));
	memcpy(image, &rsdp, sizeof(rsdp));
	return builder.out.used;
}
