/* SPDX-License-Identifier: BSD-2-Clause */
/* The reset control register CF9h (ICH9 §13.7.5; also ACPI's reset register) and port 92h. */
#pragma once

#include "hyp/dev/platform.h"

/* Everything under the platform's lock. */
struct reset {
	uint8_t cf9;
	uint8_t port_92h;
};

void reset_reset(struct reset *r);
uint8_t reset_read(struct platform *p, uint16_t port, uint64_t now);
void reset_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now);
