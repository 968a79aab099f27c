/* SPDX-License-Identifier: BSD-2-Clause */
/* How a PC resets itself beside the keyboard controller. */
#include "hyp/dev/platform_state.h"
#include "hyp/dev/reset.h"

#define CF9_RESET_CPU 0x04u
#define CF9_WRITABLE  0x0eu

#define PORT_92H_RESET 0x01u
#define PORT_92H_A20   0x02u

uint8_t reset_read(struct platform *p, uint16_t port, uint64_t now)
{
	(void)now;
	return port == PLATFORM_RESET_PORT ? p->reset.cf9 : p->reset.port_92h;
}

/* Both act when their reset bit goes from 0 to 1. */
void reset_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now)
{
	struct reset *r = &p->reset;

	(void)now;
	if (port == PLATFORM_RESET_PORT) {
		if ((value & ~r->cf9 & CF9_RESET_CPU) != 0)
			platform_request_reset(p, PLATFORM_RESET_CF9);
		r->cf9 = value & CF9_WRITABLE;
	} else {
		if ((value & ~r->port_92h & PORT_92H_RESET) != 0)
			platform_request_reset(p, PLATFORM_RESET_PORT_92H);
		r->port_92h = value;
	}
}

void reset_reset(struct reset *r)
{
	*r = (struct reset){.port_92h = PORT_92H_A20};
}
