/* SPDX-License-Identifier: BSD-2-Clause */
/* Root's APIC as far as hyp stands in between: what may be entered over, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/x86/x86.h"

/* hyp finds the one by the stack pointer, reads the other by a privileged instruction. */
static struct percpu this_cpu;
static uint64_t apic_base, clock_now;
#define tsc_now()     clock_now
#define percpu()      (&this_cpu)
#define msr_read(msr) apic_base
#include "hyp/core/root_apic.c"

struct partition root_partition;
unsigned cpu_count = 1;
uint64_t tsc_hz = 1000000000, apic_timer_hz = 1000000000;

#define MODE_XAPIC  ((uint64_t)APIC_BASE_ENABLE)
#define MODE_X2APIC ((uint64_t)(APIC_BASE_ENABLE | APIC_BASE_X2APIC))

static struct vcpu root_vcpu;
static struct root_vcpu root;
static uint32_t apic[0x40];
static uint64_t arrives; /* a vector that interrupts_sort finds; 0: none */
static bool kick_arrives, intr_trap;
static uint64_t sent; /* the last ICR message that hyp wrote itself */

uint32_t apic_read(uint32_t reg)
{
	return apic[reg];
}
void apic_write(uint32_t reg, uint32_t value)
{
	apic[reg] = value;
}
void apic_icr_write(uint64_t icr)
{
	sent = icr;
}
bool apic_base_write(uint64_t value)
{
	apic_base = value;
	this_cpu.x2apic = (value & APIC_BASE_X2APIC) != 0;
	return true;
}
void apic_timer_arm(uint64_t deadline_tsc, uint8_t vector)
{
	(void)deadline_tsc, (void)vector;
}
void apic_timer_stop(void)
{
}
bool interrupts_sort(void)
{
	if (arrives != 0)
		this_cpu.pending_for_root[arrives / 64] |= 1ull << arrives % 64;
	arrives = 0;
	return kick_arrives;
}
void cpu_trap(struct cpu_vcpu *c, enum cpu_trap trap, bool on)
{
	(void)c;
	if (trap == CPU_TRAP_INTR)
		intr_trap = on;
}
void cpu_kick(unsigned index)
{
	(void)index;
}
struct percpu *percpu_of(unsigned index)
{
	(void)index;
	return &this_cpu;
}
void log_line(const char *format, ...)
{
	(void)format;
}

static int setup(void **state)
{
	(void)state;
	memset(&this_cpu, 0, sizeof(this_cpu));
	memset(&root, 0, sizeof(root));
	memset(apic, 0, sizeof(apic));
	arrives = 0;
	kick_arrives = false;
	sent = 0;
	clock_now = 1000000000;
	apic_base = APIC_BASE_DEFAULT | MODE_X2APIC;
	root_vcpu.root = &root;
	this_cpu.root = &root_vcpu;
	this_cpu.x2apic = 1;
	root_partition.vcpus = &root_vcpu;
	root_partition.vcpu_count = 1;
	root_apic_init(&root);
	return 0;
}

/* Interrupts are held for a deadline of hyp's, which then goes away. */
static void hold_then_none(void)
{
	timer_set_hyp_deadline(tsc_now() + tsc_hz);
	assert_true(intr_trap);
	timer_set_hyp_deadline(UINT64_MAX);
}

static void test_let_go(void **state)
{
	(void)state;
	hold_then_none();
	assert_true(root_interrupts_let_go());
	assert_false(intr_trap);
	assert_true(root_interrupts_let_go());
}

static void test_an_interrupt_that_comes_to_light_is_injected_first(void **state)
{
	(void)state;
	hold_then_none();
	arrives = 0x31;
	assert_false(root_interrupts_let_go());
	assert_true(root_interrupts_let_go());
}

/* Its NMI is taken, so root would be entered over whatever the kick was for. */
static void test_a_kick_that_comes_to_light_is_looked_at_first(void **state)
{
	(void)state;
	hold_then_none();
	kick_arrives = true;
	assert_false(root_interrupts_let_go());
	assert_true(root_interrupts_let_go());
}

/* A value with reserved bits is #GP in whoever writes it to the MSR: that must be root's, by way of
 * the caller, not hyp's own. */
static void test_x2apic_values_are_not_written_by_hyp(void **state)
{
	(void)state;
	assert_false(root_apic_write(&root_vcpu, APIC_REG_ICR, 0xfff33000u | 0x31));
	assert_false(root_apic_write(&root_vcpu, APIC_REG_ICR, APIC_ICR_OTHERS | 0xfd));
	assert_int_equal(sent, 0);
	assert_false(root_apic_write(&root_vcpu, APIC_REG_SVR, 0xffffffffu));
	assert_true(root_apic_write(&root_vcpu, APIC_REG_SVR, 0xfffffeefu));
	assert_int_equal(apic[APIC_REG_SVR], APIC_SVR_ENABLE | 0xef);
}

static void test_xapic_messages_are_sent_by_hyp(void **state)
{
	(void)state;
	this_cpu.x2apic = 0;
	root_apic_write(&root_vcpu, APIC_REG_ICR_HIGH, 0x05000000);
	assert_true(root_apic_write(&root_vcpu, APIC_REG_ICR, 0x41));
	assert_int_equal(sent, 5ull << 32 | 0x41);
}

static bool set_mode(uint64_t mode)
{
	return root_apic_base_write(&root_vcpu, APIC_BASE_DEFAULT | mode);
}

static void test_apic_modes_follow_each_other_as_on_the_cpu(void **state)
{
	(void)state;
	assert_false(set_mode(MODE_XAPIC)); /* from x2APIC only to off */
	assert_false(set_mode(APIC_BASE_X2APIC));
	assert_false(set_mode(MODE_X2APIC | 1));
	assert_false(root_apic_base_write(&root_vcpu, 0xfed00000ull | MODE_X2APIC));
	assert_true(set_mode(0));
	assert_int_equal(root_apic_base_read(&root_vcpu), APIC_BASE_DEFAULT);
	assert_int_equal(apic_base, APIC_BASE_DEFAULT | MODE_X2APIC); /* hyp's stays on */
	assert_false(set_mode(MODE_X2APIC));                          /* from xAPIC only */
	root.armed = true;
	assert_true(set_mode(MODE_XAPIC));
	assert_int_equal(apic_base, APIC_BASE_DEFAULT | MODE_XAPIC);
	assert_false(root.armed); /* the timer went with the old mode */
	assert_int_equal(root_vcpu.look, 1);
	assert_true(set_mode(MODE_X2APIC));
}

static void set_deadline(uint64_t tsc)
{
	root_tsc_deadline_write(&root_vcpu, tsc);
}

/* The hardware was armed with root's vector: the tick has come, and the next deadline is root's
 * answer to it. */
static void test_a_tick_from_the_hardware_is_not_sent_again(void **state)
{
	(void)state;
	root_apic_write(&root_vcpu, APIC_REG_LVT_TIMER, APIC_LVT_TIMER_TSC_DEADLINE | 0xec);
	set_deadline(clock_now + 1000);
	clock_now += 2000;
	set_deadline(clock_now + 1000);
	assert_int_equal(sent, 0);
	assert_int_equal(root_tsc_deadline_read(&root_vcpu), clock_now + 1000);
}

/* While hyp has the hardware's timer it sends root's tick itself. */
static void test_a_tick_behind_hyps_timer_is_sent(void **state)
{
	(void)state;
	root_apic_write(&root_vcpu, APIC_REG_LVT_TIMER, APIC_LVT_TIMER_TSC_DEADLINE | 0xec);
	timer_set_hyp_deadline(clock_now + 500);
	set_deadline(clock_now + 1000);
	clock_now += 2000;
	set_deadline(clock_now + 1000);
	assert_int_equal(sent, APIC_ICR_SELF | 0xec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_let_go, setup),
	        cmocka_unit_test_setup(
	                test_an_interrupt_that_comes_to_light_is_injected_first, setup),
	        cmocka_unit_test_setup(test_a_kick_that_comes_to_light_is_looked_at_first, setup),
	        cmocka_unit_test_setup(test_x2apic_values_are_not_written_by_hyp, setup),
	        cmocka_unit_test_setup(test_xapic_messages_are_sent_by_hyp, setup),
	        cmocka_unit_test_setup(test_a_tick_from_the_hardware_is_not_sent_again, setup),
	        cmocka_unit_test_setup(test_a_tick_behind_hyps_timer_is_sent, setup),
	        cmocka_unit_test_setup(test_apic_modes_follow_each_other_as_on_the_cpu, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
