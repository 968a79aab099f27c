/* SPDX-License-Identifier: BSD-2-Clause */
/* A VM's life as the daemon leads it: from its file to a partition with a device process, and back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/vmfile.h"
#include "keeld/link.h"
#include "keeld/loop.h"
#include "keeld/process.h"

struct keeld;

/*
 * States, and what leads from one to the next:
 *
 *   OFF         hyp has no partition of it.
 *    | start: checks, then record "making", partition, taps, formatter
 *   FORMATTING  `keelvm --format` writes the definition into the vault
 *    | it ends well: the record becomes "made", device process
 *   STARTING    a device process was started (or looked for, when the daemon is new); its control
 *    |          socket is tried until it answers
 *   RUNNING     it serves the VM
 *    | it dies: at once, then after growing pauses
 *   WAITING     the VM runs on without a device process; STARTING follows
 *
 *   PRESERVED   the guest is off, its policy keeps the partition (on_poweroff = preserve)
 *   DEAD        hyp gave up a vCPU; kept for whoever wants to look
 *   ENDING      the device process is being ended, then the partition is destroyed; OFF follows
 *   BROKEN      hyp does not let the partition go
 *
 * Whatever fails on the way from OFF to the first RUNNING leads through ENDING to OFF, with nothing
 * left: partition, taps, records and control socket are all the daemon's own and go away together.
 * After that no failure of a device process ends a VM: only the guest itself, `stop` and `kill` do.
 *
 * A record is the VM's file as it was at the start, in PATHS_STATE: "NAME.making" until the vault
 * is formatted, "NAME.conf" then. A new daemon that finds "making" removes what its predecessor had
 * half made; from the other it knows the taps and the policies of a VM whose file was changed
 * since.
 */
enum vm_state {
	VM_OFF,
	VM_FORMATTING,
	VM_STARTING,
	VM_RUNNING,
	VM_WAITING,
	VM_PRESERVED,
	VM_DEAD,
	VM_ENDING,
	VM_BROKEN,
};

/* What a client may wait for. */
enum vm_wish {
	VM_WISH_NONE,
	VM_WISH_START, /* until RUNNING */
	VM_WISH_STOP,  /* until the guest has switched itself off */
	VM_WISH_KILL,  /* until OFF */
};

struct vm {
	struct vm *next;
	struct keeld *keeld;
	char name[KEEL_VM_NAME_BYTES];
	enum vm_state state;
	uint32_t id;      /* hyp's; 0: no partition */
	bool known;       /* `file` is what it was made of */
	bool fresh;       /* never was RUNNING */
	bool stop_wanted; /* the power button is to be, or was, pressed */
	bool restart;     /* the next device process starts the guest again (--restart) */
	struct vmfile file;
	struct process process; /* formatter or device process */
	struct link link;
	struct loop_timer retry;       /* connect, start again, destroy again */
	struct loop_timer start_limit; /* of FORMATTING and the first STARTING */
	struct loop_timer stop_limit;
	struct loop_timer button;       /* pressed again: a guest that boots does not hear it yet */
	unsigned failures;              /* of the device process, in a row */
	unsigned restarts;              /* of the device process, in all */
	unsigned tries;                 /* to destroy */
	uint64_t served_ns;             /* when the device process began to answer */
	long log_bytes;                 /* of the log when the process was started */
	char error[VMFILE_ERROR_BYTES]; /* what went wrong last; empty: nothing */
};

const char *vm_state_name(const struct vm *vm);

/* The VM of that name, made (OFF) if the daemon has none. NULL: out of memory. */
struct vm *vm_get(struct keeld *keeld, const char *name);
struct vm *vm_find(const struct keeld *keeld, const char *name);
/* Forgets it. Its device process goes on. */
void vm_free(struct vm *vm);

/*
 * Each begins something whose end the daemon's `done` tells. False: refused, *error has one line
 * and nothing was begun.
 */
bool vm_start(struct vm *vm, struct vmfile_error *error);
bool vm_stop(struct vm *vm, unsigned timeout_s, struct vmfile_error *error);
bool vm_kill(struct vm *vm, struct vmfile_error *error);
/* Another device process in place of this one, from the program as it is now; VM_WISH_START tells
 * when it serves. */
bool vm_upgrade(struct vm *vm, struct vmfile_error *error);

/* Takes over a VM that hyp has when the daemon starts. */
void vm_adopt(struct vm *vm, uint32_t id);
