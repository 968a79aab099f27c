/* SPDX-License-Identifier: BSD-2-Clause */
/* What hyp does about each exit of root: a table by kind, few entries of which are ever hot. */

#include "abi/cpuid.h"
#include "abi/hypercall.h"
#include "hw/apic.h"
#include "hw/msr.h"
#include "hyp/core/root.h"
#include "hyp/core/root_restart.h"
#include "hyp/core/root_vcpu.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hyp/x86/x86.h"
#include "lib/insn.h"

#define KVM_ENOSYS 1000
#define VECTOR_UD  6
#define VECTOR_GP  13

/* After requeue_cut in root_run.c nothing is being injected when an exit is handled, but for a
 * repeated exception: that one wins. */
static void inject_fault(struct vcpu *v, uint8_t vector, bool has_error)
{
	if (!cpu_can_take(v->cpu_state, &v->regs).injecting)
		cpu_inject(v->cpu_state, CPU_INJECT_EXCEPTION, vector, has_error, 0);
}

/* Past the instruction that exited; hardware without NRIP save makes us decode its length. */
static void skip(struct vcpu *v)
{
	unsigned length = v->exit.length;

	if (length == 0) {
		uint8_t bytes[INSN_MAX_LEN];
		struct cpu_mode mode;
		size_t got;
		int n;

		cpu_mode_get(v->cpu_state, &mode);
		got = root_fetch(v, &mode, bytes);
		n = insn_length(bytes, got, root_insn_mode(v, &mode));
		if (n <= 0) {
			inject_fault(v, VECTOR_UD, false);
			return;
		}
		length = (unsigned)n;
	}
	cpu_skip(v->cpu_state, &v->regs, length);
}

static void exit_nothing(struct vcpu *v)
{
	(void)v; /* interrupts and kicks are looked at before the next entry */
}

static void exit_window(struct vcpu *v)
{
	cpu_window(v->cpu_state, false);
}

static void exit_halt(struct vcpu *v)
{
	v->counters.halts++;
	skip(v);
	if (!root_has_interrupt() || !(v->regs.rflags & RFLAGS_IF))
		sched_put(v, VCPU_HALTED);
}

/*
 * Root sees the real CPU, less what hyp keeps (SVM and with it SEV; SME, whose bit in a page table
 * would be an address bit to the nested tables; MWAIT, in which root would hold a CPU that VMs
 * wait for; supervisor state that hyp does not switch) and with two hypervisor ranges: KVM's
 * without any feature, for Linux takes x2APIC without interrupt remapping only from one it knows,
 * and ours.
 */
static void cpuid_fix(struct vcpu *v, uint32_t leaf, uint32_t subleaf, struct cpuid_result *r)
{
	switch (leaf) {
	case 1:
		r->ecx &= ~(1u << 3 | 1u << 27);
		r->ecx |= 1u << 31;
		if (cpu_reg_get(v->cpu_state, CPU_CR4) & CR4_OSXSAVE)
			r->ecx |= 1u << 27;
		break;
	case 5: *r = (struct cpuid_result){0}; break;
	case 7:
		if (subleaf != 0)
			break;
		r->ecx &= ~(1u << 4 | 1u << 7);
		r->edx &= ~(1u << 20);
		if (cpu_reg_get(v->cpu_state, CPU_CR4) & CR4_PKE)
			r->ecx |= 1u << 4;
		break;
	case 0xd:
		if (subleaf == 1) {
			r->eax &= ~(1u << 3); /* XSAVES */
			r->ecx = r->edx = 0;
		}
		break;
	case 0x80000001: r->ecx &= ~(1u << 2 | 1u << 29); break;
	case 0x8000000a:
	case 0x8000001f: *r = (struct cpuid_result){0}; break;
	default: break;
	}
}

static bool cpuid_hypervisor(uint32_t leaf, struct cpuid_result *r)
{
	uint64_t page = virt_to_hpa(root_shared).value;

	switch (leaf) {
	case KEEL_CPUID_KVM_BASE:
		*r = (struct cpuid_result){KEEL_CPUID_KVM_BASE + 1, 0x4b4d564b, 0x564b4d56, 0x4d};
		return true;
	case KEEL_CPUID_BASE:
		*r = (struct cpuid_result){KEEL_CPUID_INFO, KEEL_CPUID_SIGNATURE_EBX,
		        KEEL_CPUID_SIGNATURE_EBX, KEEL_CPUID_SIGNATURE_EBX};
		return true;
	case KEEL_CPUID_INFO:
		*r = (struct cpuid_result){
		        KEEL_ABI_VERSION, KEEL_ROLE_ROOT, (uint32_t)page, (uint32_t)(page >> 32)};
		return true;
	default: *r = (struct cpuid_result){0}; return leaf >= 0x40000000 && leaf < 0x50000000;
	}
}

static void exit_cpuid(struct vcpu *v)
{
	uint64_t *gpr = v->regs.gpr;
	uint32_t leaf = (uint32_t)gpr[KEEL_RAX], subleaf = (uint32_t)gpr[KEEL_RCX];
	struct cpuid_result r;

	if (!cpuid_hypervisor(leaf, &r)) {
		r = cpuid(leaf, subleaf);
		cpuid_fix(v, leaf, subleaf, &r);
	}
	gpr[KEEL_RAX] = r.eax;
	gpr[KEEL_RBX] = r.ebx;
	gpr[KEEL_RCX] = r.ecx;
	gpr[KEEL_RDX] = r.edx;
	skip(v);
}

static bool msr_read_for(struct vcpu *v, uint32_t msr, uint64_t *value)
{
	switch (msr) {
	case MSR_EFER: *value = cpu_reg_get(v->cpu_state, CPU_EFER); return true;
	case MSR_AMD_VM_CR: *value = VM_CR_SVMDIS | VM_CR_LOCK; return true;
	case MSR_AMD_VM_HSAVE_PA: return false;
	case MSR_APIC_BASE: *value = root_apic_base_read(v); return true;
	case MSR_TSC_DEADLINE: *value = root_tsc_deadline_read(v); return true;
	default: break;
	}
	if (msr >= MSR_X2APIC_BASE && msr <= MSR_X2APIC_BASE + 0xff &&
	        root_apic_read(v, msr - MSR_X2APIC_BASE, value))
		return true;
	return msr_read_safe(msr, value);
}

/* What this CPU has; with another bit set VMRUN refuses the whole vCPU. */
static uint64_t efer_allowed(void)
{
	struct cpuid_result f = cpuid(0x80000001, 0);
	bool auto_ibrs = cpuid(0x80000000, 0).eax >= 0x80000021 &&
	                 (cpuid(0x80000021, 0).eax & (1u << 8));

	return EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE |
	       (f.edx & (1u << 25) ? (uint64_t)EFER_FFXSR : 0) |
	       (f.ecx & (1u << 17) ? 1u << 15 : 0) | (auto_ibrs ? 1u << 21 : 0);
}

static bool efer_write(struct vcpu *v, uint64_t value)
{
	uint64_t old = cpu_reg_get(v->cpu_state, CPU_EFER);
	bool paging = cpu_reg_get(v->cpu_state, CPU_CR0) & CR0_PG;

	if ((value & ~efer_allowed()) || (paging && ((old ^ value) & EFER_LME)))
		return false;
	cpu_reg_set(v->cpu_state, CPU_EFER, (value & ~(uint64_t)EFER_LMA) | (old & EFER_LMA));
	return true;
}

/* All clocks of hyp and of the VMs stand on the TSC, so it stays as it is. */
static bool tsc_write(uint32_t msr)
{
	static uint32_t told; /* (a) */
	uint64_t value;

	if (!msr_read_safe(msr, &value))
		return false;
	if (__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED) == 0)
		log_line("root: its writes of the TSC (MSR %x) have no effect", msr);
	return true;
}

static bool msr_write_for(struct vcpu *v, uint32_t msr, uint64_t value)
{
	switch (msr) {
	case MSR_EFER: return efer_write(v, value);
	case MSR_AMD_VM_CR:
	case MSR_AMD_VM_HSAVE_PA: return false;
	case MSR_TSC:
	case MSR_TSC_ADJUST: return tsc_write(msr);
	case MSR_XSS: return value == 0; /* hyp does not switch it, VMs would have it too */
	case MSR_APIC_BASE: return root_apic_base_write(v, value);
	case MSR_TSC_DEADLINE: root_tsc_deadline_write(v, value); return true;
	default: break;
	}
	if (msr >= MSR_X2APIC_BASE && msr <= MSR_X2APIC_BASE + 0xff &&
	        root_apic_write(v, msr - MSR_X2APIC_BASE, value))
		return true;
	return msr_write_safe(msr, value);
}

static void exit_msr(struct vcpu *v)
{
	uint64_t *gpr = v->regs.gpr;
	uint32_t msr = (uint32_t)gpr[KEEL_RCX];
	uint64_t value = (gpr[KEEL_RDX] << 32) | (uint32_t)gpr[KEEL_RAX];
	bool ok = v->exit.write ? msr_write_for(v, msr, value) : msr_read_for(v, msr, &value);

	if (!ok) {
		inject_fault(v, VECTOR_GP, true);
		return;
	}
	if (!v->exit.write) {
		gpr[KEEL_RAX] = (uint32_t)value;
		gpr[KEEL_RDX] = value >> 32;
	}
	skip(v);
}

static uint32_t port_in(uint16_t port, unsigned size)
{
	return size == 1 ? inb(port) : size == 2 ? inw(port) : inl(port);
}

static void port_out(uint16_t port, unsigned size, uint32_t value)
{
	if (size == 1)
		outb(port, (uint8_t)value);
	else if (size == 2)
		outw(port, (uint16_t)value);
	else
		outl(port, value);
}

/*
 * Root asks for a reset of the machine: the keyboard controller's pulse, the fast reset of port
 * 92h, the chipset's reset port, and ACPI's reset register (most often the same). hyp starts root
 * again instead.
 */
static const char *reset_asked(uint16_t port, unsigned size, uint32_t value)
{
	if (size != 1)
		return NULL;
	switch (port) {
	case 0x64: return value == 0xfe ? "reset by the keyboard controller" : NULL;
	case 0x92: return value & 1 ? "reset by port 92h" : NULL;
	case 0xcf9: return value & 4 ? "reset by port CF9h" : NULL;
	default: return acpi_is_reset(port, value) ? "reset by ACPI's register" : NULL;
	}
}

static void exit_pio(struct vcpu *v)
{
	const struct cpu_exit *x = &v->exit;
	uint64_t *rax = &v->regs.gpr[KEEL_RAX];
	uint64_t mask = x->size == 4 ? 0xffffffffull : (1ull << (8 * x->size)) - 1;
	uint32_t value = (uint32_t)(*rax & mask);

	if (x->string) {
		inject_fault(
		        v, VECTOR_GP, true); /* nobody does string I/O on the configuration ports */
		return;
	}
	if (x->write && reset_asked(x->port, x->size, value) != NULL) {
		root_restart_request(reset_asked(x->port, x->size, value));
		skip(v);
		return;
	}
	if (!root_pci_port(x->port, x->size, x->write, &value)) {
		if (x->write)
			port_out(x->port, x->size, value);
		else
			value = port_in(x->port, x->size);
	}
	if (!x->write)
		*rax = x->size == 4 ? value : (*rax & ~mask) | value;
	skip(v);
}

static void exit_hypercall(struct vcpu *v)
{
	uint64_t *gpr = v->regs.gpr;
	struct cpu_mode mode;
	int64_t result;

	cpu_mode_get(v->cpu_state, &mode);
	if (mode.cpl != 0)
		result = -KEEL_EPERM;
	else if ((gpr[KEEL_RAX] & ~0xffffull) != KEEL_HC_BASE)
		result = -KVM_ENOSYS;
	else
		result = hypercall_root(v, gpr[KEEL_RAX] & 0xffff, gpr[KEEL_RBX], gpr[KEEL_RCX]);
	if (result == HYPERCALL_AGAIN)
		return; /* the same instruction runs again, after root had its interrupts */
	gpr[KEEL_RAX] = (uint64_t)result;
	skip(v);
}

static void exit_mmio(struct vcpu *v)
{
	root_emulate(v);
}

static void exit_undefined(struct vcpu *v)
{
	inject_fault(v, VECTOR_UD, false);
}

static void exit_shutdown(struct vcpu *v)
{
	log_line("root: triple fault on CPU %u at rip %llx", v->index,
	        (unsigned long long)v->regs.rip);
	root_restart_request("triple fault");
}

/* Whatever root did to get here, the VMs are not to pay for it. */
static void exit_fatal(struct vcpu *v)
{
	bool invalid = v->exit.kind == KEEL_KIND_INVALID;

	log_line("root: CPU %u stopped: %s (code %x) at rip %llx, rsp %llx, cr0 %llx, cr4 %llx, "
	         "efer %llx",
	        v->index, invalid ? "state that the CPU refuses" : "exit that hyp does not expect",
	        v->exit.vendor_code, (unsigned long long)v->regs.rip,
	        (unsigned long long)v->regs.gpr[KEEL_RSP],
	        (unsigned long long)cpu_reg_get(v->cpu_state, CPU_CR0),
	        (unsigned long long)cpu_reg_get(v->cpu_state, CPU_CR4),
	        (unsigned long long)cpu_reg_get(v->cpu_state, CPU_EFER));
	root_restart_request(
	        invalid ? "state that the CPU refuses" : "exit that hyp does not know");
}

static void (*const handlers[KEEL_KIND_COUNT])(struct vcpu *v) = {
        [KEEL_KIND_INTERRUPT] = exit_nothing,
        [KEEL_KIND_NMI] = exit_nothing,
        [KEEL_KIND_HALT] = exit_halt,
        [KEEL_KIND_CPUID] = exit_cpuid,
        [KEEL_KIND_MSR_READ] = exit_msr,
        [KEEL_KIND_MSR_WRITE] = exit_msr,
        [KEEL_KIND_PIO] = exit_pio,
        [KEEL_KIND_MMIO] = exit_mmio,
        [KEEL_KIND_HYPERCALL] = exit_hypercall,
        [KEEL_KIND_WINDOW] = exit_window,
        [KEEL_KIND_UNDEFINED] = exit_undefined,
        [KEEL_KIND_INIT] = exit_nothing,
        [KEEL_KIND_SHUTDOWN] = exit_shutdown,
};

/* The emulator does not take the interrupt shadow back at VMRUN: an exit between STI and HLT would
 * let an interrupt in before the HLT, and the HLT would then sleep over what that interrupt
 * announced. So an exit found there is taken as the HLT's own. */
static bool halts_next(struct vcpu *v)
{
	uint8_t bytes[INSN_MAX_LEN];
	struct cpu_mode mode;

	if (!cpu_can_take(v->cpu_state, &v->regs).shadow)
		return false;
	cpu_mode_get(v->cpu_state, &mode);
	return root_fetch(v, &mode, bytes) > 0 && bytes[0] == 0xf4;
}

void root_exit(struct vcpu *v)
{
	void (*handler)(struct vcpu *) = handlers[v->exit.kind];

	if ((v->exit.kind == KEEL_KIND_NMI || v->exit.kind == KEEL_KIND_INTERRUPT) &&
	        halts_next(v)) {
		v->exit.length = 1;
		handler = exit_halt;
	}
	(handler != NULL ? handler : exit_fatal)(v);
}
