/* SPDX-License-Identifier: BSD-2-Clause */
/* When a triple fault is the guest's, and when the CPU that reports it is not believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/x86/x86.h"

static uint64_t clock_now;
#define tsc_now() clock_now
#include "hyp/core/vm_shutdown.c"

#define IDT     0xfffffe0000000000u
#define CODE    0xffffffff81000000u
#define NOWHERE 0x10u

bool cpu_loses_events;
uint64_t tsc_hz = 1000000000;
static struct vm vm;
static struct vcpu_vm vcpu_vm;
static struct vcpu vcpu;
static struct keel_vcpu_state state;
static uint8_t gates[256 * 16];
static unsigned stops, flushes;

void cpu_state_get(struct cpu_vcpu *c, const struct cpu_regs *regs, struct keel_vcpu_state *out)
{
	(void)c, (void)regs;
	*out = state;
}
void cpu_mode_get(struct cpu_vcpu *c, struct cpu_mode *out)
{
	(void)c;
	*out = (struct cpu_mode){.cpl = 3};
}
void cpu_flush(struct cpu_vcpu *c)
{
	(void)c;
	flushes++;
}
bool guest_walk(struct vm *v, const struct cpu_mode *mode, uint64_t rflags, uint64_t linear,
        unsigned access, gpa_t *gpa, uint32_t *error)
{
	(void)v, (void)rflags, (void)access;
	assert_int_equal(mode->cpl, 0);
	*gpa = GPA(linear - IDT);
	*error = 0;
	return linear != NOWHERE;
}
bool guest_read(struct vm *v, gpa_t gpa, void *to, size_t bytes)
{
	(void)v;
	if (gpa.value + bytes > sizeof(gates))
		return false;
	memcpy(to, gates + gpa.value, bytes);
	return true;
}
void vm_stop(struct vm *v, uint32_t new_state, uint32_t event, uint32_t cause)
{
	assert_ptr_equal(v, &vm);
	assert_int_equal(new_state, KEEL_VM_STATE_RESET);
	assert_int_equal(event, KEEL_EVENT_TRIPLE_FAULT);
	assert_int_equal(cause, KEEL_RESET_TRIPLE_FAULT);
	stops++;
}
void trace_tell(void)
{
}
void log_line(const char *format, ...)
{
	(void)format;
}

/* A healthy guest on a CPU that is known for faults. */
static int set_up(void **unused)
{
	(void)unused;
	cpu_loses_events = true;
	clock_now = 100 * tsc_hz;
	stops = flushes = 0;
	memset(gates, 0, sizeof(gates));
	gates[8 * 16 + 5] = gates[14 * 16 + 5] = 0x8e;
	state = (struct keel_vcpu_state){.rip = CODE,
	        .cr2 = IDT + 0x80,
	        .efer = EFER_LMA,
	        .idtr = {.base = IDT, .limit = 0xfff}};
	vcpu_vm = (struct vcpu_vm){.vm = &vm};
	vcpu = (struct vcpu){.vm = &vcpu_vm};
	return 0;
}

static void test_a_healthy_guest_goes_on(void **unused)
{
	(void)unused;
	vcpu_vm.cut_type = CPU_INJECT_EXCEPTION;
	vm_shutdown(&vcpu);
	assert_int_equal(stops, 0);
	assert_int_equal(flushes, 1);
	assert_int_equal(vcpu_vm.cut_type, CPU_INJECT_NONE);
	vcpu_vm.cut_type = CPU_INJECT_INTR;
	vm_shutdown(&vcpu);
	assert_int_equal(stops, 0);
	assert_int_equal(vcpu_vm.cut_type, CPU_INJECT_INTR); /* it comes again */
}

static void test_a_real_cpu_is_believed(void **unused)
{
	(void)unused;
	cpu_loses_events = false;
	vm_shutdown(&vcpu);
	assert_int_equal(stops, 1);
}

/* Linux' last way to reboot: an empty IDT and an INT3. */
static void test_an_empty_idt(void **unused)
{
	(void)unused;
	state.idtr.limit = 0;
	vm_shutdown(&vcpu);
	assert_int_equal(stops, 1);
}

static void test_what_the_guest_has_broken(void **unused)
{
	(void)unused;
	state.cr2 = NOWHERE;
	vm_shutdown(&vcpu);
	assert_int_equal(stops, 1);
	set_up(NULL);
	state.rip = NOWHERE;
	vm_shutdown(&vcpu);
	assert_int_equal(stops, 1);
	set_up(NULL);
	gates[8 * 16 + 5] = 0x0e;
	vm_shutdown(&vcpu);
	assert_int_equal(stops, 1);
	set_up(NULL);
	state.efer = 0;
	vm_shutdown(&vcpu);
	assert_int_equal(stops, 1);
}

static void test_the_fourth_within_a_second_is_believed(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < 10; i++) {
		clock_now += 2 * tsc_hz;
		vm_shutdown(&vcpu);
	}
	assert_int_equal(stops, 0);
	clock_now += 2 * tsc_hz;
	for (unsigned i = 0; i < RETRIES_MAX; i++)
		vm_shutdown(&vcpu);
	assert_int_equal(stops, 0);
	vm_shutdown(&vcpu);
	assert_int_equal(stops, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_a_healthy_guest_goes_on, set_up),
	        cmocka_unit_test_setup(test_a_real_cpu_is_believed, set_up),
	        cmocka_unit_test_setup(test_an_empty_idt, set_up),
	        cmocka_unit_test_setup(test_what_the_guest_has_broken, set_up),
	        cmocka_unit_test_setup(test_the_fourth_within_a_second_is_believed, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
