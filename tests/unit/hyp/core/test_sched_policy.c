/* SPDX-License-Identifier: BSD-2-Clause */
/* Shares of CPU time that the policy gives: one CPU simulated over many slices. */
/* sources: hyp/core/sched_policy.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/core/sched_policy.h"

#define US    1000ull /* ticks */
#define SLICE (SCHED_SLICE_US * US)
#define FLOOR (SCHED_FLOOR_US * US)
#define MAX   8

/* Who competes: index 0 is root. All CPU-bound unless asleep. */
struct actor {
	uint64_t vruntime, ran;
	uint32_t weight;
	bool asleep;
};

struct sim {
	struct actor a[MAX];
	unsigned count; /* with root */
	uint64_t now;
	bool interrupt;
};

static unsigned first_vm(const struct sim *s, unsigned not )
{
	unsigned best = 0;

	for (unsigned i = 1; i < s->count; i++)
		if (i != not &&!s->a[i].asleep &&
		        (best == 0 || sched_is_before(s->a[i].vruntime, s->a[best].vruntime)))
			best = i;
	return best;
}

/* One turn of the CPU: picks, runs at most until limit ticks, charges. Returns who ran, MAX if
 * nobody. */
static unsigned turn(struct sim *s, uint64_t limit)
{
	unsigned vm = first_vm(s, MAX), who, other;
	struct sched_view view = {.root_wants = !s->a[0].asleep,
	        .root_interrupt = s->interrupt,
	        .vm_waits = vm != 0,
	        .root_vruntime = s->a[0].vruntime,
	        .vm_vruntime = s->a[vm].vruntime};
	uint64_t least = 0, ticks;
	bool others = false;

	switch (sched_policy_pick(&view)) {
	case SCHED_NOBODY: return MAX;
	case SCHED_ROOT: who = 0; break;
	default: who = vm; break;
	}
	other = first_vm(s, who);
	if (other != 0) {
		others = true;
		least = s->a[other].vruntime;
	}
	if (who != 0 && !s->a[0].asleep) {
		least = others && sched_is_before(least, s->a[0].vruntime) ? least
		                                                           : s->a[0].vruntime;
		others = true;
	}
	ticks = sched_policy_slice(s->a[who].vruntime, others, least, SLICE, FLOOR);
	if (ticks > limit)
		ticks = limit;
	s->a[who].vruntime += sched_policy_charge(ticks, s->a[who].weight);
	s->a[who].ran += ticks;
	s->now += ticks;
	return who;
}

static struct sim make(unsigned count)
{
	struct sim s = {.count = count};

	for (unsigned i = 0; i < count; i++)
		s.a[i].weight = i == 0 ? SCHED_ROOT_WEIGHT : SCHED_WEIGHT_UNIT;
	return s;
}

static void run(struct sim *s, uint64_t until)
{
	while (s->now < until)
		assert_int_not_equal(turn(s, SLICE), MAX);
}

static void assert_share(const struct sim *s, unsigned who, double share)
{
	double got = (double)s->a[who].ran / (double)s->now;

	if (got < share - 0.02 || got > share + 0.02)
		fail_msg("actor %u has %.3f of the time, not %.3f", who, got, share);
}

static void nobody_wants(void **state)
{
	struct sim s = make(3);

	(void)state;
	s.a[0].asleep = s.a[1].asleep = s.a[2].asleep = true;
	assert_int_equal(turn(&s, SLICE), MAX);
}

static void alone_runs_without_end(void **state)
{
	(void)state;
	assert_int_equal(sched_policy_slice(5, false, 0, SLICE, FLOOR), UINT64_MAX);
}

/* Who has spun enough has no slice left, unless nobody else wants the CPU. */
static void spinner_makes_way(void **state)
{
	(void)state;
	assert_int_equal(sched_policy_slice(5, true, 5, 0, 0), 0);
	assert_int_equal(sched_policy_slice(5 + SLICE, true, 5, 0, 0), 0);
	assert_int_equal(sched_policy_slice(5, false, 0, 0, 0), UINT64_MAX);
}

/* Scattered PAUSEs, as of a lock that is taken at once, are no spin; nor is one fewer than many. */
static void spin_is_many_in_a_row(void **state)
{
	const uint64_t gap = SCHED_SPIN_GAP_US * US;
	struct sched_spins spins = {0};
	uint64_t now = 1000 * gap;

	(void)state;
	for (unsigned i = 0; i < 100 * SCHED_SPINS; i++) {
		sched_policy_spin(&spins, now += gap + 1, gap);
		assert_false(sched_has_spun(&spins));
	}
	spins.count = 0; /* a new slice */
	for (unsigned i = 1; i < SCHED_SPINS; i++)
		sched_policy_spin(&spins, now += gap, gap);
	assert_false(sched_has_spun(&spins));
	sched_policy_spin(&spins, now += gap, gap);
	assert_true(sched_has_spun(&spins));
}

/* It goes behind who waits, and pays for what it used once, not twice. */
static void spinner_goes_behind(void **state)
{
	(void)state;
	assert_int_equal(sched_policy_make_way(5, 4 + SLICE, SLICE), 4 + SLICE);
	assert_int_equal(sched_policy_make_way(5, 5 + 100 * SLICE, SLICE), 5 + SLICE);
	assert_int_equal(sched_policy_make_way(5 + SLICE, 5, SLICE), 5 + SLICE);
	assert_int_equal(sched_policy_make_way(UINT64_MAX - 5, 5, SLICE), 5);
}

static void shares_follow_weights(void **state)
{
	struct sim s = make(4);

	(void)state;
	s.a[0].asleep = true;
	s.a[1].weight = 100;
	s.a[2].weight = 200;
	s.a[3].weight = 700;
	run(&s, 4000 * SLICE);
	assert_share(&s, 1, 0.1);
	assert_share(&s, 2, 0.2);
	assert_share(&s, 3, 0.7);
}

static void busy_root_counts_as_its_weight(void **state)
{
	struct sim s = make(3);

	(void)state;
	run(&s, 4000 * SLICE);
	assert_share(&s, 0, 0.5);
	assert_share(&s, 1, 0.25);
	assert_share(&s, 2, 0.25);
}

static void root_goes_in_front_for_an_interrupt(void **state)
{
	struct sim s = make(3);

	(void)state;
	s.a[0].vruntime = 100 * SLICE; /* has had far more than its share */
	assert_int_not_equal(turn(&s, SLICE), 0);
	s.interrupt = true;
	assert_int_equal(turn(&s, SLICE), 0);
	/* But only for a moment. */
	assert_int_equal(s.a[0].ran, FLOOR);
	s.a[0].asleep =
	        true; /* an interrupt that root does not want (IF 0 in HLT) puts nobody in front */
	assert_int_not_equal(turn(&s, SLICE), 0);
}

/* An interrupt every 4 ms for a root that computes besides: it gets no more than its share. */
static void interrupts_do_not_buy_time(void **state)
{
	struct sim s = make(3);
	uint64_t next = 0;

	(void)state;
	while (s.now < 20000 * SLICE) {
		s.interrupt = s.now >= next;
		if (s.interrupt)
			next = s.now + 4000 * US;
		turn(&s, s.interrupt ? SLICE : next - s.now);
	}
	assert_share(&s, 0, 0.5);
	assert_share(&s, 1, 0.25);
}

static void sleeper_does_not_hoard(void **state)
{
	struct sim s = make(3);
	uint64_t before;

	(void)state;
	s.a[0].asleep = s.a[2].asleep = true;
	run(&s, 1000 * SLICE);
	s.a[2].asleep = false;
	s.a[2].vruntime = sched_policy_wake(s.a[2].vruntime, s.a[1].vruntime, SLICE);
	assert_int_equal(s.a[1].vruntime - s.a[2].vruntime, SLICE);
	assert_int_equal(turn(&s, SLICE), 2); /* at once */
	before = s.now;
	s.a[1].ran = s.a[2].ran = 0;
	run(&s, before + 100 * SLICE);
	assert_true(s.a[2].ran < s.a[1].ran + 3 * SLICE);
	/* Who slept for a moment only keeps what it has. */
	assert_int_equal(sched_policy_wake(90, 100, SLICE), 90);
	assert_int_equal(sched_policy_wake(200, 100, SLICE), 200);
}

static void woken_one_takes_over_from_one_far_ahead(void **state)
{
	(void)state;
	assert_int_equal(sched_policy_slice(10 * SLICE, true, 9 * SLICE, SLICE, FLOOR), FLOOR);
	assert_int_equal(sched_policy_slice(10 * SLICE, true, 10 * SLICE, SLICE, FLOOR), SLICE);
}

static void virtual_time_may_wrap(void **state)
{
	struct sim s = make(3);

	(void)state;
	s.a[0].asleep = true;
	s.a[1].vruntime = s.a[2].vruntime = UINT64_MAX - 3 * SLICE;
	run(&s, 1000 * SLICE);
	assert_share(&s, 1, 0.5);
	assert_share(&s, 2, 0.5);
	assert_int_equal(sched_policy_wake(0, SLICE / 2, SLICE), 0);
}

static void charge_is_by_weight(void **state)
{
	(void)state;
	assert_int_equal(sched_policy_charge(1000, 100), 1000);
	assert_int_equal(sched_policy_charge(1000, 10000), 10);
	assert_int_equal(sched_policy_charge(1000, 1), 100000);
	assert_int_equal(sched_policy_charge(1000, 0), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(nobody_wants),
	        cmocka_unit_test(alone_runs_without_end),
	        cmocka_unit_test(spinner_makes_way),
	        cmocka_unit_test(spin_is_many_in_a_row),
	        cmocka_unit_test(spinner_goes_behind),
	        cmocka_unit_test(shares_follow_weights),
	        cmocka_unit_test(busy_root_counts_as_its_weight),
	        cmocka_unit_test(root_goes_in_front_for_an_interrupt),
	        cmocka_unit_test(interrupts_do_not_buy_time),
	        cmocka_unit_test(sleeper_does_not_hoard),
	        cmocka_unit_test(woken_one_takes_over_from_one_far_ahead),
	        cmocka_unit_test(virtual_time_may_wrap),
	        cmocka_unit_test(charge_is_by_weight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
