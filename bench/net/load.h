/* SPDX-License-Identifier: BSD-2-Clause */
/* What a guest does with its card: a stream with a window, as TCP's, and its acknowledgements. */
#pragma once

#include <stdatomic.h>

#include "bench/lib/hist.h"
#include "bench/net/port.h"

#define LOAD_SEGMENT                                                                               \
	1448u /* payload of a frame on the wire; a longer one is segmented there (TSO) */
#define LOAD_BYTES_MIN 32u /* what both sides tell each other in a frame */
#define LOAD_BYTES_MAX 65160u
#define LOAD_HEADS     54u /* Ethernet, IPv4, TCP */

struct load {
	struct port *port;
	uint8_t mac[6], peer[6];
	uint32_t bytes;  /* payload of a frame */
	unsigned window; /* frames on their way; 0: this guest only answers */
	bool verify;     /* look at each received byte */
	bool is_timed;   /* (any) */

	/* Its thread's; others read them now and then. */
	uint64_t sent, acked;
	uint64_t expected, told; /* the number of the next frame; what the peer knows of that */
	uint64_t received, received_bytes, verified;
	uint64_t lost;     /* frames that did not come although a later one did */
	uint64_t given_up; /* frames whose answer did not come in time, which may come yet */
	uint64_t echo_ns;  /* when the newest frame was sent, by its sender's note */
	struct hist *hist; /* from sending to the answer */
	char error[128];   /* what was received and is wrong */
};

/* Looks at what came in and sends what may be sent. Returns how many frames that were. */
unsigned load_turn(struct load *l);
/* No answer came for long: what is on its way is given up. */
void load_give_up(struct load *l);
