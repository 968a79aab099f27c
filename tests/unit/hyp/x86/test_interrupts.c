/* SPDX-License-Identifier: BSD-2-Clause */
/* What hyp does with a vector that it takes: kept in service for root, put off, or its own timer's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/x86/internal.h"

static struct percpu this_cpu;
#define percpu() (&this_cpu)
#include "hyp/x86/interrupts.c"

#include "hw/apic.h"

char interrupt_stubs[1];
char window_take_gif_start[1], window_take_gif_last[1], window_take_if_start[1];
char window_take_if_last[1], window_wait_gif_start[1], window_wait_gif_hlt[1];
char window_wait_gif_end[1], window_wait_if_start[1], window_wait_if_hlt[1], window_wait_if_end[1];
const struct fixup fixup_table[1], fixup_table_end[1];

static uint32_t apic[0x40];
static unsigned eois;

void window_take_gif(void)
{
}
void window_take_if(void)
{
}
void window_wait_gif(void)
{
}
void window_wait_if(const uint32_t *kick_pending)
{
	(void)kick_pending;
}
uint32_t apic_read(uint32_t reg)
{
	return apic[reg];
}
void apic_eoi(void)
{
	eois++;
}
bool panic_stops_us(void)
{
	return false;
}
void panic_frame(const struct interrupt_frame *f, const char *what)
{
	(void)f;
	fail_msg("%s", what);
	abort();
}

static int setup(void **state)
{
	(void)state;
	memset(&this_cpu, 0, sizeof(this_cpu));
	memset(apic, 0, sizeof(apic));
	eois = 0;
	return 0;
}

static void arrives(uint8_t vector, bool in_service, bool level)
{
	apic[APIC_REG_ISR + vector / 32] = (uint32_t)in_service << vector % 32;
	apic[APIC_REG_TMR + vector / 32] = (uint32_t)level << vector % 32;
	take_vector(vector);
}

static bool has(const uint64_t *set, uint8_t vector)
{
	return set[vector / 64] >> vector % 64 & 1;
}

static void test_root_ends_what_it_can_take(void **state)
{
	(void)state;
	arrives(0xfd, true, false);
	assert_true(has(this_cpu.pending_for_root, 0xfd));
	assert_false(has(this_cpu.put_off, 0xfd));
	assert_int_equal(eois, 0);
}

/* In service until root lets it in, it would keep out hyp's own timer. */
static void test_an_edge_that_root_cannot_take_is_put_off(void **state)
{
	(void)state;
	this_cpu.root_closed = 1;
	arrives(0xfd, true, false);
	assert_false(has(this_cpu.pending_for_root, 0xfd));
	assert_true(has(this_cpu.put_off, 0xfd));
	assert_int_equal(eois, 1);
}

static void test_a_level_stays_in_service(void **state)
{
	(void)state;
	this_cpu.root_closed = 1;
	arrives(0x41, true, true);
	assert_true(has(this_cpu.pending_for_root, 0x41));
	assert_int_equal(eois, 0);
}

static void test_the_8259s_have_no_eoi_here(void **state)
{
	(void)state;
	this_cpu.root_closed = 1;
	arrives(0x30, false, false);
	assert_true(has(this_cpu.pending_for_root, 0x30));
	assert_int_equal(eois, 0);
}

static void test_hyps_own_timer(void **state)
{
	(void)state;
	arrives(HYP_TIMER_VECTOR, false, false); /* spurious */
	assert_int_equal(this_cpu.timer_fired, 0);
	assert_int_equal(eois, 0);
	this_cpu.root_closed = 1;
	arrives(HYP_TIMER_VECTOR, true, false);
	assert_int_equal(this_cpu.timer_fired, 1);
	assert_int_equal(eois, 1);
	assert_false(has(this_cpu.put_off, HYP_TIMER_VECTOR));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_root_ends_what_it_can_take, setup),
	        cmocka_unit_test_setup(test_an_edge_that_root_cannot_take_is_put_off, setup),
	        cmocka_unit_test_setup(test_a_level_stays_in_service, setup),
	        cmocka_unit_test_setup(test_the_8259s_have_no_eoi_here, setup),
	        cmocka_unit_test_setup(test_hyps_own_timer, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
