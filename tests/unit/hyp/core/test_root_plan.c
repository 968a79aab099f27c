/* SPDX-License-Identifier: BSD-2-Clause */
/* Proves which image the next root is started from, through upgrades, failures and fall-backs. */
/* sources: hyp/core/root_plan.c */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hyp/core/root_plan.h"

static void a_ready_root_is_started_again_from_its_image(void **state)
{
	struct root_plan p = {0};

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(root_plan_ready(&p), true);
		assert_int_equal(root_plan_ready(&p), false);
		assert_int_equal(root_plan_next(&p), 0);
	}
}

static void a_staged_image_that_reports_ready_becomes_the_good_one(void **state)
{
	struct root_plan p = {0};

	(void)state;
	root_plan_ready(&p);
	assert_int_equal(root_plan_free(&p), 1);
	p.staged = true;
	assert_int_equal(root_plan_next(&p), 1);
	assert_int_equal(root_plan_free(&p), ROOT_PLAN_NONE);
	root_plan_ready(&p);
	assert_int_equal(p.good, 1);
	assert_int_equal(root_plan_free(&p), 0);
	assert_int_equal(root_plan_next(&p), 1);
}

static void a_staged_image_is_tried_once_and_then_given_up(void **state)
{
	struct root_plan p = {0};

	(void)state;
	root_plan_ready(&p);
	p.staged = true;
	assert_int_equal(root_plan_next(&p), 1);
	assert_int_equal(root_plan_next(&p), 0);
	assert_int_equal(p.failures, 0);
	assert_int_equal(p.good, 0);
	assert_int_equal(root_plan_free(&p), 1);
}

static void a_good_image_that_keeps_failing_is_not_started_for_ever(void **state)
{
	struct root_plan p = {0};

	(void)state;
	root_plan_ready(&p);
	assert_int_equal(root_plan_next(&p), 0);
	for (unsigned i = 1; i < ROOT_PLAN_TRIES; i++)
		assert_int_equal(root_plan_next(&p), 0);
	assert_int_equal(root_plan_next(&p), ROOT_PLAN_NONE);
}

static void one_ready_root_clears_earlier_failures(void **state)
{
	struct root_plan p = {0};

	(void)state;
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 1; i < ROOT_PLAN_TRIES; i++)
			assert_int_equal(root_plan_next(&p), 0);
		root_plan_ready(&p);
		assert_int_equal(root_plan_next(&p), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_ready_root_is_started_again_from_its_image),
	        cmocka_unit_test(a_staged_image_that_reports_ready_becomes_the_good_one),
	        cmocka_unit_test(a_staged_image_is_tried_once_and_then_given_up),
	        cmocka_unit_test(a_good_image_that_keeps_failing_is_not_started_for_ever),
	        cmocka_unit_test(one_ready_root_clears_earlier_failures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
