/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the few ACPI tables that hyp needs. They are the firmware's, so lengths are checked, but
 * nothing hostile is expected. */
#include "hyp/x86/internal.h"

#include "lib/string.h"

#define EBDA_SEGMENT_AT 0x40eu
#define EBDA_SCAN_BYTES 1024u
#define BIOS_START      0xe0000u
#define BIOS_END        0x100000u
#define TABLE_BYTES_MAX (1u << 20)

struct acpi_info acpi_info;

static uint8_t sum(const void *p, size_t n)
{
	const uint8_t *b = p;
	uint8_t s = 0;

	while (n--)
		s = (uint8_t)(s + *b++);
	return s;
}

static uint64_t scan(uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end; at += 16) {
		const char *p = hpa_to_virt(HPA(at));

		if (!memcmp(p, "RSD PTR ", 8) && !sum(p, ACPI_RSDP_V1_BYTES))
			return at;
	}
	return 0;
}

uint64_t acpi_scan_rsdp(void)
{
	uint16_t segment;
	uint64_t ebda, found = 0;

	memcpy(&segment, hpa_to_virt(HPA(EBDA_SEGMENT_AT)), sizeof(segment));
	ebda = (uint64_t)segment << 4;
	if (ebda >= 0x400 && ebda < 0xa0000)
		found = scan(ebda, ebda + EBDA_SCAN_BYTES);
	return found ? found : scan(BIOS_START, BIOS_END);
}

/* NULL if what lies there is no table with that checksum. */
static const struct acpi_header *table_at(uint64_t hpa)
{
	const struct acpi_header *h = hpa_to_virt(HPA(hpa));

	if (!hpa || hpa >= 1ull << memory_phys_bits())
		return NULL;
	if (h->length < sizeof(*h) || h->length > TABLE_BYTES_MAX || sum(h, h->length))
		return NULL;
	return h;
}

static void add_cpu(struct acpi_info *info, uint32_t id, uint32_t flags)
{
	if (!(flags & ACPI_MADT_ENABLED))
		return;
	for (unsigned i = 0; i < info->cpu_count; i++)
		if (info->apic_ids[i] == id) /* some firmware lists a CPU in both forms */
			return;
	if (info->cpu_count == CPU_MAX)
		info->cpus_ignored++;
	else
		info->apic_ids[info->cpu_count++] = id;
}

static void read_madt_entry(
        const uint8_t *at, const struct acpi_madt_entry *e, struct acpi_info *info)
{
	struct acpi_madt_lapic lapic;
	struct acpi_madt_x2apic x2apic;
	struct acpi_madt_lapic_address address;
	struct acpi_madt_ioapic ioapic;

	if (e->type == ACPI_MADT_LAPIC && e->length >= sizeof(lapic)) {
		memcpy(&lapic, at, sizeof(lapic));
		add_cpu(info, lapic.apic_id, lapic.flags);
	} else if (e->type == ACPI_MADT_X2APIC && e->length >= sizeof(x2apic)) {
		memcpy(&x2apic, at, sizeof(x2apic));
		add_cpu(info, x2apic.apic_id, x2apic.flags);
	} else if (e->type == ACPI_MADT_LAPIC_ADDRESS && e->length >= sizeof(address)) {
		memcpy(&address, at, sizeof(address));
		info->lapic_address = address.address;
	} else if (e->type == ACPI_MADT_IOAPIC && e->length >= sizeof(ioapic)) {
		memcpy(&ioapic, at, sizeof(ioapic));
		if (info->ioapic_count < ACPI_IOAPICS_MAX)
			info->ioapics[info->ioapic_count++] = ioapic.address;
	}
}

void acpi_read_madt(const void *madt, size_t size, struct acpi_info *info)
{
	const uint8_t *bytes = madt;
	struct acpi_madt head;
	struct acpi_madt_entry e;

	if (size < sizeof(head))
		return;
	memcpy(&head, bytes, sizeof(head));
	info->lapic_address = head.lapic_address;
	for (size_t at = sizeof(head); at + sizeof(e) <= size; at += e.length) {
		memcpy(&e, bytes + at, sizeof(e));
		if (e.length < sizeof(e) || e.length > size - at)
			return;
		read_madt_entry(bytes + at, &e, info);
	}
}

static void read_fadt(const struct acpi_header *h)
{
	struct acpi_fadt f = {.flags = 0};

	memcpy(&f, h,
	        h->length < sizeof(f) ? h->length : sizeof(f)); /* older revisions are shorter */
	acpi_info.pm_timer_port = (uint16_t)f.pm_tmr_blk;
	if (f.x_pm_tmr_blk.address && f.x_pm_tmr_blk.space == ACPI_SPACE_IO)
		acpi_info.pm_timer_port = (uint16_t)f.x_pm_tmr_blk.address;
	acpi_info.pm_timer_32 = f.flags & ACPI_FADT_TMR_VAL_EXT;
	acpi_info.rtc_century = f.century;
	if (f.flags & ACPI_FADT_RESET_REG_SUP) {
		acpi_info.reset_reg = f.reset_reg;
		acpi_info.reset_value = f.reset_value;
	}
}

/* Segment 0 only: where there are more, hyp has no business with the others' devices. */
static void read_mcfg(const struct acpi_header *h)
{
	const uint8_t *bytes = (const uint8_t *)h;
	struct acpi_mcfg_entry e;

	for (size_t at = sizeof(struct acpi_mcfg); at + sizeof(e) <= h->length; at += sizeof(e)) {
		memcpy(&e, bytes + at, sizeof(e));
		if (e.segment)
			continue;
		acpi_info.ecam = (struct pci_ecam){HPA(e.base), e.start_bus, e.end_bus};
		return;
	}
}

static void read_table(uint64_t hpa)
{
	const struct acpi_header *h = table_at(hpa);

	if (!h)
		return;
	if (!memcmp(h->signature, "APIC", 4)) {
		acpi_info.madt = HPA(hpa);
		acpi_read_madt(h, h->length, &acpi_info);
	} else if (!memcmp(h->signature, "FACP", 4))
		read_fadt(h);
	else if (!memcmp(h->signature, "MCFG", 4))
		read_mcfg(h);
}

/* Where the MADT's entry for that CPU has its flags; 0: no such entry. */
static size_t flags_of(const uint8_t *at, const struct acpi_madt_entry *e, uint32_t id)
{
	struct acpi_madt_lapic lapic;
	struct acpi_madt_x2apic x2apic;

	if (e->type == ACPI_MADT_LAPIC && e->length >= sizeof(lapic)) {
		memcpy(&lapic, at, sizeof(lapic));
		return lapic.apic_id == id ? offsetof(struct acpi_madt_lapic, flags) : 0;
	}
	if (e->type == ACPI_MADT_X2APIC && e->length >= sizeof(x2apic)) {
		memcpy(&x2apic, at, sizeof(x2apic));
		return x2apic.apic_id == id ? offsetof(struct acpi_madt_x2apic, flags) : 0;
	}
	return 0;
}

void acpi_hide_cpu(uint32_t id)
{
	uint8_t *madt = acpi_info.madt.value ? hpa_to_virt(acpi_info.madt) : NULL;
	struct acpi_header h;
	struct acpi_madt_entry e;

	if (!madt)
		return;
	memcpy(&h, madt, sizeof(h));
	for (size_t at = sizeof(struct acpi_madt); at + sizeof(e) <= h.length; at += e.length) {
		size_t flags;

		memcpy(&e, madt + at, sizeof(e));
		if (e.length < sizeof(e) || e.length > h.length - at)
			break;
		flags = flags_of(madt + at, &e, id);
		if (flags)
			memset(madt + at + flags, 0, sizeof(uint32_t));
	}
	madt[offsetof(struct acpi_header, checksum)] =
	        (uint8_t)(madt[offsetof(struct acpi_header, checksum)] - sum(madt, h.length));
}

bool acpi_is_reset(uint16_t port, uint32_t value)
{
	const struct acpi_gas *r = &acpi_info.reset_reg;

	return r->address != 0 && r->space == ACPI_SPACE_IO && r->address == port &&
	       value == acpi_info.reset_value;
}

uint16_t acpi_reset_port(void)
{
	const struct acpi_gas *r = &acpi_info.reset_reg;

	if (r->address == 0 || (r->space == ACPI_SPACE_IO && r->address <= 0xffff))
		return (uint16_t)r->address;
	log_line("root: ACPI's reset register is no port (space %u, %llx): a reset by it is one of "
	         "the "
	         "machine",
	        r->space, (unsigned long long)r->address);
	return 0;
}

const struct pci_ecam *acpi_ecam(void)
{
	return acpi_info.ecam.base.value ? &acpi_info.ecam : NULL;
}

void acpi_init(uint64_t rsdp_hpa)
{
	struct acpi_rsdp rsdp;
	const struct acpi_header *root = NULL;
	size_t width = sizeof(uint64_t);

	if (!rsdp_hpa) {
		log_line("no ACPI RSDP found: one CPU, no ACPI");
		return;
	}
	memcpy(&rsdp, hpa_to_virt(HPA(rsdp_hpa)), sizeof(rsdp));
	if (rsdp.revision >= 2)
		root = table_at(rsdp.xsdt);
	if (!root) {
		root = table_at(rsdp.rsdt);
		width = sizeof(uint32_t);
	}
	if (!root) {
		log_line("the ACPI root table at %llx is damaged: one CPU, no ACPI",
		        (unsigned long long)rsdp_hpa);
		return;
	}
	for (size_t at = sizeof(*root); at + width <= root->length; at += width) {
		uint64_t hpa = 0;

		memcpy(&hpa, (const uint8_t *)root + at, width);
		read_table(hpa);
	}
	if (acpi_info.cpus_ignored)
		log_line("%u CPUs beyond %u are not used", acpi_info.cpus_ignored, CPU_MAX);
}
