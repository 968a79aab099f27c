/* SPDX-License-Identifier: BSD-2-Clause */
/* The 16550A (PC16550D) and the console behind it: HAND C-38, C-39, C-41. */
#include "tests/unit/hyp/dev/pc.h"
/* sources: hyp/dev/lapic.c hyp/dev/lapic_irq.c hyp/dev/lapic_timer.c hyp/dev/ioapic.c */
/* sources: hyp/dev/pic.c hyp/dev/pit.c hyp/dev/pmtimer.c hyp/dev/hpet.c hyp/dev/rtc.c */
/* sources: hyp/dev/uart.c hyp/dev/kbc.c hyp/dev/reset.c hyp/dev/platform.c */
/* sources: hyp/dev/platform_event.c lib/timebase.c */

#define GHZ   1000000000ull
#define COM1  0x3f8
#define DATA  (COM1 + 0)
#define IER   (COM1 + 1)
#define IIR   (COM1 + 2)
#define FCR   (COM1 + 2)
#define LCR   (COM1 + 3)
#define MCR   (COM1 + 4)
#define LSR   (COM1 + 5)
#define MSR   (COM1 + 6)
#define SPARE (COM1 + 7)

static struct pc *new_pc(bool fifo)
{
	struct pc *pc = pc_new(1, GHZ);

	pc_enable_all(pc);
	pc_outb(pc, 0x21, 0xff);
	pc_set_redirect(pc, 4, 0x44);
	if (fifo)
		pc_outb(pc, FCR, 0xc7); /* trigger at 14 */
	return pc;
}

static void type(struct pc *pc, const char *text)
{
	assert_int_equal(
	        platform_console_write(&pc->p, (const uint8_t *)text, strlen(text)), strlen(text));
}

/* Registers at power-on and what Linux's autoconfig looks at: IER, the FIFOs, loopback's modem
 * lines, no 16650 or 16750. */
static void test_identity(void **unused)
{
	struct pc *pc = new_pc(false);

	(void)unused;
	assert_int_equal(pc_inb(pc, IIR), 0x01);
	assert_int_equal(pc_inb(pc, LSR), 0x60);
	assert_int_equal(pc_inb(pc, MSR), 0xb0);
	pc_outb(pc, IER, 0xff);
	assert_int_equal(pc_inb(pc, IER), 0x0f);
	pc_outb(pc, IER, 0);
	pc_outb(pc, FCR, 0x01);
	assert_int_equal(pc_inb(pc, IIR) >> 6, 3);
	pc_outb(pc, FCR, 0x00);
	assert_int_equal(pc_inb(pc, IIR) >> 6, 0);
	pc_outb(pc, MCR, 0x1a);
	assert_int_equal(pc_inb(pc, MSR) & 0xf0, 0x90);
	pc_outb(pc, MCR, 0x15);
	assert_int_equal(pc_inb(pc, MSR) & 0xf0, 0x60);
	pc_outb(pc, MCR, 0);
	pc_outb(pc, SPARE, 0x5a);
	assert_int_equal(pc_inb(pc, SPARE), 0x5a);
	pc_outb(pc, LCR, 0x83);
	pc_outb(pc, DATA, 0x34);
	pc_outb(pc, IER, 0x12);
	assert_int_equal(pc_inb(pc, DATA), 0x34);
	assert_int_equal(pc_inb(pc, IER), 0x12);
	pc_outb(pc, LCR, 0x03);
	assert_int_equal(pc_inb(pc, LCR), 0x03);
	assert_int_equal(pc_inb(pc, IER), 0);
	assert_int_equal(pc->p.uart.written, 0); /* the divisor was no output */
	pc_free(pc);
}

/*
 * HAND C-38 (a), (c): THR-empty interrupt on enabling and each time the FIFO drains, gone once IIR
 * told it, 1000 rounds of 16 bytes, with and without FIFO; what was sent arrives in full and in
 * order although the reader is slow.
 */
static void test_transmit_interrupt(void **unused)
{
	(void)unused;
	for (unsigned fifo = 0; fifo < 2; fifo++) {
		struct pc *pc = new_pc(fifo);
		unsigned burst = fifo ? 16 : 1, sent = 0;
		uint64_t position = 0;
		uint8_t out[1000];
		unsigned seen = 0;

		pc_outb(pc, IER, 0x02);
		for (unsigned round = 0; round < 1000; round++) {
			assert_int_equal(pc_serve(pc, 0), 0x44);
			assert_int_equal(pc_inb(pc, IIR) & 0x0f, 0x02);
			assert_int_equal(pc_inb(pc, IIR) & 0x0f, 0x01);
			assert_int_equal(pc_serve(pc, 0), -1);
			for (unsigned i = 0; i < burst; i++) {
				assert_int_equal(pc_inb(pc, LSR) & 0x20, 0x20);
				pc_outb(pc, DATA, (uint8_t)(sent++ * 7));
			}
			if (round % 10 == 9)
				for (size_t n = platform_console_read(
				                    &pc->p, &position, out, sizeof(out)),
				            i = 0;
				        i < n; i++)
					assert_int_equal(out[i], (uint8_t)(seen++ * 7));
		}
		while (seen < sent) {
			size_t n = platform_console_read(&pc->p, &position, out, 7);

			for (size_t i = 0; i < n; i++)
				assert_int_equal(out[i], (uint8_t)(seen++ * 7));
			assert_true(n > 0);
		}
		/* Enabling it again asks again (Linux's test for UART_BUG_THRE). */
		pc_inb(pc, IIR);
		pc_outb(pc, IER, 0);
		pc_outb(pc, IER, 0x02);
		assert_int_equal(pc_inb(pc, IIR) & 0x0f, 0x02);
		pc_free(pc);
	}
}

/* HAND C-38 (b): the FIFO's reset bits empty it at once, LSR and the interrupt follow; what waits
 * behind comes later, not at once. */
static void test_fifo_reset(void **unused)
{
	struct pc *pc = new_pc(true);

	(void)unused;
	pc_outb(pc, IER, 0x01);
	type(pc, "abcdefghijklmnopqrst");
	assert_int_equal(pc_serve(pc, 0), 0x44);
	assert_int_equal(pc_inb(pc, LSR), 0x61);
	pc_outb(pc, FCR, 0xc7);
	assert_int_equal(pc_inb(pc, LSR), 0x60);
	assert_int_equal(pc_inb(pc, IIR), 0xc1);
	assert_int_equal(pc_serve(pc, 0), -1);
	assert_true(platform_shared_deadline(&pc->p) != PLATFORM_NEVER);
	pc_run_until(pc, pc->now + GHZ / 1000);
	assert_int_equal(pc_serve(pc, 0), 0x44);
	assert_int_equal(pc_inb(pc, DATA), 'q');
	pc_outb(pc, FCR, 0x00); /* leaving FIFO mode empties it too */
	assert_int_equal(pc_inb(pc, LSR), 0x60);
	pc_free(pc);
}

/* The receiver: trigger level, what is below it as a time-out, one character without FIFOs, all in
 * order over a paste of 500. */
static void test_receive(void **unused)
{
	struct pc *pc = new_pc(true);
	uint8_t paste[500];
	unsigned got = 0;

	(void)unused;
	pc_outb(pc, IER, 0x01);
	type(pc, "x");
	assert_int_equal(pc_inb(pc, IIR), 0xcc);
	type(pc, "0123456789abc");
	assert_int_equal(pc_inb(pc, IIR), 0xc4);
	assert_int_equal(pc_inb(pc, DATA), 'x');
	assert_int_equal(pc_inb(pc, IIR), 0xcc);
	while ((pc_inb(pc, LSR) & 1) != 0)
		pc_inb(pc, DATA);
	assert_int_equal(pc_inb(pc, IIR), 0xc1);
	assert_int_equal(pc_inb(pc, DATA), 0);
	for (unsigned i = 0; i < sizeof(paste); i++)
		paste[i] = (uint8_t)(i * 3);
	assert_int_equal(platform_console_write(&pc->p, paste, sizeof(paste)), sizeof(paste));
	for (unsigned tries = 0; tries < 1000 && got < sizeof(paste); tries++) {
		pc_run_until(pc, pc->now + GHZ / 1000);
		while ((pc_inb(pc, LSR) & 1) != 0) {
			assert_int_equal(pc_inb(pc, DATA), paste[got]);
			got++;
		}
	}
	assert_int_equal(got, sizeof(paste));
	pc_outb(pc, FCR, 0);
	type(pc, "12");
	assert_int_equal(pc_inb(pc, IIR), 0x04);
	assert_int_equal(pc_inb(pc, DATA), '1');
	assert_int_equal(pc_inb(pc, LSR), 0x60);
	pc_run_until(pc, pc->now + GHZ / 1000);
	assert_int_equal(pc_inb(pc, DATA), '2');
	pc_free(pc);
}

/* HAND C-39: a break comes in its place as a zero with LSR's break bit, and the character after it
 * is there; 100 times, and in bursts. */
static void test_break(void **unused)
{
	struct pc *pc = new_pc(true);

	(void)unused;
	pc_outb(pc, IER, 0x05);
	for (unsigned n = 0; n < 100; n++) {
		assert_true(platform_console_break(&pc->p));
		type(pc, "h");
		assert_int_equal(pc_serve(pc, 0), 0x44);
		assert_int_equal(pc_inb(pc, IIR) & 0x0f, 0x06);
		assert_int_equal(pc_inb(pc, LSR), 0x60 | 0x80 | 0x10 | 0x01);
		assert_int_equal(pc_inb(pc, LSR), 0x61);
		assert_int_equal(pc_inb(pc, DATA), 0);
		assert_int_equal(pc_inb(pc, LSR), 0x61);
		assert_int_equal(pc_inb(pc, DATA), 'h');
		assert_int_equal(pc_inb(pc, LSR), 0x60);
	}
	type(pc, "a");
	platform_console_break(&pc->p);
	type(pc, "b");
	assert_int_equal(
	        pc_inb(pc, LSR), 0x60 | 0x80 | 0x01); /* an error is in the FIFO, not on top */
	assert_int_equal(pc_inb(pc, DATA), 'a');
	assert_int_equal(pc_inb(pc, LSR) & 0x10, 0x10);
	assert_int_equal(pc_inb(pc, DATA), 0);
	assert_int_equal(pc_inb(pc, DATA), 'b');
	type(pc, "0123456789abcdef"); /* full: the break waits behind */
	assert_true(platform_console_break(&pc->p));
	type(pc, "z");
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(pc_inb(pc, DATA), "0123456789abcdef"[i]);
	pc_run_until(pc, pc->now + GHZ / 1000);
	assert_int_equal(pc_inb(pc, LSR) & 0x11, 0x11);
	assert_int_equal(pc_inb(pc, DATA), 0);
	assert_int_equal(pc_inb(pc, DATA), 'z');
	pc_free(pc);
}

/* HAND C-39, overrun by 40 (a real line cannot wait; loopback is one here): OE once, the oldest
 * FIFO content stays. */
static void test_overrun(void **unused)
{
	struct pc *pc = new_pc(true);

	(void)unused;
	pc_outb(pc, IER, 0x04);
	pc_outb(pc, MCR, 0x10);
	for (unsigned i = 0; i < 56; i++)
		pc_outb(pc, DATA, (uint8_t)i);
	assert_int_equal(pc_inb(pc, IIR) & 0x0f, 0x06);
	assert_int_equal(pc_inb(pc, LSR), 0x63);
	assert_int_equal(pc_inb(pc, LSR), 0x61);
	assert_int_equal(pc_inb(pc, IIR) & 0x0f, 0x01);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(pc_inb(pc, DATA), i);
	assert_int_equal(pc_inb(pc, LSR), 0x60);
	assert_int_equal(pc->p.uart.written, 0);
	pc_free(pc);
}

/* Modem status: what loopback changes raises the interrupt until MSR is read (RI by its trailing
 * edge only). */
static void test_modem_status(void **unused)
{
	struct pc *pc = new_pc(false);

	(void)unused;
	pc_outb(pc, MCR, 0x10);
	pc_inb(pc, MSR);
	pc_outb(pc, IER, 0x08);
	pc_outb(pc, MCR, 0x17); /* DTR, RTS, OUT1 */
	assert_int_equal(pc_inb(pc, IIR), 0x00);
	assert_int_equal(pc_inb(pc, MSR), 0x73);
	assert_int_equal(pc_inb(pc, IIR), 0x01);
	pc_outb(pc, MCR, 0x10);
	assert_int_equal(pc_inb(pc, MSR), 0x07);
	pc_free(pc);
}

/* HAND C-41 (a): 1 MiB that nobody reads: no access fails or waits, the newest 256 KiB are kept and
 * counted right. */
static void test_flood(void **unused)
{
	struct pc *pc = new_pc(true);
	uint64_t position = 0;
	static uint8_t out[PLATFORM_CONSOLE_BYTES + 1];

	(void)unused;
	for (unsigned i = 0; i < 1u << 20; i++)
		pc_outb(pc, DATA, (uint8_t)(i >> 8 ^ i));
	assert_int_equal(pc->console_ready, 1);
	assert_int_equal(platform_console_read(&pc->p, &position, out, 1000), 1000);
	assert_int_equal(position, (1u << 20) - PLATFORM_CONSOLE_BYTES + 1000);
	assert_int_equal(out[0], (uint8_t)((position - 1000) >> 8 ^ (position - 1000)));
	assert_int_equal(platform_console_read(&pc->p, &position, out, sizeof(out)),
	        PLATFORM_CONSOLE_BYTES - 1000);
	assert_int_equal(position, 1u << 20);
	assert_int_equal(platform_console_read(&pc->p, &position, out, sizeof(out)), 0);
	pc_outb(pc, DATA, 'n');
	assert_int_equal(pc->console_ready, 2);
	position = UINT64_MAX; /* a reader with a wrong idea */
	assert_int_equal(platform_console_read(&pc->p, &position, out, 10), 0);
	assert_int_equal(position, (1u << 20) + 1);
	pc_free(pc);
}

/* HAND C-41 (b): input that the guest does not read moves the wire once, wakes nobody, and what has
 * no room stays outside. */
static void test_unread_input(void **unused)
{
	struct pc *pc = new_pc(true);
	uint8_t much[2000];
	size_t taken, more = 0;

	(void)unused;
	memset(much, 'm', sizeof(much));
	taken = platform_console_write(&pc->p, much, 64); /* receive interrupts are off */
	assert_int_equal(taken, 64);
	assert_int_equal(pc_serve(pc, 0), -1);
	assert_int_equal(platform_shared_deadline(&pc->p), PLATFORM_NEVER);
	pc_outb(pc, IER, 0x01);
	assert_int_equal(pc_serve(pc, 0), 0x44);
	taken += platform_console_write(&pc->p, much, sizeof(much));
	assert_int_equal(taken, UART_FIFO_BYTES + UART_QUEUE_BYTES - 16 + 16);
	assert_int_equal(platform_console_write(&pc->p, much, sizeof(much)), 0);
	assert_false(platform_console_break(&pc->p));
	assert_int_equal(pc_serve(pc, 0), -1); /* the wire was high and stays so */
	assert_int_equal(pc_run_until(pc, 100 * GHZ), 0);
	assert_int_equal(pc->console_ready, 0);
	for (unsigned tries = 0; tries < 100 && more < taken; tries++) {
		for (; (pc_inb(pc, LSR) & 1) != 0; more++)
			pc_inb(pc, DATA);
		pc_run_until(pc, pc->now + GHZ / 1000);
	}
	assert_int_equal(more, taken);
	assert_int_equal(pc->console_ready, 1); /* room again, told once */
	pc_free(pc);
}

/* A reset of the VM keeps what the console said and where readers are; the input is forgotten. */
static void test_reset_keeps_console(void **unused)
{
	struct pc *pc = new_pc(true);
	struct platform_config config = pc_config(pc, 1, GHZ);
	uint64_t position = 0;
	uint8_t out[16];

	(void)unused;
	pc_outb(pc, DATA, 'a');
	type(pc, "typed");
	platform_init(&pc->p, &config, true);
	assert_int_equal(pc_inb(pc, LSR), 0x60);
	pc_outb(pc, DATA, 'b');
	assert_int_equal(platform_console_read(&pc->p, &position, out, sizeof(out)), 2);
	assert_memory_equal(out, "ab", 2);
	pc_free(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_identity),
	        cmocka_unit_test(test_transmit_interrupt),
	        cmocka_unit_test(test_fifo_reset),
	        cmocka_unit_test(test_receive),
	        cmocka_unit_test(test_break),
	        cmocka_unit_test(test_overrun),
	        cmocka_unit_test(test_modem_status),
	        cmocka_unit_test(test_flood),
	        cmocka_unit_test(test_unread_input),
	        cmocka_unit_test(test_reset_keeps_console),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
