/* SPDX-License-Identifier: BSD-2-Clause */
/* Sources and timers: each in its turn, also when a handler takes others away. */
/* sources: keeld/loop.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "keeld/loop.h"

static struct loop loop;
static char order[64];
static struct loop_timer timers[3];
static struct loop_source sources[2];

static void note(char c)
{
	size_t used = strlen(order);

	if (used + 1 < sizeof(order))
		order[used] = c;
}

static void fire(struct loop_timer *timer)
{
	note((char)('a' + (timer - timers)));
}

/* Also takes the third away. */
static void fire_and_clear(struct loop_timer *timer)
{
	fire(timer);
	loop_timer_clear(&loop, &timers[2]);
}

static void ready(struct loop_source *source, uint32_t events)
{
	(void)events;
	note((char)('0' + (source - sources)));
}

/* Also takes the other away. */
static void ready_and_remove(struct loop_source *source, uint32_t events)
{
	ready(source, events);
	loop_remove(&loop, &sources[source == &sources[0]]);
}

static int set_up(void **state)
{
	(void)state;
	memset(order, 0, sizeof(order));
	for (unsigned i = 0; i < 3; i++)
		timers[i] = (struct loop_timer){.fire = fire};
	for (unsigned i = 0; i < 2; i++)
		sources[i] = (struct loop_source){.fd = eventfd(1, 0), .ready = ready};
	return loop_open(&loop);
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		close(sources[i].fd);
	loop_close(&loop);
	return 0;
}

static void step(unsigned count)
{
	while (count-- > 0)
		loop_step(&loop, 100);
}

static void test_timers_in_order(void **state)
{
	uint64_t begun = loop_now_ns();

	(void)state;
	loop_timer_set(&loop, &timers[0], 3000000);
	loop_timer_set(&loop, &timers[1], 1000000);
	loop_timer_set(&loop, &timers[2], 2000000);
	/* Set again: moved. */
	loop_timer_set(&loop, &timers[1], 4000000);
	while (strlen(order) < 3)
		step(1);
	assert_string_equal(order, "cab");
	assert_true(loop_now_ns() - begun >= 4000000);
	assert_null(loop.timers);
	step(1);
	assert_string_equal(order, "cab");
}

static void test_timer_takes_another_away(void **state)
{
	(void)state;
	timers[1].fire = fire_and_clear;
	loop_timer_set(&loop, &timers[1], 0);
	loop_timer_set(&loop, &timers[2], 0);
	step(3);
	assert_string_equal(order, "b");
	/* One that is not set can be cleared. */
	loop_timer_clear(&loop, &timers[0]);
}

static void test_source_takes_another_away(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		sources[i].ready = ready_and_remove;
		assert_int_equal(loop_add(&loop, &sources[i]), 0);
	}
	step(3);
	assert_true(strcmp(order, "000") == 0 || strcmp(order, "111") == 0);
}

/* A source that always has something does not keep timers from firing. */
static void test_busy_source(void **state)
{
	(void)state;
	assert_int_equal(loop_add(&loop, &sources[0]), 0);
	loop_timer_set(&loop, &timers[0], 0);
	loop_timer_set(&loop, &timers[1], 0);
	step(5);
	assert_string_equal(order, "0a0b0");
}

static void test_limit(void **state)
{
	uint64_t begun = loop_now_ns();

	(void)state;
	loop_timer_set(&loop, &timers[0], 3600000000000ull);
	loop_step(&loop, 5);
	assert_true(loop_now_ns() - begun < 60000000000ull);
	assert_string_equal(order, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_timers_in_order, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_timer_takes_another_away, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_source_takes_another_away, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_busy_source, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_limit, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
