/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to each VM, and when, while root is away. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/x86/x86.h"

static uint64_t clock_now;
#define tsc_now() clock_now
#include "hyp/core/away.c"

uint64_t tsc_hz = 1000000000;
#define MS 1000000ull

static struct vm vms[4];
static uint32_t causes[4];
static unsigned users;

struct vm *vm_get_next(uint32_t id)
{
	for (unsigned i = id == 0 ? 0 : id - 1; i < 4; i++)
		if (vms[i].id != 0) {
			users++;
			return &vms[i];
		}
	return NULL;
}
void vm_put(struct vm *vm)
{
	(void)vm;
	users--;
}
int64_t vm_pause(struct vm *vm)
{
	vm->state = KEEL_VM_STATE_PAUSED;
	return 0;
}
void vm_stop(struct vm *vm, uint32_t state, uint32_t event, uint32_t cause)
{
	vm->state = state;
	assert_int_equal(event, KEEL_EVENT_RESET);
	causes[vm->id - 1] = cause;
}
void log_line(const char *format, ...)
{
	(void)format;
}

/* VM 2 does not exist. */
static int set_up(void **state)
{
	const uint32_t policies[] = {
	        KEEL_AWAY_PAUSE, KEEL_AWAY_WAIT, KEEL_AWAY_RESET, KEEL_AWAY_STOP};

	(void)state;
	memset(vms, 0, sizeof(vms));
	memset(causes, 0, sizeof(causes));
	users = 0;
	clock_now = 5000 * MS;
	away_end();
	for (uint32_t i = 0; i < 4; i++)
		vms[i] = (struct vm){.id = i == 1 ? 0 : i + 1,
		        .state = KEEL_VM_STATE_RUNNING,
		        .away_policy = policies[i],
		        .away_ms = i == 1 ? 0 : 100 * (i + 1)};
	return 0;
}

/* As the CPU that keeps the watch does it: at each deadline, until there is none. */
static void run_until(uint64_t end)
{
	while (away_deadline() <= end) {
		if (away_deadline() > clock_now)
			clock_now = away_deadline();
		away_run(clock_now);
	}
	clock_now = end;
	assert_int_equal(users, 0);
}

static void test_each_at_its_time(void **state)
{
	(void)state;
	assert_int_equal(away_deadline(), UINT64_MAX);
	assert_false(away_is());
	away_begin();
	assert_true(away_is());
	run_until(5099 * MS);
	assert_int_equal(vms[0].state, KEEL_VM_STATE_RUNNING);
	run_until(5100 * MS);
	assert_int_equal(vms[0].state, KEEL_VM_STATE_PAUSED);
	assert_int_equal(vms[2].state, KEEL_VM_STATE_RUNNING);
	run_until(5399 * MS);
	assert_int_equal(vms[2].state, KEEL_VM_STATE_RESET);
	assert_int_equal(causes[2], KEEL_RESET_AWAY);
	assert_int_equal(vms[3].state, KEEL_VM_STATE_RUNNING);
	run_until(5400 * MS);
	assert_int_equal(causes[3], KEEL_RESET_AWAY_STOP);
	assert_int_equal(away_deadline(), UINT64_MAX);
}

static void test_who_waits_is_left_alone(void **state)
{
	(void)state;
	vms[1] = (struct vm){.id = 2, .state = KEEL_VM_STATE_RUNNING};
	away_begin();
	run_until(1000000 * MS);
	assert_int_equal(vms[1].state, KEEL_VM_STATE_RUNNING);
}

static void test_back_in_time(void **state)
{
	(void)state;
	away_begin();
	run_until(5050 * MS);
	away_end();
	assert_int_equal(away_deadline(), UINT64_MAX);
	clock_now = 9000 * MS;
	away_run(clock_now);
	assert_int_equal(vms[0].state, KEEL_VM_STATE_RUNNING);
}

/* Roots that fail one after the other are one absence. */
static void test_a_failed_start_does_not_begin_anew(void **state)
{
	(void)state;
	away_begin();
	run_until(5060 * MS);
	away_begin();
	run_until(5100 * MS);
	assert_int_equal(vms[0].state, KEEL_VM_STATE_PAUSED);
}

/* A VM that its user has stopped, or that asks for a reset, has nothing to lose. */
static void test_only_who_runs(void **state)
{
	(void)state;
	vms[3].state = KEEL_VM_STATE_PAUSED;
	away_begin();
	run_until(9000 * MS);
	assert_int_equal(vms[3].state, KEEL_VM_STATE_PAUSED);
	assert_int_equal(causes[3], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_each_at_its_time, set_up),
	        cmocka_unit_test_setup(test_who_waits_is_left_alone, set_up),
	        cmocka_unit_test_setup(test_back_in_time, set_up),
	        cmocka_unit_test_setup(test_a_failed_start_does_not_begin_anew, set_up),
	        cmocka_unit_test_setup(test_only_who_runs, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
