/* SPDX-License-Identifier: BSD-2-Clause */
/* The control thread's loop: exits, events, signals and the control socket, until there is a reason
 * to end. */
#pragma once

#include "vmm/control.h"

/* What the process ends with. */
#define RUN_EXIT_OFF                                                                               \
	0 /* the guest is off (boot_state STOPPED): the VM can be destroyed or started again */
#define RUN_EXIT_ERROR    1 /* could not start; one line said why */
#define RUN_EXIT_USAGE    2
#define RUN_EXIT_DETACHED 3 /* told to go (quit, SIGTERM, SIGINT): the guest goes on */
#define RUN_EXIT_DEAD     4 /* a vCPU cannot go on: the VM is paused for whoever wants to look */

/* Needs: SIGTERM and SIGINT blocked; machine_start went well. Returns RUN_EXIT_*. */
int run_loop(struct machine *machine, struct control *control);
