/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts firmware in place, and tells it of memory, CPUs and ACPI tables by the device of fw_cfg.c.
 */
#include "vmm/firmware.h"

#include <cpuid.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hw/acpi.h"
#include "vmm/acpi.h"
#include "vmm/boot.h"
#include "vmm/layout.h"

/* Not Intel's ids: SeaBIOS, and drivers for these, would look for the rest of such a chip. */
#define VENDOR           0x4b45u
#define ISA_BRIDGE       0x0002u
#define POWER            0x0003u
#define CLASS_ISA_BRIDGE 0x060100u
#define CLASS_OTHER      0x068000u
#define POWER_BASE       0x40u /* PIIX4 datasheet §7.1: the ports' base, and that they are on */
#define POWER_MISC       0x80u
#define POWER_MISC_PORTS 0x01u
#define ADDRESS_BITS_MAX 48u      /* hyp's */
#define BIOS_SHADOW      0x40000u /* SeaBIOS finds no chip to ask for more of itself */
#define TABLES_FILE      "etc/acpi/tables"
#define RSDP_FILE        "etc/acpi/rsdp"

static void add_functions(struct firmware *firmware, struct pci_bus *pci)
{
	const uint32_t base = LAYOUT_PM1A_EVENT | PCI_BAR_IO;

	pci_function_init(&firmware->isa, VENDOR, ISA_BRIDGE, CLASS_ISA_BRIDGE);
	pci_function_init(&firmware->power, VENDOR, POWER, CLASS_OTHER);
	memcpy(firmware->power.config + POWER_BASE, &base, sizeof(base));
	firmware->power.config[POWER_MISC] = POWER_MISC_PORTS;
	firmware->isa.config[PCI_HEADER_TYPE] = PCI_HEADER_MULTI;
	pci_add_fixed(pci, &firmware->isa, FIRMWARE_ISA_SLOT, 0);
	pci_add_fixed(pci, &firmware->power, FIRMWARE_ISA_SLOT, 3);
}

void firmware_mark_bridge(struct pci_function *host_bridge)
{
	const uint16_t ids[] = {
	        0x1af4, 0x1100}; /* vendor and device, as QEMU's machines have them */

	memcpy(host_bridge->config + offsetof(struct pci_header, subsystem_vendor_id), ids,
	        sizeof(ids));
}

/* The script under construction. */
struct script {
	struct fw_cfg_loader *next, *end;
};

static struct fw_cfg_loader *add(struct script *script, uint32_t command)
{
	struct fw_cfg_loader *entry = script->next;

	if (entry == script->end)
		return NULL;
	script->next++;
	*entry = (struct fw_cfg_loader){.command = command};
	return entry;
}

static bool allocate(struct script *script, const char *file, uint32_t align, uint8_t zone)
{
	struct fw_cfg_loader *entry = add(script, FW_CFG_LOADER_ALLOCATE);

	if (entry == NULL)
		return false;
	snprintf(entry->allocate.file, FW_CFG_NAME_BYTES, "%s", file);
	entry->allocate.align = align;
	entry->allocate.zone = zone;
	return true;
}

static bool point(struct script *script, const char *file, size_t offset, uint8_t bytes)
{
	struct fw_cfg_loader *entry = add(script, FW_CFG_LOADER_POINTER);

	if (entry == NULL)
		return false;
	snprintf(entry->pointer.file, FW_CFG_NAME_BYTES, "%s", file);
	snprintf(entry->pointer.target, FW_CFG_NAME_BYTES, "%s", TABLES_FILE);
	entry->pointer.offset = (uint32_t)offset;
	entry->pointer.bytes = bytes;
	return true;
}

/* Firmware adds the old sum in with the rest, so it must be 0. */
static bool sum(struct script *script, const char *file, uint8_t *image, size_t offset,
        size_t start, size_t bytes)
{
	struct fw_cfg_loader *entry = add(script, FW_CFG_LOADER_CHECKSUM);

	if (entry == NULL)
		return false;
	image[offset] = 0;
	snprintf(entry->checksum.file, FW_CFG_NAME_BYTES, "%s", file);
	entry->checksum.offset = (uint32_t)offset;
	entry->checksum.start = (uint32_t)start;
	entry->checksum.bytes = (uint32_t)bytes;
	return true;
}

static bool sum_table(struct script *script, uint8_t *tables, size_t at)
{
	struct acpi_header header;

	memcpy(&header, tables + at, sizeof(header));
	return sum(script, TABLES_FILE, tables, at + offsetof(struct acpi_header, checksum), at,
	        header.length);
}

static bool point_fadt(struct script *script, uint8_t *tables, size_t at)
{
	return point(script, TABLES_FILE, at + offsetof(struct acpi_fadt, firmware_ctrl), 4) &&
	       point(script, TABLES_FILE, at + offsetof(struct acpi_fadt, dsdt), 4) &&
	       point(script, TABLES_FILE, at + offsetof(struct acpi_fadt, x_dsdt), 8) &&
	       sum_table(script, tables, at);
}

/* The tables were built for address 0, so each pointer is an offset that firmware adds its address
 * to; the sums are made anew after that. */
static bool write_script(struct script *script, uint8_t *tables)
{
	struct acpi_rsdp rsdp;
	struct acpi_header xsdt;
	size_t at;

	memcpy(&rsdp, tables, sizeof(rsdp));
	memcpy(&xsdt, tables + rsdp.xsdt, sizeof(xsdt));
	if (!allocate(script, TABLES_FILE, 64, FW_CFG_LOADER_HIGH) ||
	        !allocate(script, RSDP_FILE, 16, FW_CFG_LOADER_LOW))
		return false;
	for (at = rsdp.xsdt + sizeof(xsdt); at < rsdp.xsdt + xsdt.length; at += sizeof(uint64_t)) {
		uint64_t table;

		memcpy(&table, tables + at, sizeof(table));
		if (!point(script, TABLES_FILE, at, sizeof(table)) ||
		        (memcmp(tables + table, "FACP", 4) == 0 &&
		                !point_fadt(script, tables, table)))
			return false;
	}
	return sum_table(script, tables, rsdp.xsdt) &&
	       point(script, RSDP_FILE, offsetof(struct acpi_rsdp, xsdt), 8) &&
	       sum(script, RSDP_FILE, tables, offsetof(struct acpi_rsdp, checksum), 0,
	               ACPI_RSDP_V1_BYTES) &&
	       sum(script, RSDP_FILE, tables, offsetof(struct acpi_rsdp, checksum_all), 0,
	               sizeof(rsdp));
}

static int add_tables(
        struct firmware *firmware, const struct pci_bus *pci, unsigned cpus, uint64_t ram_bytes)
{
	const struct acpi_config config = {cpus, ram_bytes, pci->window64_bytes};
	struct script script = {firmware->script, firmware->script + FIRMWARE_SCRIPT_MAX};
	size_t bytes = acpi_build(&config, 0, firmware->tables, sizeof(firmware->tables));

	if (bytes == 0 || !write_script(&script, firmware->tables))
		return -ENOSPC;
	fw_cfg_add_file(&firmware->fw_cfg, TABLES_FILE, firmware->tables, (uint32_t)bytes);
	fw_cfg_add_file(&firmware->fw_cfg, RSDP_FILE, firmware->tables, sizeof(struct acpi_rsdp));
	fw_cfg_add_file(&firmware->fw_cfg, "etc/table-loader", firmware->script,
	        (uint32_t)((size_t)(script.next - firmware->script) * sizeof(*script.next)));
	return 0;
}

static void add_memory(struct firmware *firmware, uint64_t ram_bytes)
{
	uint64_t low = layout_ram_low(ram_bytes);
	unsigned count = 0;

	firmware->e820[count++] = (struct fw_cfg_e820){0, low, BOOT_E820_RAM};
	if (ram_bytes > low)
		firmware->e820[count++] = (struct fw_cfg_e820){
		        LAYOUT_FOUR_GIB, ram_bytes - low, BOOT_E820_RAM};
	fw_cfg_add_file(&firmware->fw_cfg, "etc/e820", firmware->e820,
	        (uint32_t)(count * sizeof(firmware->e820[0])));
}

/* Of guest-physical addresses, as hyp caps them for VMs. OVMF places BARs in the uppermost eighth
 * of them, or behind RAM, so all of that is the bus's. */
static unsigned address_bits(void)
{
	unsigned eax = 0, ebx, ecx, edx, bits = 36;

	if (__get_cpuid(0x80000008, &eax, &ebx, &ecx, &edx))
		bits = eax & 0xff;
	return bits < ADDRESS_BITS_MAX ? bits : ADDRESS_BITS_MAX;
}

/* At least as much as VMs without firmware have. */
static uint64_t window_bytes(uint64_t start)
{
	uint64_t end = 1ull << address_bits();

	return end > start + LAYOUT_PCI64_BYTES ? end - start : LAYOUT_PCI64_BYTES;
}

int firmware_attach(struct firmware *firmware, const struct definition *definition,
        struct pci_bus *pci, const struct gmem *gmem, const struct vault *vault,
        const struct hv *hv, char *error, size_t error_bytes)
{
	int rc;

	*firmware = (struct firmware){
	        .definition = definition,
	        .gmem = gmem,
	        .memory = hv->ram + hv->ram_bytes,
	        .memory_bytes = hv->firmware_bytes,
	};
	pci->window64_bytes = window_bytes(pci->window64);
	add_functions(firmware, pci);
	rc = fw_cfg_attach(&firmware->fw_cfg, gmem, vault, definition->cpus);
	if (rc == 0) {
		add_memory(firmware, definition->memory_bytes);
		rc = add_tables(firmware, pci, definition->cpus, definition->memory_bytes);
	}
	if (rc != 0)
		snprintf(error, error_bytes, "cannot tell the firmware of the VM: %s",
		        strerror(-rc));
	if (rc != 0 || definition->firmware_vars[0] == '\0')
		return rc;
	return flash_attach(&firmware->flash, definition->firmware_vars, firmware->memory,
	        firmware->memory_bytes, vault, error, error_bytes);
}

void firmware_reset(struct firmware *firmware)
{
	fw_cfg_reset(&firmware->fw_cfg);
	flash_reset(&firmware->flash);
}

int firmware_load(struct firmware *firmware, char *error, size_t error_bytes)
{
	struct boot boot = {.error = error, .error_bytes = error_bytes};
	const char *path = firmware->definition->firmware;
	uint8_t *end = firmware->memory + firmware->memory_bytes;
	uint64_t bytes, shadow;
	int fd = boot_open(&boot, "firmware", path, &bytes);
	bool fits, good;

	if (fd < 0)
		return fd;
	fits = bytes <= firmware->memory_bytes;
	good = fits && bytes > 0 && boot_read(fd, 0, end - bytes, bytes);
	close(fd);
	if (!fits)
		return boot_refuse(&boot,
		        "firmware %s: has more than the %" PRIu64
		        " MiB that the VM was made with; end the VM with 'keel vm kill' and start "
		        "it",
		        path, firmware->memory_bytes >> 20);
	if (!good)
		return boot_refuse(&boot, "firmware %s: is empty, or cannot be read", path);
	/* A BIOS jumps from the reset vector to its segment F000h, below 1 MiB. */
	shadow = bytes < BIOS_SHADOW ? bytes : BIOS_SHADOW;
	gmem_write(firmware->gmem, LAYOUT_HIGH_MEMORY - shadow, end - shadow, shadow);
	if (firmware->flash.section != NULL)
		return flash_load(&firmware->flash, LAYOUT_FOUR_GIB - bytes, error, error_bytes);
	memset(firmware->memory, 0, firmware->memory_bytes - bytes);
	return 0;
}

bool firmware_write(struct firmware *firmware, const struct hv_exit *exit)
{
	/* Elsewhere it is a ROM, which takes a write without effect. */
	return flash_write(&firmware->flash, exit) ||
	       (firmware->definition != NULL &&
	               exit->address >= LAYOUT_FOUR_GIB - firmware->memory_bytes &&
	               exit->address < LAYOUT_FOUR_GIB);
}
