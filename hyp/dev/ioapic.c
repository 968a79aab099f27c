/* SPDX-License-Identifier: BSD-2-Clause */
/* The IOAPIC: 24 pins to LAPIC messages, remote IRR, and a brake on level interrupts that never go
 * away. */
#include "hyp/dev/ioapic.h"
#include "hyp/dev/platform_state.h"

#define VERSION 0x20u

#define PIN_PENDING    (1ull << 12)
#define PIN_REMOTE_IRR (1ull << 14)
#define PIN_LEVEL      (1ull << 15)
#define PIN_MASKED     (1ull << 16)
#define PIN_WRITABLE   (0xfffe00000001ffffull & ~(PIN_PENDING | PIN_REMOTE_IRR))
#define ID_MASK        0x0f000000u

/*
 * The brake (HAND C-05). Real wires have latency; here a guest that ends a level interrupt before
 * it quiets the device takes the next one before its next instruction, for ever. After so many
 * repeats in a row re-delivery waits a millisecond; then again after a few more repeats, until the
 * line was seen low once. The guest has at least half its time for itself meanwhile.
 */
#define BRAKE_REPEATS 10000u
#define BRAKE_AGAIN   9900u
#define BRAKE_HZ      1000u

void ioapic_reset(struct ioapic *io)
{
	*io = (struct ioapic){.deadline = PLATFORM_NEVER};
	for (unsigned i = 0; i < IOAPIC_PINS; i++) {
		io->redirect[i] = PIN_MASKED;
		io->resume_tsc[i] = PLATFORM_NEVER;
	}
}

/* Sends the pin's message. True: a LAPIC took it. */
static bool send(struct platform *p, uint64_t redirect)
{
	struct lapic_message m = {
	        /* Bits 55:49 extend the destination to 15 bits, as Linux and KVM use them when
	           interrupts are not remapped. */
	        .dest = (uint32_t)(redirect >> 56) | (uint32_t)(redirect >> 49 & 0x7f) << 8,
	        .broadcast = 0xff,
	        .delivery = (uint32_t)redirect & APIC_DELIVERY_MASK,
	        .vector = (uint8_t)redirect,
	        .logical = (redirect & APIC_ICR_LOGICAL) != 0,
	        .level = (redirect & PIN_LEVEL) != 0,
	};

	return lapic_deliver(p, &m, &p->work.notify) != 0;
}

/* A pin's re-delivery waits until then, or (PLATFORM_NEVER) no longer. */
static void set_resume(struct ioapic *io, unsigned pin, uint64_t tsc)
{
	if (io->resume_tsc[pin] == tsc)
		return;
	io->resume_tsc[pin] = tsc;
	io->deadline = PLATFORM_NEVER;
	for (unsigned i = 0; i < IOAPIC_PINS; i++)
		if (io->resume_tsc[i] < io->deadline)
			io->deadline = io->resume_tsc[i];
}

static void offer_level(struct platform *p, unsigned pin)
{
	struct ioapic *io = &p->ioapic;
	uint64_t redirect = io->redirect[pin];

	if (io->lines[pin] == 0 || io->resume_tsc[pin] != PLATFORM_NEVER ||
	        (redirect & (PIN_MASKED | PIN_LEVEL | PIN_REMOTE_IRR)) != PIN_LEVEL)
		return;
	if (send(p, redirect))
		io->redirect[pin] |= PIN_REMOTE_IRR;
}

void ioapic_retry(struct platform *p)
{
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++)
		offer_level(p, pin);
}

/* An edge while masked is lost (82093AA §3.2.4); a level stays and is offered when unmasked. */
void ioapic_set_pin(struct platform *p, unsigned pin, unsigned source, bool high)
{
	struct ioapic *io = &p->ioapic;
	bool was_high = io->lines[pin] != 0;

	if (high)
		io->lines[pin] |= (uint8_t)(1u << source);
	else
		io->lines[pin] &= (uint8_t) ~(1u << source);
	if (io->lines[pin] == 0) {
		io->repeats[pin] = 0;
		set_resume(io, pin, PLATFORM_NEVER);
	} else if ((io->redirect[pin] & PIN_LEVEL) != 0) {
		offer_level(p, pin);
	} else if (!was_high && (io->redirect[pin] & PIN_MASKED) == 0) {
		send(p, io->redirect[pin]);
	}
}

void ioapic_eoi(struct platform *p, uint8_t vector, uint64_t now)
{
	struct ioapic *io = &p->ioapic;

	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		uint64_t redirect = io->redirect[pin];

		if ((uint8_t)redirect != vector || (redirect & PIN_REMOTE_IRR) == 0)
			continue;
		io->redirect[pin] = redirect & ~PIN_REMOTE_IRR;
		if (io->lines[pin] == 0)
			io->repeats[pin] = 0;
		else if (++io->repeats[pin] >= BRAKE_REPEATS) {
			io->repeats[pin] = BRAKE_AGAIN;
			set_resume(io, pin, now + p->tsc_hz / BRAKE_HZ);
		}
		offer_level(p, pin);
	}
}

void ioapic_run(struct platform *p, uint64_t now)
{
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		if (p->ioapic.resume_tsc[pin] > now)
			continue;
		set_resume(&p->ioapic, pin, PLATFORM_NEVER);
		offer_level(p, pin);
	}
}

/*
 * Remote IRR goes when the pin becomes edge-triggered: systems use that as an EOI for IOAPICs
 * without the EOI register. A pin that is made level while its line is high is offered at once.
 */
static void write_redirect(struct platform *p, unsigned reg, uint32_t value)
{
	struct ioapic *io = &p->ioapic;
	unsigned pin = (reg - IOAPIC_REG_REDIRECT) >> 1, shift = (reg & 1) * 32;
	uint64_t writable = PIN_WRITABLE & (uint64_t)UINT32_MAX << shift;
	uint64_t redirect = (io->redirect[pin] & ~writable) | ((uint64_t)value << shift & writable);

	if ((redirect & PIN_LEVEL) == 0)
		redirect &= ~PIN_REMOTE_IRR;
	io->redirect[pin] = redirect;
	offer_level(p, pin);
}

static uint32_t read_window(const struct ioapic *io)
{
	unsigned reg = io->select;

	if (reg == IOAPIC_REG_ID || reg == IOAPIC_REG_ARB)
		return io->id;
	if (reg == IOAPIC_REG_VERSION)
		return VERSION | (IOAPIC_PINS - 1) << 16;
	if (reg < IOAPIC_REG_REDIRECT || reg >= IOAPIC_REG_REDIRECT + 2 * IOAPIC_PINS)
		return 0;
	return (uint32_t)(io->redirect[(reg - IOAPIC_REG_REDIRECT) >> 1] >> (reg & 1) * 32);
}

uint32_t ioapic_read(struct platform *p, uint32_t offset)
{
	if (offset == IOAPIC_MMIO_SELECT)
		return p->ioapic.select;
	return offset == IOAPIC_MMIO_WINDOW ? read_window(&p->ioapic) : 0;
}

void ioapic_write(struct platform *p, uint32_t offset, uint32_t value, uint64_t now)
{
	struct ioapic *io = &p->ioapic;

	switch (offset) {
	case IOAPIC_MMIO_SELECT: io->select = (uint8_t)value; break;
	case IOAPIC_MMIO_EOI: ioapic_eoi(p, (uint8_t)value, now); break;
	case IOAPIC_MMIO_WINDOW:
		if (io->select == IOAPIC_REG_ID)
			io->id = value & ID_MASK;
		else if (io->select >= IOAPIC_REG_REDIRECT &&
		         io->select < IOAPIC_REG_REDIRECT + 2 * IOAPIC_PINS)
			write_redirect(p, io->select, value);
		break;
	default: break;
	}
}
