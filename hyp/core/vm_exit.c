/* SPDX-License-Identifier: BSD-2-Clause */
/* What is done about each kind of exit of a VM: a table by our own names; a hole is refused with
 * #UD. */

#include "hyp/core/vm_exit.h"
#include "hyp/core/access.h"
#include "hyp/core/cpuid_policy.h"
#include "hyp/core/emulate.h"
#include "hyp/core/guest_memory.h"
#include "hyp/core/pv.h"
#include "hyp/core/root.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hyp/core/vm_shutdown.h"
#include "hyp/x86/x86.h"

#define MSR_APIC_BASE  0x1bu
#define MSR_MCG_STATUS 0x17au
#define APIC_BASE_ON   (1ull << 11)

#define OPCODE_HLT 0xf4

#define CR0_RESERVED (~0xe005003full)
#define CR0_PE       (1ull << 0)
#define CR0_NW       (1ull << 29)
#define CR0_CD       (1ull << 30)
#define CR0_PG       (1ull << 31)
#define CR3_PCID     0xfffull
#define CR4_PAE      (1ull << 5)
#define CR4_PCIDE    (1ull << 17)
#define CR4_OSXSAVE  (1ull << 18)
#define EFER_LME     (1ull << 8)
#define EFER_LMA     (1ull << 10)

void vcpu_raise(struct vcpu *v, uint8_t vector, bool has_error, uint32_t error)
{
	struct vcpu_vm *x = v->vm;

	if (x->fault)
		return;
	x->fault = true;
	x->fault_vector = vector;
	x->fault_has_error = has_error;
	x->fault_error = error;
	/* An exception within the delivery of another one is a double fault (APM vol 2 §8.2.9). */
	if (x->cut_type == CPU_INJECT_EXCEPTION) {
		x->cut_type = CPU_INJECT_NONE;
		x->fault_vector = VECTOR_DF;
		x->fault_has_error = true;
		x->fault_error = 0;
	}
}

void vcpu_raise_gp(struct vcpu *v)
{
	vcpu_raise(v, VECTOR_GP, true, 0);
}

void vcpu_raise_ud(struct vcpu *v)
{
	vcpu_raise(v, VECTOR_UD, false, 0);
}

void vcpu_raise_pf(struct vcpu *v, uint64_t linear, uint32_t error)
{
	cpu_reg_set(v->cpu_state, CPU_CR2, linear);
	vcpu_raise(v, VECTOR_PF, true, error);
}

/* The instruction's length by the exit or by decoding; 0: a fault was raised. */
static unsigned insn_length_of(struct vcpu *v)
{
	struct cpu_mode mode;
	struct insn insn;

	if (v->exit.length != 0)
		return v->exit.length;
	cpu_mode_get(v->cpu_state, &mode);
	return emulate_decode(v, &mode, &insn) ? insn.len : 0;
}

void vcpu_step_over(struct vcpu *v, unsigned length)
{
	if (cpu_skip(v->cpu_state, &v->regs, length))
		vcpu_raise(v, VECTOR_DB, false, 0);
}

/* The instruction is done: on to the next. False: its length is not to be had, a fault was raised.
 */
static bool skip(struct vcpu *v)
{
	unsigned length = insn_length_of(v);

	if (length == 0)
		return false;
	vcpu_step_over(v, length);
	return true;
}

static void exit_nothing(struct vcpu *v)
{
	(void)v;
}

static void exit_halt(struct vcpu *v)
{
	if (!skip(v))
		return;
	v->counters.halts++;
	/* Single-stepped: the trap behind it wakes it at once. */
	if (!v->vm->fault)
		v->vm->run_state = KEEL_RUN_HALTED;
}

/*
 * Between STI and HLT. Not every CPU takes the interrupt shadow back at an entry (the emulator does
 * not); one that does not would let an interrupt in before the HLT, and the HLT would sleep over
 * what that interrupt announced. So an exit found there is taken as the HLT's own.
 */
static bool halts_next(struct vcpu *v)
{
	struct cpu_mode mode;
	struct fetch_fault fault;
	uint8_t bytes[15];

	if (!cpu_can_take(v->cpu_state, &v->regs).shadow)
		return false;
	cpu_mode_get(v->cpu_state, &mode);
	return mode.cpl == 0 && guest_fetch(v, &mode, bytes, &fault) > 0 && bytes[0] == OPCODE_HLT;
}

static void exit_interrupt(struct vcpu *v)
{
	interrupts_sort();
	if (!halts_next(v))
		return;
	v->exit.length = 1;
	exit_halt(v);
}

static void exit_pause(struct vcpu *v)
{
	if (skip(v))
		sched_spin(v);
}

static void exit_cpuid(struct vcpu *v)
{
	uint64_t *g = v->regs.gpr, apic_base = 0;
	struct vm *vm = v->vm->vm;
	struct cpuid_view view = {
	        .host = cpuid,
	        .apic_id = v->index,
	        .vcpus = vm->partition.vcpu_count,
	        .cr4 = cpu_reg_get(v->cpu_state, CPU_CR4),
	        .xcr0 = cpu_reg_get(v->cpu_state, CPU_XCR0),
	        .phys_bits = memory_phys_bits(),
	        .pinned = vm->flags & KEEL_VM_PINNED,
	        .tsc_khz = (uint32_t)(tsc_hz / 1000),
	};
	struct cpuid_result r;

	platform_rdmsr(vm->platform, v->index, MSR_APIC_BASE, &apic_base, 0);
	view.apic_on = apic_base & APIC_BASE_ON;
	r = cpuid_policy(&view, (uint32_t)g[KEEL_RAX], (uint32_t)g[KEEL_RCX]);
	if (!skip(v))
		return;
	g[KEEL_RAX] = r.eax;
	g[KEEL_RBX] = r.ebx;
	g[KEEL_RCX] = r.ecx;
	g[KEEL_RDX] = r.edx;
}

static uint64_t edx_eax(const struct vcpu *v)
{
	return (v->regs.gpr[KEEL_RDX] << 32) | (uint32_t)v->regs.gpr[KEEL_RAX];
}

static void exit_msr_read(struct vcpu *v)
{
	uint64_t value = 0;

	if (!vm_msr_read(v, (uint32_t)v->regs.gpr[KEEL_RCX], &value) || !skip(v))
		return;
	v->regs.gpr[KEEL_RAX] = (uint32_t)value;
	v->regs.gpr[KEEL_RDX] = value >> 32;
}

static void exit_msr_write(struct vcpu *v)
{
	if (vm_msr_write(v, (uint32_t)v->regs.gpr[KEEL_RCX], edx_eax(v)))
		skip(v);
}

/* IN into AL, AX or EAX; only EAX clears the rest of RAX. */
static void pio_finish(struct vcpu *v, uint64_t data)
{
	uint64_t *rax = &v->regs.gpr[KEEL_RAX];

	if (!v->exit.write) {
		switch (v->exit.size) {
		case 1: *rax = (*rax & ~0xffull) | (data & 0xff); break;
		case 2: *rax = (*rax & ~0xffffull) | (data & 0xffff); break;
		default: *rax = (uint32_t)data; break;
		}
	}
	vcpu_step_over(v, v->vm->pio_length);
}

static void exit_pio(struct vcpu *v)
{
	unsigned length;
	uint64_t data;

	if (v->exit.string) {
		emulate_start(v);
		return;
	}
	length = insn_length_of(v);
	if (length == 0)
		return;
	v->vm->pio_length = (uint8_t)length;
	data = v->exit.write ? v->regs.gpr[KEEL_RAX] & (0xffffffffull >> (32 - v->exit.size * 8))
	                     : 0;
	if (access_do(v, ACCESS_PIO, v->exit.port, v->exit.size, v->exit.write, &data))
		pio_finish(v, data);
	else
		v->vm->pending = PENDING_PIO;
}

/*
 * An access outside of RAM. While an event was being delivered (its handler's table or stack lies
 * where no memory is), or while the CPU walked page tables that lie there, no instruction can be
 * carried out.
 */
static void exit_mmio(struct vcpu *v)
{
	struct vm *vm = v->vm->vm;

	if (guest_ram(vm, GPA(v->exit.gpa), 1) != NULL &&
	        !(v->exit.write && guest_is_rom(vm, GPA(v->exit.gpa)))) {
		if (vm_log_once(vm, 0x2000000u))
			log_line("vm %u: nested page fault on RAM at %llx, code %x", vm->id,
			        (unsigned long long)v->exit.gpa, v->exit.vendor_code);
		return;
	}
	if (v->vm->cut_type != CPU_INJECT_NONE)
		vm_stop(vm, KEEL_VM_STATE_RESET, KEEL_EVENT_TRIPLE_FAULT, KEEL_RESET_TRIPLE_FAULT);
	else if (v->exit.table_walk)
		vcpu_raise_gp(v);
	else if (v->exit.fetch)
		vcpu_raise_ud(v);
	else
		emulate_start(v);
}

static void exit_hypercall(struct vcpu *v)
{
	uint64_t result = pv_hypercall(v);

	if (skip(v))
		v->regs.gpr[KEEL_RAX] = result;
}

/* What VMRUN or the CPU itself would refuse is #GP (APM vol 2 §3.1.1, §3.1.3). */
static bool write_cr0(struct vcpu *v, uint64_t value)
{
	uint64_t efer = cpu_reg_get(v->cpu_state, CPU_EFER);
	bool paging = value & CR0_PG;

	if ((value & CR0_RESERVED) || (paging && !(value & CR0_PE)) ||
	        (value & CR0_NW && !(value & CR0_CD)))
		return false;
	if (paging && efer & EFER_LME && !(cpu_reg_get(v->cpu_state, CPU_CR4) & CR4_PAE))
		return false;
	efer = paging && efer & EFER_LME ? efer | EFER_LMA : efer & ~EFER_LMA;
	cpu_reg_set(v->cpu_state, CPU_EFER, efer);
	cpu_reg_set(v->cpu_state, CPU_CR0, value | 0x10);
	return true;
}

/* APM vol 2 §3.1.3: reserved bits; PAE while in long mode; PCIDE turned on outside of it, or with a
 * PCID in CR3 already. */
static bool write_cr4(struct vcpu *v, uint64_t value)
{
	bool long_mode = cpu_reg_get(v->cpu_state, CPU_EFER) & EFER_LMA;
	uint64_t old = cpu_reg_get(v->cpu_state, CPU_CR4);

	if (value & ~cpuid_policy_cr4(cpuid) || (long_mode && !(value & CR4_PAE)))
		return false;
	if (value & ~old & CR4_PCIDE &&
	        (!long_mode || cpu_reg_get(v->cpu_state, CPU_CR3) & CR3_PCID))
		return false;
	cpu_reg_set(v->cpu_state, CPU_CR4, value);
	return true;
}

static bool write_cr(struct vcpu *v, uint8_t reg, uint64_t value)
{
	switch (reg) {
	case 0: return write_cr0(v, value);
	case 4: return write_cr4(v, value);
	case 8:
		if (value > 15)
			return false;
		cpu_reg_set(v->cpu_state, CPU_CR8, value);
		platform_set_tpr(v->vm->vm->platform, v->index, (unsigned)value);
		return true;
	default: return false; /* no backend traps the others */
	}
}

/* MOV to and from CR0, CR4 and CR8, where the backend traps them. The decoder gives the GPR if the
 * hardware does not. */
static void exit_cr(struct vcpu *v)
{
	uint8_t gpr = v->exit.gpr, reg = v->exit.reg, length = v->exit.length;
	struct cpu_mode mode;
	struct insn insn;

	if (gpr == 0xff || length == 0) {
		cpu_mode_get(v->cpu_state, &mode);
		if (!emulate_decode(v, &mode, &insn))
			return;
		length = insn.len;
		gpr = v->exit.write ? insn.src.reg : insn.dst.reg;
		if ((v->exit.write ? insn.dst.kind : insn.src.kind) != INSN_OPERAND_CR ||
		        gpr > 15) {
			vcpu_raise_ud(v);
			return;
		}
	}
	if (!v->exit.write && reg == 8)
		v->regs.gpr[gpr] = cpu_reg_get(v->cpu_state, CPU_CR8);
	else if (!v->exit.write || !write_cr(v, reg, v->regs.gpr[gpr])) {
		vcpu_raise_gp(v);
		return;
	}
	vcpu_step_over(v, length);
}

/* XCR0: x87 always, SSE before AVX, the AVX-512 parts together (SDM vol 1 §13.3). */
static void exit_xsetbv(struct vcpu *v)
{
	uint64_t value = edx_eax(v), offered = cpuid_policy_xcr0(cpuid);
	bool avx512 = value & 0xe0;
	struct cpu_mode mode;

	cpu_mode_get(v->cpu_state, &mode);
	if (!(mode.cr4 & CR4_OSXSAVE)) {
		vcpu_raise_ud(v);
		return;
	}
	if (mode.cpl != 0 || (uint32_t)v->regs.gpr[KEEL_RCX] != 0 || !(value & 1) ||
	        (value & ~offered) || ((value & 4) && !(value & 2)) ||
	        (avx512 && (value & 0xe6) != 0xe6)) {
		vcpu_raise_gp(v);
		return;
	}
	if (skip(v))
		cpu_reg_set(v->cpu_state, CPU_XCR0, value);
}

static void exit_undefined(struct vcpu *v)
{
	if (vm_log_once(v->vm->vm, 0x3000000u | v->exit.vendor_code))
		log_line("vm %u vcpu %u: instruction refused, exit code %x, rip %llx",
		        v->vm->vm->id, v->index, v->exit.vendor_code,
		        (unsigned long long)v->regs.rip);
	vcpu_raise_ud(v);
}

/* Caches are coherent and RAM is not shared with devices that snoop not: nothing to write back. */
static void exit_wbinvd(struct vcpu *v)
{
	skip(v);
}

/* Of the machine. If the CPU cannot say where it was (RIPV clear), the VM cannot go on. */
static void exit_machine_check(struct vcpu *v)
{
	struct vm *vm = v->vm->vm;
	bool lost = !(msr_read(MSR_MCG_STATUS) & 1);

	log_line("vm %u vcpu %u: a machine check while it ran%s", vm->id, v->index,
	        lost ? ": stopped" : "");
	root_machine_check();
	if (lost)
		vm_stop(vm, KEEL_VM_STATE_DEAD, KEEL_EVENT_DEAD, 0);
}

/* Trapped so that the CPU cannot be held in its delivery for ever: the guest gets it all the same.
 */
static void exit_exception(struct vcpu *v)
{
	bool has_error = v->exit.vector == 8 || (v->exit.vector >= 10 && v->exit.vector <= 14) ||
	                 v->exit.vector == 17 || v->exit.vector == 21;

	if (v->exit.vector == VECTOR_MC) {
		exit_machine_check(v);
		return;
	}
	vcpu_raise(v, v->exit.vector, has_error, v->exit.error_code);
}

static void exit_invalid(struct vcpu *v)
{
	struct vm *vm = v->vm->vm;

	log_line("vm %u vcpu %u: the CPU refuses its state, exit code %x: stopped", vm->id,
	        v->index, v->exit.vendor_code);
	vm_tell_state(v);
	vm_stop(vm, KEEL_VM_STATE_DEAD, KEEL_EVENT_DEAD, 0);
}

static void (*const handlers[KEEL_KIND_COUNT])(struct vcpu *v) = {
        [KEEL_KIND_INTERRUPT] = exit_interrupt,
        [KEEL_KIND_NMI] = exit_interrupt,
        [KEEL_KIND_HALT] = exit_halt,
        [KEEL_KIND_PAUSE] = exit_pause,
        [KEEL_KIND_CPUID] = exit_cpuid,
        [KEEL_KIND_MSR_READ] = exit_msr_read,
        [KEEL_KIND_MSR_WRITE] = exit_msr_write,
        [KEEL_KIND_PIO] = exit_pio,
        [KEEL_KIND_MMIO] = exit_mmio,
        [KEEL_KIND_HYPERCALL] = exit_hypercall,
        [KEEL_KIND_CR] = exit_cr,
        [KEEL_KIND_WINDOW] = exit_nothing, /* it is used before the next entry */
        [KEEL_KIND_XSETBV] = exit_xsetbv,
        [KEEL_KIND_UNDEFINED] = exit_undefined,
        [KEEL_KIND_WBINVD] = exit_wbinvd,
        [KEEL_KIND_SHUTDOWN] = vm_shutdown,
        [KEEL_KIND_EXCEPTION] = exit_exception,
        [KEEL_KIND_INVALID] = exit_invalid,
        [KEEL_KIND_INIT] = exit_nothing, /* of the CPU, held off by hyp; none of the VM's */
};

void vm_exit(struct vcpu *v)
{
	struct cpu_exit *e = &v->exit;

	v->vm->cut_type = e->cut_type;
	v->vm->cut_vector = e->cut_vector;
	v->vm->cut_has_error = e->cut_has_error;
	v->vm->cut_error = e->cut_error;
	if (e->kind < KEEL_KIND_COUNT && handlers[e->kind] != NULL)
		handlers[e->kind](v);
	else
		exit_undefined(v);
}

void vm_exit_resume(struct vcpu *v)
{
	switch (v->vm->pending) {
	case PENDING_NONE: break;
	case PENDING_PIO:
		v->vm->pending = PENDING_NONE;
		pio_finish(v, access_answer(v));
		break;
	case PENDING_STEP: emulate_resume(v); break;
	}
}
