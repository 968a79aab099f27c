/* SPDX-License-Identifier: BSD-2-Clause */
/* The 16550: interrupts as the FIFO drains, input in order, resets, loopback. */

#include "tests/guest/lib/guest.h"

#define COM1   0x3f8
#define IER    (COM1 + 1)
#define IIR    (COM1 + 2)
#define FCR    (COM1 + 2)
#define LCR    (COM1 + 3)
#define MCR    (COM1 + 4)
#define LSR    (COM1 + 5)
#define MSR    (COM1 + 6)
#define SCR    (COM1 + 7)
#define VECTOR 0x44

static volatile uint64_t thre, received, other;
static volatile uint8_t input[512];

static void on_uart(struct frame *f)
{
	(void)f;
	for (;;) {
		uint8_t iir = inb(IIR);

		if (iir & 1)
			break;
		switch (iir & 0xe) {
		case 2: thre++; break;
		case 4:
		case 0xc:
			while (inb(LSR) & 1 && received < sizeof(input))
				input[received++] = inb(COM1);
			break;
		default: other++; break;
		}
	}
	apic_eoi();
}

static bool wait_on(volatile uint64_t *count, uint64_t wanted, uint64_t us)
{
	irq_on();
	wait_for(*count >= wanted, us);
	irq_off();
	return *count >= wanted;
}

/* C-38: each time that the FIFO drains, one interrupt. */
static void test_thre(bool fifo)
{
	const unsigned rounds = 200;

	outb(FCR, fifo ? 0xc7 : 0);
	check_same(inb(IIR) & 0xc0, fifo ? 0xc0 : 0);
	thre = 0;
	outb(IER, 2); /* it is empty now: an interrupt at once */
	check(wait_on(&thre, 1, 1000000));
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t before = thre;

		for (unsigned n = 0; n < (fifo ? 16u : 1u); n++)
			outb(COM1, '.');
		check(wait_on(&thre, before + 1, 1000000));
	}
	outb(IER, 0);
	check_same(other, 0);
	/* Reading IIR clears it. */
	outb(IER, 2);
	check_same(inb(IIR) & 0xf, 2);
	check_same(inb(IIR) & 0xf, 1);
	outb(IER, 0);
	outb(FCR, 7);
	print("\n");
}

static void type_ramp(unsigned count, uint8_t first)
{
	for (unsigned i = 0; i < count; i++)
		outb(BOARD_TYPE, (uint8_t)(first + i));
	outb(BOARD_TYPE_GO, 0);
}

static void check_input(unsigned count, uint8_t first)
{
	check_same(received, count);
	for (unsigned i = 0; i < count && i < received; i++)
		check_same(input[i], (uint8_t)(first + i));
	received = 0;
}

static void test_input(void)
{
	outb(FCR, 7);
	received = 0;
	outb(IER, 1);
	for (unsigned n = 1; n <= 100; n += 9) {
		type_ramp(n, (uint8_t)n);
		check(wait_on(&received, n, 2000000));
		check_input(n, (uint8_t)n);
	}
	outb(IER, 0);
	/* By polling; what is more than the FIFO holds waits outside, nothing is lost. */
	type_ramp(100, 3);
	wait_for(false, 5000);
	for (unsigned i = 0; i < 100; i++) {
		check(wait_for(inb(LSR) & 1, 1000000));
		check_same(inb(LSR) & 0x1e, 0);
		input[received++] = inb(COM1);
	}
	check_input(100, 3);
	check_same(inb(LSR) & 1, 0);
	/* Input that nobody takes raises the interrupt once, not without end. */
	type_ramp(10, 1);
	on_vector(VECTOR, handler_eoi);
	outb(IER, 1);
	irq_on();
	wait_for(this_cpu()->interrupts[VECTOR] != 0, 1000);
	this_cpu()->interrupts[VECTOR] = 0;
	wait_for(false, 20000);
	irq_off();
	check(this_cpu()->interrupts[VECTOR] <= 1);
	outb(IER, 0);
	on_vector(VECTOR, on_uart);
}

static void test_reset(void)
{
	outb(FCR, 7);
	type_ramp(8, 1);
	check(wait_for(inb(LSR) & 1, 1000000));
	outb(FCR, 3);
	check_same(inb(LSR) & 1, 0);
	check_same(inb(LSR) & 0x60, 0x60);
	outb(FCR, 0);
	outb(FCR, 1);
	check_same(inb(LSR) & 1, 0);
}

static void test_registers(void)
{
	uint8_t lcr = inb(LCR);

	outb(SCR, 0x5a);
	check_same(inb(SCR), 0x5a);
	outb(LCR, lcr | 0x80);
	outb(COM1, 0x12);
	outb(IER, 0x34);
	check_same(inb(COM1), 0x12);
	check_same(inb(IER), 0x34);
	outb(LCR, 3);
	check_same(inb(LCR), 3);
	outb(IER, 0xff);
	check_same(inb(IER), 0x0f);
	outb(IER, 0);
	/* Loopback: out comes in, and the modem lines with it. */
	outb(MCR, 0x10);
	outb(COM1, 'x');
	check(wait_for(inb(LSR) & 1, 1000000));
	check_same(inb(COM1), 'x');
	outb(MCR, 0x1f);
	check_same(inb(MSR) & 0xf0, 0xf0);
	outb(MCR, 0x10);
	check_same(inb(MSR) & 0xf0, 0);
	outb(MCR, 0x0b);
	check_same(inb(LSR) & 0x60, 0x60);
}

void guest_main(void)
{
	apic_enable(false);
	on_vector(VECTOR, on_uart);
	outb(MCR, 0x0b);
	ioapic_route(4, VECTOR, 0);
	test("an interrupt each time the FIFO drains");
	test_thre(true);
	test("the same without FIFO");
	test_thre(false);
	test("input, by interrupt and by polling");
	test_input();
	test("FIFO resets");
	test_reset();
	test("registers and loopback");
	test_registers();
}
