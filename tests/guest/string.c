/* SPDX-License-Identifier: BSD-2-Clause */
/* INS, OUTS and REP on emulated memory: order, faults before side effects, restarts. */

#include "tests/guest/lib/guest.h"

#define LINEAR 0xe0000000ull

static uint8_t pages[3][4096] __attribute__((aligned(4096)));
static uint64_t faults;

static void map(unsigned index, uint64_t entry)
{
	page_entry(LINEAR)[index] = entry;
	page_flush(LINEAR + index * 4096);
}

static void map_all(void)
{
	for (unsigned i = 0; i < 3; i++)
		map(i, (uint64_t)pages[i] | 3);
}

/* Brings the missing page, or makes it writable. */
static void on_fault(struct frame *f)
{
	unsigned index = (unsigned)(READ_CR(2) - LINEAR) / 4096;

	(void)f;
	if (index > 2) {
		print("FAIL: page fault at %lx\n", READ_CR(2));
		guest_exit(96);
	}
	faults++;
	map(index, (uint64_t)pages[index] | 3);
}

struct rep {
	uint64_t rdi, rsi, rcx;
};

#define REP(name, text)                                                                            \
	static void name(struct rep *r, uint16_t port, uint32_t value)                             \
	{                                                                                          \
		__asm__ volatile(text "; cld"                                                      \
		                 : "+D"(r->rdi), "+S"(r->rsi), "+c"(r->rcx)                        \
		                 : "d"(port), "a"(value)                                           \
		                 : "memory", "cc");                                                \
	}
REP(insb, "rep insb")
REP(insw, "rep insw")
REP(insd, "rep insl")
REP(insb_down, "std; rep insb")
REP(outsb, "rep outsb")
REP(outsd, "rep outsl")
REP(movsd, "rep movsl")
REP(movsb_down, "std; rep movsb")
REP(stosq, "rep stosq")
REP(lodsb, "lodsb; subq $1, %%rcx")
REP(insb32, ".byte 0x67; rep insb")

static void fifo_from(uint8_t first)
{
	outb(BOARD_FIFO, first);
}

static void check_ramp(const uint8_t *at, unsigned count, uint8_t first)
{
	for (unsigned i = 0; i < count; i++)
		check_same(at[i], (uint8_t)(first + i));
}

/* C-45: the page is missing, or from byte 3 on, or not writable. */
static void test_ins_faults(void)
{
	for (unsigned before = 0; before < 5; before++) {
		struct rep r = {.rdi = LINEAR + 4096 - before, .rcx = 5};

		map_all();
		map(1, 0);
		memset(pages, 0, sizeof(pages));
		faults = 0;
		fifo_from(1);
		insb(&r, BOARD_FIFO, 0);
		check_same(faults, 1);
		check_same(r.rcx, 0);
		check_same(r.rdi, LINEAR + 4096 - before + 5);
		for (unsigned i = 0; i < 5; i++)
			check_same(((volatile uint8_t *)LINEAR)[4096 - before + i], i + 1);
		check_same(inb(BOARD_FIFO), 6); /* none was read twice, none lost */
	}
	map(1, (uint64_t)pages[1] | 1);
	faults = 0;
	fifo_from(7);
	insb(&(struct rep){.rdi = LINEAR + 4096, .rcx = 5}, BOARD_FIFO, 0);
	check_same(faults, 1);
	check_ramp(pages[1], 5, 7);
	check_same(inb(BOARD_FIFO), 12);
}

static void test_ins_sizes(void)
{
	struct rep r = {.rdi = LINEAR + 100, .rcx = 6};

	map_all();
	fifo_from(1);
	insw(&r, BOARD_FIFO, 0);
	check_ramp(pages[0] + 100, 12, 1);
	check_same(r.rdi, LINEAR + 112);
	/* Each item across two pages, the second missing. */
	map(1, 0);
	faults = 0;
	fifo_from(20);
	insd(&(struct rep){.rdi = LINEAR + 4096 - 6, .rcx = 4}, BOARD_FIFO, 0);
	check_same(faults, 1);
	check_ramp(pages[0] + 4090, 6, 20);
	check_ramp(pages[1], 10, 26);
	r = (struct rep){.rdi = LINEAR + 4098, .rcx = 5};
	fifo_from(1);
	insb_down(&r, BOARD_FIFO, 0);
	check_same(r.rdi, LINEAR + 4093);
	for (unsigned i = 0; i < 5; i++)
		check_same(((volatile uint8_t *)LINEAR)[4098 - i], i + 1);
	r = (struct rep){.rdi = LINEAR + 200, .rcx = 3};
	fifo_from(9);
	insb32(&r, BOARD_FIFO, 0);
	check_ramp(pages[0] + 200, 3, 9);
	r = (struct rep){.rdi = LINEAR, .rcx = 0};
	insb(&r, BOARD_FIFO, 0); /* nothing */
	check_same(inb(BOARD_FIFO), 12);
}

static uint64_t log_data(unsigned i)
{
	return *(volatile uint64_t *)(BOARD_LOG_ENTRY + i * sizeof(struct board_access) + 8);
}

static void test_outs(void)
{
	struct rep r = {.rsi = LINEAR + 4096 - 2, .rcx = 5};

	map_all();
	for (unsigned i = 0; i < 8; i++)
		((volatile uint8_t *)LINEAR)[4094 + i] = (uint8_t)(0x30 + i);
	map(1, 0);
	faults = 0;
	mmio_write(BOARD_LOG, 0);
	outsb(&r, BOARD_PIO, 0);
	check_same(faults, 1);
	check_same(r.rsi, LINEAR + 4099);
	check_same(mmio_read(BOARD_LOG), 5);
	for (unsigned i = 0; i < 5; i++)
		check_same(log_data(i), 0x30 + i);
	mmio_write(BOARD_LOG, 0);
	map(1, 0);
	outsd(&(struct rep){.rsi = LINEAR + 4096 - 2, .rcx = 2}, BOARD_PIO, 0);
	check_same(mmio_read(BOARD_LOG), 2);
	check_same(log_data(0), 0x33323130);
	check_same(log_data(1), 0x37363534);
	/* From a device to a port. */
	mmio_write(BOARD_MMIO + 256, 0x64636261);
	mmio_write(BOARD_LOG, 0);
	outsb(&(struct rep){.rsi = BOARD_MMIO + 256, .rcx = 4}, BOARD_PIO, 0);
	check_same(inb(BOARD_PIO), 0x64);
}

static void test_memory(void)
{
	struct rep r = {.rdi = BOARD_MMIO, .rcx = 600};

	/* More than one exit's worth. */
	stosq(&r, 0, 0xa5a5a5a5);
	check_same(r.rdi, BOARD_MMIO + 4800);
	check_same(*(volatile uint64_t *)(uintptr_t)(BOARD_MMIO + 4792), 0xa5a5a5a5);
	check_same(*(volatile uint8_t *)(uintptr_t)(BOARD_MMIO + 4800), 0);
	map_all();
	for (unsigned i = 0; i < 4096; i++)
		pages[0][i] = (uint8_t)(i * 7);
	movsd(&(struct rep){.rdi = BOARD_MMIO + 1, .rsi = LINEAR + 3, .rcx = 300}, 0, 0);
	map(2, 0);
	faults = 0;
	r = (struct rep){.rdi = LINEAR + 8192 - 600, .rsi = BOARD_MMIO + 1, .rcx = 300};
	movsd(&r, 0, 0);
	check_same(faults, 1);
	check_same(memcmp((const void *)(LINEAR + 8192 - 600), pages[0] + 3, 1200), 0);
	/* Downwards and overlapping, within the device. */
	r = (struct rep){.rdi = BOARD_MMIO + 20, .rsi = BOARD_MMIO + 10, .rcx = 10};
	movsb_down(&r, 0, 0);
	check_same(r.rdi, BOARD_MMIO + 10);
	for (unsigned i = 0; i < 10; i++)
		check_same(*(volatile uint8_t *)(uintptr_t)(BOARD_MMIO + 11 + i), pages[0][3 + i]);
	r = (struct rep){.rsi = BOARD_MMIO + 5, .rcx = 1};
	lodsb(&r, 0, 0);
	check_same(r.rsi, BOARD_MMIO + 6);
}

static void on_timer(struct frame *f)
{
	(void)f;
	apic_eoi();
}

/* Interrupts get in between, and the rest goes on as if nothing had been. */
static void test_interrupted(void)
{
	struct rep r = {.rdi = LINEAR, .rcx = 8000};

	map_all();
	apic_enable(true);
	on_vector(0x40, on_timer);
	apic_write(APIC_TDCR, 0xb);
	apic_write(APIC_LVT_TIMER, 0x40 | TIMER_PERIODIC);
	apic_write(APIC_TMICT, 500000);
	memset(pages, 0, sizeof(pages));
	fifo_from(0);
	irq_on();
	insb(&r, BOARD_FIFO, 0);
	irq_off();
	apic_write(APIC_TMICT, 0);
	check_same(r.rcx, 0);
	check(this_cpu()->interrupts[0x40] > 1);
	for (unsigned i = 0; i < 8000; i++)
		if (((volatile uint8_t *)LINEAR)[i] != (uint8_t)i)
			test_failed(__FILE__, __LINE__, "byte", ((volatile uint8_t *)LINEAR)[i],
			        (uint8_t)i);
}

void guest_main(void)
{
	map_all();
	on_vector(VECTOR_PF, on_fault);
	test("INS into a page that is missing or read-only");
	test_ins_faults();
	test("INS of each size, downwards, across pages");
	test_ins_sizes();
	test("OUTS");
	test_outs();
	test("REP STOS, MOVS, LODS on a device");
	test_memory();
	test("interrupts within a REP INS");
	test_interrupted();
}
