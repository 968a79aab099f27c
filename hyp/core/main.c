/* SPDX-License-Identifier: BSD-2-Clause */
/* hyp's start after the CPU code, and the loop that each CPU lives in. */

#include "hyp/core/pool.h"
#include "hyp/core/root.h"
#include "hyp/core/root_restart.h"
#include "hyp/core/root_vcpu.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hyp/core/trace.h"
#include "hyp/core/version.h"
#include "hyp/x86/x86.h"

/*
 * One loop a CPU: take what interrupts are pending, run the timers that are due, ask the scheduler,
 * run what it says until that gives the CPU up. Host interrupts are held (GIF 0 on SVM) all the
 * time but in interrupts_take and interrupts_wait.
 */

static uint64_t idle_tsc[CPU_MAX]; /* (o) writes, read by anyone */

uint64_t idle_total_tsc(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < cpu_count; i++)
		sum += __atomic_load_n(&idle_tsc[i], __ATOMIC_RELAXED);
	return sum;
}

void vcpu_count_exit(struct vcpu *v)
{
	v->counters.exits[v->exit.kind]++;
	trace_exit(v);
}

bool interrupts_sort(void)
{
	struct percpu *cpu = percpu();

	cpu->root_closed = !root_is_open();
	cpu_kick_find_lost();
	interrupts_take();
	if (cpu->nmi_seen == 0)
		return false;
	cpu->nmi_seen = 0;
	/* A kick sets its flag before it sends the NMI; one that comes without is the machine's,
	 * and so root's. */
	if (__atomic_exchange_n(&cpu->kick_pending, 0, __ATOMIC_ACQ_REL) == 0)
		__atomic_store_n(&root_this()->nmi_pending, 1, __ATOMIC_RELEASE);
	return true;
}

static void idle(void)
{
	uint64_t from = tsc_now();

	timer_set_hyp_deadline(sched_timer_deadline());
	/* Arming the timer may have taken an interrupt for root. */
	if (!root_wants_cpu())
		interrupts_wait();
	__atomic_store_n(&idle_tsc[percpu()->index], idle_tsc[percpu()->index] + (tsc_now() - from),
	        __ATOMIC_RELAXED);
}

void vcpu_make_current(struct vcpu *v)
{
	struct vcpu *old = percpu()->current;

	if (old == v)
		return;
	cpu_switch(old != NULL ? old->cpu_state : NULL, v != NULL ? v->cpu_state : NULL);
	percpu()->current = v;
}

void core_cpu_main(void)
{
	if (percpu()->index != 0)
		cpu_start();
	sched_init_cpu();
	for (;;) {
		struct vcpu *v;

		root_restart_poll(); /* may take a kick, which interrupts_sort then sees */
		interrupts_sort();
		root_timer_check();
		sched_run_timers();
		v = sched_next();
		if (v == NULL) {
			idle();
			continue;
		}
		vcpu_make_current(v);
		if (v->root != NULL)
			root_run(v);
		else
			vm_run(v);
	}
}

void core_main(struct boot_info *info)
{
	const char *why = cpu_probe();

	log_line("keelOS hyp %s, loader \"%s\", %u CPU%s", KEEL_VERSION, info->loader, cpu_count,
	        cpu_count == 1 ? "" : "s");
	if (why != NULL)
		refuse("%s", why);
	cpu_start();
	pool_init(info);
	root_create(info);
	smp_release();
	core_cpu_main();
}
