/* SPDX-License-Identifier: BSD-2-Clause */
/* The 8042 without a keyboard or mouse: it answers every command at once, so that no probe waits
 * for a time-out. */
#include "hyp/dev/kbc.h"
#include "hyp/dev/platform_state.h"

#define STATUS_FULL    0x01u
#define STATUS_SYSTEM  0x04u
#define STATUS_COMMAND 0x08u
#define STATUS_UNLOCK  0x10u
#define STATUS_AUX     0x20u
#define STATUS_TIMEOUT 0x40u

#define CONFIG_INTERRUPT 0x01u

#define OUTPUT_NO_RESET 0x01u
#define OUTPUT_A20      0x02u

#define RESEND    0xfeu /* what the controller makes up for a device that does not answer */
#define TEST_OK   0x55u
#define PORT_OK   0x00u
#define CLOCK_LOW 0x01u /* AUX port test: nothing there */

static void update_line(struct platform *p)
{
	const struct kbc *k = &p->kbc;

	platform_drive(p, PLATFORM_PIN_KEYBOARD, PLATFORM_SOURCE_OWN,
	        (k->status & (STATUS_FULL | STATUS_AUX)) == STATUS_FULL &&
	                (k->config & CONFIG_INTERRUPT) != 0);
}

static void answer(struct kbc *k, uint8_t data, uint8_t flags)
{
	k->data = data;
	k->status = (uint8_t)((k->status & ~(STATUS_AUX | STATUS_TIMEOUT)) | STATUS_FULL | flags);
}

static void write_output_port(struct platform *p, uint8_t value)
{
	p->kbc.output_port = value | OUTPUT_NO_RESET;
	if ((value & OUTPUT_NO_RESET) == 0)
		platform_request_reset(p, PLATFORM_RESET_KEYBOARD);
}

static void write_command(struct platform *p, uint8_t value)
{
	struct kbc *k = &p->kbc;

	k->command = 0;
	switch (value) {
	case 0x20: answer(k, k->config, 0); break;
	case 0xa7: k->config |= 0x20; break;
	case 0xa8: k->config &= (uint8_t)~0x20; break;
	case 0xa9: answer(k, CLOCK_LOW, 0); break;
	case 0xaa: answer(k, TEST_OK, 0); break;
	case 0xab: answer(k, PORT_OK, 0); break;
	case 0xad: k->config |= 0x10; break;
	case 0xae: k->config &= (uint8_t)~0x10; break;
	case 0xc0: answer(k, 0x80, 0); break; /* input port: not locked */
	case 0xd0: answer(k, k->output_port, 0); break;
	case 0x60: /* these wait for a byte */
	case 0xd1:
	case 0xd2:
	case 0xd3:
	case 0xd4: k->command = value; break;
	default:
		/* F0h-FFh pulse the output lines whose bit is 0: line 0 is the CPU's reset. */
		if (value >= 0xf0 && (value & OUTPUT_NO_RESET) == 0)
			platform_request_reset(p, PLATFORM_RESET_KEYBOARD);
		break;
	}
}

static void write_data(struct platform *p, uint8_t value)
{
	struct kbc *k = &p->kbc;
	uint8_t command = k->command;

	k->command = 0;
	switch (command) {
	case 0x60: k->config = value; break;
	case 0xd1: write_output_port(p, value); break;
	case 0xd2: answer(k, value, 0); break;
	case 0xd3: answer(k, value, 0); break; /* without the AUX flag: no second port */
	case 0xd4: answer(k, RESEND, STATUS_AUX | STATUS_TIMEOUT); break;
	default: answer(k, RESEND, STATUS_TIMEOUT); break; /* to the keyboard */
	}
}

uint8_t kbc_read(struct platform *p, uint16_t port, uint64_t now)
{
	struct kbc *k = &p->kbc;

	(void)now;
	if (port != 0x60)
		return k->status;
	k->status &= (uint8_t) ~(STATUS_FULL | STATUS_AUX | STATUS_TIMEOUT);
	update_line(p);
	return k->data;
}

void kbc_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now)
{
	struct kbc *k = &p->kbc;

	(void)now;
	if (port == 0x60) {
		k->status &= (uint8_t)~STATUS_COMMAND;
		write_data(p, value);
	} else {
		k->status |= STATUS_COMMAND;
		write_command(p, value);
	}
	update_line(p);
}

void kbc_reset(struct kbc *k)
{
	*k = (struct kbc){
	        .status = STATUS_SYSTEM | STATUS_UNLOCK,
	        .config = 0x04, /* self-test passed, no interrupts */
	        .output_port = OUTPUT_NO_RESET | OUTPUT_A20,
	};
}
