/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts the other CPUs by INIT and SIPI, one after the other through one borrowed page below 1
 * MiB. May leave the boot CPU out of all that follows. */
#include "hyp/x86/internal.h"

#include "hyp/x86/e820.h"
#include "lib/cmdline.h"
#include "lib/string.h"

/*
 * park=boot on hyp's command line: the boot CPU starts the others and then sleeps for ever; CPU 0
 * is the first of the others, and root is not told of the boot CPU. For the lab: QEMU's TCG (7.2 to
 * 10.0) changes the boot CPU's word of flags (GIF, nested paging, virtual interrupts) from whatever
 * CPU loads an FPU state, without a lock. A VMRUN, #VMEXIT or STGI there at that moment is undone
 * in part: seen as a triple fault over good tables, hyp's state saved as a guest's, and a HLT
 * that no interrupt ends. Nothing of that happens to a CPU that is not the boot CPU.
 */

#define LOW_MIN        0x1000u
#define LOW_LIMIT      0xa0000u
#define INIT_WAIT_US   10000u
#define SIPI_WAIT_US   300u
#define ARRIVE_WAIT_US 1000000u /* an emulator may take its time */
#define SIPI_TRIES     2u

/* trampoline.S */
extern const char trampoline_start[], trampoline_end[];
extern const char trampoline_cr3[], trampoline_stack[], trampoline_entry[];

unsigned cpu_count = 1;
static struct percpu *percpus[CPU_MAX];
static uint32_t arrived = UINT32_MAX; /* (a) index of the CPU that came up last */
static unsigned parked;               /* 1: the boot CPU has the first stack, and no number */
static uint32_t released;             /* (a) */
static struct boot_info *lead;        /* (a) CPU 0 is to go on with core_main, for the boot CPU */
static char saved_page[PAGE_BYTES];

struct percpu *percpu_of(unsigned index)
{
	hyp_assert(index < CPU_MAX && percpus[index]);
	return percpus[index];
}

void smp_release(void)
{
	__atomic_store_n(&released, 1, __ATOMIC_RELEASE); /* pairs with ap_main */
}

static bool is_lead(void)
{
	return percpu()->index == 0 && __atomic_load_n(&lead, __ATOMIC_ACQUIRE) != NULL;
}

static void ap_main(void)
{
	cpu_setup();
	apic_init_cpu();
	__atomic_store_n(&arrived, percpu()->index, __ATOMIC_RELEASE); /* pairs with wait_for */
	while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE) && !is_lead())
		cpu_pause();
	paging_flush(); /* of the trampoline's page */
	if (is_lead())
		core_main(lead);
	core_cpu_main();
}

void smp_go_on(struct boot_info *info)
{
	if (percpus[0] == percpu())
		core_main(info);
	__atomic_store_n(&lead, info, __ATOMIC_RELEASE); /* pairs with is_lead */
	for (;;)
		__asm__ volatile("cli; hlt");
}

static void put64(void *page, const char *symbol, uint64_t v)
{
	memcpy((char *)page + (symbol - trampoline_start), &v, sizeof(v));
}

static bool wait_for(unsigned index, uint64_t us)
{
	uint64_t end = tsc_now() + us * (tsc_hz / 1000000);

	while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) != index) {
		if (tsc_now() > end)
			return false;
		cpu_pause();
	}
	return true;
}

static bool start_one(void *page, uint64_t page_hpa, uint32_t apic_id, unsigned index)
{
	struct percpu *p = percpus[index];

	if (!p)
		p = percpus[index] = paging_make_stack(index + parked);
	p->index = index;
	p->apic_id = apic_id;
	/* Each entry starts from a fresh copy: the code writes its own addresses into it. */
	memcpy(page, trampoline_start, (size_t)(trampoline_end - trampoline_start));
	put64(page, trampoline_cr3, paging_root().value);
	put64(page, trampoline_stack, (uintptr_t)p);
	put64(page, trampoline_entry, (uintptr_t)ap_main);
	for (unsigned i = 0; i < SIPI_TRIES; i++) {
		apic_send_sipi(apic_id, (uint8_t)(page_hpa / PAGE_BYTES));
		if (wait_for(index, i + 1 < SIPI_TRIES ? SIPI_WAIT_US : ARRIVE_WAIT_US))
			return true;
	}
	apic_send_init(
	        apic_id); /* so that it does not wake up late in a page that is root's again */
	return false;
}

static void start_all(void *page, uint64_t page_hpa)
{
	for (unsigned i = 0; i < acpi_info.cpu_count; i++)
		if (acpi_info.apic_ids[i] != percpu()->apic_id)
			apic_send_init(acpi_info.apic_ids[i]);
	time_wait_us(INIT_WAIT_US);
	for (unsigned i = 0; i < acpi_info.cpu_count; i++) {
		uint32_t id = acpi_info.apic_ids[i];

		if (id == percpu()->apic_id)
			continue;
		if (start_one(page, page_hpa, id, cpu_count))
			cpu_count++;
		else
			log_line("the CPU with APIC id %u does not start", id);
	}
}

static bool wants_parking(const char *cmdline)
{
	char word[8];

	if (cmdline_find(cmdline, "park", word, sizeof(word)) < 0)
		return false;
	if (strcmp(word, "boot") == 0 && acpi_info.cpu_count > 1)
		return true;
	log_line("park=%s: the boot CPU is not parked%s", word,
	        strcmp(word, "boot") == 0 ? ", there is no other" : "; write park=boot");
	return false;
}

/* From here on the boot CPU counts as one behind the last. */
static void park_boot_cpu(void)
{
	parked = 1;
	cpu_count = 0;
	percpu()->index = CPU_MAX - 1;
	acpi_hide_cpu(percpu()->apic_id);
}

void smp_start(const struct boot_info *info)
{
	struct boot_range avoid[BOOT_MAX_MODULES];
	uint64_t hpa;
	void *page;

	bool park = wants_parking(info->cmdline);

	if (!park)
		percpus[0] = percpu();
	if (acpi_info.cpu_count <= 1)
		return;
	for (unsigned i = 0; i < info->module_count; i++)
		avoid[i] = (struct boot_range){
		        info->modules[i].start.value, info->modules[i].size_bytes, BOOT_RANGE_RAM};
	hpa = e820_find_top(info->ranges, info->range_count, PAGE_BYTES, PAGE_BYTES, LOW_MIN,
	        LOW_LIMIT, avoid, info->module_count);
	if (hpa == E820_NONE) {
		log_line("no free page below 640 KiB: only the boot CPU runs");
		percpus[0] = percpu();
		return;
	}
	if (park)
		park_boot_cpu();
	page = hpa_to_virt(HPA(hpa));
	memcpy(saved_page, page, PAGE_BYTES);
	paging_identity_page(hpa);
	start_all(page, hpa);
	paging_identity_drop();
	memcpy(page, saved_page, PAGE_BYTES);
	hyp_assert(cpu_count > 0);
}
