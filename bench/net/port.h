/* SPDX-License-Identifier: BSD-2-Clause */
/* A guest's network card as its driver uses it, or a bare tap in its place. One thread's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define PORT_HDR_BYTES 12u /* struct virtio_net_hdr, before each frame both ways */
#define PORT_IOVS      20u /* pieces of a received frame: 64 KiB in pages, and some */

struct port_config {
	const char *tap; /* exists, and nobody has it */
	uint8_t mac[6];
	uint32_t frame_bytes; /* of the longest frame, without the header */
	uint32_t watch_ns;    /* the engine's ring watch */
};

struct port {
	/* Room for a header and a frame that nobody else uses until it is sent; NULL: none now. */
	uint8_t *(*room)(struct port *p);
	/* Sends what was made in the room got last: header and so many bytes of frame. */
	void (*send)(struct port *p, uint32_t frame_bytes);
	/* The next frame that came in, header first. Pieces filled in, 0: none; they stay until the
	 * next call of take or flush. */
	unsigned (*take)(struct port *p, struct iovec iov[PORT_IOVS]);
	/* Lets the device see what was done since. */
	void (*flush)(struct port *p);
	/* Sleeps until something has come in. False: nothing did for so long. */
	bool (*rest)(struct port *p, int timeout_ms);
	void (*close)(struct port *p);
	uint64_t kicks, calls; /* made and got; a bare tap has none */
};

/* By virtqueues and the engine. NULL with one line in error. */
struct port *port_open_engine(const struct port_config *c, char *error, size_t error_bytes);
/* The tap's descriptor itself: what any program must do that serves a card by a tap, and no more.
 */
struct port *port_open_bare(const struct port_config *c, char *error, size_t error_bytes);
