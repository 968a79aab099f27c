// SPDX-License-Identifier: BSD-2-Clause
/* A root that goes wrong on purpose, as soon as this module is loaded. Loading always fails. */
#define pr_fmt(fmt) "keel_trouble: " fmt

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <asm/apic.h>
#include <asm/msr.h>

#undef smp_send_reschedule /* since Linux 6.4 a macro, also for the field of smp_ops */

static unsigned int hang_ms;
module_param(hang_ms, uint, 0);
MODULE_PARM_DESC(hang_ms, "every CPU spins so long with interrupts off, IPIs waiting for it");

static bool refused_state;
module_param(refused_state, bool, 0);
MODULE_PARM_DESC(refused_state, "sets a bit of CR4 that no CPU has");

static bool odd_msrs;
module_param(odd_msrs, bool, 0);
MODULE_PARM_DESC(odd_msrs, "writes MSRs that hyp's own run depends on");

static atomic_t hanging;

static void poke_others(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) if (cpu != smp_processor_id()) smp_ops.smp_send_reschedule(cpu);
}

/* All are in here before any is poked: so each has a vector of the highest class that it does not
 * take. */
static void hang(void *unused)
{
	u64 end = local_clock() + (u64)hang_ms * NSEC_PER_MSEC, poke = 0;

	atomic_inc(&hanging);
	while (atomic_read(&hanging) < num_online_cpus())
		cpu_relax();
	for (; local_clock() < end; cpu_relax()) {
		if (local_clock() < poke)
			continue;
		poke_others();
		poke = local_clock() + 100 * NSEC_PER_MSEC;
	}
}

static void expect(bool refused, u32 msr, u64 value)
{
	int error = wrmsrl_safe(msr, value);

	if (!error == refused)
		pr_err("wrong: MSR %#x took %#llx: %d\n", msr, value, error);
}

static void write_odd_msrs(void)
{
	u64 before = rdtsc(), base, efer;

	rdmsrl(MSR_IA32_APICBASE, base);
	rdmsrl(MSR_EFER, efer);
	expect(false, MSR_IA32_TSC, 0);
	if (rdtsc() < before)
		pr_err("wrong: the TSC went back\n");
	if (base & X2APIC_ENABLE) {
		/* Reserved bits: a CPU refuses them, the emulator does not. */
		wrmsrl_safe(APIC_BASE_MSR + (APIC_ICR >> 4), 0xfff33000 | APIC_DEST_SELF | 0xf6);
		wrmsrl_safe(APIC_BASE_MSR + (APIC_SPIV >> 4), 0xffffffff);
		expect(true, MSR_IA32_APICBASE, base & ~(u64)X2APIC_ENABLE);
	}
	expect(true, MSR_IA32_APICBASE, base ^ 0x1000);
	expect(true, MSR_EFER, efer | 1ull << 40);
	expect(true, MSR_EFER, efer | EFER_SVME);
	expect(true, MSR_VM_HSAVE_PA, 0x1000);
	expect(true, MSR_IA32_XSS, ~0ull);
	pr_info("odd MSRs written\n");
}

static int __init trouble_init(void)
{
	if (odd_msrs)
		write_odd_msrs();
	if (hang_ms)
		on_each_cpu(hang, NULL, 1);
	if (refused_state)
		asm volatile("mov %%cr4, %%rax; bts $31, %%rax; mov %%rax, %%cr4" : : : "rax");
	return -ECANCELED;
}

module_init(trouble_init);
MODULE_DESCRIPTION("keelOS's tests: a root that goes wrong");
MODULE_LICENSE("Dual BSD/GPL");
