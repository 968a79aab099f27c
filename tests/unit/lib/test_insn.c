/* SPDX-License-Identifier: BSD-2-Clause */
/* Instructions under way: pieces, order of effects, restart between pieces, addresses and faults.
 */
/* sources: lib/insn_decode.c lib/insn_exec.c lib/insn_alu.c */
#include "lib/insn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define CF 0x001u
#define ZF 0x040u
#define SF 0x080u
#define DF 0x400u
#define RF 0x10000u

static struct insn_regs make_regs(void)
{
	struct insn_regs regs = {.rip = 0x1000, .rflags = 0x202, .linear_bits = 48};

	for (int i = 0; i < 6; i++)
		regs.seg[i] = (struct insn_seg){.limit = 0xffffffff, .attr = 0xcf3};
	regs.seg[INSN_CS].attr = 0xcfb;
	return regs;
}

static struct insn_step make_step(enum insn_mode mode, const char *bytes, size_t len)
{
	struct insn_step step;

	memset(&step, 0xee, sizeof(step)); /* only step.insn counts */
	assert_int_equal(insn_decode((const uint8_t *)bytes, len, mode, &step.insn), INSN_OK);
	assert_int_equal(step.insn.len, len);
	return step;
}

#define STEP(mode, bytes) make_step(INSN_MODE_##mode, bytes, sizeof(bytes) - 1)

/* As a restart of whoever serves the exit: the record moves, the old one is gone. */
static struct insn_step *move_step(struct insn_step *step)
{
	static struct insn_step places[2];
	struct insn_step *to = step == &places[0] ? &places[1] : &places[0];

	*to = *step;
	memset(step, 0xdd, sizeof(*step));
	return to;
}

static void read_piece(struct insn_step *step, const struct insn_regs *regs, uint64_t addr,
        unsigned int size, uint64_t data)
{
	struct insn_piece *p = insn_next(step, regs);

	assert_non_null(p);
	assert_int_equal(step->writing, 0);
	assert_int_equal(p->addr, addr);
	assert_int_equal(p->size, size);
	assert_true(p->rights & INSN_READ);
	assert_ptr_equal(insn_next(step, regs), p);
	p->data = data;
	insn_done(step);
}

static void written_piece(struct insn_step *step, const struct insn_regs *regs, uint64_t addr,
        unsigned int size, uint64_t data)
{
	struct insn_piece *p = insn_next(step, regs);

	assert_non_null(p);
	assert_int_equal(step->writing, 1);
	assert_int_equal(p->addr, addr);
	assert_int_equal(p->size, size);
	assert_int_equal(p->data, data);
	assert_true(p->rights & INSN_WRITE);
	assert_ptr_equal(insn_next(step, regs), p);
	insn_done(step);
}

static void finish(struct insn_step *step, struct insn_regs *regs)
{
	assert_null(insn_next(step, regs));
	insn_commit(step, regs);
}

/* C-42: flags come from what the device answered, rip from the decoded length. */
static void test_flags_come_from_device_data(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		unsigned int size;
		uint64_t device, flags;
	} cases[] = {
	        {"\x39\x03", 2, 4, 0x8086, ZF}, /* cmp %eax, (%rbx) */
	        {"\x39\x03", 2, 4, 0x8085, CF | SF}, {"\x39\x03", 2, 4, 0x8087, 0},
	        {"\x3b\x03", 2, 4, 0x8087, CF | SF},        /* cmp (%rbx), %eax */
	        {"\x66\x81\x3b\x86\x80", 5, 2, 0x8086, ZF}, /* cmpw $0x8086, (%rbx) */
	        {"\x80\x3b\x86", 3, 1, 0x85, CF | SF},      /* cmpb $0x86, (%rbx) */
	        {"\x48\x39\x03", 3, 8, 0x8086, ZF},         /* cmp %rax, (%rbx) */
	        {"\x48\x39\x03", 3, 8, 1ull << 63 | 0x8086, SF},
	        {"\x85\x03", 2, 4, 0x7f79, ZF},                     /* test %eax, (%rbx) */
	        {"\xf7\x03\x00\x00\x00\x80", 6, 4, 0x80000000, SF}, /* testl $0x80000000, (%rbx) */
	        {"\x0f\xba\x23\x1f", 4, 4, 0x80000000, CF},         /* btl $31, (%rbx) */
	        {"\x0f\xba\x23\x1e", 4, 4, 0x80000000, 0},
	        {"\x23\x03", 2, 4, 0x7f79, ZF},     /* and (%rbx), %eax */
	        {"\x2b\x03", 2, 4, 0x8086, ZF},     /* sub (%rbx), %eax */
	        {"\x0b\x03", 2, 4, 0x80000000, SF}, /* or (%rbx), %eax */
	        {"\x33\x03", 2, 4, 0x8086, ZF},     /* xor (%rbx), %eax */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct insn_step step = make_step(INSN_MODE_64, cases[i].bytes, cases[i].len);
		struct insn_regs regs = make_regs();

		regs.gpr[0] = 0x8086;
		regs.gpr[3] = 0xfee00020;
		assert_int_equal(insn_plan(&step, &regs), INSN_OK);
		assert_int_equal(step.pieces, 1);
		assert_int_equal(step.piece[0].rights, INSN_READ);
		read_piece(&step, &regs, 0xfee00020, cases[i].size,
		        cases[i].device | (cases[i].size == 4 ? 0xabull << 56 : 0));
		finish(&step, &regs);
		assert_int_equal(regs.rflags & (CF | ZF | SF), cases[i].flags);
		assert_int_equal(regs.rip, 0x1000 + cases[i].len);
	}
}

/* C-42: placed over a page boundary, the second page is asked for and then may be missing. */
static void test_instruction_over_a_page_boundary(void **state)
{
	static const uint8_t bytes[] = {
	        0x81, 0x3b, 0x86, 0x80, 0x00, 0x00}; /* cmpl $0x8086, (%rbx) */
	struct insn insn;

	(void)state;
	for (size_t first_page = 0; first_page < sizeof(bytes); first_page++)
		assert_int_equal(insn_decode(bytes, first_page, INSN_MODE_64, &insn), INSN_SHORT);
	assert_int_equal(insn_decode(bytes, sizeof(bytes), INSN_MODE_64, &insn), INSN_OK);
	assert_int_equal(insn.len, sizeof(bytes));
}

/* C-43: both halves of a store stand in the step, each once, over a restart between them. */
static void test_store_over_two_pages_survives_a_restart(void **state)
{
	struct insn_step first = STEP(64, "\x48\x89\x03"), *step = &first; /* mov %rax, (%rbx) */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[0] = 0x1122334455667788;
	regs.gpr[3] = 0xd0000ffc;
	assert_int_equal(insn_plan(step, &regs), INSN_OK);
	assert_int_equal(step->pieces, 2); /* both can be translated before either is written */
	assert_int_equal(step->piece[0].addr, 0xd0000ffc);
	assert_int_equal(step->piece[1].addr, 0xd0001000);
	assert_int_equal(step->piece[1].rights, INSN_WRITE);
	step->piece[0].gpa = 0xa0000ffc;
	step->piece[1].gpa = 0xb0000000;
	step = move_step(step);
	written_piece(step, &regs, 0xd0000ffc, 4, 0x55667788);
	step = move_step(step);
	assert_int_equal(insn_next(step, &regs)->gpa, 0xb0000000);
	written_piece(step, &regs, 0xd0001000, 4, 0x11223344);
	step = move_step(step);
	finish(step, &regs);
	assert_int_equal(regs.rip, 0x1003);
}

static void test_load_over_two_pages_survives_a_restart(void **state)
{
	struct insn_step first = STEP(64, "\x48\x03\x03"), *step = &first; /* add (%rbx), %rax */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[0] = 0x10;
	regs.gpr[3] = 0xd0000ffd;
	assert_int_equal(insn_plan(step, &regs), INSN_OK);
	read_piece(step, &regs, 0xd0000ffd, 3, 0xffffffff00030201);
	step = move_step(step);
	assert_int_equal(regs.gpr[0], 0x10);
	read_piece(step, &regs, 0xd0001000, 5, 0xaaaaaa0807060504);
	step = move_step(step);
	finish(step, &regs);
	assert_int_equal(regs.gpr[0], 0x0807060504030211);
}

static void test_exchange_over_two_pages(void **state)
{
	struct insn_step first = STEP(64, "\x48\x87\x03"), *step = &first; /* xchg %rax, (%rbx) */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[0] = 0x1122334455667788;
	regs.gpr[3] = 0xfffe;
	assert_int_equal(insn_plan(step, &regs), INSN_OK);
	assert_int_equal(step->piece[0].rights, INSN_READ | INSN_WRITE);
	read_piece(step, &regs, 0xfffe, 2, 0xbbaa);
	step = move_step(step);
	read_piece(step, &regs, 0x10000, 6, 0x112211ffeeddcc);
	written_piece(step, &regs, 0xfffe, 2, 0x7788);
	step = move_step(step);
	assert_int_equal(regs.gpr[0], 0x1122334455667788);
	written_piece(step, &regs, 0x10000, 6, 0x112233445566);
	step = move_step(step);
	finish(step, &regs);
	assert_int_equal(regs.gpr[0], 0x2211ffeeddccbbaa);
}

static void test_push_of_device_memory_over_two_pages(void **state)
{
	struct insn_step first = STEP(64, "\xff\x33"), *step = &first; /* push (%rbx) */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[3] = 0xd0000010;
	regs.gpr[4] = 0x8004;
	assert_int_equal(insn_plan(step, &regs), INSN_OK);
	assert_int_equal(step->pieces, 3);
	read_piece(step, &regs, 0xd0000010, 8, 0x8877665544332211);
	step = move_step(step);
	written_piece(step, &regs, 0x7ffc, 4, 0x44332211);
	assert_int_equal(regs.gpr[4], 0x8004);
	step = move_step(step);
	written_piece(step, &regs, 0x8000, 4, 0x88776655);
	finish(step, &regs);
	assert_int_equal(regs.gpr[4], 0x7ffc);
}

static void test_vector_store_over_two_pages(void **state)
{
	struct insn_step first = STEP(64, "\x0f\x11\x0b"),
	                 *step = &first; /* movups %xmm1, (%rbx) */
	struct insn_regs regs = make_regs();
	uint64_t xmm[16][2] = {[1] = {0x0807060504030201, 0x100f0e0d0c0b0a09}};

	(void)state;
	regs.gpr[3] = 0xd0000ffc;
	assert_int_equal(insn_plan(step, &regs), INSN_REFUSED);
	regs.xmm = xmm;
	assert_int_equal(insn_plan(step, &regs), INSN_OK);
	assert_int_equal(step->pieces, 3);
	written_piece(step, &regs, 0xd0000ffc, 4, 0x04030201);
	step = move_step(step);
	written_piece(step, &regs, 0xd0001000, 8, 0x0c0b0a0908070605);
	step = move_step(step);
	written_piece(step, &regs, 0xd0001008, 4, 0x100f0e0d);
	finish(step, &regs);
}

static void test_vector_load(void **state)
{
	struct insn_step step = STEP(64, "\xf3\x0f\x6f\x13"); /* movdqu (%rbx), %xmm2 */
	struct insn_regs regs = make_regs();
	uint64_t xmm[16][2] = {{0}};

	(void)state;
	regs.xmm = xmm;
	regs.gpr[3] = 0xd0000000;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	read_piece(&step, &regs, 0xd0000000, 8, 1);
	read_piece(&step, &regs, 0xd0000008, 8, 2);
	finish(&step, &regs);
	assert_int_equal(xmm[2][0], 1);
	assert_int_equal(xmm[2][1], 2);

	step = STEP(64, "\x66\x0f\x6f\x13"); /* movdqa */
	regs.gpr[3] = 0xd0000008;
	assert_int_equal(insn_plan(&step, &regs), INSN_FAULT);
	assert_int_equal(step.vector, 13);
}

static void test_failed_compare_and_exchange_writes_nothing(void **state)
{
	struct insn_step step = STEP(64, "\xf0\x0f\xb1\x0b"); /* lock cmpxchg %ecx, (%rbx) */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[0] = 0xffffffff00000005;
	regs.gpr[1] = 7;
	regs.gpr[3] = 0x5000;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	assert_int_equal(step.piece[0].rights, INSN_READ | INSN_WRITE);
	read_piece(&step, &regs, 0x5000, 4, 6);
	finish(&step, &regs);
	assert_int_equal(regs.gpr[0], 6);
	assert_int_equal(regs.rflags & ZF, 0);

	regs.rip = 0x1000;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	read_piece(&step, &regs, 0x5000, 4, 6);
	written_piece(&step, &regs, 0x5000, 4, 7);
	finish(&step, &regs);
	assert_int_equal(regs.rflags & ZF, ZF);
}

static void test_compare_and_exchange_16_bytes(void **state)
{
	struct insn_step step = STEP(64, "\xf0\x48\x0f\xc7\x0f"); /* lock cmpxchg16b (%rdi) */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[7] = 0xd0000ff8;
	assert_int_equal(insn_plan(&step, &regs), INSN_FAULT); /* must be aligned */
	assert_int_equal(step.vector, 13);
	regs.gpr[7] = 0xd0000ff0;
	regs.gpr[0] = 1, regs.gpr[2] = 2, regs.gpr[3] = 3, regs.gpr[1] = 4;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	read_piece(&step, &regs, 0xd0000ff0, 8, 1);
	read_piece(&step, &regs, 0xd0000ff8, 8, 2);
	written_piece(&step, &regs, 0xd0000ff0, 8, 3);
	written_piece(&step, &regs, 0xd0000ff8, 8, 4);
	finish(&step, &regs);
	assert_int_equal(regs.rflags & ZF, ZF);
}

/*
 * C-45: a guest's REP INSB with a FIFO of five bytes behind the port. present says for each page
 * whether it is mapped; a fault maps it. What the caller of insn.h does, in short.
 */
struct ins_machine {
	const uint8_t *fifo;
	unsigned int taken, faults;
	bool present[3];
	uint8_t memory[0x3000];
};

static bool run_iteration(struct ins_machine *m, struct insn_step *step, struct insn_regs *regs)
{
	struct insn_piece *p;

	assert_int_equal(insn_plan(step, regs), INSN_OK);
	for (unsigned int i = 0; i < step->pieces; i++) {
		unsigned int page = (unsigned int)(step->piece[i].addr >> 12);

		if (step->piece[i].port || m->present[page])
			continue;
		m->present[page] = true; /* the guest's handler */
		m->faults++;
		return true; /* and it tries again */
	}
	while ((p = insn_next(step, regs)) != NULL) {
		for (unsigned int i = 0; i < p->size; i++) {
			if (step->writing)
				m->memory[p->addr + i] = (uint8_t)(p->data >> (8 * i));
			else
				p->data |= (uint64_t)m->fifo[m->taken++] << (8 * i);
		}
		insn_done(step);
	}
	insn_commit(step, regs);
	return step->again;
}

static void test_faults_come_before_the_port_is_read(void **state)
{
	static struct ins_machine m;
	struct insn_step step = STEP(64, "\xf3\x6c"); /* rep insb */
	struct insn_regs regs = make_regs();

	(void)state;
	m.fifo = (const uint8_t *)"abcde";
	regs.gpr[1] = 5;
	regs.gpr[2] = 0x3f8;
	regs.gpr[7] = 0x1ffe; /* the third byte falls into the next page */
	for (unsigned int n = 0; n < 7; n++) {
		unsigned int finished = n - m.faults;
		bool more = run_iteration(&m, &step, &regs);

		assert_int_equal(more, n < 6);
		finished = n + 1 - m.faults > finished ? finished + 1 : finished;
		assert_int_equal(m.taken, finished);
		assert_int_equal(regs.gpr[1], 5 - finished);
		assert_int_equal(regs.gpr[7], 0x1ffe + finished);
		assert_int_equal(regs.rip, more ? 0x1000 : 0x1002);
	}
	assert_int_equal(m.faults, 2);
	assert_memory_equal(m.memory + 0x1ffe, "abcde", 5);
}

static void test_wide_port_reads_cross_pages_and_go_down(void **state)
{
	static struct ins_machine m;
	struct insn_step step = STEP(64, "\xf3\x66\x6d"); /* rep insw */
	struct insn_regs regs = make_regs();

	(void)state;
	m.fifo = (const uint8_t *)"abcdef";
	regs.rflags |= DF;
	regs.gpr[1] = 3;
	regs.gpr[2] = 0xffff03f8;
	regs.gpr[7] = 0x1fff;
	while (run_iteration(&m, &step, &regs))
		assert_int_equal(m.taken % 2, 0);
	assert_int_equal(m.faults, 2); /* both pages before the first read */
	assert_int_equal(regs.gpr[7], 0x1ff9);
	assert_memory_equal(m.memory + 0x1ffb, "efcdab", 6);
}

static void test_port_number_and_address_wrap_in_16_bit_code(void **state)
{
	struct insn_step step = STEP(REAL, "\x6c"); /* insb */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.seg[INSN_ES] = (struct insn_seg){.base = 0x20000, .limit = 0xffff, .attr = 0x93};
	regs.gpr[2] = 0xabcd0060;
	regs.gpr[7] = 0x1234ffff;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	assert_int_equal(step.piece[0].port, 1);
	read_piece(&step, &regs, 0x60, 1, 0x5a);
	written_piece(&step, &regs, 0x2ffff, 1, 0x5a);
	finish(&step, &regs);
	assert_int_equal(regs.gpr[7], 0x12340000);

	step = STEP(REAL, "\x6d"); /* insw: its second byte lies beyond the limit */
	regs.gpr[7] = 0xffff;
	assert_int_equal(insn_plan(&step, &regs), INSN_FAULT);
	assert_int_equal(step.vector, 13);
}

static void test_outs_reads_memory_before_the_port_is_written(void **state)
{
	struct insn_step step = STEP(64, "\x6e"); /* outsb */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[2] = 0x3f8;
	regs.gpr[6] = 0x4000;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	assert_int_equal(step.piece[0].port, 0);
	assert_int_equal(step.piece[1].port, 1);
	read_piece(&step, &regs, 0x4000, 1, 'x');
	written_piece(&step, &regs, 0x3f8, 1, 'x');
	finish(&step, &regs);
	assert_int_equal(regs.gpr[6], 0x4001);
}

static void test_repeated_no_times_touches_nothing(void **state)
{
	struct insn_step step = STEP(64, "\x67\xf3\xa4"); /* addr32 rep movsb */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[1] = 0x100000000; /* ecx is 0 */
	regs.gpr[6] = 1ull << 63;
	regs.rflags |= RF;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	assert_int_equal(step.pieces, 0);
	finish(&step, &regs);
	assert_int_equal(regs.rip, 0x1003);
	assert_int_equal(regs.rflags & RF, 0);
}

static void test_iterations_set_the_resume_flag(void **state)
{
	struct insn_step step = STEP(64, "\xf3\xaa"); /* rep stosb */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[0] = 0x77;
	regs.gpr[1] = 2;
	regs.gpr[7] = 0x9000;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	written_piece(&step, &regs, 0x9000, 1, 0x77);
	finish(&step, &regs);
	assert_int_equal(step.again, 1);
	assert_int_equal(regs.rflags & RF, RF);
	assert_int_equal(regs.rip, 0x1000);
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	written_piece(&step, &regs, 0x9001, 1, 0x77);
	finish(&step, &regs);
	assert_int_equal(step.again, 0);
	assert_int_equal(regs.rflags & RF, 0);
	assert_int_equal(regs.rip, 0x1002);
}

static void test_memory_to_memory(void **state)
{
	struct insn_step step = STEP(64, "\x64\xa5"); /* movsl %fs:(%rsi), (%rdi) */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.seg[INSN_FS].base = 0xffff800000000000;
	regs.seg[INSN_ES].base = 0x5000; /* counts for nothing in 64-bit mode */
	regs.gpr[6] = 0xffe;
	regs.gpr[7] = 0x2ffe;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	assert_int_equal(step.pieces, 4);
	read_piece(&step, &regs, 0xffff800000000ffe, 2, 0x2211);
	read_piece(&step, &regs, 0xffff800000001000, 2, 0x4433);
	written_piece(&step, &regs, 0x2ffe, 2, 0x2211);
	written_piece(&step, &regs, 0x3000, 2, 0x4433);
	finish(&step, &regs);
	assert_int_equal(regs.gpr[6], 0x1002);
	assert_int_equal(regs.gpr[7], 0x3002);
}

static void test_pop_counts_the_stack_pointer_first(void **state)
{
	struct insn_step step = STEP(64, "\x8f\x44\x24\x10"); /* pop 0x10(%rsp) */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[4] = 0x8000;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	read_piece(&step, &regs, 0x8000, 8, 42);
	written_piece(&step, &regs, 0x8018, 8, 42);
	finish(&step, &regs);
	assert_int_equal(regs.gpr[4], 0x8008);
}

static void test_cache_instructions_access_nothing(void **state)
{
	static const char *const bytes[] = {
	        "\x0f\x18\x0b", "\x0f\x0d\x0b", "\x0f\xae\x3b", "\x0f\x1f\x03"};

	(void)state;
	for (int i = 0; i < 4; i++) { /* prefetcht0, prefetchw, clflush, nop */
		struct insn_step step = make_step(INSN_MODE_64, bytes[i], 3);
		struct insn_regs regs = make_regs(), before;

		regs.gpr[3] = 1ull << 63;
		before = regs;
		assert_int_equal(insn_plan(&step, &regs), INSN_OK);
		assert_int_equal(step.pieces, 0);
		finish(&step, &regs);
		assert_int_equal(regs.rip, 0x1003);
		assert_memory_equal(regs.gpr, before.gpr, sizeof(regs.gpr));
	}
}

static void test_what_is_not_carried_out_is_refused(void **state)
{
	struct insn_step step = STEP(64, "\x0f\xa2"); /* cpuid */
	struct insn_regs regs = make_regs();

	(void)state;
	assert_int_equal(insn_plan(&step, &regs), INSN_REFUSED);
	step = STEP(64, "\xf7\x33"); /* divl (%rbx) */
	assert_int_equal(insn_plan(&step, &regs), INSN_REFUSED);
	step = STEP(64, "\x0f\x28\xc1"); /* movaps %xmm1, %xmm0 */
	assert_int_equal(insn_plan(&step, &regs), INSN_REFUSED);
}

static int linear(const struct insn_regs *regs, enum insn_mode mode, unsigned int seg,
        uint64_t offset, unsigned int size, unsigned int rights, uint64_t *address)
{
	return insn_linear_address(regs, mode, seg, offset, size, rights, address);
}

static void test_64_bit_addresses_are_canonical(void **state)
{
	struct insn_regs regs = make_regs();
	uint64_t a;

	(void)state;
	assert_int_equal(linear(&regs, INSN_MODE_64, INSN_DS, 0x7ffffffffff8, 8, INSN_READ, &a), 0);
	assert_int_equal(
	        linear(&regs, INSN_MODE_64, INSN_DS, 0x7ffffffffff9, 8, INSN_READ, &a), 13);
	assert_int_equal(
	        linear(&regs, INSN_MODE_64, INSN_SS, 0x800000000000, 1, INSN_READ, &a), 12);
	assert_int_equal(
	        linear(&regs, INSN_MODE_64, INSN_DS, 0xffff800000000000, 8, INSN_READ, &a), 0);
	assert_int_equal(
	        linear(&regs, INSN_MODE_64, INSN_DS, 0xffff7fffffffffff, 1, INSN_READ, &a), 13);
	regs.linear_bits = 57;
	assert_int_equal(linear(&regs, INSN_MODE_64, INSN_DS, 0x800000000000, 1, INSN_READ, &a), 0);
	assert_int_equal(linear(&regs, INSN_MODE_64, INSN_DS, 1ull << 56, 1, INSN_READ, &a), 13);
	regs.seg[INSN_GS].base = 0xffff888000000000;
	regs.seg[INSN_DS] = (struct insn_seg){0}; /* null and not looked at */
	assert_int_equal(linear(&regs, INSN_MODE_64, INSN_GS, 0x30, 8, INSN_WRITE, &a), 0);
	assert_int_equal(a, 0xffff888000000030);
	assert_int_equal(linear(&regs, INSN_MODE_64, INSN_DS, 0x30, 8, INSN_WRITE, &a), 0);
}

static void test_segments_have_limits_and_types(void **state)
{
	struct insn_regs regs = make_regs();
	uint64_t a;

	(void)state;
	regs.seg[INSN_DS] = (struct insn_seg){.base = 0xfffff000, .limit = 0x1fff, .attr = 0x4f3};
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_DS, 0x1ffc, 4, INSN_WRITE, &a), 0);
	assert_int_equal(a, 0xffc); /* wraps at 4 GiB */
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_DS, 0x1ffd, 4, INSN_READ, &a), 13);
	regs.seg[INSN_DS].attr = 0x4f1; /* read-only */
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_DS, 0, 4, INSN_WRITE, &a), 13);
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_DS, 0, 4, INSN_READ, &a), 0);
	assert_int_equal(linear(&regs, INSN_MODE_REAL, INSN_DS, 0, 4, INSN_WRITE, &a), 0);
	regs.seg[INSN_DS].attr = 0x4f7; /* expand-down: above the limit */
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_DS, 0x1fff, 1, INSN_READ, &a), 13);
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_DS, 0x2000, 4, INSN_READ, &a), 0);
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_DS, 0xfffffffd, 4, INSN_READ, &a), 13);
	regs.seg[INSN_DS].attr = 0x0f7;
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_DS, 0xfffc, 4, INSN_READ, &a), 0);
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_DS, 0xfffd, 4, INSN_READ, &a), 13);
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_CS, 0, 4, INSN_READ, &a), 0);
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_CS, 0, 4, INSN_WRITE, &a), 13);
	regs.seg[INSN_CS].attr = 0xcf9; /* execute-only */
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_CS, 0, 4, INSN_READ, &a), 13);
	regs.seg[INSN_ES].attr = 0; /* null */
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_ES, 0, 4, INSN_READ, &a), 13);
	regs.seg[INSN_SS].limit = 0xfff;
	assert_int_equal(linear(&regs, INSN_MODE_32, INSN_SS, 0xffd, 4, INSN_READ, &a), 12);
}

static void test_accesses_wrap_at_4_gib_in_32_bit_code(void **state)
{
	struct insn_step step = STEP(32, "\x89\x03"); /* mov %eax, (%ebx) */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[0] = 0x44332211;
	regs.gpr[3] = 0xfffffffa;
	regs.seg[INSN_DS].base =
	        2; /* the offset is within the limit, the sum is not within 32 bits */
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	written_piece(&step, &regs, 0xfffffffc, 4, 0x44332211);
	regs.seg[INSN_DS].base = 4;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	written_piece(&step, &regs, 0xfffffffe, 2, 0x2211);
	written_piece(&step, &regs, 0, 2, 0x4433);
	finish(&step, &regs);
}

static void test_stack_width_comes_from_its_segment(void **state)
{
	struct insn_step step = STEP(32, "\xff\x33"); /* push (%ebx) */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.seg[INSN_SS].attr = 0x0f3;
	regs.gpr[4] = 0xabcd0000;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	read_piece(&step, &regs, 0, 4, 1);
	written_piece(&step, &regs, 0xfffc, 4, 1);
	finish(&step, &regs);
	assert_int_equal(regs.gpr[4], 0xabcdfffc);
}

static void test_effective_addresses(void **state)
{
	struct insn_step step = STEP(
	        64, "\x67\x8b\x84\x8b\xf0\xff\xff\xff"); /* mov -0x10(%ebx,%ecx,4), %eax */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[3] = 0xaaaaaaaa00000008;
	regs.gpr[1] = 0xbbbbbbbb00000001;
	assert_int_equal(insn_effective_address(&step.insn, &regs), 0xfffffffc);
	step = STEP(64, "\x8b\x05\xf0\xff\xff\xff"); /* mov -0x10(%rip), %eax */
	assert_int_equal(insn_effective_address(&step.insn, &regs), 0x1006 - 0x10);
	step = STEP(REAL, "\x8b\x00"); /* mov (%bx,%si), %ax */
	regs.gpr[6] = 0xfffe;
	assert_int_equal(insn_effective_address(&step.insn, &regs), 6);
}

static void test_bit_offset_in_register_moves_the_operand(void **state)
{
	struct insn_step step = STEP(64, "\x0f\xab\x0b"); /* bts %ecx, (%rbx) */
	struct insn_regs regs = make_regs();

	(void)state;
	regs.gpr[3] = 0x5000;
	regs.gpr[1] = (uint32_t)-1;
	assert_int_equal(insn_plan(&step, &regs), INSN_OK);
	read_piece(&step, &regs, 0x4ffc, 4, 0);
	written_piece(&step, &regs, 0x4ffc, 4, 0x80000000);
	finish(&step, &regs);
	assert_int_equal(regs.rflags & CF, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_flags_come_from_device_data),
	        cmocka_unit_test(test_instruction_over_a_page_boundary),
	        cmocka_unit_test(test_store_over_two_pages_survives_a_restart),
	        cmocka_unit_test(test_load_over_two_pages_survives_a_restart),
	        cmocka_unit_test(test_exchange_over_two_pages),
	        cmocka_unit_test(test_push_of_device_memory_over_two_pages),
	        cmocka_unit_test(test_vector_store_over_two_pages),
	        cmocka_unit_test(test_vector_load),
	        cmocka_unit_test(test_failed_compare_and_exchange_writes_nothing),
	        cmocka_unit_test(test_compare_and_exchange_16_bytes),
	        cmocka_unit_test(test_faults_come_before_the_port_is_read),
	        cmocka_unit_test(test_wide_port_reads_cross_pages_and_go_down),
	        cmocka_unit_test(test_port_number_and_address_wrap_in_16_bit_code),
	        cmocka_unit_test(test_outs_reads_memory_before_the_port_is_written),
	        cmocka_unit_test(test_repeated_no_times_touches_nothing),
	        cmocka_unit_test(test_iterations_set_the_resume_flag),
	        cmocka_unit_test(test_memory_to_memory),
	        cmocka_unit_test(test_pop_counts_the_stack_pointer_first),
	        cmocka_unit_test(test_cache_instructions_access_nothing),
	        cmocka_unit_test(test_what_is_not_carried_out_is_refused),
	        cmocka_unit_test(test_64_bit_addresses_are_canonical),
	        cmocka_unit_test(test_segments_have_limits_and_types),
	        cmocka_unit_test(test_accesses_wrap_at_4_gib_in_32_bit_code),
	        cmocka_unit_test(test_stack_width_comes_from_its_segment),
	        cmocka_unit_test(test_effective_addresses),
	        cmocka_unit_test(test_bit_offset_in_register_moves_the_operand),
	};

	return cmocka_run_group_tests_name("insn", tests, NULL, NULL);
}
