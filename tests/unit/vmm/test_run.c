/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows that the loop ends for each of its reasons with the right code, also under a guest that
 * exits without end. */
/* sources: vmm/boot_elf.c lib/elf_host.c vmm/testdev.c vmm/firmware.c vmm/fw_cfg.c vmm/flash.c */
/* sources: vmm/run.c vmm/machine.c vmm/control.c vmm/hv.c vmm/definition.c vmm/boot.c */
/* sources: vmm/boot_linux.c vmm/acpi.c vmm/aml.c vmm/pm.c vmm/virtio_pci.c vmm/virtio_common.c */
/* sources: vmm/msix.c vmm/pci.c vmm/gmem.c vmm/vault.c vmm/crc32c.c vmm/log.c */
/* sources: tests/unit/vmm/hv_fake.c */
/* libs: -lcjson */
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/vmm/machine_rig.h"
#include "hw/acpi.h"
#include "vmm/acpi.h"
#include "vmm/layout.h"
#include "vmm/run.h"

static struct control control;
static char path[108];

static int set_up(void **state)
{
	struct linux_setup_header header = bzimage_header(KERNEL_BYTES);
	sigset_t set;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	strcpy(kernel, "/tmp/keel-run-XXXXXX");
	bzimage_write(kernel, &header, KERNEL_BYTES + 2048);
	snprintf(path, sizeof(path), "%s.sock", kernel);
	new_vm();
	assert_int_equal(start(), MACHINE_GO_ON);
	assert_int_equal(control_open(&control, machine, path, error, sizeof(error)), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(control.listener);
	kill_process();
	hv_fake_free(fake);
	unlink(kernel);
	unlink(path);
	return 0;
}

static const uint64_t off = ACPI_S5_SLEEP_TYPE << 10 | ACPI_PM1_CONTROL_SLP_EN;

static void test_what_an_attach_finds_is_served_first(void **state)
{
	(void)state;
	hv_fake_exit(fake, 0, KEEL_EXIT_PIO_WRITE, LAYOUT_PM1A_CONTROL, 2, off);
	hv_exit_rescan(&fake->hv);
	assert_int_equal(run_loop(machine, &control), RUN_EXIT_OFF);
	assert_int_equal(machine->state.boot_state, MACHINE_STOPPED);
}

static void test_dead(void **state)
{
	(void)state;
	fake->hv.shared->events = KEEL_EVENT_DEAD;
	assert_int_equal(run_loop(machine, &control), RUN_EXIT_DEAD);
}

static void test_signal(void **state)
{
	(void)state;
	kill(getpid(), SIGTERM);
	assert_int_equal(run_loop(machine, &control), RUN_EXIT_DETACHED);
	assert_int_equal(fake->state, KEEL_VM_STATE_RUNNING);
	assert_int_equal(machine->state.boot_state, MACHINE_BOOTED);
}

static void test_signal_under_endless_exits(void **state)
{
	(void)state;
	fake->again = UINT64_MAX;
	hv_fake_exit(fake, 0, KEEL_EXIT_PIO_READ, 0x1234, 1, 0);
	kill(getpid(), SIGTERM);
	assert_int_equal(run_loop(machine, &control), RUN_EXIT_DETACHED);
	assert_true(fake->completes > 0);
}

static void test_many_exits_are_all_answered(void **state)
{
	(void)state;
	/* Only the first is told of; at the end the vCPU asks for power-off. */
	fake->again = 5000;
	hv_fake_exit(fake, 0, KEEL_EXIT_PIO_READ, 0x1234, 1, 0);
	kill(getpid(), SIGTERM);
	while (fake->again > 0) {
		unsigned before = fake->completes;

		assert_int_equal(run_loop(machine, &control), RUN_EXIT_DETACHED);
		assert_true(fake->completes > before);
		kill(getpid(), SIGTERM);
	}
	assert_int_equal(run_loop(machine, &control), RUN_EXIT_DETACHED);
	assert_int_equal(fake->completes, 5001);
	hv_fake_exit(fake, 0, KEEL_EXIT_PIO_WRITE, LAYOUT_PM1A_CONTROL, 2, off);
	assert_int_equal(run_loop(machine, &control), RUN_EXIT_OFF);
}

/* A client on a thread of its own: says one thing, keeps what comes back. */
static char reply[1024];

static void *talk(void *request)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ssize_t got;

	strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return NULL;
	if (write(fd, request, strlen(request)) < 0)
		return NULL;
	got = read(fd, reply, sizeof(reply) - 1);
	reply[got > 0 ? got : 0] = '\0';
	close(fd);
	return NULL;
}

static void test_control(void **state)
{
	static const struct {
		char text[80];
		int result;
	} cases[] = {
	        {"{\"cmd\":\"status\"}\n{\"cmd\":\"quit\"}\n", RUN_EXIT_DETACHED},
	        {"{\"cmd\":\"poweroff\"}\n", RUN_EXIT_OFF},
	};
	pthread_t thread;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		char text[80];

		strcpy(text, cases[i].text);
		assert_int_equal(pthread_create(&thread, NULL, talk, text), 0);
		assert_int_equal(run_loop(machine, &control), cases[i].result);
		pthread_join(thread, NULL);
		assert_non_null(strstr(reply, "\"ok\":true"));
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(test_what_an_attach_finds_is_served_first),
	        TEST(test_dead),
	        TEST(test_signal),
	        TEST(test_signal_under_endless_exits),
	        TEST(test_many_exits_are_all_answered),
	        TEST(test_control),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
