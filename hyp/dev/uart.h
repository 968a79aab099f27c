/* SPDX-License-Identifier: BSD-2-Clause */
/* The serial port COM1 (PC16550D): output to a ring that never blocks, input from a queue. */
#pragma once

#include "hyp/dev/platform.h"

#define UART_FIFO_BYTES  16u
#define UART_QUEUE_BYTES 512u /* what root wrote and the guest has not room for yet */

#define UART_CHAR_BREAK 0x100u

/* Everything under the platform's lock. */
struct uart {
	uint8_t *ring;                    /* PLATFORM_CONSOLE_BYTES */
	uint64_t written;                 /* bytes since creation */
	bool unread;                      /* root was told and has not read since */
	bool refused;                     /* input was refused: root is told when there is room */
	uint16_t queue[UART_QUEUE_BYTES]; /* byte | UART_CHAR_BREAK */
	uint32_t queue_head;
	uint32_t queue_count;
	uint16_t fifo[UART_FIFO_BYTES];
	uint32_t fifo_head;
	uint32_t fifo_count;
	uint64_t
	        deadline; /* TSC at which the queue moves on into an emptied FIFO; PLATFORM_NEVER */
	uint8_t ier;
	uint8_t fcr;
	uint8_t lcr;
	uint8_t mcr;
	uint8_t msr; /* bits 0..3: what changed */
	uint8_t scratch;
	uint16_t divisor;
	bool overrun;
	bool thr_interrupt; /* the transmitter went empty and IIR did not tell yet */
	bool line;          /* level of the IRQ */
};

void uart_reset(struct uart *u, uint8_t *ring, bool keep);
uint8_t uart_read(struct platform *p, uint16_t port, uint64_t now);
void uart_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now);
void uart_run(struct platform *p, uint64_t now);
size_t uart_ring_read(struct uart *u, uint64_t *position, uint8_t *out, size_t len);
size_t uart_queue_write(struct platform *p, const uint8_t *in, size_t len);
bool uart_queue_break(struct platform *p);
