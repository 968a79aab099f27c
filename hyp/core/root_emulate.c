/* SPDX-License-Identifier: BSD-2-Clause */
/* Root's accesses to what its nested tables do not map: the APIC page, the hyp PCI function, and
 * memory that it has no right to. */

#include "abi/hypercall.h"
#include "hw/apic.h"
#include "hw/msr.h"
#include "hyp/core/pool.h"
#include "hyp/core/root.h"
#include "hyp/core/root_vcpu.h"
#include "hyp/x86/x86.h"
#include "lib/insn.h"

#define VECTOR_UD          6
#define VECTOR_PF          14
#define REFUSED_LOGGED_MAX 32u

enum insn_mode root_insn_mode(const struct vcpu *v, const struct cpu_mode *mode)
{
	uint16_t cs_attr = (uint16_t)((mode->long_mode ? 0x200 : 0) |
	                              (mode->default_32 ? 0x400 : 0));

	return insn_mode_from_state(
	        mode->cr0 & CR0_PE, v->regs.rflags & RFLAGS_VM, mode->efer & EFER_LMA, cs_attr);
}

/* One table entry of root's own page tables; 0 (not present) where root may not read. */
static uint64_t table_entry(uint64_t table, uint64_t linear, unsigned level)
{
	uint64_t index = (linear >> (12 + 9 * (level - 1))) & 511;
	uint64_t entry;

	return root_copy_in(&entry, (table & PTE_ADDRESS) + index * 8, 8) ? entry : 0;
}

/*
 * Root's own page tables, four or five levels. The CPU has just made this walk for the access that
 * exited, so rights were judged and A and D are set; only another CPU of root's that changes its
 * tables at this moment can make the two differ.
 */
static bool root_walk(const struct cpu_mode *mode, uint64_t linear, uint64_t *gpa)
{
	uint64_t table = mode->cr3;
	unsigned level = mode->cr4 & CR4_LA57 ? 5 : 4;

	if (!(mode->cr0 & CR0_PG)) {
		*gpa = linear;
		return true;
	}
	if (!(mode->efer & EFER_LMA))
		return false; /* nothing that root does in 32-bit paging touches these places */
	for (;; level--) {
		uint64_t entry = table_entry(table, linear, level);
		uint64_t mask = (1ull << (12 + 9 * (level - 1))) - 1;

		if (!(entry & PTE_PRESENT))
			return false;
		if (level == 1 || (level <= 3 && (entry & PTE_LARGE))) {
			*gpa = (entry & PTE_ADDRESS & ~mask) | (linear & mask);
			return true;
		}
		table = entry;
	}
}

size_t root_fetch(struct vcpu *v, const struct cpu_mode *mode, uint8_t *bytes)
{
	uint64_t base = mode->long_mode ? 0 : mode->seg_base[KEEL_CS];
	size_t got = 0;

	while (got < INSN_MAX_LEN) {
		uint64_t linear = base + v->regs.rip + got;
		size_t n = PAGE_BYTES - (linear & (PAGE_BYTES - 1));
		uint64_t gpa;

		if (n > INSN_MAX_LEN - got)
			n = INSN_MAX_LEN - got;
		if (!root_walk(mode, linear, &gpa) || !root_copy_in(bytes + got, gpa, n))
			break;
		got += n;
	}
	return got;
}

static void real_access(uint64_t gpa, unsigned size, bool write, uint64_t *value)
{
	volatile void *p = hpa_to_virt(HPA(gpa));

	switch (size) {
	case 1:
		if (write)
			*(volatile uint8_t *)p = (uint8_t)*value;
		else
			*value = *(volatile uint8_t *)p;
		break;
	case 2:
		if (write)
			*(volatile uint16_t *)p = (uint16_t)*value;
		else
			*value = *(volatile uint16_t *)p;
		break;
	case 4:
		if (write)
			*(volatile uint32_t *)p = (uint32_t)*value;
		else
			*value = *(volatile uint32_t *)p;
		break;
	default:
		for (unsigned i = 0; i < size; i++) {
			volatile uint8_t *byte = (volatile uint8_t *)p + i;

			if (size == 8)
				break;
			if (write)
				*byte = (uint8_t)(*value >> (8 * i));
			else
				*value = (i == 0 ? 0 : *value) | ((uint64_t)*byte << (8 * i));
		}
		if (size == 8 && write)
			*(volatile uint64_t *)p = *value;
		else if (size == 8)
			*value = *(volatile uint64_t *)p;
		break;
	}
}

/* The APIC page in xAPIC mode: what hyp shares with root goes through it, the rest to the hardware.
 * Registers are 32 bits every 16 bytes. */
static void apic_page(struct vcpu *v, uint64_t gpa, unsigned size, bool write, uint64_t *value)
{
	uint32_t reg = (uint32_t)(gpa & 0xff0) >> 4;

	if (percpu()->x2apic || (gpa & 15) || size != 4) {
		if (!write)
			*value = 0;
		return;
	}
	if (write) {
		if (!root_apic_write(v, reg, *value))
			apic_write(reg, (uint32_t)*value);
	} else if (!root_apic_read(v, reg, value)) {
		*value = apic_read(reg);
	}
}

/* Memory that is not root's: reads give ones, writes go nowhere, the operator sees it. */
static void refused(struct vcpu *v, uint64_t gpa, unsigned size, bool write, uint64_t *value)
{
	uint64_t n = __atomic_fetch_add(&root_refused, 1, __ATOMIC_RELAXED);

	if (n < REFUSED_LOGGED_MAX)
		log_line("root: %s of %u bytes at %llx (%s) refused, rip %llx",
		        write ? "write" : "read", size, (unsigned long long)gpa,
		        pool_owner(HPA(gpa)) == POOL_FREE ? "hyp or free pool" : "a VM's",
		        (unsigned long long)v->regs.rip);
	if (n == REFUSED_LOGGED_MAX)
		log_line("root: further refused accesses are only counted");
	if (!write)
		*value = UINT64_MAX;
}

static void access(struct vcpu *v, const struct insn_piece *p, bool write, uint64_t *value)
{
	unsigned flags;
	hpa_t hpa;

	if ((p->gpa & ~(PAGE_BYTES - 1)) == APIC_BASE_DEFAULT)
		apic_page(v, p->gpa, p->size, write, value);
	else if (root_pci_ecam(p->gpa, p->size, write, value))
		return;
	else if (cpu_nested_lookup(&root_partition.nested, GPA(p->gpa), &hpa, &flags) &&
	         (flags & (write ? CPU_NESTED_WRITE : CPU_NESTED_READ)) && memory_is_reachable(hpa))
		real_access(hpa.value, p->size, write, value);
	else
		refused(v, p->gpa, p->size, write, value);
}

static void regs_in(struct vcpu *v, const struct cpu_mode *mode, struct insn_regs *regs)
{
	static const struct insn_seg flat = {.limit = 0xffffffff, .attr = 0xc93};

	__builtin_memcpy(regs->gpr, v->regs.gpr, sizeof(regs->gpr));
	regs->rip = v->regs.rip;
	regs->rflags = v->regs.rflags;
	for (unsigned i = 0; i < 6; i++) {
		regs->seg[i] = flat;
		regs->seg[i].base = mode->seg_base[i];
	}
	regs->xmm = NULL;
	regs->linear_bits = mode->cr4 & CR4_LA57 ? 57 : 48;
}

static void fault(struct vcpu *v, uint8_t vector, bool has_error, uint32_t error)
{
	if (!cpu_can_take(v->cpu_state, &v->regs).injecting)
		cpu_inject(v->cpu_state, CPU_INJECT_EXCEPTION, vector, has_error, error);
}

static bool translate(struct vcpu *v, const struct cpu_mode *mode, struct insn_step *step)
{
	for (unsigned i = 0; i < step->pieces; i++) {
		struct insn_piece *p = &step->piece[i];

		if (p->port || root_walk(mode, p->addr, &p->gpa))
			continue;
		cpu_reg_set(v->cpu_state, CPU_CR2, p->addr);
		fault(v, VECTOR_PF, true, p->rights & INSN_WRITE ? 2 : 0);
		return false;
	}
	return true;
}

/* An instruction that the emulator does not know, or code that lies where root may not read: the
 * guest gets #UD, as from an unknown opcode. */
static void cannot(struct vcpu *v, const uint8_t *bytes, size_t got)
{
	if (__atomic_fetch_add(&root_refused, 1, __ATOMIC_RELAXED) < REFUSED_LOGGED_MAX)
		log_line("root: cannot carry out %s%02x %02x %02x %02x at rip %llx for gpa %llx",
		        got ? "" : "(unreadable) ", bytes[0], bytes[1], bytes[2], bytes[3],
		        (unsigned long long)v->regs.rip, (unsigned long long)v->exit.gpa);
	fault(v, VECTOR_UD, false, 0);
}

void root_emulate(struct vcpu *v)
{
	uint8_t bytes[INSN_MAX_LEN] = {0};
	struct insn_step step = {0};
	struct insn_regs regs;
	struct insn_piece *p;
	struct cpu_mode mode;
	size_t got;
	int status;

	cpu_mode_get(v->cpu_state, &mode);
	regs_in(v, &mode, &regs);
	got = v->exit.fetch ? 0 : root_fetch(v, &mode, bytes);
	status = insn_decode(bytes, got, root_insn_mode(v, &mode), &step.insn);
	if (status == INSN_OK)
		status = insn_plan(&step, &regs);
	if (status == INSN_FAULT) {
		fault(v, step.vector, true, 0);
		return;
	}
	if (status != INSN_OK) {
		cannot(v, bytes, got);
		return;
	}
	if (!translate(v, &mode, &step))
		return;
	while ((p = insn_next(&step, &regs)) != NULL) {
		if (!p->port)
			access(v, p, step.writing, &p->data);
		insn_done(&step);
	}
	insn_commit(&step, &regs);
	__builtin_memcpy(v->regs.gpr, regs.gpr, sizeof(regs.gpr));
	v->regs.rflags = regs.rflags;
	v->regs.rip = regs.rip;
	cpu_skip(v->cpu_state, &v->regs, 0);
}
