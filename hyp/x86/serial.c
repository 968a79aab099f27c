/* SPDX-License-Identifier: BSD-2-Clause */
/* A polled 16550 for hyp's log: root may own the port too, so nothing but the transmitter is
 * touched after the start. */
#include "hyp/x86/internal.h"

#define UART_DATA    0
#define UART_IER     1
#define UART_FCR     2
#define UART_LCR     3
#define UART_MCR     4
#define UART_LSR     5
#define UART_SCRATCH 7
#define LCR_8N1      0x03
#define LCR_DLAB     0x80
#define MCR_DTR_RTS  0x03
#define FCR_ENABLE   0x07 /* and both FIFOs emptied */
#define LSR_THRE     0x20
#define FIFO_BYTES   16u
#define POLLS_MAX    100000u /* a port that never gets ready costs a line, not the machine */

static uint16_t serial_port;
static unsigned fifo_room;

void serial_init(uint16_t port)
{
	serial_port = 0;
	if (!port)
		return;
	outb(port + UART_SCRATCH, 0x5a);
	if (inb(port + UART_SCRATCH) != 0x5a)
		return;
	outb(port + UART_IER, 0);
	outb(port + UART_LCR, LCR_DLAB);
	outb(port + UART_DATA, 1); /* 115200 */
	outb(port + UART_IER, 0);
	outb(port + UART_LCR, LCR_8N1);
	outb(port + UART_FCR, FCR_ENABLE);
	outb(port + UART_MCR, MCR_DTR_RTS);
	serial_port = port;
}

static bool wait_room(void)
{
	for (unsigned i = 0; i < POLLS_MAX; i++) {
		if (inb(serial_port + UART_LSR) & LSR_THRE) {
			fifo_room = FIFO_BYTES;
			return true;
		}
		cpu_pause();
	}
	return false;
}

static bool put(char c)
{
	if (!fifo_room && !wait_room())
		return false;
	outb(serial_port + UART_DATA, (uint8_t)c);
	fifo_room--;
	return true;
}

void serial_write(const char *text, size_t n)
{
	fifo_room = 0; /* root may have filled the FIFO since */
	for (size_t i = 0; serial_port && i < n; i++) {
		if (text[i] == '\n' && !put('\r'))
			return;
		if (!put(text[i]))
			return;
	}
}
