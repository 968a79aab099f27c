/* SPDX-License-Identifier: BSD-2-Clause */
/* One VM as its device process has it: attached from the vault, booted, answered, reset, switched
 * off. */
#pragma once

#include <time.h>

#include "vmm/definition.h"
#include "vmm/dev/devices.h"
#include "vmm/firmware.h"
#include "vmm/pm.h"
#include "vmm/testdev.h"
#include "vmm/virtio_pci.h"

/*
 * Attaching is the only way to start (DESIGN §2 rule 1). machine_attach reads the vault, builds the
 * devices in the order of the definition and gives each what the vault has for it; machine_start
 * then does what boot_state asks for:
 *
 *   FRESH    (just formatted, or a reset was begun)   reset everything, load the kernel, BOOTED,
 * run BOOTED   (a predecessor ran it)                   doorbells, queues, pending exits; run if it
 * is paused STOPPED  (the guest is off)                       nothing; the process ends
 *
 * boot_state changes in the vault before the step it announces for FRESH and STOPPED, and after it
 * for BOOTED, so that a process killed anywhere between is followed by one that does the step again
 * from its start.
 *
 * Everything here runs on the control thread.
 */
#define MACHINE_FRESH   0u
#define MACHINE_BOOTED  1u
#define MACHINE_STOPPED 2u

struct machine_state {       /* VAULT_MACHINE */
	uint32_t boot_state; /* MACHINE_* */
	uint32_t boots;      /* so far */
	uint64_t reserved[7];
};
KEEL_ASSERT_SIZE(struct machine_state, 64);

#define MACHINE_MAX_DEVICES (DEFINITION_MAX_DISKS + DEFINITION_MAX_NETS + 1u)

/* So many triple faults in a row, each so soon after its start: the guest stays off. */
#define MACHINE_CRASHES_MAX  5u
#define MACHINE_CRASH_SOON_S 5

struct machine_stats {
	uint64_t exits[5];  /* by KEEL_EXIT_* */
	uint64_t unclaimed; /* exits that no device took */
	uint64_t resets;
	uint64_t triple_faults;
};

struct machine {
	struct hv *hv;
	struct gmem gmem;
	struct vault vault;
	struct vault_section *section;
	struct machine_state state;
	struct definition definition;
	struct device_env env;
	struct pci_bus pci;
	struct pci_function host_bridge;
	struct pm pm;
	struct testdev testdev;
	struct firmware firmware;
	unsigned device_count;
	struct virtio_pci *devices[MACHINE_MAX_DEVICES];
	unsigned doorbells; /* indices given to devices */
	struct machine_stats stats;
	unsigned crashes; /* triple faults, each soon after a start, without another end in between
	                   */
	time_t started_s; /* CLOCK_MONOTONIC, of this guest's last start by this process */
};

enum machine_next {
	MACHINE_GO_ON,
	MACHINE_OFF,  /* the guest is off and the policy is to leave it so: boot_state is STOPPED */
	MACHINE_DEAD, /* a vCPU cannot go on; what is left is the operator's */
};

/* 0, or a negative errno with one line in `error`; the VM is then as it was. */
int machine_attach(struct machine *machine, struct hv *hv, char *error, size_t error_bytes);
/* Needs: machine_attach. restart: also starts a machine that is STOPPED. */
int machine_start(struct machine *machine, bool restart, enum machine_next *next, char *error,
        size_t error_bytes);
/* Answers one exit. */
enum machine_next machine_answer(struct machine *machine, const struct hv_exit *exit);
/* Looks at KEEL_EVENT_*: resets by the guest, a dead vCPU. */
enum machine_next machine_look(struct machine *machine);
#define MACHINE_EVENTS                                                                             \
	(KEEL_EVENT_RESET | KEEL_EVENT_TRIPLE_FAULT | KEEL_EVENT_DEAD | KEEL_EVENT_STATE)
/* The operator's: as the button on the case; the reset button; the plug. */
void machine_press_power_button(struct machine *machine);
int machine_reset(struct machine *machine, char *error, size_t error_bytes);
void machine_stop(struct machine *machine);
