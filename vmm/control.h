/* SPDX-License-Identifier: BSD-2-Clause */
/* The control socket of a device process: one JSON object a line in, one out. */
#pragma once

#include "vmm/machine.h"

/*
 * RUN_DIRECTORY/NAME.sock, a stream socket, mode 0600. Requests: {"cmd": WORD}. Answers: {"ok":
 * true, …} or {"ok": false, "error": TEXT}.
 *
 *   status       name, id, pid, state, boots, devices
 *   stats        exits by kind, and per device requests, bytes, errors, slow kicks
 *   resize       device: a disk's name. Looks at its size again; the guest is told if it changed
 *   powerbutton  presses the button; the guest decides
 *   reset        the reset button
 *   poweroff     pulls the plug: the process ends with RUN_EXIT_OFF
 *   quit         the process ends with RUN_EXIT_DETACHED, the guest goes on
 *
 * A client that does not read loses its connection; nothing here waits for one.
 */
#define CONTROL_CLIENTS    4u
#define CONTROL_LINE_BYTES 512u

enum control_wish {
	CONTROL_NOTHING,
	CONTROL_QUIT,
	CONTROL_OFF,
};

struct control_client {
	int fd; /* -1: free */
	size_t used;
	char line[CONTROL_LINE_BYTES];
};

struct control {
	struct machine *machine;
	int listener;
	struct control_client clients[CONTROL_CLIENTS];
};

/*
 * Binds the socket. A socket that a dead process left is replaced; one that answers, or anything
 * that is no socket, is left alone and refused (C-57). 0, or a negative errno with one line in
 * `error`.
 */
int control_open(struct control *control, struct machine *machine, const char *path, char *error,
        size_t error_bytes);
/* Takes a new client; returns its index, -1 if there is none or no room. */
int control_accept(struct control *control);
/* Reads what a client sent and answers each whole line. Its fd is -1 afterwards if it is gone. */
enum control_wish control_serve(struct control *control, unsigned client);
