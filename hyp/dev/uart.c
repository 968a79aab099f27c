/* SPDX-License-Identifier: BSD-2-Clause */
/* The 16550A: a transmitter that is always ready, a receiver with a FIFO of 16 and a queue behind
 * it. */
#include "hyp/dev/platform_state.h"
#include "hyp/dev/uart.h"

#define REG_DATA    0u
#define REG_IER     1u
#define REG_IIR     2u /* write: FCR */
#define REG_LCR     3u
#define REG_MCR     4u
#define REG_LSR     5u
#define REG_MSR     6u
#define REG_SCRATCH 7u

#define IER_RECEIVE  0x01u
#define IER_TRANSMIT 0x02u
#define IER_LINE     0x04u
#define IER_MODEM    0x08u

#define IIR_NONE    0x01u
#define IIR_MODEM   0x00u
#define IIR_SEND    0x02u
#define IIR_RECEIVE 0x04u
#define IIR_LINE    0x06u
#define IIR_TIMEOUT 0x0cu
#define IIR_FIFOS   0xc0u

#define FCR_ENABLE        0x01u
#define FCR_CLEAR_RECEIVE 0x02u
#define FCR_KEEP          0xc1u

#define LCR_DIVISOR 0x80u
#define MCR_LOOP    0x10u

#define LSR_READY      0x01u
#define LSR_OVERRUN    0x02u
#define LSR_BREAK      0x10u
#define LSR_SEND_EMPTY 0x60u
#define LSR_FIFO_ERROR 0x80u

#define MSR_CONNECTED 0xb0u /* carrier, data set ready, clear to send */

/* About one character at 115200: a FIFO that was just emptied stays so for that long, and a guest
 * that drains it comes to an end. */
#define REFILL_HZ 10000u

static bool has_fifo(const struct uart *u)
{
	return (u->fcr & FCR_ENABLE) != 0;
}

static unsigned capacity(const struct uart *u)
{
	return has_fifo(u) ? UART_FIFO_BYTES : 1;
}

static uint16_t *top(struct uart *u)
{
	return &u->fifo[u->fifo_head];
}

static bool top_is_break(const struct uart *u)
{
	return u->fifo_count != 0 && (u->fifo[u->fifo_head] & UART_CHAR_BREAK) != 0;
}

/* Highest first (PC16550D table III). */
static uint8_t find_interrupt(const struct uart *u)
{
	static const uint8_t triggers[4] = {1, 4, 8, 14};

	if ((u->ier & IER_LINE) != 0 && (u->overrun || top_is_break(u)))
		return IIR_LINE;
	if ((u->ier & IER_RECEIVE) != 0 && u->fifo_count != 0)
		return !has_fifo(u) || u->fifo_count >= triggers[u->fcr >> 6] ? IIR_RECEIVE
		                                                              : IIR_TIMEOUT;
	if ((u->ier & IER_TRANSMIT) != 0 && u->thr_interrupt)
		return IIR_SEND;
	if ((u->ier & IER_MODEM) != 0 && (u->msr & 0x0f) != 0)
		return IIR_MODEM;
	return IIR_NONE;
}

/* The wire moves only when the state does (HAND C-41 b). OUT2 does not gate it: small systems
 * forget to set it. */
static void update_line(struct platform *p)
{
	bool high = find_interrupt(&p->uart) != IIR_NONE;

	if (high == p->uart.line)
		return;
	p->uart.line = high;
	platform_drive(p, PLATFORM_PIN_UART, PLATFORM_SOURCE_OWN, high);
}

/* PC16550D: a character that finds no room is lost and says so; what is in the FIFO stays. */
static void receive(struct uart *u, uint16_t character)
{
	if (u->fifo_count == capacity(u)) {
		u->overrun = true;
		return;
	}
	u->fifo[(u->fifo_head + u->fifo_count) % UART_FIFO_BYTES] = character;
	u->fifo_count++;
}

static void fill_fifo(struct platform *p)
{
	struct uart *u = &p->uart;

	while (u->queue_count != 0 && u->fifo_count < capacity(u) && (u->mcr & MCR_LOOP) == 0) {
		receive(u, u->queue[u->queue_head]);
		u->queue_head = (u->queue_head + 1) % UART_QUEUE_BYTES;
		u->queue_count--;
	}
	if (u->refused && u->queue_count <= UART_QUEUE_BYTES / 2) {
		u->refused = false;
		p->work.console_ready = true;
	}
}

static void refill_later(struct platform *p, uint64_t now)
{
	if (p->uart.queue_count != 0 && p->uart.fifo_count == 0 &&
	        p->uart.deadline == PLATFORM_NEVER)
		p->uart.deadline = now + p->tsc_hz / REFILL_HZ;
}

void uart_run(struct platform *p, uint64_t now)
{
	if (p->uart.deadline > now)
		return;
	p->uart.deadline = PLATFORM_NEVER;
	fill_fifo(p);
	update_line(p);
}

/* Output never waits: the oldest byte of the ring goes (HAND C-41 a). */
static void emit(struct platform *p, uint8_t byte)
{
	struct uart *u = &p->uart;

	u->ring[u->written % PLATFORM_CONSOLE_BYTES] = byte;
	u->written++;
	if (!u->unread)
		p->work.console_ready = true;
	u->unread = true;
}

/* Holding register and FIFO are empty again at once: the interrupt goes and comes, so that an
 * edge-triggered pin sees each (HAND C-38). */
static void transmit(struct platform *p, uint8_t byte)
{
	struct uart *u = &p->uart;

	u->thr_interrupt = false;
	update_line(p);
	if ((u->mcr & MCR_LOOP) != 0)
		receive(u, byte);
	else
		emit(p, byte);
	u->thr_interrupt = true;
}

static uint8_t take_character(struct platform *p, uint64_t now)
{
	struct uart *u = &p->uart;
	uint8_t byte;

	if (u->fifo_count == 0)
		return 0;
	byte = (uint8_t)*top(u);
	u->fifo_head = (u->fifo_head + 1) % UART_FIFO_BYTES;
	u->fifo_count--;
	refill_later(p, now);
	return byte;
}

static uint8_t read_line_status(struct uart *u)
{
	uint8_t value = LSR_SEND_EMPTY;

	if (u->fifo_count != 0)
		value |= LSR_READY;
	if (u->overrun)
		value |= LSR_OVERRUN;
	if (top_is_break(u))
		value |= LSR_BREAK;
	for (unsigned i = 0; has_fifo(u) && i < u->fifo_count; i++)
		if ((u->fifo[(u->fifo_head + i) % UART_FIFO_BYTES] & UART_CHAR_BREAK) != 0)
			value |= LSR_FIFO_ERROR;
	u->overrun = false;
	if (top_is_break(u))
		*top(u) &= (uint16_t)~UART_CHAR_BREAK;
	return value;
}

/* In loopback the modem outputs come back as inputs: RTS, DTR, OUT1, OUT2 as CTS, DSR, RI, DCD. */
static uint8_t modem_inputs(const struct uart *u)
{
	if ((u->mcr & MCR_LOOP) == 0)
		return MSR_CONNECTED;
	return (uint8_t)((u->mcr & 2) << 3 | (u->mcr & 1) << 5 | (u->mcr & 4) << 4 |
	                 (u->mcr & 8) << 4);
}

static void write_modem_control(struct uart *u, uint8_t value)
{
	uint8_t before = modem_inputs(u), changed;

	u->mcr = value & 0x1f;
	changed = before ^ modem_inputs(u);
	/* RI tells only its trailing edge. */
	u->msr |= (uint8_t)((changed >> 4 & 0xb) | ((changed & before) >> 4 & 4));
}

static void write_fifo_control(struct platform *p, uint8_t value, uint64_t now)
{
	struct uart *u = &p->uart;
	bool clear = ((value ^ u->fcr) & FCR_ENABLE) != 0 || (value & FCR_CLEAR_RECEIVE) != 0;

	u->fcr = (value & FCR_ENABLE) != 0 ? value & FCR_KEEP : 0;
	if (!clear)
		return;
	u->fifo_count = 0;
	u->fifo_head = 0;
	refill_later(p, now);
}

uint8_t uart_read(struct platform *p, uint16_t port, uint64_t now)
{
	struct uart *u = &p->uart;
	uint8_t value = 0;

	switch (port & 7) {
	case REG_DATA:
		value = (u->lcr & LCR_DIVISOR) != 0 ? (uint8_t)u->divisor : take_character(p, now);
		break;
	case REG_IER:
		value = (u->lcr & LCR_DIVISOR) != 0 ? (uint8_t)(u->divisor >> 8) : u->ier;
		break;
	case REG_IIR:
		value = find_interrupt(u);
		if (value == IIR_SEND)
			u->thr_interrupt = false;
		value |= has_fifo(u) ? IIR_FIFOS : 0;
		break;
	case REG_LCR: value = u->lcr; break;
	case REG_MCR: value = u->mcr; break;
	case REG_LSR: value = read_line_status(u); break;
	case REG_MSR:
		value = modem_inputs(u) | (u->msr & 0x0f);
		u->msr = 0;
		break;
	default: value = u->scratch; break;
	}
	update_line(p);
	return value;
}

void uart_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now)
{
	struct uart *u = &p->uart;
	bool divisor = (u->lcr & LCR_DIVISOR) != 0;

	switch (port & 7) {
	case REG_DATA:
		if (divisor)
			u->divisor = (uint16_t)((u->divisor & 0xff00) | value);
		else
			transmit(p, value);
		break;
	case REG_IER:
		if (divisor) {
			u->divisor = (uint16_t)((u->divisor & 0xff) | value << 8);
		} else {
			if ((value & ~u->ier & IER_TRANSMIT) != 0)
				u->thr_interrupt = true; /* it is empty */
			u->ier = value & 0x0f;
		}
		break;
	case REG_IIR: write_fifo_control(p, value, now); break;
	case REG_LCR: u->lcr = value; break;
	case REG_MCR:
		write_modem_control(u, value);
		refill_later(p, now);
		break;
	case REG_SCRATCH: u->scratch = value; break;
	default: break; /* LSR, MSR: read only */
	}
	update_line(p);
}

size_t uart_ring_read(struct uart *u, uint64_t *position, uint8_t *out, size_t len)
{
	uint64_t oldest = u->written > PLATFORM_CONSOLE_BYTES ? u->written - PLATFORM_CONSOLE_BYTES
	                                                      : 0;
	uint64_t at = *position < oldest ? oldest : *position;
	size_t done = 0;

	if (at > u->written)
		at = u->written;
	*position = at;
	u->unread = false;
	while (done < len && at + done < u->written) {
		size_t start = (at + done) % PLATFORM_CONSOLE_BYTES;
		size_t piece = PLATFORM_CONSOLE_BYTES - start;

		piece = piece > len - done ? len - done : piece;
		piece = piece > u->written - at - done ? (size_t)(u->written - at - done) : piece;
		__builtin_memcpy(out + done, u->ring + start, piece);
		done += piece;
	}
	*position = at + done;
	return done;
}

static bool enqueue(struct uart *u, uint16_t character)
{
	if (u->queue_count == UART_QUEUE_BYTES) {
		u->refused = true;
		return false;
	}
	u->queue[(u->queue_head + u->queue_count) % UART_QUEUE_BYTES] = character;
	u->queue_count++;
	return true;
}

/* While a refill is due, what comes now waits behind it. */
static void queue_grew(struct platform *p)
{
	if (p->uart.deadline == PLATFORM_NEVER)
		fill_fifo(p);
	update_line(p);
}

size_t uart_queue_write(struct platform *p, const uint8_t *in, size_t len)
{
	size_t done = 0;

	while (done < len && enqueue(&p->uart, in[done]))
		done++;
	queue_grew(p);
	return done;
}

bool uart_queue_break(struct platform *p)
{
	bool done = enqueue(&p->uart, UART_CHAR_BREAK);

	queue_grew(p);
	return done;
}

/* Master reset, but the modem's wires and the scratch register (PC16550D table I). */
void uart_reset(struct uart *u, uint8_t *ring, bool keep)
{
	uint64_t written = keep ? u->written : 0;
	bool unread = keep && u->unread, refused = keep && u->refused;

	*u = (struct uart){.ring = ring,
	        .written = written,
	        .unread = unread,
	        .refused = refused,
	        .deadline = PLATFORM_NEVER,
	        .divisor = 12};
}
