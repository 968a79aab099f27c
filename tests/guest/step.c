/* SPDX-License-Identifier: BSD-2-Clause */
/* Single-steps over instructions that hyp carries out itself: each is followed by its own #DB. */

#include "tests/guest/lib/guest.h"

#define BS 0x4000u

#define STEPS 16u
static uint64_t rips[STEPS];
static volatile unsigned steps;
static volatile uint64_t dr6;

static void on_step(struct frame *f)
{
	uint64_t value;

	__asm__ volatile("mov %%dr6, %0" : "=r"(value));
	dr6 |= value;
	__asm__ volatile("mov %0, %%dr6" : : "r"(0xffff0ff0ull));
	if (steps < STEPS)
		rips[steps] = f->rip;
	steps++;
}

static void begin(void)
{
	steps = 0;
	dr6 = 0;
}

#define STEP_ON  "pushfq; orl $0x100, (%%rsp); popfq\n"
#define STEP_OFF "pushfq; andl $~0x100, (%%rsp); popfq\n"

/* Where each instruction of a block ends, in its order. */
static void check_steps(const uint64_t *ends, unsigned count)
{
	check(dr6 & BS);
	check(steps >= count);
	for (unsigned i = 0; i < count; i++)
		check_same(rips[i], ends[i]);
}

static void test_exits(void)
{
	extern const uint8_t s1[], s2[], s3[], s4[], s5[], s6[];
	const uint64_t ends[] = {
	        (uint64_t)s1, (uint64_t)s2, (uint64_t)s3, (uint64_t)s4, (uint64_t)s5, (uint64_t)s6};

	begin();
	__asm__ volatile(STEP_ON "xorl %%eax, %%eax\n"
	                         "s1: cpuid\n"
	                         "s2: movl $0x1b, %%ecx\n"
	                         "s3: rdmsr\n"
	                         "s4: inb $0x61, %%al\n"
	                         "s5: nop\n"
	                         "s6:" STEP_OFF
	                 :
	                 :
	                 : "rax", "rbx", "rcx", "rdx", "memory");
	check_steps(ends, 6);
}

static void test_mmio(void)
{
	extern const uint8_t m1[], m2[], m3[];
	const uint64_t ends[] = {(uint64_t)m1, (uint64_t)m2, (uint64_t)m3};

	begin();
	__asm__ volatile(STEP_ON "movl 0xf0(%0), %%eax\n" /* the LAPIC's page, which hyp answers */
	                         "m1: movl %%eax, 0xf0(%0)\n"
	                         "m2: testl %%eax, 0x20(%0)\n"
	                         "m3:" STEP_OFF
	                 :
	                 : "r"(0xfee00000ull)
	                 : "rax", "memory");
	check_steps(ends, 3);
}

/* After each iteration, with rip still at the instruction until the last. */
static void test_repeats(void)
{
	extern const uint8_t r0[], r1[];
	const uint64_t ends[] = {(uint64_t)r0, (uint64_t)r0, (uint64_t)r0, (uint64_t)r1};
	static const uint8_t bytes[3];
	const uint8_t *from = bytes;
	uint64_t count = 3;

	begin();
	__asm__ volatile("movl $0x80, %%edx\n" STEP_ON "nop\n"
	                 "r0: rep outsb\n"
	                 "r1:" STEP_OFF
	                 : "+S"(from), "+c"(count)
	                 :
	                 : "rdx", "memory");
	check_same(count, 0);
	check_steps(ends, 4);
}

/* With interrupts off nothing else would ever wake it. */
static void test_halt(void)
{
	extern const uint8_t h1[];
	const uint64_t ends[] = {(uint64_t)h1};

	begin();
	__asm__ volatile(STEP_ON "hlt\n"
	                         "h1:" STEP_OFF
	                 :
	                 :
	                 : "memory");
	check_steps(ends, 1);
}

void guest_main(void)
{
	on_vector(VECTOR_DB, on_step);
	apic_enable(false);
	test("CPUID, RDMSR, IN");
	test_exits();
	test("emulated memory");
	test_mmio();
	test("a repeated OUTS");
	test_repeats();
	test("HLT");
	test_halt();
}
