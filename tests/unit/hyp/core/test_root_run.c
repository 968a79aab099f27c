/* SPDX-License-Identifier: BSD-2-Clause */
/* When root gets its CPU: interrupts that it can take, and those that it does not let in. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/x86/x86.h"

static struct percpu this_cpu;
static uint64_t clock_now;
#define percpu()  (&this_cpu)
#define tsc_now() clock_now
#include "hyp/core/root_run.c"

struct partition root_partition;
uint64_t tsc_hz = 1000000000, root_entry_tsc;

static struct vcpu vcpu;
static struct root_vcpu root;
static struct cpu_can can;
static int injected; /* -1: nothing */
static bool window;
static uint64_t resent[4]; /* self-IPIs */

struct cpu_can cpu_can_take(const struct cpu_vcpu *c, const struct cpu_regs *regs)
{
	(void)c, (void)regs;
	return can;
}
void cpu_inject(struct cpu_vcpu *c, enum cpu_inject_type type, uint8_t vector, bool has_error,
        uint32_t error)
{
	(void)c, (void)type, (void)has_error, (void)error;
	injected = vector;
}
void cpu_window(struct cpu_vcpu *c, bool on)
{
	(void)c;
	window = on;
}
void apic_icr_write(uint64_t icr)
{
	assert_int_equal(icr & ~0xffull, APIC_ICR_SELF);
	resent[(icr & 0xff) / 64] |= 1ull << icr % 64;
}
uint32_t apic_read(uint32_t reg)
{
	(void)reg;
	return 0;
}
void cpu_run(struct cpu_vcpu *c, struct cpu_regs *regs, struct cpu_exit *exit)
{
	(void)c, (void)regs, (void)exit;
}
void cpu_vcpu_reset(struct cpu_vcpu *c, struct cpu_regs *regs, int sipi_vector)
{
	(void)c, (void)regs, (void)sipi_vector;
}
bool root_restart_stops_us(void)
{
	return false;
}
bool root_restart_is_loading(void)
{
	return false;
}
void root_restart_step(struct vcpu *v)
{
	(void)v;
}
bool root_interrupts_let_go(void)
{
	return true;
}
bool interrupts_sort(void)
{
	return false;
}
void root_exit(struct vcpu *v)
{
	(void)v;
}
void sched_put(struct vcpu *v, enum vcpu_state state)
{
	v->state = state;
}
uint64_t sched_slice_end(struct vcpu *v)
{
	(void)v;
	return UINT64_MAX;
}
uint64_t sched_timer_deadline(void)
{
	return UINT64_MAX;
}
void sched_run_timers(void)
{
}
void timer_set_hyp_deadline(uint64_t host_tsc)
{
	(void)host_tsc;
}
void vcpu_count_exit(struct vcpu *v)
{
	(void)v;
}

static void set_open(bool open)
{
	can = (struct cpu_can){.intr = open, .nmi = true};
}

static int setup(void **state)
{
	(void)state;
	memset(&this_cpu, 0, sizeof(this_cpu));
	memset(&vcpu, 0, sizeof(vcpu));
	memset(&root, 0, sizeof(root));
	memset(resent, 0, sizeof(resent));
	vcpu.root = &root;
	vcpu.state = VCPU_READY;
	this_cpu.root = &vcpu;
	injected = -1;
	window = false;
	clock_now = 1000000000;
	set_open(true);
	return 0;
}

static void pend(uint8_t vector)
{
	percpu_pend_vector(&this_cpu, vector);
}

static void put_off(uint8_t vector)
{
	this_cpu.put_off[vector / 64] |= 1ull << vector % 64;
}

static void test_what_root_can_take_puts_it_in_front(void **state)
{
	(void)state;
	assert_false(root_has_interrupt());
	pend(0x41);
	assert_true(root_has_interrupt());
	percpu_unpend_vector(&this_cpu, 0x41);
	put_off(0xfd);
	clock_now += tsc_hz;
	assert_true(root_has_interrupt());
	root.nmi_pending = 1;
	clock_now += tsc_hz;
	assert_true(root_has_interrupt());
}

/* A root that hangs with interrupts off has one waiting before long. */
static void test_what_root_does_not_let_in_counts_for_a_while_only(void **state)
{
	(void)state;
	set_open(false);
	pend(0x41);
	assert_true(root_has_interrupt());
	clock_now += tsc_hz / 1000 * 3;
	assert_true(root_has_interrupt());
	clock_now += tsc_hz / 1000 * 2;
	assert_false(root_has_interrupt());
	put_off(0xfd);
	assert_false(root_has_interrupt());
	set_open(true);
	assert_true(root_has_interrupt());
	set_open(false);
	assert_true(root_has_interrupt()); /* patience begins anew */
}

static void test_an_nmi_within_an_nmi_counts_for_a_while_only(void **state)
{
	(void)state;
	can = (struct cpu_can){.intr = false, .nmi = false};
	root.nmi_pending = 1;
	assert_true(root_has_interrupt());
	clock_now += tsc_hz;
	assert_false(root_has_interrupt());
}

/* With IF 1 within the NMI's handler the window would open at every entry: root stood still. */
static void test_an_nmi_within_an_nmi_waits_for_its_iret(void **state)
{
	(void)state;
	can = (struct cpu_can){.intr = true, .nmi = false, .in_nmi = true};
	root.nmi_pending = 1;
	take_interrupts(&vcpu);
	assert_false(window);
	can.in_nmi = false; /* its IRET is about to run */
	take_interrupts(&vcpu);
	assert_true(window);
}

static void test_a_halted_root_wants_only_what_wakes_it(void **state)
{
	(void)state;
	vcpu.state = VCPU_HALTED;
	assert_false(root_wants_cpu());
	set_open(false);
	pend(0x41);
	put_off(0xfd);
	assert_false(root_wants_cpu());
	assert_false(root_has_interrupt()); /* or the VM in front of it would leave for nobody */
	set_open(true);
	assert_true(root_wants_cpu());
}

static void test_put_off_is_sent_again_when_root_opens(void **state)
{
	(void)state;
	set_open(false);
	put_off(0x31);
	put_off(0xfd);
	take_interrupts(&vcpu);
	assert_true(window); /* an exit as soon as it opens */
	assert_int_equal(resent[0] | resent[1] | resent[2] | resent[3], 0);
	set_open(true);
	take_interrupts(&vcpu);
	assert_int_equal(resent[0], 1ull << 0x31);
	assert_int_equal(resent[3], 1ull << (0xfd - 192));
	assert_false(any_put_off(&this_cpu));
	assert_false(window);
	assert_int_equal(injected, -1);
}

/* It came while a VM ran: before all else, whatever root's IF, and once. */
static void test_a_machine_check_is_roots(void **state)
{
	(void)state;
	set_open(false);
	can.nmi = false;
	root_machine_check();
	assert_true(root_has_interrupt());
	root.nmi_pending = 1;
	take_interrupts(&vcpu);
	assert_int_equal(injected, 18);
	assert_int_equal(root.nmi_pending, 1);
	injected = -1;
	take_interrupts(&vcpu);
	assert_int_equal(injected, -1);
}

/* One at a time: sent again beside an injected one it would only be put off again. */
static void test_pending_goes_before_put_off(void **state)
{
	(void)state;
	pend(0x41);
	put_off(0xfd);
	take_interrupts(&vcpu);
	assert_int_equal(injected, 0x41);
	assert_true(any_put_off(&this_cpu));
	assert_true(window);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_what_root_can_take_puts_it_in_front, setup),
	        cmocka_unit_test_setup(
	                test_what_root_does_not_let_in_counts_for_a_while_only, setup),
	        cmocka_unit_test_setup(test_an_nmi_within_an_nmi_counts_for_a_while_only, setup),
	        cmocka_unit_test_setup(test_a_machine_check_is_roots, setup),
	        cmocka_unit_test_setup(test_an_nmi_within_an_nmi_waits_for_its_iret, setup),
	        cmocka_unit_test_setup(test_a_halted_root_wants_only_what_wakes_it, setup),
	        cmocka_unit_test_setup(test_put_off_is_sent_again_when_root_opens, setup),
	        cmocka_unit_test_setup(test_pending_goes_before_put_off, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
