/* SPDX-License-Identifier: BSD-2-Clause */
/* kvmclock, EOI by a flag in memory, and KVM's hypercalls. */

#include "hyp/core/pv.h"
#include "hyp/core/guest_memory.h"
#include "hyp/x86/x86.h"
#include "lib/muldiv.h"

#define NS_PER_S 1000000000ull

#define KVM_HC_VAPIC_POLL_IRQ 1u
#define KVM_HC_SEND_IPI       10u
#define KVM_ENOSYS            1000
#define KVM_EPERM             1

/* The layouts of pvclock-abi.h. */
struct pvclock_time {
	uint32_t version; /* odd: being written */
	uint32_t pad0;
	uint64_t tsc_timestamp;
	uint64_t system_time; /* ns at tsc_timestamp */
	uint32_t tsc_to_system_mul;
	int8_t tsc_shift;
	uint8_t flags;
	uint8_t pad[2];
};
KEEL_ASSERT_SIZE(struct pvclock_time, 32);
KEEL_ASSERT_OFFSET(struct pvclock_time, tsc_to_system_mul, 24);
#define PVCLOCK_TSC_STABLE 1u

struct pvclock_wall {
	uint32_t version;
	uint32_t sec;
	uint32_t nsec;
};
KEEL_ASSERT_SIZE(struct pvclock_wall, 12);

/* ns = ((ticks << shift) * mul) >> 32, with mul of 32 significant bits: exact to 2^-32. */
static void clock_ratio(uint64_t hz, uint32_t *mul, int8_t *shift)
{
	int s = 0;
	uint64_t m;

	while (hz > 2 * NS_PER_S) { /* a tick is less than half a nanosecond: halve the ticks */
		hz >>= 1;
		s--;
	}
	while (hz <= NS_PER_S) {
		hz <<= 1;
		s++;
	}
	m = muldiv_u64(NS_PER_S, 1ull << 32, hz);
	*mul = (uint32_t)m;
	*shift = (int8_t)s;
}

/*
 * System time 0 is guest TSC 0 of the VM, the base of all its clocks, so the page is written once
 * and holds for ever. A vCPU whose TSC was adjusted has that base at another value of its own.
 */
void pv_update_clock(struct vcpu *v)
{
	struct pvclock_time t = {.tsc_timestamp = v->vm->tsc_adjust, .flags = PVCLOCK_TSC_STABLE};
	struct vm *vm = v->vm->vm;
	gpa_t gpa = GPA(v->vm->system_time_msr & ~1ull);
	uint32_t version;

	if (!(v->vm->system_time_msr & 1) || !guest_read(vm, gpa, &version, sizeof(version)))
		return;
	clock_ratio(tsc_hz, &t.tsc_to_system_mul, &t.tsc_shift);
	t.version = (version | 1) + 2; /* odd */
	guest_write(vm, gpa, &t.version, sizeof(t.version));
	__atomic_thread_fence(__ATOMIC_RELEASE);
	guest_write(vm, gpa, &t, sizeof(t));
	__atomic_thread_fence(__ATOMIC_RELEASE);
	t.version++;
	guest_write(vm, gpa, &t.version, sizeof(t.version));
}

bool pv_write_system_time(struct vcpu *v, uint64_t value)
{
	if (value & 1 && ((value & 2) || guest_ram(v->vm->vm, GPA(value & ~3ull), 1) == NULL))
		return false;
	v->vm->system_time_msr = value;
	pv_update_clock(v);
	return true;
}

bool pv_write_wall_clock(struct vcpu *v, uint64_t value)
{
	struct vm *vm = v->vm->vm;
	struct pvclock_wall w = {.sec = (uint32_t)vm->config.wall_clock_s};
	uint32_t version;

	if ((value & 3) || !guest_read(vm, GPA(value), &version, sizeof(version)))
		return false;
	w.version = (version | 1) + 2;
	if (!guest_write(vm, GPA(value), &w, sizeof(w)))
		return false;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	w.version++;
	guest_write(vm, GPA(value), &w.version, sizeof(w.version));
	vm->wall_msr = value;
	return true;
}

bool pv_write_eoi(struct vcpu *v, uint64_t value)
{
	uint8_t *flag = NULL;

	if (value & 2)
		return false;
	if (value & 1) {
		flag = guest_ram(v->vm->vm, GPA(value & ~3ull), 4);
		if (flag == NULL || guest_is_rom(v->vm->vm, GPA(value & ~3ull)))
			return false;
	}
	pv_eoi_collect(v);
	v->vm->pv_eoi_msr = value;
	v->vm->pv_eoi_flag = flag;
	return true;
}

void pv_eoi_offer(struct vcpu *v)
{
	struct vcpu_vm *x = v->vm;

	if (x->pv_eoi_flag == NULL || !platform_pv_eoi_possible(x->vm->platform, v->index))
		return;
	__atomic_fetch_or(x->pv_eoi_flag, 1, __ATOMIC_RELAXED);
	x->pv_eoi_armed = true;
}

void pv_eoi_collect(struct vcpu *v)
{
	struct vcpu_vm *x = v->vm;

	if (!x->pv_eoi_armed)
		return;
	x->pv_eoi_armed = false;
	if (!(__atomic_fetch_and(x->pv_eoi_flag, (uint8_t)~1u, __ATOMIC_RELAXED) & 1))
		platform_eoi(x->vm->platform, v->index);
}

uint64_t pv_hypercall(struct vcpu *v)
{
	const uint64_t *g = v->regs.gpr;
	struct cpu_mode mode;
	uint64_t mask;
	int result;

	cpu_mode_get(v->cpu_state, &mode);
	if (mode.cpl != 0)
		return (uint64_t)-KVM_EPERM;
	mask = mode.long_mode ? UINT64_MAX : 0xffffffffu;
	switch (g[KEEL_RAX] & mask) {
	case KVM_HC_VAPIC_POLL_IRQ: return 0;
	case KVM_HC_SEND_IPI:
		result = platform_pv_ipi(v->vm->vm->platform, g[KEEL_RBX] & mask,
		        g[KEEL_RCX] & mask, (uint32_t)g[KEEL_RDX], (uint32_t)g[KEEL_RSI]);
		v->counters.ipis++;
		return (uint64_t)(int64_t)result & mask;
	default: return (uint64_t)-KVM_ENOSYS & mask;
	}
}
