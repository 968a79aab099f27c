/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds a VM's devices from its definition, dispatches its exits, and takes it through boot, reset
 * and power-off. */
#include "vmm/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "vmm/boot.h"
#include "vmm/log.h"

#define HOST_BRIDGE_VENDOR 0x1b36u
#define HOST_BRIDGE_DEVICE 0x0008u

static void keep(struct machine *machine)
{
	vault_write(&machine->vault, machine->section, &machine->state, sizeof(machine->state));
}

static int read_definition(struct machine *machine, char *error, size_t error_bytes)
{
	const struct vault_section *section = vault_find(&machine->vault, VAULT_DEFINITION, 0);
	static char text[DEFINITION_MAX_BYTES + 1];
	const struct definition *definition = &machine->definition;
	int bytes;

	if (section == NULL || vault_section_version(section) != 1) {
		snprintf(error, error_bytes,
		        "the vault has no definition that this program can read");
		return -EINVAL;
	}
	bytes = vault_read(&machine->vault, section, text, sizeof(text) - 1);
	if (bytes < 0 || bytes > (int)sizeof(text) - 1) {
		snprintf(error, error_bytes, "the definition in the vault is damaged");
		return -EINVAL;
	}
	text[bytes] = '\0';
	if (definition_parse(text, &machine->definition, error, error_bytes) != 0)
		return -EINVAL;
	if (definition->cpus != machine->hv->vcpus ||
	        definition->memory_bytes != machine->hv->ram_bytes ||
	        (definition->firmware[0] != '\0') != (machine->hv->firmware_bytes != 0)) {
		snprintf(error, error_bytes,
		        "the definition has %u CPUs, %" PRIu64
		        " MiB and %s firmware, the VM was made with %u, %" PRIu64
		        " MiB and %" PRIu64 " MiB for firmware",
		        definition->cpus, definition->memory_bytes >> 20,
		        definition->firmware[0] != '\0' ? "a" : "no", machine->hv->vcpus,
		        machine->hv->ram_bytes >> 20, machine->hv->firmware_bytes >> 20);
		return -EINVAL;
	}
	return 0;
}

static bool has_firmware(const struct machine *machine)
{
	return machine->definition.firmware[0] != '\0';
}

static int attach_platform(struct machine *machine)
{
	int rc;

	rc = vault_record(&machine->vault, VAULT_MACHINE, 0, &machine->state,
	        sizeof(machine->state), &machine->section);
	if (rc != 0)
		return rc;
	rc = pci_bus_init(&machine->pci, machine->hv, &machine->vault);
	if (rc != 0)
		return rc;
	pci_function_init(&machine->host_bridge, HOST_BRIDGE_VENDOR,
	        has_firmware(machine) ? FIRMWARE_HOST_BRIDGE : HOST_BRIDGE_DEVICE,
	        PCI_CLASS_HOST_BRIDGE);
	if (has_firmware(machine))
		firmware_mark_bridge(&machine->host_bridge);
	rc = pci_add(&machine->pci, &machine->host_bridge, 0);
	if (rc == 0)
		rc = pm_attach(&machine->pm, machine->hv, &machine->vault);
	if (rc == 0 && machine->definition.testdev)
		rc = testdev_attach(&machine->testdev, machine->hv, &machine->vault);
	return rc;
}

/* Behind the host bridge, and what firmware looks for. */
static unsigned first_slot(const struct machine *machine)
{
	return has_firmware(machine) ? FIRMWARE_ISA_SLOT + 1 : 1;
}

/* The next device of the list goes into the next slot; its doorbells follow those of the one
 * before. */
static bool add_device(
        struct machine *machine, struct virtio_device *dev, char *error, size_t error_bytes)
{
	struct virtio_pci *vp;

	if (dev == NULL)
		return false;
	vp = virtio_pci_create(&machine->pci, first_slot(machine) + machine->device_count, dev,
	        &machine->gmem, machine->doorbells, error, error_bytes);
	if (vp == NULL)
		return false;
	machine->doorbells += dev->queues;
	machine->devices[machine->device_count++] = vp;
	return true;
}

/* The list of all devices, in the order in which the guest finds them. */
static bool add_devices(struct machine *machine, char *error, size_t error_bytes)
{
	const struct definition *definition = &machine->definition;
	const struct device_env *env = &machine->env;

	for (unsigned i = 0; i < definition->disk_count; i++)
		if (!add_device(machine,
		            virtio_blk_create(&definition->disks[i], i, env, error, error_bytes),
		            error, error_bytes))
			return false;
	for (unsigned i = 0; i < definition->net_count; i++)
		if (!add_device(machine,
		            virtio_net_create(&definition->nets[i], i, env, error, error_bytes),
		            error, error_bytes))
			return false;
	return !definition->rng ||
	       add_device(machine, virtio_rng_create(env, error, error_bytes), error, error_bytes);
}

int machine_attach(struct machine *machine, struct hv *hv, char *error, size_t error_bytes)
{
	int rc;

	*machine = (struct machine){.hv = hv};
	rc = vault_attach(&machine->vault, hv->vault, hv->vault_bytes, error, error_bytes);
	if (rc == 0)
		rc = read_definition(machine, error, error_bytes);
	if (rc != 0)
		return rc;
	gmem_init(&machine->gmem, hv->ram, hv->ram_bytes, hv->ram_low_bytes);
	machine->env = (struct device_env){
	        .gmem = &machine->gmem, .vcpus = hv->vcpus, .uuid = machine->definition.uuid};
	rc = attach_platform(machine);
	if (rc != 0) {
		snprintf(error, error_bytes, "cannot use the vault: %s", strerror(-rc));
		return rc;
	}
	if (has_firmware(machine))
		rc = firmware_attach(&machine->firmware, &machine->definition, &machine->pci,
		        &machine->gmem, &machine->vault, hv, error, error_bytes);
	if (rc != 0)
		return rc;
	return add_devices(machine, error, error_bytes) ? 0 : -EINVAL;
}

static int load_guest(struct machine *machine, char *error, size_t error_bytes)
{
	const struct definition *definition = &machine->definition;
	const struct boot_config config = {
	        .kernel = definition->kernel,
	        .initrd = definition->initrd,
	        .cmdline = definition->cmdline,
	        .cpus = definition->cpus,
	        .ram_bytes = definition->memory_bytes,
	};
	struct keel_vcpu_state start;
	int rc;

	/* vCPU 0 is at the reset vector already. */
	if (has_firmware(machine))
		return firmware_load(&machine->firmware, error, error_bytes);
	rc = boot_load(&config, &machine->gmem, &start, error, error_bytes);
	if (rc != 0)
		return rc;
	rc = machine->hv->ops->vcpu_set(machine->hv, 0, &start);
	if (rc != 0)
		snprintf(error, error_bytes, "cannot set vCPU 0: %s", strerror(-rc));
	return rc;
}

static time_t uptime_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Power-on. Everything in it may be done again from the start by a successor. */
static int boot(struct machine *machine, char *error, size_t error_bytes)
{
	struct hv *hv = machine->hv;
	int rc;

	machine->state.boot_state = MACHINE_FRESH;
	keep(machine);
	hv->ops->pause(hv);
	for (unsigned i = 0; i < machine->device_count; i++)
		virtio_pci_reset(machine->devices[i]);
	rc = hv->ops->reset(hv);
	if (rc != 0) {
		snprintf(error, error_bytes, "cannot reset the VM: %s", strerror(-rc));
		return rc;
	}
	/* What the last life asked for is answered by this one. */
	hv_events_take(hv, MACHINE_EVENTS);
	pm_reset(&machine->pm);
	testdev_reset(&machine->testdev);
	firmware_reset(&machine->firmware);
	pci_reset(&machine->pci);
	if (!has_firmware(machine))
		pci_assign(&machine->pci);
	pci_sync(&machine->pci);
	rc = load_guest(machine, error, error_bytes);
	if (rc != 0)
		return rc;
	machine->state.boot_state = MACHINE_BOOTED;
	machine->state.boots++;
	keep(machine);
	rc = hv->ops->run(hv);
	if (rc != 0)
		snprintf(error, error_bytes, "cannot run the VM: %s", strerror(-rc));
	else
		log_line("guest started (boot %u)", machine->state.boots);
	machine->started_s = uptime_s();
	return rc;
}

/* hyp has the doorbells of the predecessor, perhaps elsewhere than configuration space says by now.
 */
static void drop_old_doorbells(struct machine *machine)
{
	for (unsigned i = 0; i < machine->doorbells && i < KEEL_MAX_DOORBELLS; i++)
		machine->hv->ops->doorbell_remove(machine->hv, i);
}

void machine_stop(struct machine *machine)
{
	machine->state.boot_state = MACHINE_STOPPED;
	keep(machine);
	machine->hv->ops->pause(machine->hv);
	for (unsigned i = 0; i < machine->device_count; i++)
		virtio_pci_reset(machine->devices[i]);
}

/* Boots again, or stops if that cannot be done: the guest is gone either way. */
static enum machine_next boot_or_stop(struct machine *machine)
{
	char error[512];

	if (boot(machine, error, sizeof(error)) == 0)
		return MACHINE_GO_ON;
	log_line("cannot start the guest again: %s", error);
	machine_stop(machine);
	return MACHINE_OFF;
}

/* A guest that cannot even start would be started for ever, and take a CPU for that. */
static bool crashes_at_once(struct machine *machine, bool triple_fault)
{
	bool soon = triple_fault && uptime_s() - machine->started_s <= MACHINE_CRASH_SOON_S;

	machine->crashes = soon ? machine->crashes + 1 : 0;
	if (machine->crashes < MACHINE_CRASHES_MAX)
		return false;
	log_line("the guest crashed within %u s of its start %u times in a row: it stays off; "
	         "give it more memory or another kernel",
	        MACHINE_CRASH_SOON_S, MACHINE_CRASHES_MAX);
	return true;
}

static enum machine_next handle_reset(struct machine *machine, bool triple_fault)
{
	machine->stats.resets++;
	machine->stats.triple_faults += triple_fault;
	log_line("guest reset by %s", triple_fault ? "a triple fault" : "a reset port");
	if (machine->definition.on_reboot == DEFINITION_RESTART &&
	        !crashes_at_once(machine, triple_fault))
		return boot_or_stop(machine);
	machine_stop(machine);
	return MACHINE_OFF;
}

/* Root was away for longer than this VM's file lets it run on. */
static enum machine_next handle_away(struct machine *machine, bool stop)
{
	machine->stats.resets += !stop;
	log_line("root was away for too long: %s, as without_root says",
	        stop ? "the guest stays off" : "the guest is started again");
	if (!stop)
		return boot_or_stop(machine);
	machine_stop(machine);
	return MACHINE_OFF;
}

/* The VM stands still and waits for what its last event asked for. */
static enum machine_next handle_stopped(struct machine *machine, uint32_t cause)
{
	if (cause == KEEL_RESET_AWAY || cause == KEEL_RESET_AWAY_STOP)
		return handle_away(machine, cause == KEEL_RESET_AWAY_STOP);
	return handle_reset(machine, cause == KEEL_RESET_TRIPLE_FAULT);
}

static enum machine_next handle_off(struct machine *machine)
{
	machine->pm.off_asked = false;
	log_line("guest switched itself off");
	/* Not by way of STOPPED: a successor would leave it at that. */
	if (machine->definition.on_poweroff == DEFINITION_RESTART)
		return boot_or_stop(machine);
	machine_stop(machine);
	return MACHINE_OFF;
}

/* Whatever the policies are: who asked for the test device wants to know how the guest ended. */
static enum machine_next handle_test_end(struct machine *machine)
{
	machine->testdev.ended = false;
	log_line("the guest ended with %u", machine->testdev.result);
	machine_stop(machine);
	return MACHINE_OFF;
}

static enum machine_next handle_dead(struct machine *machine)
{
	log_line("a vCPU cannot go on: the hardware refuses its state; see `keel log` of hyp");
	machine->hv->ops->pause(machine->hv);
	return MACHINE_DEAD;
}

/* hyp paused it since root was away, after this process had attached: root is here. */
static void run_on(struct machine *machine)
{
	struct keel_hc_vm_info info;

	if (machine->state.boot_state != MACHINE_BOOTED ||
	        machine->hv->ops->info(machine->hv, &info) != 0 ||
	        info.state != KEEL_VM_STATE_PAUSED || info.away_policy != KEEL_AWAY_PAUSE)
		return;
	log_line("paused while root was away: goes on");
	machine->hv->ops->run(machine->hv);
}

enum machine_next machine_look(struct machine *machine)
{
	uint32_t events = hv_events_take(machine->hv, MACHINE_EVENTS);

	if (events & KEEL_EVENT_DEAD)
		return handle_dead(machine);
	if (events & (KEEL_EVENT_RESET | KEEL_EVENT_TRIPLE_FAULT))
		return handle_stopped(machine, machine->hv->shared->reset_cause);
	if (events & KEEL_EVENT_STATE)
		run_on(machine);
	return MACHINE_GO_ON;
}

/* A predecessor ran it. The order: doorbells, then queues (they look at their rings), then exits.
 */
static enum machine_next resume(struct machine *machine, uint32_t hv_state)
{
	uint32_t cause = machine->hv->shared->reset_cause;

	drop_old_doorbells(machine);
	pci_sync(&machine->pci);
	/* It may have died between the event and the reset that the event asked for. */
	if (hv_state == KEEL_VM_STATE_RESET)
		return handle_stopped(machine, cause);
	if (hv_state == KEEL_VM_STATE_DEAD)
		return handle_dead(machine);
	for (unsigned i = 0; i < machine->device_count; i++)
		virtio_pci_resume(machine->devices[i]);
	hv_exit_rescan(machine->hv);
	log_line("attached to the running guest");
	return MACHINE_GO_ON;
}

int machine_start(struct machine *machine, bool restart, enum machine_next *next, char *error,
        size_t error_bytes)
{
	struct keel_hc_vm_info info;
	int rc = machine->hv->ops->info(machine->hv, &info);

	*next = MACHINE_GO_ON;
	if (rc != 0) {
		snprintf(error, error_bytes, "cannot ask for the VM's state: %s", strerror(-rc));
		return rc;
	}
	if (machine->state.boot_state == MACHINE_STOPPED && !restart) {
		log_line("the guest is off");
		*next = MACHINE_OFF;
		return 0;
	}
	if (machine->state.boot_state != MACHINE_BOOTED) {
		drop_old_doorbells(machine);
		return boot(machine, error, error_bytes);
	}
	*next = resume(machine, info.state);
	if (*next != MACHINE_GO_ON || info.state != KEEL_VM_STATE_PAUSED)
		return 0;
	/* Killed between BOOTED and run. */
	rc = machine->hv->ops->run(machine->hv);
	if (rc != 0)
		snprintf(error, error_bytes, "cannot run the VM: %s", strerror(-rc));
	return rc;
}

int machine_reset(struct machine *machine, char *error, size_t error_bytes)
{
	machine->stats.resets++;
	log_line("reset by the operator");
	return boot(machine, error, error_bytes);
}

void machine_press_power_button(struct machine *machine)
{
	pm_press_power_button(&machine->pm);
}

/* Ports and addresses that no device has read as all ones and take writes without effect, as on a
 * PC. */
static uint64_t dispatch(struct machine *machine, const struct hv_exit *exit)
{
	bool pio = exit->kind == KEEL_EXIT_PIO_READ || exit->kind == KEEL_EXIT_PIO_WRITE;
	bool write = exit->kind == KEEL_EXIT_PIO_WRITE || exit->kind == KEEL_EXIT_MMIO_WRITE;
	uint64_t value = exit->data;
	bool taken;

	if (pio)
		taken = pm_pio(&machine->pm, exit->address, exit->size, write, &value) ||
		        testdev_pio(&machine->testdev, exit->address, exit->size, write, &value) ||
		        pci_pio(&machine->pci, exit->address, exit->size, write, &value) ||
		        fw_cfg_pio(&machine->firmware.fw_cfg, exit, &value);
	else
		taken = testdev_mmio(&machine->testdev, exit->address, exit->size, write, &value) ||
		        pci_mmio(&machine->pci, exit->address, exit->size, write, &value) ||
		        (write && firmware_write(&machine->firmware, exit));
	machine->stats.unclaimed += !taken;
	return taken ? value : UINT64_MAX;
}

enum machine_next machine_answer(struct machine *machine, const struct hv_exit *exit)
{
	uint64_t value;

	machine->stats.exits[exit->kind]++;
	machine->pci.current = exit;
	value = dispatch(machine, exit);
	machine->pci.current = NULL;
	if (machine->pm.off_asked)
		return handle_off(machine);
	if (machine->testdev.ended)
		return handle_test_end(machine);
	/* Refused (-EAGAIN): the vCPU was reset meanwhile and waits for nothing. */
	machine->hv->ops->exit_complete(machine->hv, exit->vcpu, exit->sequence, value);
	return MACHINE_GO_ON;
}
