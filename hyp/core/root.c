/* SPDX-License-Identifier: BSD-2-Clause */
/* Root's partition: its memory view, its kernel's first state, and what the rest of the core may
 * ask of it. */

#include "hyp/core/root.h"
#include "abi/cpuid.h"
#include "abi/hypercall.h"
#include "hw/apic.h"
#include "hw/msr.h"
#include "hyp/core/pool.h"
#include "hyp/core/root_images.h"
#include "hyp/core/root_vcpu.h"
#include "hyp/x86/e820.h"
#include "hyp/x86/x86.h"

struct partition root_partition;
struct keel_root_shared *root_shared;
uint64_t root_entry_tsc;
uint64_t root_refused;

static struct boot_range root_e820[BOOT_MAX_RANGES];
static unsigned root_e820_count;

/* All that the CPU can address is root's, one to one, except hyp's own range and the pool. */
static void map_all(void)
{
	unsigned pool_count;
	const struct boot_range *pool = pool_ranges(&pool_count);
	hpa_t start;
	uint64_t size;

	memory_hyp_range(&start, &size);
	if (cpu_nested_create(&root_partition.nested, &root_partition.arena) != 0 ||
	        cpu_nested_map(&root_partition.nested, GPA(0), HPA(0), 1ull << memory_phys_bits(),
	                CPU_NESTED_RWX) != 0 ||
	        cpu_nested_map(&root_partition.nested, GPA(APIC_BASE_DEFAULT),
	                HPA(APIC_BASE_DEFAULT), PAGE_BYTES, 0) != 0 ||
	        cpu_nested_map(&root_partition.nested, GPA(start.value), start, size, 0) != 0)
		panic("hyp's heap is too small for root's nested page tables");
	for (unsigned i = 0; i < pool_count; i++)
		if (cpu_nested_map(&root_partition.nested, GPA(pool[i].start), HPA(pool[i].start),
		            pool[i].size, 0) != 0)
			panic("hyp's heap is too small for root's nested page tables");
}

/* The event page lies in hyp's range: that one page is shown to root. */
static void map_event_page(void)
{
	hpa_t page;

	root_shared = heap_alloc_pages(1);
	if (root_shared == NULL)
		panic("hyp's heap is used up");
	root_shared->magic = KEEL_ROOT_SHARED_MAGIC;
	root_shared->version = KEEL_ABI_VERSION;
	page = virt_to_hpa(root_shared);
	if (cpu_nested_map(&root_partition.nested, GPA(page.value), page, PAGE_BYTES,
	            CPU_NESTED_READ | CPU_NESTED_WRITE) != 0)
		panic("hyp's heap is too small for root's nested page tables");
}

static void reserve(uint64_t start, uint64_t size)
{
	if (!e820_reserve(
	            root_e820, &root_e820_count, BOOT_MAX_RANGES, start, size, BOOT_RANGE_RESERVED))
		panic("root's memory map has no room for hyp's and the pool's ranges");
}

static void make_e820(const struct boot_info *info)
{
	unsigned pool_count;
	const struct boot_range *pool = pool_ranges(&pool_count);
	hpa_t start;
	uint64_t size;

	root_e820_count = info->range_count;
	for (unsigned i = 0; i < info->range_count; i++)
		root_e820[i] = info->ranges[i];
	memory_hyp_range(&start, &size);
	reserve(start.value, size);
	for (unsigned i = 0; i < pool_count; i++)
		reserve(pool[i].start, pool[i].size);
}

static const uint32_t msrs_read_write[] = {
        MSR_APIC_BASE,
        MSR_TSC_DEADLINE,
        MSR_X2APIC_BASE + APIC_REG_LVT_TIMER,
        MSR_X2APIC_BASE + APIC_REG_TIMER_INITIAL,
        MSR_X2APIC_BASE + APIC_REG_TIMER_CURRENT,
        MSR_X2APIC_BASE + APIC_REG_TIMER_DIVIDE,
};

static void make_vcpu(struct vcpu *v, unsigned index)
{
	struct percpu *cpu = percpu_of(index);

	v->partition = &root_partition;
	v->index = index;
	v->cpu = index;
	v->cpu_state = cpu_vcpu_create(
	        &root_partition.arena, CPU_ROLE_ROOT, &root_partition.nested);
	v->root = arena_object(&root_partition.arena, sizeof(*v->root));
	if (v->cpu_state == NULL || v->root == NULL)
		panic("hyp's heap is too small for root's vCPUs");
	v->exit.cut_type = CPU_INJECT_NONE;
	cpu_vcpu_reset(v->cpu_state, &v->regs, 0);
	root_apic_init(v->root);
	v->root->wait_sipi = index != 0;
	v->state = index == 0 ? VCPU_READY : VCPU_WAIT_SIPI;
	for (size_t i = 0; i < sizeof(msrs_read_write) / sizeof(msrs_read_write[0]); i++)
		cpu_trap_msr(v->cpu_state, msrs_read_write[i], true, true);
	cpu_trap_msr(v->cpu_state, MSR_X2APIC_BASE + APIC_REG_ICR, false, true);
	cpu_trap_msr(v->cpu_state, MSR_X2APIC_BASE + APIC_REG_SVR, false, true);
	cpu_trap_msr(v->cpu_state, MSR_TSC, false, true);
	cpu_trap_msr(v->cpu_state, MSR_TSC_ADJUST, false, true);
	cpu_trap_msr(v->cpu_state, MSR_XSS, false, true);
	cpu_trap_port(v->cpu_state, 0x64, 1);
	cpu_trap_port(v->cpu_state, 0x92, 1);
	cpu_trap_port(v->cpu_state, 0xcf9, 1);
	if (acpi_reset_port() != 0)
		cpu_trap_port(v->cpu_state, acpi_reset_port(), 1);
	cpu->root = v;
}

/* Linux's 64-bit entry (Documentation/arch/x86/boot.rst): flat segments, paging on, interrupts off.
 */
static void set_entry(struct vcpu *v, const struct linux_entry *entry)
{
	static struct keel_vcpu_state s;
	const struct keel_segment data = {
	        .limit = 0xffffffff, .selector = entry->ds, .attr = 0xc93};

	s.groups = KEEL_VCPU_GPR | KEEL_VCPU_SEGS | KEEL_VCPU_CONTROL;
	s.gpr[KEEL_RSI] = entry->rsi;
	s.gpr[KEEL_RSP] = entry->rsp;
	s.rip = entry->rip;
	s.rflags = RFLAGS_FIXED;
	for (unsigned i = 0; i < 6; i++)
		s.segs[i] = data;
	s.segs[KEEL_CS] = (struct keel_segment){
	        .limit = 0xffffffff, .selector = entry->cs, .attr = 0xa9b};
	s.segs[KEEL_LDTR] = (struct keel_segment){.limit = 0xffff, .attr = 0x82};
	s.segs[KEEL_TR] = (struct keel_segment){.limit = 0xffff, .attr = 0x8b};
	s.gdtr = (struct keel_segment){.base = entry->gdt_base, .limit = entry->gdt_limit};
	s.idtr = (struct keel_segment){.limit = 0};
	s.cr0 = CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_PG;
	s.cr3 = entry->cr3;
	s.cr4 = CR4_PAE;
	s.efer = EFER_LME | EFER_LMA | EFER_NXE;
	if (cpu_state_set(v->cpu_state, &v->regs, &s) != 0)
		panic("root's first state is refused by the CPU's rules");
}

void root_image_e820(struct linux_image *image)
{
	image->e820 = root_e820;
	image->e820_count = root_e820_count;
}

bool root_start(struct vcpu *v, const struct linux_image *image)
{
	struct linux_entry entry;

	if (linux_load(image, &entry) != 0)
		return false;
	set_entry(v, &entry);
	v->root->wait_sipi = false;
	return true;
}

static void first_start(const struct boot_info *info)
{
	struct linux_image image = {.rsdp = info->rsdp};

	if (info->module_count < 1)
		panic("no module: give root's kernel (bzImage) as the first and its initramfs as "
		      "the "
		      "second");
	image.kernel = info->modules[0].start;
	image.kernel_bytes = info->modules[0].size_bytes;
	image.cmdline = info->modules[0].cmdline;
	if (info->module_count > 1) {
		image.initrd = info->modules[1].start;
		image.initrd_bytes = info->modules[1].size_bytes;
	}
	root_image_e820(&image);
	root_images_keep(info);
	if (!root_start(&root_partition.vcpus[0], &image))
		panic("root's kernel cannot be started");
}

void root_create(const struct boot_info *info)
{
	root_partition.arena.heap_fallback = true;
	root_partition.vcpu_count = cpu_count;
	root_partition.vcpus = arena_object(&root_partition.arena, cpu_count * sizeof(struct vcpu));
	if (root_partition.vcpus == NULL)
		panic("hyp's heap is too small for root's vCPUs");
	make_e820(info);
	map_all();
	map_event_page();
	for (unsigned i = 0; i < cpu_count; i++)
		make_vcpu(&root_partition.vcpus[i], i);
	root_pci_init(root_partition.vcpus, cpu_count);
	first_start(info);
}

/* Every CPU that was in root's guest mode with old translations has left it. Pairs with enter() in
 * root_run.c. */
static void root_flush_all(void)
{
	for (unsigned i = 0; i < root_partition.vcpu_count; i++) {
		struct vcpu *v = &root_partition.vcpus[i];
		uint64_t seen;

		cpu_flush(v->cpu_state);
		if (v == percpu()->root)
			continue;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		seen = __atomic_load_n(&v->root->entries, __ATOMIC_ACQUIRE);
		if (!__atomic_load_n(&v->root->in_guest, __ATOMIC_SEQ_CST))
			continue;
		cpu_kick(i);
		while (__atomic_load_n(&v->root->in_guest, __ATOMIC_ACQUIRE) &&
		        __atomic_load_n(&v->root->entries, __ATOMIC_ACQUIRE) == seen)
			cpu_pause();
	}
}

int root_map(gpa_t gpa, hpa_t hpa, uint64_t bytes, unsigned flags)
{
	int status;

	spin_lock(&root_partition.lock);
	status = cpu_nested_map(&root_partition.nested, gpa, hpa, bytes, flags);
	spin_unlock(&root_partition.lock);
	root_flush_all();
	return status;
}

void root_map_pool(hpa_t start, uint64_t bytes, bool visible)
{
	int status;

	spin_lock(&root_partition.lock);
	status = cpu_nested_map(&root_partition.nested, GPA(start.value), start, bytes,
	        visible ? CPU_NESTED_RWX & ~CPU_NESTED_EXECUTE : 0);
	spin_unlock(&root_partition.lock);
	hyp_assert(status == 0); /* the pool's tables were made at boot, down to 2 MiB */
	if (!visible)
		root_flush_all();
}

/* An MSI as a device of root's would send it (SDM vol 3 §11.11): address bits 19:12 are the
 * destination, data the vector. */
void root_send_msi(uint64_t address, uint32_t data)
{
	apic_icr_write((((address >> 12) & 0xff) << 32) | (address & 4 ? APIC_ICR_LOGICAL : 0) |
	               (data & 0xff));
}

void root_raise_event(void)
{
	uint64_t address;
	uint32_t data;

	if (root_pci_event(&address, &data))
		root_send_msi(address, data);
}

void root_notify_vm(uint32_t vm_id)
{
	uint64_t bit = 1ull << (vm_id - 1);

	if (__atomic_fetch_or(&root_shared->vm_pending, bit, __ATOMIC_ACQ_REL) == 0)
		root_raise_event();
}

/* Where root's memory at gpa is, if root may use it so; pieces never cross a page. */
static void *root_memory(uint64_t gpa, unsigned rights)
{
	unsigned flags;
	hpa_t hpa;

	if (!cpu_nested_lookup(&root_partition.nested, GPA(gpa), &hpa, &flags) ||
	        (flags & rights) != rights)
		return NULL;
	if (!e820_is_ram(root_e820, root_e820_count, gpa & ~(PAGE_BYTES - 1), PAGE_BYTES))
		return NULL;
	return hpa_to_virt(hpa);
}

static size_t piece_bytes(uint64_t gpa, size_t bytes)
{
	size_t left = PAGE_BYTES - (gpa & (PAGE_BYTES - 1));

	return bytes < left ? bytes : left;
}

bool root_copy_in(void *to, uint64_t gpa, size_t bytes)
{
	while (bytes != 0) {
		size_t n = piece_bytes(gpa, bytes);
		const void *from = root_memory(gpa, CPU_NESTED_READ);

		if (from == NULL)
			return false;
		__builtin_memcpy(to, from, n);
		to = (uint8_t *)to + n;
		gpa += n;
		bytes -= n;
	}
	return true;
}

bool root_copy_out(uint64_t gpa, const void *from, size_t bytes)
{
	while (bytes != 0) {
		size_t n = piece_bytes(gpa, bytes);
		void *to = root_memory(gpa, CPU_NESTED_WRITE);

		if (to == NULL)
			return false;
		__builtin_memcpy(to, from, n);
		from = (const uint8_t *)from + n;
		gpa += n;
		bytes -= n;
	}
	return true;
}
