/* SPDX-License-Identifier: BSD-2-Clause */
/* Instructions on emulated memory do what the CPU does on RAM: registers, flags, memory, faults. */

#include "tests/guest/lib/guest.h"

#define ARITHMETIC 0x8d5u        /* OF SF ZF AF PF CF */
#define LOGIC      0x8c5u        /* AF is undefined */
#define BIT        0x001u        /* CF alone is defined */
#define LINEAR     0xe0000000ull /* a place whose pages are mapped as a case needs them */

struct io {
	uint64_t rax, rcx, rdx, flags;
};

/* rdi: the operand in memory. */
#define OP(name, text)                                                                             \
	static void name(void *memory, struct io *io)                                              \
	{                                                                                          \
		__asm__ volatile("pushq %0; popfq; " text "; pushfq; popq %0"                      \
		                 : "+b"(io->flags), "+a"(io->rax), "+c"(io->rcx), "+d"(io->rdx)    \
		                 : "D"(memory)                                                     \
		                 : "memory", "cc");                                                \
	}
OP(mov_load8, "movb (%%rdi), %%al")
OP(mov_load16, "movw (%%rdi), %%ax")
OP(mov_load32, "movl (%%rdi), %%eax")
OP(mov_load64, "movq (%%rdi), %%rax")
OP(mov_load_high, "movb (%%rdi), %%ah")
OP(mov_store8, "movb %%cl, (%%rdi)")
OP(mov_store_high, "movb %%ch, (%%rdi)")
OP(mov_store16, "movw %%cx, (%%rdi)")
OP(mov_store32, "movl %%ecx, (%%rdi)")
OP(mov_store64, "movq %%rcx, (%%rdi)")
OP(mov_imm8, "movb $0xa5, (%%rdi)")
OP(mov_imm32, "movl $0x89abcdef, (%%rdi)")
OP(mov_imm64, "movq $-0x12345678, (%%rdi)")
OP(movzx8, "movzbl (%%rdi), %%eax")
OP(movzx16, "movzwq (%%rdi), %%rax")
OP(movsx8, "movsbq (%%rdi), %%rax")
OP(movsx16, "movswl (%%rdi), %%eax")
OP(movsxd, "movslq (%%rdi), %%rax")
OP(mov_sib, "movl (%%rdi, %%rcx, 8), %%eax")
OP(add8, "addb %%cl, (%%rdi)")
OP(add64, "addq %%rcx, (%%rdi)")
OP(add_load, "addl (%%rdi), %%eax")
OP(adc32, "adcl %%ecx, (%%rdi)")
OP(sub32, "subl %%ecx, (%%rdi)")
OP(sub_load, "subq (%%rdi), %%rax")
OP(sbb16, "sbbw %%cx, (%%rdi)")
OP(and32, "andl %%ecx, (%%rdi)")
OP(and_load, "andl (%%rdi), %%eax")
OP(or8, "orb $0x42, (%%rdi)")
OP(or64, "lock orq %%rcx, (%%rdi)")
OP(xor32, "xorl %%ecx, (%%rdi)")
OP(cmp8, "cmpb $0x7f, (%%rdi)")
OP(cmp32, "cmpl %%eax, (%%rdi)")
OP(cmp_load32, "cmpl (%%rdi), %%eax")
OP(cmp_load64, "cmpq (%%rdi), %%rax")
OP(test8, "testb $0x80, (%%rdi)")
OP(test32, "testl %%ecx, (%%rdi)")
OP(inc32, "incl (%%rdi)")
OP(dec8, "decb (%%rdi)")
OP(not64, "notq (%%rdi)")
OP(neg32, "negl (%%rdi)")
OP(bt_imm, "btl $7, (%%rdi)")
OP(bts32, "andl $31, %%ecx; btsl %%ecx, (%%rdi)")
OP(btr64, "andl $63, %%ecx; lock btrq %%rcx, (%%rdi)")
OP(btc16, "btcw $3, (%%rdi)")
OP(xchg32, "xchgl %%ecx, (%%rdi)")
OP(xchg64, "xchgq %%rcx, (%%rdi)")
OP(cmpxchg32, "lock cmpxchgl %%ecx, (%%rdi)")
OP(cmpxchg_hit, "movq (%%rdi), %%rax; lock cmpxchgq %%rcx, (%%rdi)")
OP(xadd32, "lock xaddl %%ecx, (%%rdi)")
OP(stos32, "pushq %%rdi; stosl; popq %%rdi")
OP(movs64, "pushq %%rdi; pushq %%rsi; leaq 8(%%rdi), %%rsi; movsq; popq %%rsi; popq %%rdi")

struct op {
	const char *name;
	void (*run)(void *memory, struct io *io);
	uint32_t flags;
};
#define A(name)                                                                                    \
	{                                                                                          \
#name, name, ARITHMETIC                                                            \
	}
#define L(name)                                                                                    \
	{                                                                                          \
#name, name, LOGIC                                                                 \
	}
#define T(name)                                                                                    \
	{                                                                                          \
#name, name, BIT                                                                   \
	}
static const struct op ops[] = {A(mov_load8), A(mov_load16), A(mov_load32), A(mov_load64),
        A(mov_load_high), A(mov_store8), A(mov_store_high), A(mov_store16), A(mov_store32),
        A(mov_store64), A(mov_imm8), A(mov_imm32), A(mov_imm64), A(movzx8), A(movzx16), A(movsx8),
        A(movsx16), A(movsxd), A(mov_sib), A(add8), A(add64), A(add_load), A(adc32), A(sub32),
        A(sub_load), A(sbb16), L(and32), L(and_load), L(or8), L(or64), L(xor32), A(cmp8), A(cmp32),
        A(cmp_load32), A(cmp_load64), L(test8), L(test32), A(inc32), A(dec8), A(not64), A(neg32),
        T(bt_imm), T(bts32), T(btr64), T(btc16), A(xchg32), A(xchg64), A(cmpxchg32), A(cmpxchg_hit),
        A(xadd32), A(stos32), A(movs64)};
#define OPS (sizeof(ops) / sizeof(ops[0]))

static uint64_t ram[2] __attribute__((aligned(64)));
static volatile uint64_t *const device = (volatile uint64_t *)(uintptr_t)BOARD_MMIO;

static void run_op(const struct op *op, struct random *r, uint64_t memory)
{
	struct io on_ram = {random_next(r), random_next(r), random_next(r), 2}, on_device;
	uint64_t other = random_next(r);

	on_ram.flags |= random_next(r) & ARITHMETIC;
	if (random_next(r) % 4 == 0)
		on_ram.rax = memory; /* equal, now and then */
	if (op->run == mov_sib)
		on_ram.rcx = 0;
	on_device = on_ram;
	ram[0] = device[0] = memory;
	ram[1] = device[1] = other;
	op->run(ram, &on_ram);
	op->run((void *)(uintptr_t)BOARD_MMIO, &on_device);
	if (on_ram.rax != on_device.rax || on_ram.rcx != on_device.rcx ||
	        on_ram.rdx != on_device.rdx || (on_ram.flags ^ on_device.flags) & op->flags) {
		print("%s on %lx: rax %lx rcx %lx flags %lx, on RAM rax %lx rcx %lx flags %lx\n",
		        op->name, memory, on_device.rax, on_device.rcx, on_device.flags, on_ram.rax,
		        on_ram.rcx, on_ram.flags);
		test_failed(__FILE__, __LINE__, op->name, 0, 1);
	}
	if (device[0] != ram[0] || device[1] != ram[1])
		test_failed(__FILE__, __LINE__, op->name, device[0], ram[0]);
}

static void test_ops(void)
{
	static const uint64_t values[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000,
	        0xffffffff, 0x8086, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff};
	struct random r = {.state = info->seed};

	for (size_t i = 0; i < OPS; i++) {
		for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++)
			run_op(&ops[i], &r, values[v]);
		for (unsigned n = 0; n < 20; n++)
			run_op(&ops[i], &r, random_next(&r));
	}
}

/* C-42: a compare against a device, and the jump after it. */
static void test_jumps(void)
{
	static const uint32_t pairs[][2] = {{0x8086, 0x8086}, {0x8086, 0x8087}, {0x80000000, 1},
	        {1, 0x80000000}, {0, 0xffffffff}, {0xffffffff, 0}};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		uint32_t a = pairs[i][0], b = pairs[i][1], got = 0;

		device[0] = b;
#define JUMP(jcc, bit)                                                                             \
	__asm__ volatile("cmpl (%1), %2; " jcc " 1f; jmp 2f; 1: orl $" #bit ", %0; 2:"             \
	                 : "+r"(got)                                                               \
	                 : "r"(device), "r"(a)                                                     \
	                 : "cc", "memory")
		JUMP("je", 1);
		JUMP("jne", 2);
		JUMP("jb", 4);
		JUMP("ja", 8);
		JUMP("jl", 16);
		JUMP("jg", 32);
		JUMP("js", 64);
		check_same(got, (a == b) * 1u | (a != b) * 2u | (a < b) * 4u | (a > b) * 8u |
		                        ((int32_t)a < (int32_t)b) * 16u |
		                        ((int32_t)a > (int32_t)b) * 32u |
		                        ((int32_t)(a - b) < 0) * 64u);
	}
}

/* Two neighbouring pages at LINEAR; 0: not there. */
static void map_two(uint64_t first, uint64_t second)
{
	page_entry(LINEAR)[0] = first;
	page_entry(LINEAR + 4096)[0] = second;
	page_flush(LINEAR);
	page_flush(LINEAR + 4096);
}

static uint8_t ram_page[4096] __attribute__((aligned(4096)));
#define DEVICE_1 (BOARD_MMIO | 3ull)
#define DEVICE_2 ((BOARD_MMIO + 0x2000) | 3ull)
#define EDGE     (LINEAR + 4096 - 4)

static void store_edge(void *argument)
{
	*(volatile uint64_t *)EDGE = (uint64_t)argument;
}
static void load_edge(void *argument)
{
	*(uint64_t *)argument = *(volatile uint64_t *)EDGE;
}
static void xchg_edge(void *argument)
{
	__asm__ volatile("xchgq %0, (%1)" : "+r"(*(uint64_t *)argument) : "r"(EDGE) : "memory");
}
static void push_edge(void *argument)
{
	__asm__ volatile("movq %%rsp, %%rcx; movq %0, %%rsp; pushq %1; movq %%rcx, %%rsp"
	                 :
	                 : "r"(EDGE + 8), "r"(argument)
	                 : "rcx", "memory");
}
static void sse_edge(void *argument)
{
	__asm__ volatile("movups (%0), %%xmm3; movups %%xmm3, (%1)"
	                 :
	                 : "r"(argument), "r"(LINEAR + 4096 - 8)
	                 : "memory");
}

static uint32_t logged(void)
{
	return mmio_read(BOARD_LOG);
}

static struct board_access log_entry(unsigned i)
{
	uint64_t at = BOARD_LOG_ENTRY + i * sizeof(struct board_access);

	return (struct board_access){
	        .address = *(volatile uint64_t *)at,
	        .data = *(volatile uint64_t *)(at + 8),
	        .size = mmio_read(at + 16),
	        .write = mmio_read(at + 20),
	};
}

/* Each byte of the value once, in its place. */
static void check_pieces(uint64_t first_gpa, uint64_t second_gpa, uint64_t value)
{
	uint32_t seen[2] = {0, 0}, count = logged();

	for (unsigned i = 0; i < count && i < 8; i++) {
		struct board_access a = log_entry(i);
		bool second = a.address >= second_gpa && a.address < second_gpa + 8;
		uint64_t at = second ? a.address - second_gpa + 4 : a.address - first_gpa;

		check(a.write);
		check(at + a.size <= 8);
		for (unsigned b = 0; b < a.size && at + b < 8; b++) {
			check_same(a.data >> (8 * b) & 0xff, value >> (8 * (at + b)) & 0xff);
			check(!(seen[0] >> (at + b) & 1));
			seen[0] |= 1u << (at + b);
		}
	}
	check_same(seen[0], second_gpa ? 0xff : 0xf);
}

/* C-43 */
static void test_edges(void)
{
	const uint64_t end = BOARD_MMIO + 4092, next = BOARD_MMIO + 0x2000;
	uint64_t value = 0x1122334455667788, other = 0x99aabbccddeeff00;

	map_two(DEVICE_1, DEVICE_2);
	mmio_write(BOARD_LOG, 0);
	check_same(catch (store_edge, (void *)value), -1);
	check_pieces(end, next, value);
	check_same(catch (load_edge, &other), -1);
	check_same(other, value);
	other = 0x0123456789abcdef;
	check_same(catch (xchg_edge, &other), -1);
	check_same(other, value);
	mmio_write(BOARD_LOG, 0);
	check_same(catch (push_edge, (void *)value), -1);
	check_pieces(end, next, value);
	/* RAM, then the device; and the other way round. */
	map_two((uint64_t)ram_page | 3, DEVICE_2);
	check_same(catch (store_edge, (void *)other), -1);
	check_same(*(uint32_t *)(void *)(ram_page + 4092), (uint32_t)other);
	check_same(mmio_read(next), other >> 32);
	map_two(DEVICE_1, (uint64_t)ram_page | 3);
	check_same(catch (store_edge, (void *)value), -1);
	check_same(*(uint32_t *)(void *)ram_page, value >> 32);
	check_same(mmio_read(end), (uint32_t)value);
}

/* Every way in which a border can cut 2, 4 or 8 bytes. */
static void test_odd_edges(void)
{
	struct random r = {.state = info->seed};

	map_two(DEVICE_1, DEVICE_2);
	for (unsigned before = 1; before < 8; before++) {
		uint64_t at = LINEAR + 4096 - before, value = random_next(&r);

		*(volatile uint64_t *)at = value;
		check_same(*(volatile uint64_t *)at, value);
		for (unsigned i = 0; i < 8; i++)
			check_same(*(volatile uint8_t *)(at + i), value >> (8 * i) & 0xff);
		if (before < 4) {
			*(volatile uint32_t *)at = (uint32_t)~value;
			check_same(*(volatile uint32_t *)at, (uint32_t)~value);
			check_same(*(volatile uint32_t *)(at + 4), value >> 32);
		}
	}
	*(volatile uint16_t *)(LINEAR + 4095) = 0xbeef;
	check_same(*(volatile uint16_t *)(LINEAR + 4095), 0xbeef);
}

/* The second half faults: the device has seen nothing of the first. */
static void test_half_missing(void)
{
	void (*const ways[])(void *) = {store_edge, push_edge, xchg_edge, load_edge};
	uint64_t value = 0x5566778899aabbcc;

	for (unsigned i = 0; i < 4; i++) {
		map_two(DEVICE_1, 0);
		mmio_write(BOARD_LOG, 0);
		check_same(catch (ways[i], i < 2 ? (void *)value : &value), VECTOR_PF);
		check_same(this_cpu()->caught_cr2, LINEAR + 4096);
		check_same(this_cpu()->caught_error, i == 3 ? 0 : 2);
		check_same(logged(), 0);
	}
	/* Read-only second page (CR0.WP is set). */
	map_two(DEVICE_1, DEVICE_2 & ~2ull);
	check_same(catch (store_edge, (void *)value), VECTOR_PF);
	check_same(this_cpu()->caught_error, 3);
	check_same(logged(), 0);
}

static void test_sse(void)
{
	static uint64_t value[2]
	        __attribute__((aligned(16))) = {0x1111222233334444, 0x5555666677778888};
	uint64_t out[2] __attribute__((aligned(16))) = {0, 0};

	map_two(DEVICE_1, DEVICE_2);
	check_same(catch (sse_edge, value), -1);
	check_same(*(volatile uint64_t *)(LINEAR + 4088), value[0]);
	check_same(*(volatile uint64_t *)(LINEAR + 4096), value[1]);
	__asm__ volatile(
	        "movaps (%0), %%xmm5; movaps %%xmm5, 64(%1); movaps 64(%1), %%xmm6; movaps "
	        "%%xmm6, (%2)"
	        :
	        : "r"(value), "r"(LINEAR), "r"(out)
	        : "memory");
	check_same(out[0], value[0]);
	check_same(out[1], value[1]);
}

static void call_code(void *code)
{
	__asm__ volatile("call *%0"
	                 :
	                 : "r"(code), "D"((uint64_t)BOARD_MMIO - 0x100)
	                 : "memory", "cc");
}

/* An instruction across a page boundary: there, and with its second page missing. */
static void test_code_edge(void)
{
	/* cmpl $0x8086, 0x100(%rdi); ret */
	static const uint8_t code[] = {0x81, 0xbf, 0, 1, 0, 0, 0x86, 0x80, 0, 0, 0xc3};
	static uint8_t page1[4096] __attribute__((aligned(4096))),
	        page2[4096] __attribute__((aligned(4096)));

	device[0] = 0x8086;
	for (unsigned k = 1; k < sizeof(code); k++) {
		uint64_t at = LINEAR + 4096 - k;

		memcpy(page1 + 4096 - k, code, k);
		memcpy(page2, code + k, sizeof(code) - k);
		map_two((uint64_t)page1 | 3, (uint64_t)page2 | 3);
		check_same(catch (call_code, (void *)at), -1);
		if (k == 10)
			continue; /* only the RET is on the second page */
		map_two((uint64_t)page1 | 3, 0);
		check_same(catch (call_code, (void *)at), VECTOR_PF);
		check_same(this_cpu()->caught_cr2, LINEAR + 4096);
		check_same(this_cpu()->caught_error, 0x10);
	}
}

static void cmpxchg16(void *argument)
{
	uint64_t *r = argument;

	__asm__ volatile("lock cmpxchg16b (%4); setz %b0"
	                 : "=&q"(r[4]), "+a"(r[0]), "+d"(r[1])
	                 : "b"(r[2]), "r"(BOARD_MMIO + 64ull), "c"(r[3])
	                 : "memory", "cc");
}

static void test_cmpxchg16(void)
{
	uint64_t r[5] = {1, 2, 3, 4, 0};
	volatile uint64_t *at = device + 8;
	int vector;

	at[0] = 1;
	at[1] = 2;
	vector = catch (cmpxchg16, r);
	if (vector == VECTOR_UD)
		return; /* refused in order: nothing half-done */
	check_same(vector, -1);
	check_same(at[0], 3);
	check_same(at[1], 4);
}

static void test_holes(void)
{
	/* All ones, and writes go nowhere. */
	for (uint64_t at = 0xd1000000; at < 0xd1000040; at += 8) {
		*(volatile uint64_t *)at = 0;
		check_same(*(volatile uint64_t *)at, UINT64_MAX);
		check_same(*(volatile uint8_t *)(at + 3), 0xff);
	}
	check_same(inl(0x1234), 0xffffffff);
	check_same(inw(0x1234), 0xffff);
	check_same(inb(0x1234), 0xff);
}

void guest_main(void)
{
	test("52 instructions, as on RAM");
	test_ops();
	test("compare and jump");
	test_jumps();
	test("across two pages");
	test_edges();
	test("cut anywhere by the page border");
	test_odd_edges();
	test("the second page faults, the first sees nothing");
	test_half_missing();
	test("16-byte SSE moves");
	test_sse();
	test("an instruction across a page boundary");
	test_code_edge();
	test("cmpxchg16b is done or refused");
	test_cmpxchg16();
	test("where nothing is, reads give ones");
	test_holes();
}
