/* SPDX-License-Identifier: BSD-2-Clause */
/* How root's vCPU runs on its CPU: what it takes before each entry, and when it gives the CPU up.
 */

#include "hyp/core/root.h"
#include "hyp/core/root_restart.h"
#include "hyp/core/root_vcpu.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hw/apic.h"
#include "hw/msr.h"
#include "hyp/x86/x86.h"
#include "lib/string.h"

/* How long an interrupt that root does not let in puts root in front of VMs. What runs with
 * interrupts off for good reason is over by then. */
#define PATIENCE_US 4000u

static int highest_pending(const struct percpu *cpu)
{
	for (int word = 3; word >= 0; word--)
		if (cpu->pending_for_root[word] != 0)
			return word * 64 + 63 - __builtin_clzll(cpu->pending_for_root[word]);
	return -1;
}

static bool any_put_off(const struct percpu *cpu)
{
	return cpu->put_off[0] | cpu->put_off[1] | cpu->put_off[2] | cpu->put_off[3];
}

bool root_is_open(void)
{
	const struct vcpu *v = percpu()->root;

	return cpu_can_take(v->cpu_state, &v->regs).intr;
}

void root_machine_check(void)
{
	percpu()->root->root->machine_check = true;
}

/* An interrupt or NMI that root could take now. */
static bool can_take_one(const struct vcpu *v)
{
	struct cpu_can can = cpu_can_take(v->cpu_state, &v->regs);

	return can.injecting || v->root->machine_check ||
	       (can.intr && (highest_pending(percpu()) >= 0 || any_put_off(percpu()))) ||
	       (can.nmi && __atomic_load_n(&v->root->nmi_pending, __ATOMIC_ACQUIRE));
}

/* Something waits until root lets it in, and root may be about to. */
static bool waits_for_root(struct root_vcpu *r)
{
	uint64_t now = tsc_now();

	if (highest_pending(percpu()) < 0 && !any_put_off(percpu()) &&
	        !__atomic_load_n(&r->nmi_pending, __ATOMIC_ACQUIRE)) {
		r->closed_tsc = 0;
		return false;
	}
	if (r->closed_tsc == 0)
		r->closed_tsc = now;
	return now - r->closed_tsc < tsc_hz / 1000000 * PATIENCE_US;
}

bool root_has_interrupt(void)
{
	const struct vcpu *v = percpu()->root;
	struct root_vcpu *r = v->root;

	if (root_restart_stops_us())
		return true;
	if (r->wait_sipi)
		return __atomic_load_n(&r->sipi, __ATOMIC_ACQUIRE) != 0;
	if (can_take_one(v) || __atomic_load_n(&r->init_pending, __ATOMIC_ACQUIRE)) {
		r->closed_tsc = 0;
		return true;
	}
	return v->state != VCPU_HALTED && waits_for_root(r);
}

bool root_wants_cpu(void)
{
	const struct vcpu *v = percpu()->root;
	const struct root_vcpu *r = v->root;

	switch (v->state) {
	case VCPU_READY:
	case VCPU_RUNNING: return true;
	case VCPU_WAIT_SIPI:
		return __atomic_load_n(&r->sipi, __ATOMIC_ACQUIRE) != 0 ||
		       root_restart_is_loading();
	case VCPU_HALTED:
		return can_take_one(v) || __atomic_load_n(&r->init_pending, __ATOMIC_ACQUIRE);
	default: return false;
	}
}

/* An event that the last exit cut short goes back to where it came from, so that it is neither lost
 * nor out of order. */
static void requeue_cut(struct vcpu *v)
{
	struct cpu_exit *x = &v->exit;

	switch (x->cut_type) {
	case CPU_INJECT_INTR: percpu_pend_vector(percpu(), x->cut_vector); break;
	case CPU_INJECT_NMI: __atomic_store_n(&v->root->nmi_pending, 1, __ATOMIC_RELEASE); break;
	case CPU_INJECT_EXCEPTION:
		if (!cpu_can_take(v->cpu_state, &v->regs).injecting)
			cpu_inject(v->cpu_state, CPU_INJECT_EXCEPTION, x->cut_vector,
			        x->cut_has_error, x->cut_error);
		break;
	default: break;
	}
	x->cut_type = CPU_INJECT_NONE;
}

/* INIT and SIPI. False: the vCPU waits for SIPI now. */
static bool take_start(struct vcpu *v)
{
	struct root_vcpu *r = v->root;
	uint32_t sipi;

	if (__atomic_exchange_n(&r->init_pending, 0, __ATOMIC_ACQUIRE)) {
		cpu_vcpu_reset(v->cpu_state, &v->regs, 0);
		memset(percpu()->put_off, 0, sizeof(percpu()->put_off));
		r->wait_sipi = true;
	}
	sipi = __atomic_exchange_n(&r->sipi, 0, __ATOMIC_ACQUIRE);
	if (r->wait_sipi && sipi != 0) {
		cpu_vcpu_reset(v->cpu_state, &v->regs, (int)(sipi & 0xff));
		r->wait_sipi = false;
	}
	if (r->wait_sipi)
		sched_put(v, VCPU_WAIT_SIPI);
	return !r->wait_sipi;
}

/* Sends again what was put off: it comes from the APIC then, to root or once more to hyp. */
static void send_put_off(struct percpu *cpu)
{
	for (unsigned word = 0; word < 4; word++)
		for (; cpu->put_off[word] != 0; cpu->put_off[word] &= cpu->put_off[word] - 1)
			apic_icr_write(APIC_ICR_SELF |
			               (word * 64 + (unsigned)__builtin_ctzll(cpu->put_off[word])));
}

/* NMI first, then the highest vector that hyp acknowledged on root's behalf; root ends it by its
 * own EOI to the real APIC. */
static void take_interrupts(struct vcpu *v)
{
	struct cpu_can can = cpu_can_take(v->cpu_state, &v->regs);
	int vector = highest_pending(percpu());

	/* Nothing masks it (APM vol 2 §9.3.1). */
	if (v->root->machine_check && !can.injecting) {
		v->root->machine_check = false;
		cpu_inject(v->cpu_state, CPU_INJECT_EXCEPTION, VECTOR_MC, false, 0);
		can.nmi = can.intr = false;
	}
	if (can.nmi && __atomic_exchange_n(&v->root->nmi_pending, 0, __ATOMIC_ACQUIRE)) {
		cpu_inject(v->cpu_state, CPU_INJECT_NMI, 2, false, 0);
		can.intr = false;
	}
	if (vector >= 0 && can.intr) {
		percpu_unpend_vector(percpu(), (uint8_t)vector);
		cpu_inject(v->cpu_state, CPU_INJECT_INTR, (uint8_t)vector, false, 0);
		v->counters.interrupts++;
		vector = highest_pending(percpu());
	} else if (can.intr) {
		send_put_off(percpu());
	}
	cpu_window(v->cpu_state,
	        vector >= 0 || any_put_off(percpu()) ||
	                (!can.in_nmi && __atomic_load_n(&v->root->nmi_pending, __ATOMIC_RELAXED)));
}

/* One entry. False: something came up for this vCPU at the last moment; nothing ran. */
static bool enter(struct vcpu *v)
{
	struct root_vcpu *r = v->root;

	/* Pairs with root_map_pool and message_deliver, which set `look` or the flush before they
	 * read in_guest. */
	__atomic_store_n(&r->in_guest, 1, __ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&v->look, 0, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&r->in_guest, 0, __ATOMIC_RELEASE);
		return false;
	}
	if (root_entry_tsc == 0)
		root_entry_tsc = tsc_now();
	cpu_run(v->cpu_state, &v->regs, &v->exit);
	__atomic_fetch_add(&r->entries, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&r->in_guest, 0, __ATOMIC_RELEASE);
	return true;
}

/* In such a handler root keeps the CPU: neither the timer that ends a VM's slice nor most of root's
 * own interrupts would get through before root's EOI. */
static bool is_above_timer(void)
{
	return apic_read(APIC_REG_PPR) >> 4 >= HYP_TIMER_VECTOR >> 4;
}

void root_run(struct vcpu *v)
{
	while (v->state == VCPU_RUNNING) {
		uint64_t slice_end, timers, start;

		if (root_restart_stops_us()) {
			sched_put(v, VCPU_READY);
			return; /* to root_restart_poll, which puts it away */
		}
		if (root_restart_is_loading()) {
			root_restart_step(v);
			continue;
		}
		requeue_cut(v);
		if (!take_start(v))
			return;
		take_interrupts(v);
		start = tsc_now();
		slice_end = sched_slice_end(v);
		if (start >= slice_end && !is_above_timer()) {
			sched_put(v, VCPU_READY);
			return;
		}
		timers = sched_timer_deadline();
		if (start >= timers) {
			sched_run_timers();
			continue;
		}
		timer_set_hyp_deadline(slice_end < timers ? slice_end : timers);
		if (!root_interrupts_let_go() || !enter(v))
			continue;
		v->counters.run_tsc += tsc_now() - start;
		vcpu_count_exit(v);
		if (v->exit.kind == KEEL_KIND_INTERRUPT || v->exit.kind == KEEL_KIND_NMI)
			interrupts_sort();
		root_exit(v);
	}
}
