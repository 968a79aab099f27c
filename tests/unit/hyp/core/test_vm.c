/* SPDX-License-Identifier: BSD-2-Clause */
/* A VM's running life: who wins when root and the guest end it at the same time. */
/* sources: hyp/core/msr_policy.c */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/core/vm.c"

static struct vm vm;
static struct vcpu vcpus[2];
static struct vcpu_vm vcpu_vms[2];
static struct keel_vm_shared shared;
static unsigned platform_resets;

void root_notify_vm(uint32_t id)
{
	(void)id;
}
bool sched_pause(struct vcpu *v)
{
	v->state = VCPU_PAUSED;
	return true;
}
void sched_resume(struct vcpu *v, bool parked)
{
	v->state = parked ? VCPU_EXIT : VCPU_READY;
}
bool sched_unpark(struct vcpu *v)
{
	v->state = VCPU_READY;
	return true;
}
void sched_wake(struct vcpu *v)
{
	(void)v;
}
void sched_vm_start(struct vm *v)
{
	v->homed = true;
}
void sched_vm_stop(struct vm *v)
{
	v->homed = false;
}
void access_drop(struct vcpu *v)
{
	(void)v;
}
void cpu_vcpu_reset(struct cpu_vcpu *c, struct cpu_regs *regs, int sipi_vector)
{
	(void)c, (void)regs, (void)sipi_vector;
}
void cpu_tsc_offset(struct cpu_vcpu *c, uint64_t offset)
{
	(void)c, (void)offset;
}
void platform_init(struct platform *p, const struct platform_config *config, bool keep_console)
{
	(void)p, (void)config, (void)keep_console;
	platform_resets++;
}

static int set_up(void **state)
{
	(void)state;
	memset(&vm, 0, sizeof(vm));
	memset(&shared, 0, sizeof(shared));
	platform_resets = 0;
	vm.state = KEEL_VM_STATE_PAUSED;
	vm.shared = &shared;
	vm.partition.vcpus = vcpus;
	vm.partition.vcpu_count = 2;
	for (unsigned i = 0; i < 2; i++) {
		vcpus[i] = (struct vcpu){.vm = &vcpu_vms[i], .index = i, .state = VCPU_PAUSED};
		vcpu_vms[i] = (struct vcpu_vm){.vm = &vm};
	}
	assert_int_equal(vm_start(&vm), 0);
	return 0;
}

static void guest_asks_for_reset(void)
{
	vm_stop(&vm, KEEL_VM_STATE_RESET, KEEL_EVENT_RESET, KEEL_RESET_PORT);
}

static void test_reset(void **state)
{
	(void)state;
	guest_asks_for_reset();
	assert_int_equal(vm.state, KEEL_VM_STATE_RESET);
	assert_int_equal(vm.run, 0);
	assert_false(vm.homed);
	assert_int_equal(shared.reset_cause, KEEL_RESET_PORT);
	assert_int_equal(shared.events, KEEL_EVENT_RESET | KEEL_EVENT_STATE);
	assert_int_equal(vm_start(&vm), -KEEL_EBUSY);
	assert_int_equal(vm_reset(&vm), 0);
	assert_int_equal(platform_resets, 1);
	assert_int_equal(vm_start(&vm), 0);
}

/* The vCPU was on its way to the reset port while root paused the VM: dropped, the guest would wait
 * for it for ever. */
static void test_reset_while_root_pauses(void **state)
{
	(void)state;
	assert_int_equal(vm_pause(&vm), 0);
	shared.events = 0;
	guest_asks_for_reset();
	assert_int_equal(vm.state, KEEL_VM_STATE_RESET);
	assert_true(shared.events & KEEL_EVENT_RESET);
	assert_int_equal(vm_start(&vm), -KEEL_EBUSY);
	assert_int_equal(vm_pause(&vm), 0);
	assert_int_equal(vm.state, KEEL_VM_STATE_RESET);
}

static void test_the_first_cause_counts(void **state)
{
	(void)state;
	vm_stop(&vm, KEEL_VM_STATE_RESET, KEEL_EVENT_TRIPLE_FAULT, KEEL_RESET_TRIPLE_FAULT);
	guest_asks_for_reset();
	assert_int_equal(shared.reset_cause, KEEL_RESET_TRIPLE_FAULT);
	assert_false(shared.events & KEEL_EVENT_RESET);
	vm_stop(&vm, KEEL_VM_STATE_DEAD, KEEL_EVENT_DEAD, 0);
	assert_int_equal(vm.state, KEEL_VM_STATE_RESET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_reset, set_up),
	        cmocka_unit_test_setup(test_reset_while_root_pauses, set_up),
	        cmocka_unit_test_setup(test_the_first_cause_counts, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
