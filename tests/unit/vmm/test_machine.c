/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows a VM's life with processes that die at the worst moments: boot, exits, resets, power-off,
 * attach; and the control socket. */
/* sources: vmm/boot_elf.c lib/elf_host.c vmm/testdev.c vmm/firmware.c vmm/fw_cfg.c vmm/flash.c */
/* sources: vmm/machine.c vmm/control.c vmm/hv.c vmm/definition.c vmm/boot.c vmm/boot_linux.c */
/* sources: vmm/acpi.c vmm/aml.c vmm/pm.c vmm/virtio_pci.c vmm/virtio_common.c vmm/msix.c */
/* sources: vmm/pci.c vmm/gmem.c vmm/vault.c vmm/crc32c.c vmm/log.c tests/unit/vmm/hv_fake.c */
/* libs: -lcjson */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

#include "hw/acpi.h"
#include "tests/unit/vmm/machine_rig.h"
#include "vmm/acpi.h"
#include "vmm/control.h"
#include "vmm/layout.h"

static int set_up(void **state)
{
	struct linux_setup_header header = bzimage_header(KERNEL_BYTES);

	(void)state;
	strcpy(kernel, "/tmp/keel-machine-XXXXXX");
	bzimage_write(kernel, &header, KERNEL_BYTES + 2048);
	reboot_policy = "restart";
	off_policy = "destroy";
	refuse_devices = false;
	new_vm();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kill_process();
	hv_fake_free(fake);
	unlink(kernel);
	return 0;
}

static enum machine_next answer(
        unsigned vcpu, uint32_t kind, uint64_t address, uint32_t size, uint64_t data)
{
	struct hv_exit exit;

	hv_fake_exit(fake, vcpu, kind, address, size, data);
	assert_true(hv_exit_next(&fake->hv, &exit));
	return machine_answer(machine, &exit);
}

static uint64_t in(uint64_t port, uint32_t size)
{
	assert_int_equal(answer(1, KEEL_EXIT_PIO_READ, port, size, 0), MACHINE_GO_ON);
	return fake->completed[1];
}

static void out(uint64_t port, uint32_t size, uint64_t value)
{
	assert_int_equal(answer(0, KEEL_EXIT_PIO_WRITE, port, size, value), MACHINE_GO_ON);
}

static uint64_t mmio(uint64_t address, uint32_t size)
{
	assert_int_equal(answer(1, KEEL_EXIT_MMIO_READ, address, size, 0), MACHINE_GO_ON);
	return fake->completed[1];
}

static void set_mmio(uint64_t address, uint32_t size, uint64_t value)
{
	assert_int_equal(answer(0, KEEL_EXIT_MMIO_WRITE, address, size, value), MACHINE_GO_ON);
}

/* The driver of the device in a slot brings queue 0 up. */
static void drive(unsigned slot)
{
	uint64_t bar = LAYOUT_PCI32 + (slot - 1) * 0x10000;

	assert_int_equal(mmio(bar + 0x12, 2), 1);
	set_mmio(bar + 0x14, 1, 3);
	set_mmio(bar + 0x08, 4, 1);
	set_mmio(bar + 0x0c, 4, 1);
	set_mmio(bar + 0x14, 1, 0xb);
	set_mmio(bar + 0x20, 4, 0x100000 * slot);
	set_mmio(bar + 0x28, 4, 0x100000 * slot + 0x1000);
	set_mmio(bar + 0x30, 4, 0x100000 * slot + 0x2000);
	set_mmio(bar + 0x1c, 2, 1);
	set_mmio(bar + 0x14, 1, 0xf);
	assert_int_equal(mmio(bar + 0x14, 1), 0xf);
}

static void test_first_boot(void **state)
{
	(void)state;
	assert_int_equal(start(), MACHINE_GO_ON);
	assert_int_equal(fake->state, KEEL_VM_STATE_RUNNING);
	assert_true(fake->vcpu0_set);
	assert_int_equal(fake->vcpu0.rip, 0x1000200);
	assert_int_equal(machine->state.boot_state, MACHINE_BOOTED);
	assert_int_equal(machine->device_count, 4);
	/* In order: disks, net, rng; a doorbell each; and the bridge in front. */
	static const uint32_t ids[] = {
	        0x00081b36, 0x10421af4, 0x10421af4, 0x10411af4, 0x10441af4, 0xffffffff};

	for (unsigned slot = 0; slot < 6; slot++) {
		out(0xcf8, 4, 0x80000000u | slot << 11);
		assert_int_equal(in(0xcfc, 4) & 0xffffffff, ids[slot]);
		assert_int_equal(mmio(LAYOUT_ECAM + (slot << 15), 4) & 0xffffffff, ids[slot]);
		if (slot >= 1 && slot <= 4)
			assert_int_equal(hv_fake_find(fake, LAYOUT_PCI32 + (slot - 1) * 0x10000 +
			                                            VIRTIO_PCI_NOTIFY_AT),
			        slot - 1);
	}
}

static void test_unclaimed_accesses(void **state)
{
	(void)state;
	start();
	assert_int_equal(in(0x1234, 1), UINT64_MAX);
	assert_int_equal(mmio(0xfedc0000, 8), UINT64_MAX);
	out(0x80, 1, 5);
	set_mmio(1ull << 45, 8, 5);
	assert_int_equal(machine->stats.unclaimed, 4);
	assert_int_equal(machine->stats.exits[KEEL_EXIT_PIO_READ], 1);
}

static void test_malformed_slots(void **state)
{
	static const struct {
		uint32_t kind, size;
		uint64_t address;
	} bad[] = {{0, 4, 0}, {5, 4, 0}, {KEEL_EXIT_PIO_READ, 8, 0}, {KEEL_EXIT_PIO_READ, 3, 0},
	        {KEEL_EXIT_MMIO_READ, 16, 0}, {KEEL_EXIT_PIO_WRITE, 1, 0x10000},
	        {KEEL_EXIT_MMIO_READ, 8, UINT64_MAX}};
	struct hv_exit exit;

	(void)state;
	start();
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		hv_fake_exit(fake, 0, bad[i].kind, bad[i].address, bad[i].size, 0);
		assert_false(hv_exit_next(&fake->hv, &exit));
		assert_int_equal(fake->hv.shared->slots[0].state, KEEL_SLOT_IDLE);
	}
	/* A bit of a vCPU that the VM has not, and one whose slot is idle. */
	fake->hv.shared->exit_pending = 1ull << 63 | 1ull << 2 | 1;
	assert_false(hv_exit_next(&fake->hv, &exit));
}

static void test_killed_before_anything_ran(void **state)
{
	(void)state;
	assert_int_equal(attach(), 0);
	/* No start: the successor boots. */
	assert_int_equal(start(), MACHINE_GO_ON);
	assert_int_equal(machine->state.boots, 1);
}

/* Writes boot_state as a process that died just after that left it. */
static void leave(uint32_t boot_state, uint32_t hv_state)
{
	machine->state.boot_state = boot_state;
	vault_write(&machine->vault, machine->section, &machine->state, sizeof(machine->state));
	fake->state = hv_state;
}

static void test_killed_within_a_boot(void **state)
{
	(void)state;
	start();
	drive(1);
	/* After FRESH was written, the VM not yet reset. */
	leave(MACHINE_FRESH, KEEL_VM_STATE_RUNNING);
	memset(fake->hv.ram + 0x1000000, 0, 4096);
	assert_int_equal(start(), MACHINE_GO_ON);
	assert_int_equal(machine->state.boots, 2);
	assert_int_equal(fake->resets, 2);
	assert_int_equal(fake->hv.ram[0x1000000], (uint8_t)(2048 * 7 + 8));
	assert_int_equal(toys[0].starts, 0);
	assert_int_equal(mmio(LAYOUT_PCI32 + 0x14, 1), 0); /* the driver's set-up is gone */
	/* After BOOTED, before run. */
	leave(MACHINE_BOOTED, KEEL_VM_STATE_PAUSED);
	fake->runs = 0;
	assert_int_equal(start(), MACHINE_GO_ON);
	assert_int_equal(fake->runs, 1);
	assert_int_equal(fake->resets, 2);
	assert_int_equal(machine->state.boots, 2);
}

static void event(uint32_t events, uint32_t cause)
{
	fake->state = events & KEEL_EVENT_DEAD ? KEEL_VM_STATE_DEAD : KEEL_VM_STATE_RESET;
	fake->hv.shared->reset_cause = cause;
	fake->hv.shared->events |= events;
}

/* Too little memory, say: the kernel dies before its first word, each time. */
static void test_a_guest_that_crashes_at_once_is_not_started_for_ever(void **state)
{
	(void)state;
	start();
	for (unsigned i = 1; i < MACHINE_CRASHES_MAX; i++) {
		event(KEEL_EVENT_TRIPLE_FAULT, KEEL_RESET_TRIPLE_FAULT);
		assert_int_equal(machine_look(machine), MACHINE_GO_ON);
	}
	/* A reboot that the guest asked for is no crash, nor is one long after its start. */
	event(KEEL_EVENT_RESET, KEEL_RESET_PORT);
	assert_int_equal(machine_look(machine), MACHINE_GO_ON);
	for (unsigned i = 1; i < MACHINE_CRASHES_MAX; i++) {
		event(KEEL_EVENT_TRIPLE_FAULT, KEEL_RESET_TRIPLE_FAULT);
		assert_int_equal(machine_look(machine), MACHINE_GO_ON);
	}
	machine->started_s -= MACHINE_CRASH_SOON_S + 1;
	event(KEEL_EVENT_TRIPLE_FAULT, KEEL_RESET_TRIPLE_FAULT);
	assert_int_equal(machine_look(machine), MACHINE_GO_ON);
	for (unsigned i = 1; i < MACHINE_CRASHES_MAX; i++) {
		event(KEEL_EVENT_TRIPLE_FAULT, KEEL_RESET_TRIPLE_FAULT);
		assert_int_equal(machine_look(machine), MACHINE_GO_ON);
	}
	event(KEEL_EVENT_TRIPLE_FAULT, KEEL_RESET_TRIPLE_FAULT);
	assert_int_equal(machine_look(machine), MACHINE_OFF);
	assert_int_equal(machine->state.boot_state, MACHINE_STOPPED);
}

/* hyp did to it what without_root says; the process that attaches does the rest. */
static void test_root_was_away_for_too_long(void **state)
{
	(void)state;
	start();
	leave(MACHINE_BOOTED, KEEL_VM_STATE_RESET);
	fake->hv.shared->reset_cause = KEEL_RESET_AWAY;
	assert_int_equal(start(), MACHINE_GO_ON);
	assert_int_equal(machine->state.boots, 2);
	leave(MACHINE_BOOTED, KEEL_VM_STATE_RESET);
	fake->hv.shared->reset_cause = KEEL_RESET_AWAY_STOP;
	assert_int_equal(start(), MACHINE_OFF);
	assert_int_equal(machine->state.boot_state, MACHINE_STOPPED);
	assert_int_equal(machine->state.boots, 2);
}

/* Its time ran out after the process had attached, before root was ready. */
static void test_paused_after_the_process_had_attached(void **state)
{
	(void)state;
	start();
	fake->state = KEEL_VM_STATE_PAUSED;
	fake->hv.shared->events = KEEL_EVENT_STATE;
	fake->runs = 0;
	assert_int_equal(machine_look(machine), MACHINE_GO_ON);
	assert_int_equal(fake->runs, 0); /* by somebody else */
	fake->away_policy = KEEL_AWAY_PAUSE;
	fake->hv.shared->events = KEEL_EVENT_STATE;
	assert_int_equal(machine_look(machine), MACHINE_GO_ON);
	assert_int_equal(fake->runs, 1);
}

static void test_attach_to_a_running_guest(void **state)
{
	struct hv_exit exit;

	(void)state;
	start();
	drive(1);
	drive(3);
	/* The guest stopped at an access, the process was killed, another access came meanwhile. */
	hv_fake_exit(fake, 1, KEEL_EXIT_PIO_READ, 0xcf8, 4, 0);
	fake->hv.shared->exit_pending = 0; /* the dead process had taken the bit */
	unsigned resets = fake->resets, runs = fake->runs;

	assert_int_equal(start(), MACHINE_GO_ON);
	assert_int_equal(fake->resets, resets);
	assert_int_equal(fake->runs, runs);
	assert_int_equal(toys[0].resumes, 1);
	assert_int_equal(toys[1].starts, 0);
	assert_int_equal(toys[2].resumes, 1);
	for (unsigned i = 0; i < 4; i++) {
		int index = hv_fake_find(fake, LAYOUT_PCI32 + i * 0x10000 + VIRTIO_PCI_NOTIFY_AT);

		assert_int_equal(index, i);
		assert_int_equal(fake->doorbells[index].fd, machine->devices[i]->kick_fds[0]);
	}
	assert_true(hv_exit_next(&fake->hv, &exit));
	assert_int_equal(exit.vcpu, 1);
	assert_int_equal(machine_answer(machine, &exit), MACHINE_GO_ON);
	assert_int_equal(fake->hv.shared->slots[1].state, KEEL_SLOT_IDLE);
	assert_false(hv_exit_next(&fake->hv, &exit));
}

static void test_doorbells_of_the_dead_are_dropped(void **state)
{
	struct hv_doorbell stale = {
	        .index = 2, .space = KEEL_DOORBELL_MMIO, .address = 0xd0000000, .fd = -1};

	(void)state;
	start();
	/* Killed between the BAR's move in the vault and the doorbell's. */
	fake->hv.ops->doorbell_remove(&fake->hv, 2);
	fake->hv.ops->doorbell_add(&fake->hv, &stale);
	start();
	assert_int_equal(hv_fake_find(fake, 0xd0000000), -1);
	assert_int_equal(hv_fake_find(fake, LAYOUT_PCI32 + 2 * 0x10000 + VIRTIO_PCI_NOTIFY_AT), 2);
}

static void test_guest_resets(void **state)
{
	(void)state;
	start();
	drive(1);
	event(KEEL_EVENT_RESET, KEEL_RESET_PORT);
	assert_int_equal(machine_look(machine), MACHINE_GO_ON);
	assert_int_equal(fake->state, KEEL_VM_STATE_RUNNING);
	assert_int_equal(machine->state.boots, 2);
	assert_int_equal(fake->hv.shared->events, 0);
	assert_int_equal(mmio(LAYOUT_PCI32 + 0x14, 1), 0);
	assert_true(toys[0].resets > 0);
	drive(1);
	event(KEEL_EVENT_TRIPLE_FAULT, KEEL_RESET_TRIPLE_FAULT);
	assert_int_equal(machine_look(machine), MACHINE_GO_ON);
	assert_int_equal(machine->stats.triple_faults, 1);
	assert_int_equal(machine->stats.resets, 2);
	drive(1);
	assert_int_equal(machine_look(machine), MACHINE_GO_ON);
	assert_int_equal(machine->state.boots, 3);
	/* The event was taken, then the process died: hyp's state tells the successor. */
	event(KEEL_EVENT_RESET, KEEL_RESET_PORT);
	fake->hv.shared->events = 0;
	assert_int_equal(start(), MACHINE_GO_ON);
	assert_int_equal(fake->state, KEEL_VM_STATE_RUNNING);
	assert_int_equal(machine->state.boots, 4);
}

static void test_reset_when_the_kernel_is_gone(void **state)
{
	(void)state;
	start();
	unlink(kernel);
	event(KEEL_EVENT_RESET, KEEL_RESET_PORT);
	assert_int_equal(machine_look(machine), MACHINE_OFF);
	assert_int_equal(machine->state.boot_state, MACHINE_STOPPED);
	assert_int_not_equal(fake->state, KEEL_VM_STATE_RUNNING);
}

static void test_reboot_policy_destroy(void **state)
{
	(void)state;
	hv_fake_free(fake);
	reboot_policy = "destroy";
	new_vm();
	start();
	event(KEEL_EVENT_RESET, KEEL_RESET_PORT);
	assert_int_equal(machine_look(machine), MACHINE_OFF);
	assert_int_equal(start(), MACHINE_OFF);
}

static enum machine_next soft_off(void)
{
	return answer(0, KEEL_EXIT_PIO_WRITE, LAYOUT_PM1A_CONTROL, 2,
	        ACPI_S5_SLEEP_TYPE << 10 | ACPI_PM1_CONTROL_SLP_EN);
}

static void test_guest_switches_off(void **state)
{
	enum machine_next next;

	(void)state;
	start();
	drive(1);
	assert_int_equal(soft_off(), MACHINE_OFF);
	assert_int_equal(fake->state, KEEL_VM_STATE_PAUSED);
	assert_true(toys[0].resets > 0);
	/* The process dies before it can say so: its successor does. */
	assert_int_equal(start(), MACHINE_OFF);
	assert_int_equal(machine->state.boots, 1);
	/* Killed before STOPPED was written: the access is still pending. */
	leave(MACHINE_BOOTED, KEEL_VM_STATE_RUNNING);
	assert_int_equal(start(), MACHINE_GO_ON);
	struct hv_exit exit;

	assert_true(hv_exit_next(&fake->hv, &exit));
	assert_int_equal(machine_answer(machine, &exit), MACHINE_OFF);
	/* Started again on purpose. */
	assert_int_equal(attach(), 0);
	assert_int_equal(machine_start(machine, true, &next, error, sizeof(error)), 0);
	assert_int_equal(next, MACHINE_GO_ON);
	assert_int_equal(machine->state.boots, 2);
}

static void test_off_policy_restart(void **state)
{
	(void)state;
	hv_fake_free(fake);
	off_policy = "restart";
	new_vm();
	start();
	assert_int_equal(soft_off(), MACHINE_GO_ON);
	assert_int_equal(machine->state.boots, 2);
	assert_int_equal(fake->state, KEEL_VM_STATE_RUNNING);
}

/* By the test device, whatever the policies say. */
static void test_guest_ends_itself(void **state)
{
	enum machine_next next;

	(void)state;
	off_policy = "restart";
	new_vm();
	start();
	assert_int_equal(answer(0, KEEL_EXIT_PIO_WRITE, 0x2005, 1, 1), MACHINE_GO_ON);
	assert_true(fake->pins[5]);
	assert_int_equal(answer(1, KEEL_EXIT_MMIO_WRITE, 0xff000010, 4, 7), MACHINE_GO_ON);
	assert_int_equal(answer(1, KEEL_EXIT_PIO_WRITE, 0xf4, 4, 0), MACHINE_OFF);
	off_policy = "destroy";
	assert_int_equal(attach(), 0);
	assert_int_equal(machine_start(machine, false, &next, error, sizeof(error)), 0);
	assert_int_equal(next, MACHINE_OFF);
}

static void test_dead_vcpu(void **state)
{
	(void)state;
	start();
	event(KEEL_EVENT_DEAD, 0);
	assert_int_equal(machine_look(machine), MACHINE_DEAD);
	event(KEEL_EVENT_DEAD, 0);
	fake->hv.shared->events = 0;
	assert_int_equal(start(), MACHINE_DEAD);
}

static void expect_refusal(const char *words)
{
	assert_int_not_equal(attach(), 0);
	if (strstr(error, words) == NULL)
		fail_msg("'%s' does not say '%s'", error, words);
	assert_null(strchr(error, '\n'));
	assert_int_equal(fake->runs, 0);
}

static void test_what_cannot_be_attached(void **state)
{
	enum machine_next next;
	uint32_t *version = (uint32_t *)(void *)(fake->hv.vault + VAULT_HEADER_AT + 8);

	(void)state;
	refuse_devices = true;
	expect_refusal("no such image");
	refuse_devices = false;
	*version = 2;
	expect_refusal("version 2");
	*version = 1;
	fake->hv.vcpus = 1;
	expect_refusal("2 CPUs");
	fake->hv.vcpus = 2;
	memset(fake->hv.vault + VAULT_SECTIONS_AT, 0x55, 256);
	expect_refusal("damaged");
	hv_fake_free(fake);
	fake = hv_fake_new(2, RAM_BYTES, 2u << 20, NULL);
	expect_refusal("never formatted");
	hv_fake_free(fake);
	fake = hv_fake_new(2, RAM_BYTES, 2u << 20, "{\"name\":1}");
	expect_refusal("name: must be a string");
	hv_fake_free(fake);
	unlink(kernel);
	new_vm();
	assert_int_equal(attach(), 0);
	assert_int_not_equal(machine_start(machine, false, &next, error, sizeof(error)), 0);
	assert_non_null(strstr(error, "No such file"));
	assert_int_equal(fake->runs, 0);
}

static struct control control;
static char socket_path[108];

static int dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(address.sun_path, socket_path);
	return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? fd : -1;
}

/* Sends text as it is, and gives what comes back. */
static const char *ask(int fd, int client, const char *text, enum control_wish wish)
{
	static char reply[2048];
	ssize_t got;

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(control_serve(&control, (unsigned)client), wish);
	got = recv(fd, reply, sizeof(reply) - 1, MSG_DONTWAIT);
	reply[got < 0 ? 0 : got] = '\0';
	return reply;
}

static void open_control(void)
{
	strcpy(socket_path, "/tmp/keel-control-XXXXXX");
	assert_int_equal(close(mkstemp(socket_path)), 0);
	unlink(socket_path);
	assert_int_equal(control_open(&control, machine, socket_path, error, sizeof(error)), 0);
}

static void test_control_requests(void **state)
{
	int fd, client;
	const char *reply;

	(void)state;
	start();
	open_control();
	fd = dial();
	client = control_accept(&control);
	assert_true(fd >= 0 && client >= 0);
	reply = ask(fd, client, "{\"cmd\":\"status\"}\n", CONTROL_NOTHING);
	assert_non_null(strstr(reply, "\"state\":\"running\""));
	assert_non_null(strstr(reply, "\"disk1\""));
	assert_non_null(strstr(reply, "\"ok\":true"));
	reply = ask(fd, client, "{\"cmd\":\"stats\"}\n", CONTROL_NOTHING);
	assert_non_null(strstr(reply, "\"requests\":42"));
	assert_string_equal(
	        ask(fd, client, "{\"cmd\":\"powerbutton\"}\n", CONTROL_NOTHING), "{\"ok\":true}\n");
	assert_int_equal(machine->pm.state.status, ACPI_PM1_STATUS_PWRBTN);
	/* In pieces, two in one, and rubbish. */
	assert_string_equal(ask(fd, client, "{\"cmd\":", CONTROL_NOTHING), "");
	assert_string_equal(
	        ask(fd, client, "\"powerbutton\"}\n", CONTROL_NOTHING), "{\"ok\":true}\n");
	reply = ask(fd, client, "{\"cmd\":\"dance\"}\nnonsense\n", CONTROL_NOTHING);
	assert_non_null(strstr(reply, "unknown cmd"));
	assert_non_null(strstr(reply, "a request is"));
	assert_non_null(strstr(ask(fd, client, "{\"cmd\":7}\n", CONTROL_NOTHING), "\"ok\":false"));
	ask(fd, client, "{\"cmd\":\"reset\"}\n", CONTROL_NOTHING);
	assert_int_equal(machine->state.boots, 2);
	ask(fd, client, "{\"cmd\":\"quit\"}\n", CONTROL_QUIT);
	ask(fd, client, "{\"cmd\":\"poweroff\"}\n", CONTROL_OFF);
	assert_int_equal(machine->state.boot_state, MACHINE_STOPPED);
	/* A line without end costs the connection, nothing else. */
	char flood[CONTROL_LINE_BYTES + 1];

	memset(flood, 'x', sizeof(flood));
	flood[CONTROL_LINE_BYTES] = '\0';
	ask(fd, client, flood, CONTROL_NOTHING);
	assert_int_equal(control.clients[client].fd, -1);
	close(fd);
	close(control.listener);
	unlink(socket_path);
}

static void test_control_resize(void **state)
{
	const char *const bad[] = {"{\"cmd\":\"resize\"}\n", "{\"cmd\":\"resize\",\"device\":7}\n",
	        "{\"cmd\":\"resize\",\"device\":\"disk9\"}\n"};
	const char *reply;
	int fd, client;

	(void)state;
	start();
	open_control();
	fd = dial();
	client = control_accept(&control);
	reply = ask(fd, client, "{\"cmd\":\"resize\",\"device\":\"disk1\"}\n", CONTROL_NOTHING);
	assert_string_equal(reply, "{\"size_bytes\":4096,\"changed\":true,\"ok\":true}\n");
	toy_changed = 0;
	reply = ask(fd, client, "{\"cmd\":\"resize\",\"device\":\"disk0\"}\n", CONTROL_NOTHING);
	assert_string_equal(reply, "{\"size_bytes\":4096,\"changed\":false,\"ok\":true}\n");
	toy_changed = -EIO;
	reply = ask(fd, client, "{\"cmd\":\"resize\",\"device\":\"disk0\"}\n", CONTROL_NOTHING);
	assert_non_null(strstr(reply, "disk0: its size cannot be read: Input/output error"));
	toy_changed = 1;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_non_null(strstr(ask(fd, client, bad[i], CONTROL_NOTHING), "no such disk"));
	close(fd);
	close(control.listener);
	unlink(socket_path);
}

static void test_control_clients_are_bounded(void **state)
{
	int fds[CONTROL_CLIENTS + 1];

	(void)state;
	start();
	open_control();
	for (unsigned i = 0; i < CONTROL_CLIENTS; i++) {
		fds[i] = dial();
		assert_int_equal(control_accept(&control), i);
	}
	fds[CONTROL_CLIENTS] = dial();
	assert_int_equal(control_accept(&control), -1);
	/* One leaves, one may come. */
	close(fds[1]);
	assert_int_equal(control_serve(&control, 1), CONTROL_NOTHING);
	assert_int_equal(control.clients[1].fd, -1);
	close(fds[CONTROL_CLIENTS]);
	fds[1] = dial();
	assert_int_equal(control_accept(&control), 1);
	for (unsigned i = 0; i < CONTROL_CLIENTS; i++) {
		close(fds[i]);
		close(control.clients[i].fd);
	}
	close(control.listener);
	unlink(socket_path);
}

static void test_control_path(void **state)
{
	struct control second;
	struct stat info;
	FILE *file;

	(void)state;
	start();
	open_control();
	assert_int_equal(stat(socket_path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	/* C-57: a live owner is left alone. */
	assert_int_equal(
	        control_open(&second, machine, socket_path, error, sizeof(error)), -EADDRINUSE);
	assert_non_null(strstr(error, "another process"));
	assert_int_equal(stat(socket_path, &info), 0);
	/* What kill -9 left is replaced. */
	close(control.listener);
	assert_int_equal(control_open(&control, machine, socket_path, error, sizeof(error)), 0);
	close(control.listener);
	unlink(socket_path);
	/* What is no socket stays. */
	file = fopen(socket_path, "w");
	fclose(file);
	assert_int_equal(
	        control_open(&control, machine, socket_path, error, sizeof(error)), -EEXIST);
	assert_int_equal(stat(socket_path, &info), 0);
	assert_true(S_ISREG(info.st_mode));
	unlink(socket_path);
	assert_int_equal(symlink("/nowhere", socket_path), 0);
	assert_int_equal(
	        control_open(&control, machine, socket_path, error, sizeof(error)), -EEXIST);
	assert_int_equal(lstat(socket_path, &info), 0);
	unlink(socket_path);
	assert_int_equal(
	        control_open(&control, machine, "/no/such/directory/x.sock", error, sizeof(error)),
	        -ENOENT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	        TEST(test_first_boot),
	        TEST(test_unclaimed_accesses),
	        TEST(test_malformed_slots),
	        TEST(test_killed_before_anything_ran),
	        TEST(test_killed_within_a_boot),
	        TEST(test_a_guest_that_crashes_at_once_is_not_started_for_ever),
	        TEST(test_root_was_away_for_too_long),
	        TEST(test_paused_after_the_process_had_attached),
	        TEST(test_attach_to_a_running_guest),
	        TEST(test_doorbells_of_the_dead_are_dropped),
	        TEST(test_guest_resets),
	        TEST(test_reset_when_the_kernel_is_gone),
	        TEST(test_reboot_policy_destroy),
	        TEST(test_guest_switches_off),
	        TEST(test_off_policy_restart),
	        TEST(test_dead_vcpu),
	        TEST(test_what_cannot_be_attached),
	        TEST(test_control_requests),
	        TEST(test_control_resize),
	        TEST(test_control_clients_are_bounded),
	        TEST(test_control_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
