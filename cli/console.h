/* SPDX-License-Identifier: BSD-2-Clause */
/* A VM's console as two calls: it is in hyp, and needs no device process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct console {
	int fd;            /* the VM's, to look by; -1: not open */
	uint64_t position; /* of the next byte to read, counted from the VM's start */
	char name[64];
};

/* from_start: from the oldest byte kept, else from now on. Returns EXIT_OK, or EXIT_* after a line.
 */
int console_open(struct console *console, const char *name, bool from_start);
void console_close(struct console *console);
/* At most `room` bytes. Their number, 0: none now; -ENODEV: the VM is gone. */
int console_read(struct console *console, uint8_t *out, size_t room);
/* How many of them were taken (the receiver may be full); -ENODEV as above. */
int console_write(struct console *console, const uint8_t *in, size_t bytes);
/*
 * Sleeps until something may be there to read, or `fd` (if not -1) is readable: true. hyp tells
 * only device processes of output, so this is a pause that grows with *idle (0 after output came).
 */
bool console_wait(unsigned *idle, int fd);
