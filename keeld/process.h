/* SPDX-License-Identifier: BSD-2-Clause */
/* A device process as the daemon sees it: started or found, told of when it ends. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "keeld/loop.h"

#define PROCESS_UNKNOWN (-1) /* how it ended: it was not our child */

struct process {
	struct loop *loop;
	struct loop_source source; /* its pidfd */
	pid_t pid;                 /* 0: none */
	bool child;
	/* status: the exit code, 128 + the signal, or PROCESS_UNKNOWN. There is none by then. */
	void (*ended)(struct process *process, int status);
};

/*
 * Starts argv[0] in a session of its own, so that it outlives the daemon, with these descriptors
 * as standard input and as output and error. 0 or -errno. Needs: pid 0, `loop` and `ended` set.
 */
int process_start(struct process *process, char *const argv[], int input, int output);
/* One that an earlier daemon started. 0 or -errno (-ESRCH: it is gone). */
int process_adopt(struct process *process, pid_t pid);
void process_signal(const struct process *process, int signal);
/* Forgets it; it goes on. */
void process_release(struct process *process);
