/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and writes hyp's console ring of a VM (console.h). */
#include "cli/console.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/device.h"
#include "cli/verb.h"

#define PAUSE_MIN_MS 2u
#define PAUSE_MAX_MS 30u

/* Behind the last byte: reads what is there and throws it away. */
static int skip_to_end(struct console *console)
{
	uint8_t ignored[KEEL_CONSOLE_CHUNK];
	int got;

	do
		got = console_read(console, ignored, sizeof(ignored));
	while (got > 0);
	return got;
}

int console_open(struct console *console, const char *name, bool from_start)
{
	int code = EXIT_OK, rc, fd = device_open(&code);

	*console = (struct console){.fd = -1};
	if (fd < 0)
		return code;
	snprintf(console->name, sizeof(console->name), "%s", name);
	rc = device_open_vm(fd, name);
	close(fd);
	if (rc == -ENOENT)
		return complain(EXIT_REFUSED,
		        "hyp has no VM %s; 'keel vm list' shows all, 'keel vm start %s' starts it",
		        name, name);
	if (rc < 0)
		return complain(EXIT_REFUSED, "VM %s: %s", name, strerror(-rc));
	console->fd = rc;
	if (!from_start && skip_to_end(console) < 0) {
		console_close(console);
		return complain(EXIT_REFUSED, "VM %s is gone", name);
	}
	return EXIT_OK;
}

void console_close(struct console *console)
{
	if (console->fd >= 0)
		close(console->fd);
	console->fd = -1;
}

int console_read(struct console *console, uint8_t *out, size_t room)
{
	struct keel_hc_console block = {
	        .position = console->position,
	        .bytes = (uint32_t)(room < KEEL_CONSOLE_CHUNK ? room : KEEL_CONSOLE_CHUNK),
	};
	int rc = device_console_read(console->fd, &block);

	if (rc != 0)
		return rc == -ENOENT ? -ENODEV : rc;
	console->position = block.position;
	memcpy(out, block.data, block.bytes);
	return (int)block.bytes;
}

int console_write(struct console *console, const uint8_t *in, size_t bytes)
{
	struct keel_hc_console block = {
	        .bytes = (uint32_t)(bytes < KEEL_CONSOLE_CHUNK ? bytes : KEEL_CONSOLE_CHUNK),
	};
	int rc;

	memcpy(block.data, in, block.bytes);
	rc = device_console_write(console->fd, &block);
	if (rc != 0)
		return rc == -ENOENT ? -ENODEV : rc;
	return (int)block.bytes;
}

bool console_wait(unsigned *idle, int fd)
{
	struct pollfd in = {.fd = fd, .events = POLLIN};
	unsigned pause_ms = PAUSE_MIN_MS << (*idle < 8 ? *idle : 8);

	++*idle;
	return poll(&in, 1, (int)(pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS)) > 0;
}
