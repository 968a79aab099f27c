/* SPDX-License-Identifier: BSD-2-Clause */
/* How a VM's vCPU runs on a CPU: what it takes before each entry, and when it gives the CPU up. */

#include "hyp/core/access.h"
#include "hyp/core/pv.h"
#include "hyp/core/root.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hyp/core/vm_exit.h"
#include "hyp/x86/x86.h"

/*
 * One turn of the loop:
 *   look       a stopped VM's vCPU leaves; root's answer is taken up
 *   timers     its own LAPIC's, and those of this CPU's queue
 *   events     what an exit cut short, a fault raised by hyp, then the platform's: INIT, SIPI, NMI,
 * interrupts sleep      HLT and wait-for-SIPI with nothing to take enter      hyp's deadline armed,
 * TPR and PV EOI in step exit       the handler of its kind Whatever is set after `look` was
 * cleared either keeps sched_put from sleeping or comes as an NMI at entry.
 */

static bool leave(struct vcpu *v, enum vcpu_state state)
{
	if (state == VCPU_PAUSED)
		vcpu_make_current(NULL);
	sched_put(v, state);
	return false;
}

/* False: v has left this CPU. */
static bool take_look(struct vcpu *v)
{
	__atomic_store_n(&v->look, 0u, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&v->vm->vm->run, __ATOMIC_SEQ_CST))
		return leave(v, VCPU_PAUSED);
	if (v->vm->answered)
		vm_exit_resume(v);
	if (v->vm->run_state == KEEL_RUN_EXIT) {
		access_park(v);
		return false;
	}
	return true;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Runs what is due and arms this CPU's timer. Arming may take interrupts for root, so root's are
 * looked at last: none is taken between here and the entry. False: v has left this CPU.
 */
static bool take_timers(struct vcpu *v)
{
	struct vm *vm = v->vm->vm;
	uint64_t now = tsc_now(), own, slice_end;

	if (platform_vcpu_deadline(vm->platform, v->index) <= vm_now(vm, now))
		platform_run_vcpu_timer(vm->platform, v->index, vm_now(vm, now));
	sched_run_timers();
	own = vm_host_tsc(vm, platform_vcpu_deadline(vm->platform, v->index));
	slice_end = sched_slice_end(v);
	timer_set_hyp_deadline(least(own, least(sched_timer_deadline(), slice_end)));
	if (root_has_interrupt() || now >= slice_end)
		return leave(v, VCPU_READY);
	return true;
}

/*
 * True: something was injected. An event that an exit cut short goes first; a fault is dropped
 * then, since its instruction runs again after that event's handler and faults again.
 */
static bool inject_own(struct vcpu *v)
{
	struct vcpu_vm *x = v->vm;
	bool fault = x->fault;

	x->fault = false;
	if (x->cut_type != CPU_INJECT_NONE) {
		cpu_inject(v->cpu_state, (enum cpu_inject_type)x->cut_type, x->cut_vector,
		        x->cut_has_error, x->cut_error);
		x->cut_type = CPU_INJECT_NONE;
		return true;
	}
	if (fault)
		cpu_inject(v->cpu_state, CPU_INJECT_EXCEPTION, x->fault_vector, x->fault_has_error,
		        x->fault_error);
	return fault;
}

static void start(struct vcpu *v, enum platform_event event)
{
	struct vcpu_vm *x = v->vm;
	uint8_t vector = platform_accept(x->vm->platform, v->index, event);
	int where = event == PLATFORM_EVENT_SIPI ? vector : -1;

	if (event == PLATFORM_EVENT_SIPI && x->run_state != KEEL_RUN_WAIT_SIPI)
		return;
	cpu_vcpu_reset(v->cpu_state, &v->regs, where);
	vcpu_vm_reset(v, true);
	x->run_state = event == PLATFORM_EVENT_INIT && v->index != 0 ? KEEL_RUN_WAIT_SIPI
	                                                             : KEEL_RUN_READY;
}

static void want_window(struct vcpu *v, bool on)
{
	if (v->vm->window_on == on)
		return;
	v->vm->window_on = on;
	cpu_window(v->cpu_state, on);
}

static void take_interrupt(struct vcpu *v, enum platform_event event, bool injected)
{
	struct vcpu_vm *x = v->vm;
	struct cpu_can can = cpu_can_take(v->cpu_state, &v->regs);
	bool nmi = event == PLATFORM_EVENT_NMI;

	if (injected || !(nmi ? can.nmi : can.intr)) {
		want_window(v, !nmi || !can.in_nmi);
		return;
	}
	x->run_state = KEEL_RUN_READY;
	if (nmi) {
		platform_accept(x->vm->platform, v->index, event);
		cpu_inject(v->cpu_state, CPU_INJECT_NMI, 2, false, 0);
		want_window(v, false); /* it was another kind of one than an interrupt's */
	} else {
		uint8_t vector = platform_accept(x->vm->platform, v->index, event);

		cpu_inject(v->cpu_state, CPU_INJECT_INTR, vector, false, 0);
		v->counters.interrupts++;
	}
	/* One at a time: if more waits, an exit as soon as the guest can take it. */
	event = platform_next_event(x->vm->platform, v->index, &(uint8_t){0});
	want_window(v, event == PLATFORM_EVENT_INTR ||
	                       (event == PLATFORM_EVENT_NMI && !nmi && !can.in_nmi));
}

/* False: v has left this CPU. */
static bool take_events(struct vcpu *v)
{
	struct vcpu_vm *x = v->vm;
	struct platform *p = x->vm->platform;
	enum platform_event event = PLATFORM_EVENT_NONE;
	uint8_t vector;

	/* Bounded: INIT and SIPI are consumed, each at most once a round. */
	for (unsigned i = 0; i < 4; i++) {
		event = platform_next_event(p, v->index, &vector);
		if (event != PLATFORM_EVENT_INIT && event != PLATFORM_EVENT_SIPI)
			break;
		start(v, event);
	}
	if (x->run_state == KEEL_RUN_WAIT_SIPI)
		return leave(v, VCPU_WAIT_SIPI);
	if (event == PLATFORM_EVENT_INTR || event == PLATFORM_EVENT_NMI)
		take_interrupt(v, event, inject_own(v));
	else {
		inject_own(v);
		want_window(v, false);
	}
	if (x->run_state == KEEL_RUN_HALTED)
		return leave(v, VCPU_HALTED);
	return true;
}

static void set_tpr(struct vcpu *v)
{
	struct platform *p = v->vm->vm->platform;
	bool trap = platform_tpr_threshold(p, v->index) != 0;

	cpu_reg_set(v->cpu_state, CPU_CR8, platform_get_tpr(p, v->index));
	if (trap != v->vm->cr8_trap_on) {
		v->vm->cr8_trap_on = trap;
		cpu_trap(v->cpu_state, CPU_TRAP_CR8_WRITE, trap);
	}
}

static void enter(struct vcpu *v)
{
	struct vm *vm = v->vm->vm;

	set_tpr(v);
	cpu_trap(v->cpu_state, CPU_TRAP_PAUSE, sched_is_contended());
	pv_eoi_offer(v);
	cpu_run(v->cpu_state, &v->regs, &v->exit);
	vcpu_count_exit(v);
	pv_eoi_collect(v);
	platform_set_tpr(vm->platform, v->index, (unsigned)cpu_reg_get(v->cpu_state, CPU_CR8) & 15);
}

void vm_run(struct vcpu *v)
{
	struct vm *vm = v->vm->vm;
	uint64_t begin = tsc_now(), now;

	__atomic_add_fetch(&vm->inside, 1, __ATOMIC_SEQ_CST);
	while (take_look(v) && take_timers(v) && take_events(v)) {
		enter(v);
		vm_exit(v);
		now = tsc_now();
		v->counters.run_tsc += now - begin;
		begin = now;
	}
	/* v may run elsewhere by now; the VM is kept by `inside`. */
	__atomic_sub_fetch(&vm->inside, 1, __ATOMIC_SEQ_CST);
}
