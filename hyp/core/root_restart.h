/* SPDX-License-Identifier: BSD-2-Clause */
/* Root's next life without firmware: how one root ends and another begins while the VMs run on. */
#pragma once

#include "abi/hypercall.h"
#include "hyp/core/partition.h"

/*
 * Essay: from one root to the next.
 *
 * A restart is asked for by root itself (a reset port, CF9h, a triple fault), or hyp gives root up
 * (no report that it is ready, no heartbeat). Then, in this order:
 *
 * STOPPING: every CPU puts its root vCPU away by itself: out of guest mode, power-on state, waiting
 * for SIPI; its APIC forgets what the old root had in service. VMs' vCPUs run on in between: a CPU
 * looks once, when it next passes its loop.
 *
 * Quiesce: the last CPU to stop takes bus mastering and interrupts from all devices, and begins to
 * reset them.
 *
 * COPYING: the boot CPU's root vCPU is scheduled like a running one, but each of its turns copies a
 * piece of the kept initramfs into root's memory, so that the VMs of that CPU lose no more time
 * than to any other work of root. It lasts until the devices are back from their resets.
 *
 * Load: kernel, zero page and first state, as at the start. Root runs.
 *
 * hyp keeps the images in pages of the pool from the start on, since a root that ran may have
 * overwritten any of its memory. VMs, their memory in root's nested tables, their exit slots and
 * doorbell bits stay as they are; only the event word starts at 0.
 */

/* Root is to be restarted: from its own exit, or because it is given up. Any CPU; what follows
 * happens in root_restart_poll. */
void root_restart_request(const char *why);
/* Each CPU, in its loop: does this CPU's share. */
void root_restart_poll(void);
/* A restart has this CPU's root vCPU to put away. */
bool root_restart_stops_us(void);
/* The boot CPU's root vCPU has pieces to copy; its turn is root_restart_step. */
bool root_restart_is_loading(void);
void root_restart_step(struct vcpu *v);

/* When this CPU must call root_restart_watch, host TSC; UINT64_MAX: not this CPU, or nothing to
 * watch. */
uint64_t root_restart_watch_tsc(void);
void root_restart_watch(void);
/* Root reports that it is up; that it lives (the next time within timeout_ms, 0: no watch; nothing
 * before it was ready). */
void root_restart_ready(void);
void root_restart_beat(uint32_t timeout_ms);
void root_restart_status(struct keel_hc_root_status *s);
