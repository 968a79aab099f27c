/* SPDX-License-Identifier: BSD-2-Clause */
/* The decoder: known encodings, cut and overlong ones, and a comparison with capstone over many
 * more. */
/* sources: lib/insn_decode.c */
/* libs: -lcapstone */
#include "lib/insn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>

#include "tests/unit/lib/test_insn_capstone.h"

static struct insn decode(enum insn_mode mode, const char *bytes, size_t len)
{
	struct insn insn;

	assert_int_equal(insn_decode((const uint8_t *)bytes, len, mode, &insn), INSN_OK);
	assert_int_equal(insn.len, len);
	return insn;
}

#define DECODE(mode, bytes) decode(INSN_MODE_##mode, bytes, sizeof(bytes) - 1)

static void assert_operand(
        struct insn_operand o, unsigned int kind, unsigned int reg, unsigned int size)
{
	assert_int_equal(o.kind, kind);
	assert_int_equal(o.size, size);
	if (kind == INSN_OPERAND_REG)
		assert_int_equal(o.reg, reg);
}

static void test_operands_are_decoded(void **state)
{
	struct insn in = DECODE(
	        64, "\x44\x89\xbc\x8b\x78\x56\x34\x12"); /* mov %r15d, 0x12345678(%rbx,%rcx,4) */

	(void)state;
	assert_int_equal(in.op, INSN_OP_MOV);
	assert_operand(in.dst, INSN_OPERAND_MEM, 0, 4);
	assert_operand(in.src, INSN_OPERAND_REG, 15, 4);
	assert_int_equal(in.base, 3);
	assert_int_equal(in.index, 1);
	assert_int_equal(in.scale, 2);
	assert_int_equal(in.disp, 0x12345678);
	assert_int_equal(in.seg, INSN_DS);

	in = DECODE(64, "\x65\x48\xc7\x45\xf0\xfe\xff\xff\xff"); /* movq $-2, %gs:-0x10(%rbp) */
	assert_operand(in.src, INSN_OPERAND_IMM, 0, 8);
	assert_int_equal(in.imm, (uint64_t)-2);
	assert_int_equal(in.seg, INSN_GS);
	assert_int_equal(in.disp, -0x10);

	in = DECODE(64, "\x88\x25\x00\x10\x00\x00"); /* mov %ah, 0x1000(%rip) */
	assert_operand(in.src, INSN_OPERAND_REG, INSN_REG_HIGH, 1);
	assert_int_equal(in.base, INSN_REG_RIP);
	in = DECODE(64, "\x40\x88\x20"); /* mov %spl, (%rax) */
	assert_operand(in.src, INSN_OPERAND_REG, 4, 1);

	in = DECODE(32, "\x66\xa3\x00\x00\xc0\xfe"); /* mov %ax, 0xfec00000 */
	assert_operand(in.dst, INSN_OPERAND_MEM, 0, 2);
	assert_int_equal(in.disp, 0xfec00000);
	assert_int_equal(in.base, INSN_REG_NONE);

	in = DECODE(REAL, "\x8b\x42\x10"); /* mov 0x10(%bp,%si), %ax */
	assert_int_equal(in.seg, INSN_SS);
	assert_int_equal(in.addr_size, 2);
	assert_operand(in.dst, INSN_OPERAND_REG, 0, 2);

	in = DECODE(64, "\xf3\xa5"); /* rep movsl */
	assert_int_equal(in.rep, 0xf3);
	assert_operand(in.dst, INSN_OPERAND_DST_STR, 0, 4);
	assert_operand(in.src, INSN_OPERAND_SRC_STR, 0, 4);

	in = DECODE(64, "\x48\xed"); /* rex.w in %dx, %eax: REX.W counts for nothing */
	assert_operand(in.dst, INSN_OPERAND_REG, 0, 4);
	in = DECODE(64, "\x48\x6d"); /* rex.w insl */
	assert_operand(in.dst, INSN_OPERAND_DST_STR, 0, 4);
	in = DECODE(64, "\x0f\xb6\x08"); /* movzbl (%rax), %ecx */
	assert_operand(in.src, INSN_OPERAND_MEM, 0, 1);
	assert_operand(in.dst, INSN_OPERAND_REG, 1, 4);
	in = DECODE(64, "\x66\x0f\x6f\x08"); /* movdqa (%rax), %xmm1 */
	assert_operand(in.src, INSN_OPERAND_MEM, 0, 16);
	assert_int_equal(in.aligned, 1);
}

static void test_lengths_for_intercepts(void **state)
{
	static const struct {
		enum insn_mode mode;
		const char *bytes;
		int len;
	} cases[] = {
	        {INSN_MODE_64, "\x0f\xa2", 2},             /* cpuid */
	        {INSN_MODE_64, "\xf4", 1},                 /* hlt */
	        {INSN_MODE_64, "\x0f\x32", 2},             /* rdmsr */
	        {INSN_MODE_64, "\x0f\x30", 2},             /* wrmsr */
	        {INSN_MODE_64, "\x0f\x01\xd9", 3},         /* vmmcall */
	        {INSN_MODE_64, "\x0f\x01\xc1", 3},         /* vmcall */
	        {INSN_MODE_64, "\x0f\x01\xd1", 3},         /* xsetbv */
	        {INSN_MODE_64, "\x0f\x01\xc8", 3},         /* monitor */
	        {INSN_MODE_64, "\x0f\x01\xc9", 3},         /* mwait */
	        {INSN_MODE_64, "\x0f\x01\xf9", 3},         /* rdtscp */
	        {INSN_MODE_64, "\x0f\x01\x3c\x24", 4},     /* invlpg (%rsp) */
	        {INSN_MODE_64, "\x0f\x01\xf0", 3},         /* lmsw %ax */
	        {INSN_MODE_16, "\x0f\x01\x16\x34\x12", 5}, /* lgdt 0x1234 */
	        {INSN_MODE_64, "\x0f\x31", 2},             /* rdtsc */
	        {INSN_MODE_64, "\xf3\x90", 2},             /* pause */
	        {INSN_MODE_64, "\x0f\x08", 2},             /* invd */
	        {INSN_MODE_64, "\x0f\x09", 2},             /* wbinvd */
	        {INSN_MODE_64, "\x0f\x06", 2},             /* clts */
	        {INSN_MODE_64, "\x44\x0f\x22\xc0", 4},     /* mov %rax, %cr8 */
	        {INSN_MODE_32, "\x0f\x20\x44", 3},         /* mov %cr0, %esp: mod is ignored */
	        {INSN_MODE_64, "\x66\xe5\x80", 3},         /* in $0x80, %ax */
	        {INSN_MODE_64, "\xf3\x6e", 2},             /* rep outsb */
	        {INSN_MODE_64, "\x66\x0f\x38\x82\x08", 5}, /* invpcid (%rax), %rcx */
	        {INSN_MODE_64, "\x48\xb8\1\2\3\4\5\6\7\x08", 10}, /* movabs */
	        {INSN_MODE_16, "\xea\0\0\0\xf0", 5},              /* ljmp 0xf000:0 */
	        {INSN_MODE_16, "\x66\xea\0\0\0\0\x10\0", 8},      /* ljmpl */
	        {INSN_MODE_64, "\xc8\1\0\0", 4},                  /* enter */
	        {INSN_MODE_64, "\x66\xe9\0\0", 4},                /* jmp rel16: as AMD has it */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[INSN_MAX_LEN];

		memset(bytes, 0xcc, sizeof(bytes));
		memcpy(bytes, cases[i].bytes, (size_t)cases[i].len);
		assert_int_equal(insn_length(bytes, sizeof(bytes), cases[i].mode), cases[i].len);
	}
}

static void test_control_register_moves_name_their_registers(void **state)
{
	struct insn in = DECODE(64, "\x44\x0f\x22\xc3"); /* mov %rbx, %cr8 */

	(void)state;
	assert_int_equal(in.op, INSN_OP_OTHER);
	assert_int_equal(in.dst.kind, INSN_OPERAND_CR);
	assert_int_equal(in.dst.reg, 8);
	assert_operand(in.src, INSN_OPERAND_REG, 3, 8);
	in = DECODE(32, "\xf0\x0f\x20\xc1"); /* lock mov %cr0, %ecx: CR8 on AMD */
	assert_int_equal(in.src.reg, 8);
	assert_operand(in.dst, INSN_OPERAND_REG, 1, 4);
}

static void test_cut_instructions_are_short(void **state)
{
	static const char whole[] =
	        "\xf0\x65\x66\x4c\x81\x84\x8b\x78\x56\x34\x12\xef\xbe\xad\xde"; /* 15 bytes */
	struct insn insn;

	(void)state;
	for (size_t len = 0; len < 15; len++)
		assert_int_equal(
		        insn_decode((const uint8_t *)whole, len, INSN_MODE_64, &insn), INSN_SHORT);
	DECODE(64, "\xf0\x65\x66\x4c\x81\x84\x8b\x78\x56\x34\x12\xef\xbe\xad\xde");
}

static void test_overlong_instructions_are_refused(void **state)
{
	uint8_t bytes[32];
	struct insn insn;

	(void)state;
	memset(bytes, 0x66, sizeof(bytes));
	assert_int_equal(insn_decode(bytes, 15, INSN_MODE_64, &insn), INSN_LONG);
	assert_int_equal(insn_decode(bytes, 14, INSN_MODE_64, &insn), INSN_SHORT);
	assert_int_equal(insn_decode(bytes, sizeof(bytes), INSN_MODE_16, &insn), INSN_LONG);
	bytes[14] = 0x90;
	assert_int_equal(insn_decode(bytes, 15, INSN_MODE_64, &insn), INSN_OK);
	memcpy(bytes, "\x65\xf0\x65\x66\x4c\x81\x84\x8b\x78\x56\x34\x12\xef\xbe\xad\xde", 16);
	assert_int_equal(insn_decode(bytes, 16, INSN_MODE_64, &insn), INSN_LONG);
}

static void test_invalid_encodings_are_bad(void **state)
{
	static const struct {
		enum insn_mode mode;
		const char *bytes;
	} cases[] = {
	        {INSN_MODE_64, "\xf0\x89\x08"},                         /* lock mov */
	        {INSN_MODE_64, "\xf0\x03\x08"},                         /* lock add (%rax), %ecx */
	        {INSN_MODE_64, "\xf0\x01\xc8"},                         /* lock add %ecx, %eax */
	        {INSN_MODE_64, "\xf0\x0f\xba\x20\1"},                   /* lock bt */
	        {INSN_MODE_64, "\xf0\x83\x38\0"},                       /* lock cmp */
	        {INSN_MODE_64, "\x82\x00\x01"},                         /* no 82 in 64-bit mode */
	        {INSN_MODE_64, "\x06"},                                 /* push %es */
	        {INSN_MODE_64, "\xc5\xf8\x28\x00"},                     /* VEX */
	        {INSN_MODE_32, "\xc5\xf8\x28\x00"},                     /* VEX */
	        {INSN_MODE_64, "\x62\xf1\x7c\x48\x28\x00"},             /* EVEX */
	        {INSN_MODE_64, "\xc6\x08\x00"},                         /* C6 /1 */
	        {INSN_MODE_64, "\x8f\x08"},                             /* 8F /1 */
	        {INSN_MODE_64, "\xfe\x38"},                             /* FE /7 */
	        {INSN_MODE_64, "\xff\x38"},                             /* FF /7 */
	        {INSN_MODE_64, "\x0f\xc7\x00"},                         /* 0FC7 /0 */
	        {INSN_MODE_64, "\x0f\xc7\xc8"},                         /* cmpxchg8b %eax */
	        {INSN_MODE_64, "\x66\x0f\xc3\x00"},                     /* 66 movnti */
	        {INSN_MODE_64, "\x0f\x04"}, {INSN_MODE_64, "\x8d\xc0"}, /* lea of a register */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[INSN_MAX_LEN] = {0};
		struct insn insn;

		memcpy(bytes, cases[i].bytes, strlen(cases[i].bytes));
		assert_int_equal(insn_decode(bytes, sizeof(bytes), cases[i].mode, &insn), INSN_BAD);
	}
}

static void test_modes_come_from_state(void **state)
{
	(void)state;
	assert_int_equal(insn_mode_from_state(false, false, false, 0x9b), INSN_MODE_REAL);
	assert_int_equal(insn_mode_from_state(true, true, false, 0xf3), INSN_MODE_REAL);
	assert_int_equal(insn_mode_from_state(true, false, false, 0x9b), INSN_MODE_16);
	assert_int_equal(insn_mode_from_state(true, false, false, 0xc9b), INSN_MODE_32);
	assert_int_equal(insn_mode_from_state(true, false, true, 0xc9b), INSN_MODE_32);
	assert_int_equal(insn_mode_from_state(true, false, true, 0xa9b), INSN_MODE_64);
	assert_int_equal(insn_mode_from_state(true, false, false, 0xa9b), INSN_MODE_16);
}

static uint64_t random_state;

static uint64_t random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state * 0x2545f4914f6cdd1dull) >> 8;
}

static int check_bytes(struct reference *r, const uint8_t *bytes, enum insn_mode mode)
{
	const char *wrong = reference_compare(r, bytes, mode);

	if (!wrong)
		return 0;
	fprintf(stderr, "mode %d:", mode);
	for (int i = 0; i < INSN_MAX_LEN; i++)
		fprintf(stderr, " %02x", bytes[i]);
	fprintf(stderr, ": %s; capstone: %s %s, %u bytes\n", wrong, r->insn->mnemonic,
	        r->insn->op_str, r->insn->size);
	return 1;
}

/* Every opcode of the three maps with every ModRM byte, bare; and a quarter of them with each
 * prefix. */
static void test_agrees_with_capstone_on_all_forms(void **state)
{
	static const uint8_t prefixes[] = {
	        0, 0x66, 0x67, 0xf2, 0xf3, 0x26, 0x65, 0xf0, 0x40, 0x48, 0x47, 0x4f};
	struct reference r;
	int wrong = 0;

	(void)state;
	random_state = 0x6b65656c;
	assert_int_equal(reference_open(&r), 0);
	for (unsigned int i = 0; i < 12u * 3 * 3 * 65536 && wrong < 20; i++) {
		enum insn_mode mode = INSN_MODE_16 + i % 3;
		unsigned int map = i / 3 % 3, prefix = prefixes[i / 9 % 12], opcode = i / 108 % 256;
		uint8_t bytes[16];
		unsigned int at = 0;

		if (map == 2 && (opcode & 0x8f) != 0x80 && opcode != 0x2a)
			continue; /* most of 0F38 is alike */
		if ((i / 9 + i / 108 + i / 108 / 256) % 8 != 0 && prefix)
			continue;
		for (unsigned int n = 0; n < sizeof(bytes); n++)
			bytes[n] = (uint8_t)random64();
		if (prefix)
			bytes[at++] = (uint8_t)prefix;
		if (map)
			bytes[at++] = 0x0f;
		if (map == 2)
			bytes[at++] = 0x38;
		bytes[at++] = (uint8_t)opcode;
		bytes[at] = (uint8_t)(i / 108 / 256);
		wrong += check_bytes(&r, bytes, mode);
	}
	printf("%llu operations, %llu other lengths\n", (unsigned long long)r.compared,
	        (unsigned long long)r.lengths);
	assert_int_equal(wrong, 0);
	assert_true(r.compared > 200000);
	reference_close(&r);
}

/* KEEL_INSN_SEED and KEEL_INSN_ROUNDS repeat or lengthen it. */
static void test_agrees_with_capstone_on_random_bytes(void **state)
{
	static const uint8_t prefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0x26, 0x2e, 0x36, 0x3e, 0x64,
	        0x65, 0xf0, 0x40, 0x48, 0x41, 0x44, 0x4f};
	const char *seed = getenv("KEEL_INSN_SEED"), *text = getenv("KEEL_INSN_ROUNDS");
	uint64_t rounds = text ? strtoull(text, NULL, 0) : 250000;
	struct reference r;
	int wrong = 0;

	(void)state;
	random_state = seed ? strtoull(seed, NULL, 0) : 0x6b65656c04;
	assert_int_equal(reference_open(&r), 0);
	for (uint64_t i = 0; i < rounds && wrong < 20; i++) {
		unsigned int at = 0, count = random64() % 5;
		uint8_t bytes[16];

		for (unsigned int n = 0; n < sizeof(bytes); n++)
			bytes[n] = (uint8_t)random64();
		while (at < count)
			bytes[at++] = prefixes[random64() % 16];
		if (random64() % 2)
			bytes[at++] = 0x0f;
		if (random64() % 32 == 0)
			bytes[at++] = 0x38;
		wrong += check_bytes(&r, bytes, INSN_MODE_16 + random64() % 3);
	}
	assert_int_equal(wrong, 0);
	assert_true(r.compared > rounds / 4);
	reference_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_operands_are_decoded),
	        cmocka_unit_test(test_lengths_for_intercepts),
	        cmocka_unit_test(test_control_register_moves_name_their_registers),
	        cmocka_unit_test(test_cut_instructions_are_short),
	        cmocka_unit_test(test_overlong_instructions_are_refused),
	        cmocka_unit_test(test_invalid_encodings_are_bad),
	        cmocka_unit_test(test_modes_come_from_state),
	        cmocka_unit_test(test_agrees_with_capstone_on_all_forms),
	        cmocka_unit_test(test_agrees_with_capstone_on_random_bytes),
	};

	return cmocka_run_group_tests_name("insn_decode", tests, NULL, NULL);
}
