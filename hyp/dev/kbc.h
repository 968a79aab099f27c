/* SPDX-License-Identifier: BSD-2-Clause */
/* The 8042 keyboard controller with nothing plugged in: its reset pulse, and enough for a probe to
 * end at once. */
#pragma once

#include "hyp/dev/platform.h"

/* Everything under the platform's lock. */
struct kbc {
	uint8_t status;
	uint8_t data;   /* output buffer */
	uint8_t config; /* command byte */
	uint8_t output_port;
	uint8_t command; /* waits for its data byte; 0: none */
};

void kbc_reset(struct kbc *k);
uint8_t kbc_read(struct platform *p, uint16_t port, uint64_t now);
void kbc_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now);
