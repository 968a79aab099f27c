/* SPDX-License-Identifier: BSD-2-Clause */
/* A VM's life under the daemon, with every way in which a step of it can fail. */
/* sources: keeld/vm.c keeld/vm_parts.c keeld/keeld.c keeld/record.c keeld/loop.c keeld/process.c */
/* sources: keeld/link.c keeld/log.c config/conf.c config/vmfile.c config/vmfile_json.c */
/* sources: config/vmfile_check.c lib/elf_host.c lib/cmdline.c */
/* libs: -lcjson */
#include "tests/unit/keeld/rig.h"

static struct vmfile_error error;

static struct vm *start(const char *name)
{
	struct vm *vm = vm_get(&keeld, name);

	done[VM_WISH_START].count = 0;
	if (!vm_start(vm, &error))
		fail_msg("%s", error.text);
	rig_until(done[VM_WISH_START].count == 1);
	if (done[VM_WISH_START].failed)
		fail_msg("%s", done[VM_WISH_START].error);
	assert_int_equal(vm->state, VM_RUNNING);
	return vm;
}

static void kill_vm(struct vm *vm)
{
	done[VM_WISH_KILL].count = 0;
	assert_true(vm_kill(vm, &error));
	rig_until(done[VM_WISH_KILL].count == 1);
	assert_false(done[VM_WISH_KILL].failed);
	assert_int_equal(vm->state, VM_OFF);
}

static void test_start_and_kill(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "net { bridge = br0 }\nnet { tap = mine }\nnet { bridge = br1 }\n");
	vm = start("a");
	assert_int_equal(vm->id, 1);
	assert_int_equal(rig.tap_count, 2);
	assert_string_equal(rig.taps[0], "keel1.0");
	assert_string_equal(rig.taps[1], "keel1.2");
	assert_true(rig_exists("var/lib/keel/vm/%s.conf", "a"));
	assert_false(rig_exists("var/lib/keel/vm/%s.making", "a"));
	assert_false(vm_start(vm, &error));
	assert_has(error.text, "a is running already");
	kill_vm(vm);
	assert_nothing_left();
	assert_false(vm_kill(vm, &error));
	assert_has(error.text, "a is off");
	assert_false(vm_stop(vm, 1, &error));
	/* And again, many times. */
	for (unsigned i = 0; i < 5; i++)
		kill_vm(start("a"));
	assert_nothing_left();
	assert_int_equal(rig.created, 6);
}

static void test_two(void **state)
{
	struct vm *a, *b;

	(void)state;
	rig_file("a", "net { bridge = br0 }\n");
	rig_file("b", "net { bridge = br0 }\n");
	a = start("a");
	b = start("b");
	assert_int_not_equal(a->id, b->id);
	assert_int_equal(rig.tap_count, 2);
	kill_vm(a);
	assert_int_equal(b->state, VM_RUNNING);
	assert_int_equal(rig.tap_count, 1);
	assert_string_equal(rig.taps[0], "keel2.0");
	kill_vm(b);
	assert_nothing_left();
}

static void test_stop(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "net { bridge = br0 }\n");
	vm = start("a");
	assert_true(vm_stop(vm, 60, &error));
	assert_string_equal(vm_state_name(vm), "stopping");
	rig_until(done[VM_WISH_STOP].count == 1);
	assert_false(done[VM_WISH_STOP].failed);
	assert_nothing_left();
}

static void test_stop_of_a_deaf_guest(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "");
	rig_write("fake", "button=no");
	vm = start("a");
	assert_true(vm_stop(vm, 0, &error));
	rig_until(done[VM_WISH_STOP].count == 1);
	assert_true(done[VM_WISH_STOP].failed);
	assert_has(done[VM_WISH_STOP].error, "a did not switch itself off in time and runs on");
	assert_int_equal(vm->state, VM_RUNNING);
	assert_string_equal(vm_state_name(vm), "running");
	/* It is asked again, and hears this time. */
	rig_write("fake", "button=0");
	assert_true(vm_stop(vm, 60, &error));
	rig_until(done[VM_WISH_STOP].count == 2);
	assert_false(done[VM_WISH_STOP].failed);
	assert_nothing_left();
}

/* One that still boots does not hear the first press. */
static void test_stop_while_booting(void **state)
{
	struct vm *vm;
	uint64_t first;

	(void)state;
	rig_file("a", "");
	rig_write("fake", "button=no");
	keeld.settings.press_again_ns = 5000000;
	vm = start("a");
	assert_true(vm_stop(vm, 60, &error));
	rig_until(vm->button.due_ns != 0);
	first = vm->button.due_ns;
	rig_until(vm->button.due_ns > first); /* pressed again, and to be once more */
	assert_int_equal(done[VM_WISH_STOP].count, 0);
	rig_write("fake", "button=0");
	rig_until(done[VM_WISH_STOP].count == 1);
	assert_false(done[VM_WISH_STOP].failed);
	assert_nothing_left();
}

static void test_button_refused(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "");
	rig_write("fake", "button=refuse");
	vm = start("a");
	assert_true(vm_stop(vm, 60, &error));
	rig_until(done[VM_WISH_STOP].count == 1);
	assert_has(done[VM_WISH_STOP].error, "its device process refuses: no button");
	assert_int_equal(vm->state, VM_RUNNING);
	kill_vm(vm);
}

/* The guest switches itself off, unasked. */
static void test_guest_off(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "");
	vm = start("a");
	assert_int_equal(link_ask(&vm->link, "powerbutton"), 0);
	rig_until(vm->state == VM_OFF);
	assert_nothing_left();
}

static void refused(const char *part)
{
	struct vm *vm = vm_get(&keeld, "a");

	if (vm_start(vm, &error))
		fail_msg("started, wanted: %s", part);
	assert_has(error.text, part);
	assert_nothing_left();
	assert_int_equal(done[VM_WISH_START].count, 0);
}

/* What is found before anything is made, and what fails at once. */
static void test_refused(void **state)
{
	(void)state;
	refused("there is no VM a; make one with 'keel vm create FILE'");
	rig_write("etc/keel/vm/a.conf", "name = a\nmemory = 64M\nkernel = /nonexistent\n");
	refused("a.conf:3: kernel /nonexistent: No such file or directory");
	rig_write("etc/keel/vm/a.conf", "name = a\nmemroy = 64M\n");
	refused("a.conf:2: unknown key 'memroy'");
	rig_write("etc/keel/vm/a.conf", "name = b\nmemory = 64M\nkernel = /k\n");
	refused("a.conf:1: the VM is named b, the file a.conf");
	rig_file("a", "disk { path = /nonexistent/d }\n");
	refused("a.conf:4: disk /nonexistent/d: No such file or directory");
	rig_file("a", "net { tap = other }\n");
	refused("a.conf:4: there is no tap other");
	rig_file("a", "");
	rig.pool_free = 65 << 20;
	refused("a.conf:2: the VM needs 66 MiB of the pool, which has 65 of 1024 MiB free");
	rig.pool_free = 1 << 30;
	rig.info_error = -EIO;
	refused("a.conf: hyp does not answer: Input/output error");
	rig.info_error = 0;
	rig.create_error = -ENOSPC;
	refused("a.conf:1: hyp cannot make the VM: it has as many VMs as it can");
	rig.create_error = -ENOMEM;
	refused("hyp cannot make the VM: it has not enough memory left");
	rig.create_error = -EIO;
	refused("hyp cannot make the VM: Input/output error");
	rig.create_error = 0;
	rig_file("a", "net { bridge = br0 }\nnet { bridge = br7 }\n");
	rig.tap_fail_at = 1;
	refused("a.conf:4: there is no bridge br0");
	rig.tap_fail_at = 3;
	refused("a.conf:5: there is no bridge br7");
	rig.tap_fail_at = 0;
	strcpy(keeld.settings.state, "/nonexistent/state");
	refused("a.conf: cannot write to /nonexistent/state: No such file or directory");
	settings_init(&keeld.settings, dir, self);
	strcpy(keeld.settings.log, "/nonexistent/log");
	refused("a: cannot start");
	settings_init(&keeld.settings, dir, self);
	assert_int_equal(rig.created, rig.destroyed);
	kill_vm(start("a"));
	assert_nothing_left();
}

/* A VM of the name that the daemon did not make. */
static void test_name_taken(void **state)
{
	(void)state;
	rig_file("a", "");
	rig_add_vm("a");
	assert_false(vm_start(vm_get(&keeld, "a"), &error));
	assert_has(error.text, "a.conf:1: hyp cannot make the VM: it has a VM of that name");
	assert_int_equal(rig.vms[1].head.vm, 1);
	rig.vms[1].head.vm = 0;
	assert_nothing_left();
}

/* What fails later is told to who waits, and everything is taken back. */
static void fails(const char *fake, const char *part)
{
	struct vm *vm = vm_get(&keeld, "a");

	rig_write("fake", fake);
	done[VM_WISH_START].count = 0;
	assert_true(vm_start(vm, &error));
	rig_until(done[VM_WISH_START].count == 1);
	if (!done[VM_WISH_START].failed)
		fail_msg("%s: it started", fake);
	assert_has(done[VM_WISH_START].error, part);
	assert_nothing_left();
	assert_has(vm->error, part);
}

static void test_failing_start(void **state)
{
	(void)state;
	rig_file("a", "net { bridge = br0 }\n");
	fails("format=1", "cannot format");
	fails("format=kill", "its device process ended without a word");
	fails("serve=1", "cannot serve");
	fails("serve=kill", "the device process was ended by signal 9");
	fails("serve=77", "the device process ended with 77: cannot serve");
	keeld.settings.start_limit_ns = 300000000;
	fails("serve=hang", "its device process did not answer within 0 s");
	fails("format=hang", "its device process did not answer within 0 s");
	keeld.settings.start_limit_ns = 20000000000;
	strcpy(keeld.settings.keelvm, "/nonexistent/keelvm");
	fails("", "cannot run /nonexistent/keelvm");
	strcpy(keeld.settings.keelvm, self);
	rig_write("fake", "");
	kill_vm(start("a"));
	assert_nothing_left();
}

static void test_kill_while_starting(void **state)
{
	struct vm *vm = vm_get(&keeld, "a");

	(void)state;
	rig_file("a", "net { bridge = br0 }\n");
	rig_write("fake", "format=hang");
	assert_true(vm_start(vm, &error));
	kill_vm(vm);
	assert_int_equal(done[VM_WISH_START].count, 1);
	assert_has(done[VM_WISH_START].error, "it was killed while it started");
	assert_nothing_left();
	rig_write("fake", "serve=hang");
	assert_true(vm_start(vm, &error));
	rig_until(vm->state == VM_STARTING);
	kill_vm(vm);
	assert_int_equal(done[VM_WISH_START].count, 2);
	assert_nothing_left();
}

/* The guest notices nothing: it is the same partition all the time. */
static void test_device_process_dies(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "net { bridge = br0 }\n");
	vm = start("a");
	for (unsigned i = 1; i <= 4; i++) {
		pid_t before = vm->process.pid;

		process_signal(&vm->process, i == 4 ? SIGSEGV : SIGKILL);
		rig_until(vm->restarts == i);
		assert_true(vm->state == VM_WAITING || vm->state == VM_STARTING);
		rig_until(vm->state == VM_RUNNING);
		assert_int_not_equal(vm->process.pid, before);
		assert_int_equal(vm->id, 1);
	}
	assert_int_equal(rig.created, 1);
	assert_int_equal(rig.destroyed, 0);
	kill_vm(vm);
	assert_nothing_left();
}

static void test_upgrade(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "");
	assert_false(vm_upgrade(vm_get(&keeld, "a"), &error));
	assert_has(error.text, "a is off; only a running VM's");
	vm = start("a");
	for (unsigned i = 0; i < 5; i++) {
		pid_t before = vm->process.pid;

		done[VM_WISH_START].count = 0;
		assert_true(vm_upgrade(vm, &error));
		rig_until(done[VM_WISH_START].count == 1);
		assert_false(done[VM_WISH_START].failed);
		assert_int_not_equal(vm->process.pid, before);
		/* The fifth as soon as the first: it was on purpose. */
		assert_int_equal(vm->failures, 1);
	}
	assert_int_equal(rig.created, 1);
	/* The new program does not work: who waits is told, and the VM is kept. */
	rig_write("fake", "serve=1");
	done[VM_WISH_START].count = 0;
	assert_true(vm_upgrade(vm, &error));
	rig_until(done[VM_WISH_START].count > 0);
	assert_has(done[VM_WISH_START].error, "cannot serve");
	rig_write("fake", "");
	rig_until(vm->state == VM_RUNNING);
	kill_vm(vm);
	assert_nothing_left();
}

/* One that cannot be started again is tried for ever, at growing pauses, and the VM is kept. */
static void test_backoff(void **state)
{
	uint64_t before, pauses[8];
	struct vm *vm;

	(void)state;
	rig_file("a", "");
	vm = start("a");
	rig_write("fake", "serve=1");
	process_signal(&vm->process, SIGKILL);
	for (unsigned i = 0; i < 8; i++) {
		rig_until(vm->state == VM_WAITING && vm->restarts == i + 1);
		before = loop_now_ns();
		pauses[i] = vm->retry.due_ns > before ? vm->retry.due_ns - before : 0;
		assert_string_equal(vm_state_name(vm), "reattaching");
	}
	assert_true(pauses[0] < 2000000);
	assert_true(pauses[7] <= 64000000 && pauses[7] > 32000000);
	assert_true(pauses[4] > pauses[2]);
	assert_has(vm->error, "cannot serve");
	assert_int_equal(rig.vms[1].head.vm, 1);
	/* A stop that is asked for now waits for it. */
	assert_true(vm_stop(vm, 60, &error));
	rig_write("fake", "");
	rig_until(done[VM_WISH_STOP].count == 1);
	assert_false(done[VM_WISH_STOP].failed);
	assert_nothing_left();
}

static void test_kill_while_waiting(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "");
	vm = start("a");
	rig_write("fake", "serve=1");
	process_signal(&vm->process, SIGKILL);
	rig_until(vm->state == VM_WAITING && vm->failures > 2);
	kill_vm(vm);
	assert_nothing_left();
}

static void test_dead(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "");
	rig_write("fake", "button=4");
	vm = start("a");
	assert_true(vm_stop(vm, 60, &error));
	rig_until(vm->state == VM_DEAD);
	assert_int_equal(done[VM_WISH_STOP].count, 1);
	assert_has(done[VM_WISH_STOP].error, "a vCPU cannot go on");
	assert_int_equal(rig.vms[1].head.vm, 1);
	assert_false(vm_start(vm, &error));
	assert_has(error.text, "a is dead already");
	assert_false(vm_stop(vm, 1, &error));
	assert_has(error.text, "has no guest to ask");
	kill_vm(vm);
	assert_nothing_left();
}

static void test_preserved(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "on_poweroff = preserve\n");
	vm = start("a");
	assert_false(rig_exists("%s", "restarted"));
	assert_true(vm_stop(vm, 60, &error));
	rig_until(vm->state == VM_PRESERVED);
	assert_int_equal(done[VM_WISH_STOP].count, 1);
	assert_false(done[VM_WISH_STOP].failed);
	assert_int_equal(rig.vms[1].head.vm, 1);
	vm = start("a");
	assert_true(rig_exists("%s", "restarted"));
	assert_int_equal(rig.created, 1);
	assert_true(vm_stop(vm, 60, &error));
	rig_until(vm->state == VM_PRESERVED);
	kill_vm(vm);
	assert_nothing_left();
}

/* hyp lets it go only when nobody holds the right to it. */
static void test_destroy_busy(void **state)
{
	struct vm *vm;
	char path[128];
	int fd;

	(void)state;
	rig_file("a", "");
	vm = start("a");
	keeld.settings.destroy_tries = 4;
	rig.destroy_error = -EBUSY;
	assert_true(vm_kill(vm, &error));
	rig_until(vm->tries == 2);
	rig.destroy_error = 0;
	rig_until(vm->state == VM_OFF);
	assert_nothing_left();

	vm = start("a");
	rig_write("fake", "serve=hang");
	process_signal(&vm->process, SIGKILL);
	rig_until(vm->process.pid == 0);
	/* Somebody starts one by hand, before ours. */
	snprintf(path, sizeof(path), "%s/right.1", dir);
	fd = open(path, O_RDWR);
	assert_true(take_right(fd));
	done[VM_WISH_KILL].count = 0;
	assert_true(vm_kill(vm, &error));
	rig_until(done[VM_WISH_KILL].count == 1);
	assert_has(done[VM_WISH_KILL].error, "hyp does not free VM 1: Device or resource busy");
	assert_int_equal(vm->state, VM_BROKEN);
	close(fd);
	kill_vm(vm);
	assert_nothing_left();
}

/* A device process started by hand on a VM that has one is refused by the right to the VM. */
static void test_second_device_process(void **state)
{
	char text[64], number[8] = "1";
	char *argv[] = {self, "--vm", number, "--run-dir", dir, NULL};
	struct process second = {.loop = &keeld.loop};
	struct vm *vm;
	int fds[2];

	(void)state;
	rig_file("a", "");
	vm = start("a");
	assert_int_equal(pipe(fds), 0);
	second.ended = NULL;
	assert_int_equal(process_start(&second, argv, fds[0], fds[1]), 0);
	assert_true(read(fds[0], text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "it has a device process already"));
	waitpid(second.pid, NULL, 0);
	process_release(&second);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(vm->state, VM_RUNNING);
	kill_vm(vm);
	assert_nothing_left();
}

/* ---- a new daemon ---- */

static void restart_daemon(void)
{
	rig_daemon_end();
	rig_daemon();
	assert_int_equal(keeld_begin(&keeld), 0);
}

static void test_new_daemon_finds_process(void **state)
{
	struct vm *vm;
	pid_t pid;

	(void)state;
	rig_file("a", "net { bridge = br0 }\non_poweroff = preserve\n");
	vm = start("a");
	pid = vm->process.pid;
	/* What the VM was made of counts, not what its file says by now. */
	rig_file("a", "");
	restart_daemon();
	vm = vm_find(&keeld, "a");
	assert_non_null(vm);
	rig_until(vm->state == VM_RUNNING);
	assert_int_equal(vm->process.pid, pid);
	assert_int_equal(vm->file.on_poweroff, DEFINITION_PRESERVE);
	assert_int_equal(vm->file.net_count, 1);
	/* It is not our child: how it ends we do not learn, but that it does. */
	kill(pid, SIGKILL);
	rig_until(vm->restarts == 1 && vm->state == VM_RUNNING);
	assert_int_not_equal(vm->process.pid, pid);
	kill_vm(vm);
	waitpid(pid, NULL, 0);
	assert_nothing_left();
}

static void test_new_daemon_starts_process(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "net { bridge = br0 }\n");
	vm = start("a");
	process_signal(&vm->process, SIGKILL);
	waitpid(vm->process.pid, NULL, 0);
	/* A root that was started anew has no taps. */
	rig.tap_count = 0;
	restart_daemon();
	vm = vm_find(&keeld, "a");
	rig_until(vm->state == VM_RUNNING);
	assert_int_equal(vm->id, 1);
	assert_int_equal(rig.tap_count, 1);
	assert_int_equal(rig.created, 1);
	kill_vm(vm);
	assert_nothing_left();
}

/* Its guest went off while no daemon was there. */
static void test_new_daemon_finds_guest_off(void **state)
{
	struct vm *vm;

	(void)state;
	rig_file("a", "net { bridge = br0 }\n");
	vm = start("a");
	process_signal(&vm->process, SIGKILL);
	waitpid(vm->process.pid, NULL, 0);
	rig_write("fake", "serve=0");
	restart_daemon();
	vm = vm_find(&keeld, "a");
	rig_until(vm->state == VM_OFF);
	assert_nothing_left();
}

static void test_new_daemon_removes_half_made(void **state)
{
	struct vm *vm = vm_get(&keeld, "a");
	pid_t pid;

	(void)state;
	rig_file("a", "net { bridge = br0 }\n");
	rig_write("fake", "format=hang");
	assert_true(vm_start(vm, &error));
	pid = vm->process.pid;
	assert_true(rig_exists("var/lib/keel/vm/%s.making", "a"));
	/* The formatter is still there when the new daemon begins. */
	rig_until(rig_is_served(vm->id));
	rig_daemon_end();
	rig_daemon();
	assert_int_equal(keeld_begin(&keeld), 0);
	vm = vm_find(&keeld, "a");
	rig_until(vm->tries > 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	rig_until(vm->state == VM_OFF);
	assert_nothing_left();
	assert_int_equal(rig.destroyed, 1);
}

static void test_new_daemon_drops_old_records(void **state)
{
	(void)state;
	rig_write("var/lib/keel/vm/gone.conf", "name = gone\n");
	rig_write("var/lib/keel/vm/half.making", "name = half\n");
	rig_write("var/lib/keel/vm/other", "not a record");
	restart_daemon();
	assert_false(rig_exists("var/lib/keel/vm/%s", "gone.conf"));
	assert_false(rig_exists("var/lib/keel/vm/%s", "half.making"));
	assert_true(rig_exists("var/lib/keel/vm/%s", "other"));
}

static void test_autostart(void **state)
{
	(void)state;
	rig_file("a", "autostart = yes\n");
	rig_file("b", "autostart = yes\nnet { tap = none }\n");
	rig_file("c", "");
	rig_write("etc/keel/vm/d.conf", "rubbish");
	restart_daemon();
	rig_until(vm_find(&keeld, "a")->state == VM_RUNNING);
	assert_int_equal(vm_find(&keeld, "b")->state, VM_OFF);
	assert_null(vm_find(&keeld, "c"));
	kill_vm(vm_find(&keeld, "a"));
	assert_nothing_left();
}

/* A VM that hyp had under a name that no file has, and that goes away by somebody else's hand. */
static void test_foreign_vm(void **state)
{
	struct vm *vm;

	(void)state;
	rig_add_vm("stranger");
	rig_add_vm("no/name");
	restart_daemon();
	vm = vm_find(&keeld, "stranger");
	rig_until(vm->state == VM_RUNNING);
	assert_null(vm_find(&keeld, "no/name"));
	rig.vms[1].head.vm = 0;
	process_signal(&vm->process, SIGKILL);
	rig_until(vm->state == VM_OFF);
	rig.vms[2].head.vm = 0;
	assert_nothing_left();
}

/* What lies where the control socket would be and is no socket is somebody else's (C-57). */
static void test_foreign_file(void **state)
{
	struct vm *vm = vm_get(&keeld, "a");

	(void)state;
	rig_file("a", "");
	rig_write("run/keel/vm/a.sock", "precious");
	rig_write("fake", "serve=1");
	assert_true(vm_start(vm, &error));
	rig_until(vm->state == VM_OFF);
	assert_true(rig_exists("run/keel/vm/%s.sock", "a"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        TEST(test_start_and_kill),
	        TEST(test_two),
	        TEST(test_stop),
	        TEST(test_stop_of_a_deaf_guest),
	        TEST(test_stop_while_booting),
	        TEST(test_button_refused),
	        TEST(test_guest_off),
	        TEST(test_refused),
	        TEST(test_name_taken),
	        TEST(test_failing_start),
	        TEST(test_kill_while_starting),
	        TEST(test_device_process_dies),
	        TEST(test_upgrade),
	        TEST(test_backoff),
	        TEST(test_kill_while_waiting),
	        TEST(test_dead),
	        TEST(test_preserved),
	        TEST(test_destroy_busy),
	        TEST(test_second_device_process),
	        TEST(test_new_daemon_finds_process),
	        TEST(test_new_daemon_starts_process),
	        TEST(test_new_daemon_finds_guest_off),
	        TEST(test_new_daemon_removes_half_made),
	        TEST(test_new_daemon_drops_old_records),
	        TEST(test_autostart),
	        TEST(test_foreign_vm),
	        TEST(test_foreign_file),
	};

	RIG_MAIN(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
