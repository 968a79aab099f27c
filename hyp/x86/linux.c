/* SPDX-License-Identifier: BSD-2-Clause */
/* Lays a Linux kernel into root's memory as its 64-bit boot protocol wants it; at the start and for
 * every later root. */
#include "hyp/x86/linux_image.h"

#include "hw/msr.h"
#include "lib/cmdline.h"
#include "lib/string.h"

#define VID_MODE_NORMAL 0xffffu
#define TABLE_ENTRIES   512u
#define PD_COUNT        4u

static void write_gdt(uint64_t *gdt, struct linux_entry *entry, uint64_t hpa)
{
	gdt[LINUX_CS / 8] = 0x00af9b000000ffff;
	gdt[LINUX_DS / 8] = 0x00cf93000000ffff;
	entry->gdt_base = hpa;
	entry->gdt_limit = LINUX_DS + 7;
	entry->cs = LINUX_CS;
	entry->ds = LINUX_DS;
}

/* The first 4 GiB at their own addresses. */
static void write_tables(uint64_t *tables, uint64_t hpa)
{
	uint64_t *pdpt = tables + TABLE_ENTRIES, *pd = tables + 2 * TABLE_ENTRIES;

	tables[0] = (hpa + PAGE_BYTES) | PTE_PRESENT | PTE_WRITE;
	for (unsigned i = 0; i < PD_COUNT; i++)
		pdpt[i] = (hpa + (2 + i) * PAGE_BYTES) | PTE_PRESENT | PTE_WRITE;
	for (unsigned i = 0; i < PD_COUNT * TABLE_ENTRIES; i++)
		pd[i] = i * LARGE_BYTES | PTE_PRESENT | PTE_WRITE | PTE_LARGE;
}

static void write_zero_page(
        struct linux_boot_params *z, const struct linux_image *m, const struct linux_layout *l)
{
	struct linux_setup_header *h = &z->hdr;
	uint64_t cmdline = l->block + LINUX_BLOCK_CMDLINE;

	*h = l->header;
	h->type_of_loader = LINUX_LOADER_UNDEFINED;
	h->loadflags = (uint8_t)((h->loadflags & ~LINUX_CAN_USE_HEAP) | LINUX_LOADED_HIGH);
	h->vid_mode = VID_MODE_NORMAL;
	h->code32_start = (uint32_t)l->kernel;
	h->ramdisk_image = (uint32_t)l->initrd;
	h->ramdisk_size = (uint32_t)m->initrd_bytes;
	z->ext_ramdisk_image = (uint32_t)(l->initrd >> 32);
	z->ext_ramdisk_size = (uint32_t)(m->initrd_bytes >> 32);
	h->cmd_line_ptr = (uint32_t)cmdline;
	z->ext_cmd_line_ptr = (uint32_t)(cmdline >> 32);
	h->setup_data = 0;
	z->acpi_rsdp_addr = m->rsdp;
	for (unsigned i = 0; i < m->e820_count; i++)
		z->e820_table[i] = (struct linux_e820_entry){
		        m->e820[i].start, m->e820[i].size, m->e820[i].type};
	z->e820_entries = (uint8_t)m->e820_count;
}

/*
 * hyp's own interrupts to root are MSI messages as root wrote them into hyp's PCI function. With
 * interrupt remapping their meaning would be in tables that hyp does not read, and root finds no
 * remapping unit for that function. So it stays off unless root's command line says otherwise.
 */
static const char no_remapping[] = " intremap=off";

static void write_cmdline(char *to, const char *cmdline)
{
	size_t n = strlen(cmdline);
	char word[16];

	memcpy(to, cmdline, n + 1);
	if (cmdline_find(cmdline, "intremap", word, sizeof(word)) < 0)
		memcpy(to + n, no_remapping, sizeof(no_remapping));
}

static const char *check_arguments(const struct linux_image *m, const struct linux_layout *l)
{
	size_t n = strnlen(m->cmdline, LINUX_CMDLINE_BYTES) + sizeof(no_remapping) - 1;

	if (n >= LINUX_CMDLINE_BYTES || n > l->header.cmdline_size)
		return "its command line is too long";
	if (m->e820_count > LINUX_E820_MAX)
		return "the memory map has more than 128 ranges";
	return NULL;
}

int linux_load(const struct linux_image *m, struct linux_entry *entry)
{
	const char *image = hpa_to_virt(m->kernel);
	struct linux_layout l;
	const char *why = linux_image_parse(image, m->kernel_bytes, &l);
	uint8_t *block;

	if (!why)
		why = check_arguments(m, &l);
	if (!why)
		why = linux_image_place(m, &l);
	if (why) {
		log_line("root's kernel cannot be started: %s", why);
		return -1;
	}
	memcpy(hpa_to_virt(HPA(l.kernel)), image + l.payload_offset, l.payload_bytes);
	if (m->initrd_bytes && l.initrd != m->initrd.value)
		memcpy(hpa_to_virt(HPA(l.initrd)), hpa_to_virt(m->initrd), m->initrd_bytes);
	block = hpa_to_virt(HPA(l.block));
	memset(block, 0, LINUX_BLOCK_BYTES);
	*entry = (struct linux_entry){
	        .rip = l.kernel + LINUX_ENTRY_64_OFFSET,
	        .rsi = l.block + LINUX_BLOCK_ZERO_PAGE,
	        .rsp = l.block + LINUX_BLOCK_TABLES,
	        .cr3 = l.block + LINUX_BLOCK_TABLES,
	};
	write_zero_page((void *)(block + LINUX_BLOCK_ZERO_PAGE), m, &l);
	write_cmdline((char *)block + LINUX_BLOCK_CMDLINE, m->cmdline);
	write_gdt((void *)(block + LINUX_BLOCK_STACK), entry, l.block + LINUX_BLOCK_STACK);
	write_tables((void *)(block + LINUX_BLOCK_TABLES), l.block + LINUX_BLOCK_TABLES);
	log_line("root: kernel at %llx (%llu KiB), initrd at %llx (%llu KiB)",
	        (unsigned long long)l.kernel, (unsigned long long)l.span_bytes >> 10,
	        (unsigned long long)l.initrd, (unsigned long long)m->initrd_bytes >> 10);
	return 0;
}
