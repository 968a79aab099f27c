/* SPDX-License-Identifier: BSD-2-Clause */
/* Does what msr_policy's table says to a VM's RDMSR and WRMSR. */

#include "hyp/core/pv.h"
#include "hyp/core/vm_exit.h"
#include "hyp/x86/x86.h"

#define CR0_PG   (1ull << 31)
#define EFER_SCE (1ull << 0)
#define EFER_LME (1ull << 8)
#define EFER_LMA (1ull << 10)
#define EFER_NXE (1ull << 11)

#define MSR_TSC_DEADLINE    0x6e0u
#define MSR_X2APIC_ICR      0x830u
#define MSR_X2APIC_SELF_IPI 0x83fu

/* On the VM's clock the deadline is without what this vCPU's TSC was adjusted by. 0 means none. */
static bool read_deadline(struct vcpu *v, uint64_t *value)
{
	struct vm *vm = v->vm->vm;

	if (platform_rdmsr(vm->platform, v->index, MSR_TSC_DEADLINE, value,
	            vm_now(vm, tsc_now())) != PLATFORM_MSR_OK)
		return false;
	if (*value != 0)
		*value += v->vm->tsc_adjust;
	return true;
}

static bool write_deadline(struct vcpu *v, uint64_t value)
{
	struct vm *vm = v->vm->vm;

	if (value != 0)
		value -= v->vm->tsc_adjust;
	return platform_wrmsr(vm->platform, v->index, MSR_TSC_DEADLINE, value,
	               vm_now(vm, tsc_now())) == PLATFORM_MSR_OK;
}

static void adjust_tsc(struct vcpu *v, uint64_t adjust)
{
	v->vm->tsc_adjust = adjust;
	cpu_tsc_offset(v->cpu_state, v->vm->vm->tsc_offset + adjust);
	pv_update_clock(v);
}

/* LMA is the CPU's own: it follows LME and CR0.PG, and what is written to it is ignored. */
static bool write_efer(struct vcpu *v, uint64_t value)
{
	uint64_t old = cpu_reg_get(v->cpu_state, CPU_EFER);
	uint64_t changed = old ^ value;

	if (value & ~(EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE))
		return false;
	if (changed & EFER_LME && cpu_reg_get(v->cpu_state, CPU_CR0) & CR0_PG)
		return false;
	cpu_reg_set(v->cpu_state, CPU_EFER, (value & ~EFER_LMA) | (old & EFER_LMA));
	return true;
}

static bool read_special(struct vcpu *v, enum msr_special what, uint64_t *value)
{
	switch (what) {
	case MSR_SPECIAL_TSC:
		*value = vm_now(v->vm->vm, tsc_now()) + v->vm->tsc_adjust;
		return true;
	case MSR_SPECIAL_TSC_ADJUST: *value = v->vm->tsc_adjust; return true;
	case MSR_SPECIAL_TSC_DEADLINE: return read_deadline(v, value);
	case MSR_SPECIAL_EFER: *value = cpu_reg_get(v->cpu_state, CPU_EFER); return true;
	case MSR_SPECIAL_KVM_WALL: *value = v->vm->vm->wall_msr; return true;
	case MSR_SPECIAL_KVM_SYSTEM_TIME: *value = v->vm->system_time_msr; return true;
	case MSR_SPECIAL_KVM_PV_EOI: *value = v->vm->pv_eoi_msr; return true;
	}
	return false;
}

static bool write_special(struct vcpu *v, enum msr_special what, uint64_t value)
{
	switch (what) {
	case MSR_SPECIAL_TSC: adjust_tsc(v, value - vm_now(v->vm->vm, tsc_now())); return true;
	case MSR_SPECIAL_TSC_ADJUST: adjust_tsc(v, value); return true;
	case MSR_SPECIAL_TSC_DEADLINE: return write_deadline(v, value);
	case MSR_SPECIAL_EFER: return write_efer(v, value);
	case MSR_SPECIAL_KVM_WALL: return pv_write_wall_clock(v, value);
	case MSR_SPECIAL_KVM_SYSTEM_TIME: return pv_write_system_time(v, value);
	case MSR_SPECIAL_KVM_PV_EOI: return pv_write_eoi(v, value);
	}
	return false;
}

static bool read_rule(struct vcpu *v, const struct msr_rule *rule, uint32_t msr, uint64_t *value)
{
	struct vm *vm = v->vm->vm;

	switch (rule->action) {
	case MSR_KEEP: *value = v->vm->msrs[rule->index + (msr - rule->first)]; return true;
	case MSR_FIXED:
	case MSR_DULL: *value = rule->value; return true;
	case MSR_REG: *value = cpu_reg_get(v->cpu_state, (enum cpu_reg)rule->index); return true;
	case MSR_PLATFORM:
		return platform_rdmsr(vm->platform, v->index, msr, value, vm_now(vm, tsc_now())) ==
		       PLATFORM_MSR_OK;
	case MSR_SPECIAL: return read_special(v, (enum msr_special)rule->index, value);
	}
	return false;
}

static bool write_rule(struct vcpu *v, const struct msr_rule *rule, uint32_t msr, uint64_t value)
{
	struct vm *vm = v->vm->vm;

	switch (rule->action) {
	case MSR_KEEP:
		if (!msr_policy_is_legal(rule, value))
			return false;
		v->vm->msrs[rule->index + (msr - rule->first)] = value;
		return true;
	case MSR_FIXED: return false;
	case MSR_DULL: return true;
	case MSR_REG:
		if (!msr_policy_is_legal(rule, value))
			return false;
		cpu_reg_set(v->cpu_state, (enum cpu_reg)rule->index, value);
		return true;
	case MSR_PLATFORM:
		if (msr == MSR_X2APIC_ICR || msr == MSR_X2APIC_SELF_IPI)
			v->counters.ipis++;
		return platform_wrmsr(vm->platform, v->index, msr, value, vm_now(vm, tsc_now())) ==
		       PLATFORM_MSR_OK;
	case MSR_SPECIAL: return write_special(v, (enum msr_special)rule->index, value);
	}
	return false;
}

static void msr_refuse(struct vcpu *v, uint32_t msr, const char *what)
{
	if (vm_log_once(v->vm->vm, msr))
		log_line("vm %u vcpu %u: MSR %x: %s refused", v->vm->vm->id, v->index, msr, what);
	vcpu_raise_gp(v);
}

bool vm_msr_read(struct vcpu *v, uint32_t msr, uint64_t *value)
{
	const struct msr_rule *rule = msr_policy_find(msr);

	if (rule != NULL && read_rule(v, rule, msr, value))
		return true;
	msr_refuse(v, msr, "read");
	return false;
}

bool vm_msr_write(struct vcpu *v, uint32_t msr, uint64_t value)
{
	const struct msr_rule *rule = msr_policy_find(msr);

	if (rule != NULL && write_rule(v, rule, msr, value))
		return true;
	msr_refuse(v, msr, "write");
	return false;
}
