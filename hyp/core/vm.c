/* SPDX-License-Identifier: BSD-2-Clause */
/* The running life of a VM: start, stop, reset, and what its devices ask of the core. */

#include "hyp/core/vm.h"
#include "hyp/core/access.h"
#include "hyp/core/root.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hyp/x86/x86.h"
#include "lib/string.h"

bool vm_log_once(struct vm *vm, uint32_t key)
{
	bool first = true;

	spin_lock(&vm->partition.lock);
	for (uint32_t i = 0; i < vm->logged_count; i++)
		if (vm->logged[i] == key)
			first = false;
	if (first && vm->logged_count < VM_LOG_ONCE)
		vm->logged[vm->logged_count++] = key;
	else
		first = false;
	spin_unlock(&vm->partition.lock);
	return first;
}

/* Sets event bits in the shared area; tells root if one is new. */
static void raise_event(struct vm *vm, uint32_t events)
{
	if (events & ~__atomic_fetch_or(&vm->shared->events, events, __ATOMIC_SEQ_CST))
		root_notify_vm(vm->id);
}

static void op_notify(void *ctx, uint64_t vcpu_mask)
{
	struct vm *vm = ctx;

	while (vcpu_mask != 0) {
		unsigned i = (unsigned)__builtin_ctzll(vcpu_mask);

		vcpu_mask &= vcpu_mask - 1;
		if (i < vm->partition.vcpu_count)
			sched_wake(vm_vcpu(vm, i));
	}
}

static void op_reset(void *ctx)
{
	vm_stop(ctx, KEEL_VM_STATE_RESET, KEEL_EVENT_RESET, KEEL_RESET_PORT);
}

static void op_console_ready(void *ctx)
{
	raise_event(ctx, KEEL_EVENT_CONSOLE);
}

const struct platform_ops vm_platform_ops = {
        .notify = op_notify,
        .reset = op_reset,
        .console_ready = op_console_ready,
};

void vcpu_vm_reset(struct vcpu *v, bool init)
{
	struct vcpu_vm *x = v->vm;

	x->pending = PENDING_NONE;
	x->answered = false;
	x->cut_type = CPU_INJECT_NONE;
	x->fault = false;
	x->window_on = x->cr8_trap_on = false;
	if (init)
		return;
	x->run_state = v->index == 0 ? KEEL_RUN_READY : KEEL_RUN_WAIT_SIPI;
	x->tsc_adjust = 0;
	cpu_tsc_offset(v->cpu_state, x->vm->tsc_offset);
	msr_policy_reset(x->msrs);
	x->system_time_msr = 0;
	x->pv_eoi_msr = 0;
	x->pv_eoi_flag = NULL;
	x->pv_eoi_armed = false;
}

bool vm_is_still(struct vm *vm)
{
	bool still = true;

	for (uint32_t i = 0; i < vm->partition.vcpu_count; i++)
		if (!sched_pause(vm_vcpu(vm, i)))
			still = false;
	return still && __atomic_load_n(&vm->inside, __ATOMIC_SEQ_CST) == 0;
}

/* A pause of root's may be first, and the VM has to be reset all the same before it runs again. */
static bool begin_stop(struct vm *vm, uint32_t state)
{
	uint32_t old = __atomic_load_n(&vm->state, __ATOMIC_ACQUIRE);

	do {
		if (old != KEEL_VM_STATE_RUNNING && old != KEEL_VM_STATE_PAUSED)
			return false; /* another vCPU was first */
	} while (!__atomic_compare_exchange_n(
	        &vm->state, &old, state, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE));
	return true;
}

void vm_stop(struct vm *vm, uint32_t state, uint32_t event, uint32_t cause)
{
	if (!begin_stop(vm, state))
		return;
	__atomic_store_n(&vm->run, 0u, __ATOMIC_SEQ_CST);
	sched_vm_stop(vm);
	vm->shared->reset_cause = cause;
	for (uint32_t i = 0; i < vm->partition.vcpu_count; i++)
		sched_wake(vm_vcpu(vm, i));
	raise_event(vm, event | KEEL_EVENT_STATE);
}

int64_t vm_start(struct vm *vm)
{
	switch (__atomic_load_n(&vm->state, __ATOMIC_ACQUIRE)) {
	case KEEL_VM_STATE_PAUSED: break;
	case KEEL_VM_STATE_RUNNING: return 0;
	case KEEL_VM_STATE_RESET: return -KEEL_EBUSY; /* KEEL_HC_VM_RESET comes first */
	default: return -KEEL_EIO;
	}
	if (!vm_is_still(vm))
		return HYPERCALL_AGAIN;
	__atomic_store_n(&vm->state, KEEL_VM_STATE_RUNNING, __ATOMIC_RELEASE);
	__atomic_store_n(&vm->run, 1u, __ATOMIC_SEQ_CST);
	sched_vm_start(vm);
	for (uint32_t i = 0; i < vm->partition.vcpu_count; i++) {
		struct vcpu *v = vm_vcpu(vm, i);
		bool parked = __atomic_load_n(&v->vm->parked, __ATOMIC_ACQUIRE) != 0;

		sched_resume(v, parked);
		/* Root may have answered between the two lines above. */
		if (parked && __atomic_load_n(&v->vm->parked, __ATOMIC_ACQUIRE) == 0)
			sched_unpark(v);
	}
	raise_event(vm, KEEL_EVENT_STATE);
	return 0;
}

int64_t vm_pause(struct vm *vm)
{
	uint32_t running = KEEL_VM_STATE_RUNNING;

	if (__atomic_compare_exchange_n(&vm->state, &running, KEEL_VM_STATE_PAUSED, false,
	            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&vm->run, 0u, __ATOMIC_SEQ_CST);
		sched_vm_stop(vm);
		raise_event(vm, KEEL_EVENT_STATE);
	}
	return vm_is_still(vm) ? 0 : HYPERCALL_AGAIN;
}

int64_t vm_reset(struct vm *vm)
{
	if (__atomic_load_n(&vm->state, __ATOMIC_ACQUIRE) == KEEL_VM_STATE_RUNNING)
		return -KEEL_EBUSY;
	if (!vm_is_still(vm))
		return HYPERCALL_AGAIN;
	for (uint32_t i = 0; i < vm->partition.vcpu_count; i++) {
		struct vcpu *v = vm_vcpu(vm, i);

		access_drop(v);
		cpu_vcpu_reset(v->cpu_state, &v->regs, -1);
		vcpu_vm_reset(v, false);
	}
	vm->wall_msr = 0;
	platform_init(vm->platform, &vm->config, true);
	__atomic_add_fetch(&vm->resets, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&vm->state, KEEL_VM_STATE_PAUSED, __ATOMIC_RELEASE);
	return 0;
}
