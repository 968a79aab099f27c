/* SPDX-License-Identifier: BSD-2-Clause */
/* Root is reported ready when its VMs are served again, and beats then until the daemon is told to
 * end. */
/* sources: keeld/vm.c keeld/vm_parts.c keeld/keeld.c keeld/record.c keeld/loop.c keeld/process.c */
/* sources: keeld/link.c keeld/log.c keeld/root.c config/conf.c config/vmfile.c */
/* sources: config/vmfile_json.c config/vmfile_check.c lib/elf_host.c lib/cmdline.c */
/* libs: -lcjson */
#include "tests/unit/keeld/rig.h"

#include "keeld/root.h"

static void test_ready_and_beats(void **state)
{
	(void)state;
	root_begin(&keeld, 30);
	assert_int_equal(rig.readies, 0);
	rig_until(rig.readies == 1 && rig.beats > 3);
	assert_int_equal(rig.readies, 1);
	assert_int_equal(rig.beat_ms, 30);
	root_end(&keeld);
	assert_int_equal(rig.beat_ms, 0);
	assert_null(keeld.loop.timers);
}

static void test_no_beats(void **state)
{
	(void)state;
	root_begin(&keeld, 0);
	rig_until(rig.readies == 1);
	assert_null(keeld.loop.timers);
	root_end(&keeld);
	assert_int_equal(rig.beats, 0);
}

/* A VM that hyp kept is first served again. */
static void test_not_before_vms_are_served(void **state)
{
	uint64_t begun;
	struct vm *vm;

	(void)state;
	rig_add_vm("a");
	rig_write("fake", "serve=1");
	assert_int_equal(keeld_begin(&keeld), 0);
	vm = vm_find(&keeld, "a");
	root_begin(&keeld, 30);
	begun = loop_now_ns();
	rig_until(vm->restarts > 2 && loop_now_ns() - begun > 250000000);
	assert_int_equal(rig.readies, 0);
	/* The root may have been ready under an earlier daemon, and hyp waits for its beat. */
	assert_true(rig.beats > 0);
	rig_write("fake", "");
	rig_until(rig.readies == 1);
	assert_int_equal(vm->state, VM_RUNNING);
	root_end(&keeld);
	process_signal(&vm->process, SIGKILL);
}

/* A hyp that does not take it is no reason to end. */
static void test_refused(void **state)
{
	(void)state;
	rig.root_error = -ENOSYS;
	root_begin(&keeld, 30);
	rig_until(rig.readies == 1);
	root_end(&keeld);
	assert_int_equal(rig.beats, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        TEST(test_ready_and_beats),
	        TEST(test_no_beats),
	        TEST(test_not_before_vms_are_served),
	        TEST(test_refused),
	};

	RIG_MAIN(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
