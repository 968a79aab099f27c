/* SPDX-License-Identifier: BSD-2-Clause */
/* From boot.S to core_main: the order of the start. */
#include "hyp/x86/internal.h"

#include "hyp/x86/e820.h"
#include "hyp/x86/multiboot.h"
#include "lib/cmdline.h"
#include "lib/string.h"

#define BOOT_PERCPU_BYTES 512u /* boot.S keeps this much free at the top of its stack */
_Static_assert(sizeof(struct percpu) <= BOOT_PERCPU_BYTES, "room in boot.S");
_Static_assert(sizeof(struct percpu) % 16 == 0, "a stack starts below it");

#define COM1      0x3f8u
#define COM2      0x2f8u
#define FOUR_GIB  (4ull << 30)
#define LOW_BYTES 0x100000ull

static struct boot_info boot_info;

uint64_t hyp_entry_tsc;

void x86_start(uint32_t magic, uint32_t block, uint64_t entry_tsc);

/* The loader's pointers are below 4 GiB, all of which the early tables map. */
static const void *boot_phys(uint32_t address)
{
	return hpa_to_virt(HPA(address));
}

/* Multiboot 2 hands over a copy of the RSDP: it gets a page that root too sees as firmware's. */
static void keep_rsdp(const struct acpi_rsdp *rsdp)
{
	uint64_t load = (uintptr_t)boot_start;
	struct boot_range avoid[BOOT_MAX_MODULES + 1] = {
	        {load, (uintptr_t)image_load_end - load, BOOT_RANGE_RAM}};
	uint64_t at;

	for (unsigned i = 0; i < boot_info.module_count; i++)
		avoid[i + 1] = (struct boot_range){boot_info.modules[i].start.value,
		        boot_info.modules[i].size_bytes, BOOT_RANGE_RAM};
	at = e820_find_top(boot_info.ranges, boot_info.range_count, PAGE_BYTES, PAGE_BYTES,
	        LOW_BYTES, FOUR_GIB, avoid, boot_info.module_count + 1);
	if (at == E820_NONE || !e820_reserve(boot_info.ranges, &boot_info.range_count,
	                               BOOT_MAX_RANGES, at, PAGE_BYTES, BOOT_RANGE_ACPI))
		return;
	memset(hpa_to_virt(HPA(at)), 0, PAGE_BYTES);
	memcpy(hpa_to_virt(HPA(at)), rsdp, rsdp->length);
	if (rsdp->length < sizeof(*rsdp)) /* version 1 has no length: what was put there is ours */
		memset((char *)hpa_to_virt(HPA(at)) + ACPI_RSDP_V1_BYTES, 0,
		        sizeof(*rsdp) - ACPI_RSDP_V1_BYTES);
	boot_info.rsdp = at;
}

static const char *parse(uint32_t magic, uint32_t block)
{
	struct acpi_rsdp rsdp = {.length = 0};
	const char *why;

	if (magic == MB1_LOADER_MAGIC)
		why = multiboot1_parse(boot_phys(block), boot_phys, &boot_info);
	else if (magic == MB2_LOADER_MAGIC)
		why = multiboot2_parse(boot_phys(block), &boot_info, &rsdp);
	else
		why = "not started by a Multiboot loader";
	if (why)
		return why;
	if (rsdp.length)
		keep_rsdp(&rsdp);
	else
		boot_info.rsdp = acpi_scan_rsdp();
	return NULL;
}

static void configure_serial(void)
{
	char text[16];
	uint64_t port;

	if (cmdline_find(boot_info.cmdline, "serial", text, sizeof(text)) < 0)
		return;
	if (!strcmp(text, "off"))
		serial_init(0);
	else if (!strcmp(text, "com2"))
		serial_init(COM2);
	else if (cmdline_parse_size(text, &port) && port <= UINT16_MAX - 7)
		serial_init((uint16_t)port);
	else if (strcmp(text, "com1"))
		log_line("serial=%s: not com1, com2, off or a port", text);
}

static void log_map(void)
{
	static const char *const names[] = {"?", "RAM", "reserved", "ACPI", "NVS", "unusable"};

	for (unsigned i = 0; i < boot_info.range_count; i++) {
		const struct boot_range *r = &boot_info.ranges[i];

		log_line("  %012llx-%012llx %s", (unsigned long long)r->start,
		        (unsigned long long)(r->start + r->size), names[r->type]);
	}
}

static void start_moved(void)
{
	hpa_t start;
	uint64_t size;

	cpu_setup();
	acpi_init(boot_info.rsdp);
	apic_init_boot(boot_info.cmdline);
	time_calibrate_begin();
	smp_start(&boot_info);
	time_calibrate_end();
	memory_hyp_range(&start, &size);
	log_line("%u CPUs, %s, hyp at %llx-%llx", cpu_count, apic_is_x2apic ? "x2APIC" : "xAPIC",
	        (unsigned long long)start.value, (unsigned long long)(start.value + size));
	smp_go_on(&boot_info);
}

void x86_start(uint32_t magic, uint32_t block, uint64_t entry_tsc)
{
	const char *why;

	serial_init(COM1);
	interrupts_build_idt();
	cpu_setup();
	pic_silence();
	why = parse(magic, block);
	if (why)
		refuse("%s", why);
	boot_info.entry_tsc = hyp_entry_tsc = entry_tsc;
	configure_serial();
	panic_configure(boot_info.cmdline);
	log_line("keelOS, started by %s%s",
	        boot_info.loader[0] ? boot_info.loader : "a loader without a name",
	        boot_info.uefi ? " on UEFI" : "");
	log_map();
	memory_move(&boot_info, start_moved);
}
