/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes to struct insn, by tables: opcode maps, ModRM groups, and opcodes chosen by a prefix (APM
 * 24594 appendix A). */
#include "lib/insn.h"

/* How an operand is encoded. */
enum enc {
	N,   /* none */
	E,   /* ModRM r/m: register or memory */
	M,   /* ModRM r/m: memory; a register is #UD */
	R,   /* ModRM r/m: a register, whatever mod says */
	G,   /* ModRM reg */
	A,   /* accumulator */
	Z,   /* register in the opcode */
	O,   /* memory, its address in the instruction (moffs) */
	I,   /* immediate of the operand's size, at most 4 bytes */
	IV,  /* immediate of the operand's size */
	I8,  /* immediate byte, sign-extended */
	I16, /* immediate word */
	X,   /* string source */
	Y,   /* string destination */
	S,   /* stack */
	DX,  /* port in DX */
	PI,  /* port in an immediate byte */
	V,   /* XMM register in ModRM reg */
	VL,  /* its low half, the other kept */
	VH,  /* its high half */
	CR,  /* control register in ModRM reg */
	DR,  /* debug register in ModRM reg */
};

#define B    0x01 /* byte operands */
#define S8   0x02 /* source is a byte */
#define S16  0x04 /* source is a word */
#define D64  0x08 /* 8 bytes by default in 64-bit mode */
#define NO64 0x10 /* #UD in 64-bit mode */
#define GRP  0x20 /* op is an index into groups[], by ModRM reg */
#define PFX  0x40 /* look into prefixed[] first */
#define AL   0x80 /* memory must be aligned */

struct entry {
	uint8_t op, dst, src, flags;
};

/* clang-format off */
#define OP(name) INSN_OP_##name
#define OTHER(...) {INSN_OP_OTHER, __VA_ARGS__}
#define TWO(at, name, dst, src) [(at)] = {OP(name), dst, src, B}, [(at) + 1] = {OP(name), dst, src, 0}
#define ALU(at, name) TWO(at, name, E, G), TWO((at) + 2, name, G, E), TWO((at) + 4, name, A, I)

enum group { G1, G1A, G3, G4, G5, G8, G9, G11, GROUPS };

/* A member without operands has those of its parent. */
static const struct entry groups[GROUPS][8] = {
	[G1] = {{OP(ADD), N, N, 0}, {OP(OR), N, N, 0}, {OP(ADC), N, N, 0}, {OP(SBB), N, N, 0},
		{OP(AND), N, N, 0}, {OP(SUB), N, N, 0}, {OP(XOR), N, N, 0}, {OP(CMP), N, N, 0}},
	[G1A] = {{OP(POP), N, N, 0}},
	[G3] = {{OP(TEST), E, I, 0}, {OP(TEST), E, I, 0}, {OP(NOT), N, N, 0}, {OP(NEG), N, N, 0},
		OTHER(E, N, 0), OTHER(E, N, 0), OTHER(E, N, 0), OTHER(E, N, 0)},
	[G4] = {{OP(INC), N, N, 0}, {OP(DEC), N, N, 0}},
	[G5] = {{OP(INC), N, N, 0}, {OP(DEC), N, N, 0}, OTHER(E, N, D64), OTHER(M, N, 0),
		OTHER(E, N, D64), OTHER(M, N, 0), {OP(PUSH), S, E, D64}},
	[G8] = {[4] = {OP(BT), N, N, 0}, {OP(BTS), N, N, 0}, {OP(BTR), N, N, 0}, {OP(BTC), N, N, 0}},
	[G9] = {[1] = {OP(CMPXCHG8B), M, N, 0}, [3] = OTHER(M, N, 0), OTHER(M, N, 0), OTHER(M, N, 0),
		OTHER(E, N, 0), OTHER(E, N, 0)},
	[G11] = {{OP(MOV), N, N, 0}},
};

static const struct entry one_byte[256] = {
	ALU(0x00, ADD), ALU(0x08, OR), ALU(0x10, ADC), ALU(0x18, SBB),
	ALU(0x20, AND), ALU(0x28, SUB), ALU(0x30, XOR), ALU(0x38, CMP),
	[0x06 ... 0x07] = OTHER(N, N, NO64), [0x0e] = OTHER(N, N, NO64),
	[0x16 ... 0x17] = OTHER(N, N, NO64), [0x1e ... 0x1f] = OTHER(N, N, NO64),
	[0x27] = OTHER(N, N, NO64), [0x2f] = OTHER(N, N, NO64),
	[0x37] = OTHER(N, N, NO64), [0x3f] = OTHER(N, N, NO64),
	[0x40 ... 0x47] = {OP(INC), Z, N, NO64}, [0x48 ... 0x4f] = {OP(DEC), Z, N, NO64},
	[0x50 ... 0x57] = {OP(PUSH), S, Z, D64}, [0x58 ... 0x5f] = {OP(POP), Z, S, D64},
	[0x60 ... 0x61] = OTHER(N, N, NO64), [0x62] = OTHER(G, M, NO64), [0x63] = OTHER(E, G, 0),
	[0x68] = {OP(PUSH), S, I, D64}, [0x69] = OTHER(G, I, 0),
	[0x6a] = {OP(PUSH), S, I8, D64}, [0x6b] = OTHER(G, I8, 0),
	TWO(0x6c, INS, Y, DX), TWO(0x6e, OUTS, DX, X),
	[0x70 ... 0x7f] = OTHER(N, I8, 0),
	[0x80] = {G1, E, I, GRP | B}, {G1, E, I, GRP}, {G1, E, I, GRP | B | NO64}, {G1, E, I8, GRP},
	TWO(0x84, TEST, E, G), TWO(0x86, XCHG, E, G), TWO(0x88, MOV, E, G), TWO(0x8a, MOV, G, E),
	[0x8c] = OTHER(E, N, 0), OTHER(G, M, 0), OTHER(E, N, 0), {G1A, E, S, GRP | D64},
	[0x90 ... 0x99] = OTHER(N, N, 0), [0x9a] = OTHER(I, I16, NO64), [0x9b ... 0x9f] = OTHER(N, N, 0),
	TWO(0xa0, MOV, A, O), TWO(0xa2, MOV, O, A), TWO(0xa4, MOVS, Y, X), TWO(0xa6, CMPS, X, Y),
	TWO(0xa8, TEST, A, I), TWO(0xaa, STOS, Y, A), TWO(0xac, LODS, A, X), TWO(0xae, SCAS, A, Y),
	[0xb0 ... 0xb7] = {OP(MOV), Z, I, B}, [0xb8 ... 0xbf] = {OP(MOV), Z, IV, 0},
	[0xc0 ... 0xc1] = OTHER(E, I8, 0), [0xc2] = OTHER(N, I16, 0), OTHER(N, N, 0),
	[0xc4 ... 0xc5] = OTHER(G, M, NO64), [0xc6] = {G11, E, I, GRP | B}, {G11, E, I, GRP},
	[0xc8] = OTHER(I16, I8, 0), OTHER(N, N, 0), OTHER(N, I16, 0), OTHER(N, N, 0),
	[0xcc] = OTHER(N, N, 0), OTHER(N, I8, 0), OTHER(N, N, NO64), OTHER(N, N, 0),
	[0xd0 ... 0xd3] = OTHER(E, N, 0), [0xd4 ... 0xd5] = OTHER(N, I8, NO64),
	[0xd6] = OTHER(N, N, NO64), OTHER(N, N, 0), [0xd8 ... 0xdf] = OTHER(E, N, 0),
	[0xe0 ... 0xe3] = OTHER(N, I8, 0), TWO(0xe4, IN, A, PI), TWO(0xe6, OUT, PI, A),
	[0xe8 ... 0xe9] = OTHER(N, I, D64), OTHER(I, I16, NO64), OTHER(N, I8, 0),
	TWO(0xec, IN, A, DX), TWO(0xee, OUT, DX, A),
	[0xf1] = OTHER(N, N, 0), [0xf4 ... 0xf5] = OTHER(N, N, 0),
	[0xf6] = {G3, E, N, GRP | B}, {G3, E, N, GRP}, [0xf8 ... 0xfd] = OTHER(N, N, 0),
	[0xfe] = {G4, E, N, GRP | B}, {G5, E, N, GRP},
};

static const struct entry two_byte[256] = {
	[0x00 ... 0x01] = OTHER(E, N, 0), [0x02 ... 0x03] = OTHER(G, E, 0), [0x05 ... 0x09] = OTHER(N, N, 0),
	[0x0b] = OTHER(N, N, 0), [0x0d] = {OP(NOP), E, N, 0}, OTHER(N, N, 0), OTHER(E, I8, 0),
	[0x10 ... 0x17] = OTHER(G, E, PFX), [0x18 ... 0x1f] = {OP(NOP), E, N, 0},
	[0x20] = OTHER(R, CR, D64), OTHER(R, DR, D64), OTHER(CR, R, D64), OTHER(DR, R, D64),
	[0x28 ... 0x2f] = OTHER(G, E, PFX), [0x30 ... 0x35] = OTHER(N, N, 0), [0x37] = OTHER(N, N, 0),
	[0x40 ... 0x4f] = {OP(CMOV), G, E, 0}, [0x50 ... 0x6f] = OTHER(G, E, PFX),
	[0x70 ... 0x73] = OTHER(E, I8, 0), [0x74 ... 0x76] = OTHER(G, E, 0), OTHER(N, N, 0),
	[0x7c ... 0x7f] = OTHER(G, E, PFX), [0x80 ... 0x8f] = OTHER(N, I, D64),
	[0x90 ... 0x9f] = {OP(SETCC), E, N, B},
	[0xa0 ... 0xa2] = OTHER(N, N, 0), {OP(BT), E, G, 0}, OTHER(E, I8, 0), OTHER(E, N, 0),
	[0xa8 ... 0xaa] = OTHER(N, N, 0), {OP(BTS), E, G, 0}, OTHER(E, I8, 0), OTHER(E, N, 0),
	[0xae] = OTHER(E, N, PFX), OTHER(G, E, 0),
	TWO(0xb0, CMPXCHG, E, G), [0xb2] = OTHER(G, M, 0), {OP(BTR), E, G, 0},
	[0xb4 ... 0xb5] = OTHER(G, M, 0), {OP(MOVZX), G, E, S8}, {OP(MOVZX), G, E, S16},
	[0xb8 ... 0xb9] = OTHER(G, E, 0), {G8, E, I8, GRP}, {OP(BTC), E, G, 0},
	[0xbc ... 0xbd] = OTHER(G, E, 0), {OP(MOVSX), G, E, S8}, {OP(MOVSX), G, E, S16},
	TWO(0xc0, XADD, E, G), [0xc2] = OTHER(E, I8, 0), {OP(BAD), M, G, PFX},
	[0xc4 ... 0xc6] = OTHER(E, I8, 0), {G9, E, N, GRP}, [0xc8 ... 0xcf] = OTHER(N, N, 0),
	[0xd0 ... 0xff] = OTHER(G, E, PFX),
};

static const struct entry three_byte[2] = {OTHER(G, E, PFX), OTHER(E, I8, 0)}; /* 0F38, 0F3A */
static const struct entry movsxd = {OP(MOVSX), G, E, 0};

/* Bits of prefixed[].prefixes: F3 and F2 hide a 66. */
#define P0  1
#define P66 2
#define PF3 4
#define PF2 8

/* Opcodes whose memory form is this only with one of these prefixes; other uses are as the maps say. */
static const struct prefixed {
	uint8_t map, opcode, prefixes;
	uint8_t modrm_reg; /* 8: any */
	uint8_t size;      /* of memory; 0: the operand size; 1: 4, or 8 with REX.W */
	struct entry entry;
} prefixed[] = {
	{1, 0x10, P0 | P66, 8, 16, {OP(VMOV), V, M, 0}}, {1, 0x11, P0 | P66, 8, 16, {OP(VMOV), M, V, 0}},
	{1, 0x10, PF3, 8, 4, {OP(VMOV), V, M, 0}}, {1, 0x11, PF3, 8, 4, {OP(VMOV), M, V, 0}},
	{1, 0x10, PF2, 8, 8, {OP(VMOV), V, M, 0}}, {1, 0x11, PF2, 8, 8, {OP(VMOV), M, V, 0}},
	{1, 0x12, P0 | P66, 8, 8, {OP(VMOV), VL, M, 0}}, {1, 0x13, P0 | P66, 8, 8, {OP(VMOV), M, VL, 0}},
	{1, 0x16, P0 | P66, 8, 8, {OP(VMOV), VH, M, 0}}, {1, 0x17, P0 | P66, 8, 8, {OP(VMOV), M, VH, 0}},
	{1, 0x28, P0 | P66, 8, 16, {OP(VMOV), V, M, AL}}, {1, 0x29, P0 | P66, 8, 16, {OP(VMOV), M, V, AL}},
	{1, 0x2b, P0 | P66, 8, 16, {OP(VMOV), M, V, AL}}, {1, 0xe7, P66, 8, 16, {OP(VMOV), M, V, AL}},
	{1, 0x6e, P66, 8, 1, {OP(VMOV), V, M, 0}}, {1, 0x7e, P66, 8, 1, {OP(VMOV), M, V, 0}},
	{1, 0x6f, P66, 8, 16, {OP(VMOV), V, M, AL}}, {1, 0x7f, P66, 8, 16, {OP(VMOV), M, V, AL}},
	{1, 0x6f, PF3, 8, 16, {OP(VMOV), V, M, 0}}, {1, 0x7f, PF3, 8, 16, {OP(VMOV), M, V, 0}},
	{1, 0x7e, PF3, 8, 8, {OP(VMOV), V, M, 0}}, {1, 0xd6, P66, 8, 8, {OP(VMOV), M, V, 0}},
	{1, 0xf0, PF2, 8, 16, {OP(VMOV), V, M, 0}}, {2, 0x2a, P66, 8, 16, {OP(VMOV), V, M, AL}},
	{1, 0xc3, P0, 8, 1, {OP(MOV), M, G, 0}}, {2, 0xf9, P0, 8, 1, {OP(MOV), M, G, 0}},
	{2, 0xf0, P0 | P66, 8, 0, {OP(MOVBE), G, M, 0}}, {2, 0xf1, P0 | P66, 8, 0, {OP(MOVBE), M, G, 0}},
	{1, 0xae, P0 | P66, 7, 0, {OP(NOP), M, N, 0}}, {1, 0xae, P66, 6, 0, {OP(NOP), M, N, 0}},
};
/* clang-format on */

#define PREFIXED (sizeof(prefixed) / sizeof(prefixed[0]))

struct cursor {
	const uint8_t *bytes;
	size_t len;
	unsigned int pos;
	int status; /* the first failure; sticks */
	uint8_t rex, lock, rep, seg;
	bool p66, p67;
	bool has_modrm;
	struct insn *out;
};

/* The next n bytes as a little-endian number; 0 after a failure. */
static uint64_t take(struct cursor *c, unsigned int n)
{
	uint64_t value = 0;

	if (c->status != INSN_OK)
		return 0;
	if (c->pos + n > INSN_MAX_LEN) {
		c->status = INSN_LONG;
		return 0;
	}
	if (c->pos + n > c->len) {
		c->status = INSN_SHORT;
		return 0;
	}
	for (unsigned int i = 0; i < n; i++)
		value |= (uint64_t)c->bytes[c->pos + i] << (8 * i);
	c->pos += n;
	return value;
}

static int64_t take_signed(struct cursor *c, unsigned int n)
{
	unsigned int unused_bits = 64 - 8 * n;

	return (int64_t)(take(c, n) << unused_bits) >> unused_bits;
}

static void fail(struct cursor *c, int status)
{
	if (c->status == INSN_OK)
		c->status = status;
}

/* Returns the first byte that is no prefix. Ends: take() fails after 15 bytes and returns 0. */
static uint8_t take_prefixes(struct cursor *c, enum insn_mode mode)
{
	for (;;) {
		uint8_t byte = (uint8_t)take(c, 1);

		switch (byte) {
		case 0x66: c->p66 = true; break;
		case 0x67: c->p67 = true; break;
		case 0xf0: c->lock = 1; break;
		case 0xf2:
		case 0xf3: c->rep = byte; break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
			if (mode != INSN_MODE_64)
				c->seg = (byte >> 3) & 3;
			break;
		case 0x64:
		case 0x65: c->seg = byte & 7; break;
		default:
			if (mode != INSN_MODE_64 || (byte & 0xf0) != 0x40)
				return byte;
			c->rex = byte;
			continue;
		}
		c->rex = 0; /* a REX that is not the last prefix counts for nothing */
	}
}

static struct entry take_opcode(struct cursor *c)
{
	struct insn *out = c->out;
	uint8_t byte = take_prefixes(c, out->mode);

	out->map = 0;
	if (byte == 0x0f) {
		out->map = 1;
		byte = (uint8_t)take(c, 1);
		if (byte == 0x38 || byte == 0x3a) {
			out->map = byte == 0x38 ? 2 : 3;
			byte = (uint8_t)take(c, 1);
		}
	}
	out->opcode = byte;
	if (out->map >= 2)
		return three_byte[out->map - 2];
	if (out->map == 1)
		return two_byte[byte];
	if (byte == 0x63 && out->mode == INSN_MODE_64)
		return movsxd;
	return one_byte[byte];
}

static bool entry_has_modrm(struct entry e)
{
	static const uint32_t by_modrm = 1u << E | 1u << M | 1u << R | 1u << G;

	return (e.flags & (GRP | PFX)) || ((by_modrm >> e.dst | by_modrm >> e.src) & 1);
}

/* Settles groups and prefixed opcodes; *mem_size is what the latter say. */
static struct entry resolve_entry(struct cursor *c, struct entry e, uint8_t *mem_size)
{
	const struct insn *out = c->out;
	unsigned int modrm_reg = (out->modrm >> 3) & 7;

	if (e.flags & GRP) {
		struct entry member = groups[e.op][modrm_reg];

		if (member.dst == N && member.src == N) {
			member.dst = e.dst;
			member.src = e.src;
		}
		member.flags |= (uint8_t)(e.flags & ~GRP);
		return member;
	}
	if ((e.flags & PFX) && out->modrm < 0xc0) {
		unsigned int prefix = c->rep == 0xf2 ? PF2 : c->rep ? PF3 : c->p66 ? P66 : P0;

		for (size_t i = 0; i < PREFIXED; i++) {
			const struct prefixed *p = &prefixed[i];

			if (p->map != out->map || p->opcode != out->opcode ||
			        !(p->prefixes & prefix))
				continue;
			if (p->modrm_reg != 8 && p->modrm_reg != modrm_reg)
				continue;
			*mem_size = p->size;
			return p->entry;
		}
	}
	return e;
}

static uint8_t operand_size(const struct cursor *c, struct entry e)
{
	enum insn_mode mode = c->out->mode;
	bool word = c->p66 != (mode < INSN_MODE_32);

	if (e.flags & B)
		return 1;
	if (mode == INSN_MODE_64 && (c->rex & 8))
		return e.op >= INSN_OP_IN && e.op <= INSN_OP_OUTS ? 4 : 8;
	if (mode == INSN_MODE_64 && (e.flags & D64) && !c->p66)
		return 8;
	return word ? 2 : 4;
}

static void decode_memory_16(struct cursor *c)
{
	static const uint8_t base[8] = {3, 3, 5, 5, 6, 7, 5, 3};
	static const uint8_t index[4] = {6, 7, 6, 7};
	struct insn *out = c->out;
	unsigned int mod = out->modrm >> 6, rm = out->modrm & 7;

	if (mod == 0 && rm == 6) {
		out->disp = take_signed(c, 2);
		return;
	}
	out->base = base[rm];
	if (rm < 4)
		out->index = index[rm];
	if (mod != 0)
		out->disp = take_signed(c, mod);
}

static void decode_memory(struct cursor *c)
{
	struct insn *out = c->out;
	unsigned int mod = out->modrm >> 6, rm = out->modrm & 7;

	if (rm == 4) {
		unsigned int sib = (unsigned int)take(c, 1);
		unsigned int index = (sib >> 3 & 7) | (c->rex & 2u) << 2;

		rm = sib & 7;
		if (index != 4) {
			out->index = (uint8_t)index;
			out->scale = (uint8_t)(sib >> 6);
		}
	} else if (mod == 0 && rm == 5 && out->mode == INSN_MODE_64) {
		out->base = INSN_REG_RIP;
	}
	if (mod == 0 && rm == 5) {
		out->disp = take_signed(c, 4);
		return;
	}
	out->base = (uint8_t)(rm | (c->rex & 1u) << 3);
	if (mod != 0)
		out->disp = take_signed(c, mod == 1 ? 1 : 4);
}

static void decode_modrm(struct cursor *c, bool always_register)
{
	struct insn *out = c->out;

	if (out->modrm >= 0xc0 || always_register)
		return;
	if (out->addr_size == 2)
		decode_memory_16(c);
	else
		decode_memory(c);
	if (c->seg == INSN_REG_NONE && (out->base == 4 || out->base == 5))
		out->seg = INSN_SS;
}

static void set_register(const struct cursor *c, struct insn_operand *o, unsigned int number)
{
	o->kind = INSN_OPERAND_REG;
	o->reg = (uint8_t)number;
	if (o->size == 1 && !c->rex && number >= 4)
		o->reg = (uint8_t)(INSN_REG_HIGH + number - 4);
}

static void set_immediate(struct cursor *c, struct insn_operand *o, unsigned int bytes)
{
	o->kind = INSN_OPERAND_IMM;
	c->out->imm = (uint64_t)take_signed(c, bytes);
}

/* long: one arm per encoding. Sets everything of *o but its size, which is set before. */
static void decode_operand(struct cursor *c, enum enc enc, struct insn_operand *o)
{
	struct insn *out = c->out;
	unsigned int reg = (out->modrm >> 3 & 7) | (c->rex & 4u) << 1;
	unsigned int rm = (out->modrm & 7) | (c->rex & 1u) << 3;
	unsigned int opcode_reg = (out->opcode & 7) | (c->rex & 1u) << 3;

	o->reg = (uint8_t)reg;
	switch (enc) {
	case N: o->size = 0; break;
	case M:
		if (out->modrm >= 0xc0)
			fail(c, INSN_BAD);
		o->kind = INSN_OPERAND_MEM;
		break;
	case E:
		if (out->modrm >= 0xc0)
			set_register(c, o, rm);
		else
			o->kind = INSN_OPERAND_MEM;
		break;
	case R: set_register(c, o, rm); break;
	case G: set_register(c, o, reg); break;
	case A: set_register(c, o, 0); break;
	case Z: set_register(c, o, opcode_reg); break;
	case O:
		o->kind = INSN_OPERAND_MEM;
		out->disp = (int64_t)take(c, out->addr_size);
		break;
	case I: set_immediate(c, o, o->size > 4 ? 4 : o->size); break;
	case IV: set_immediate(c, o, o->size); break;
	case I8: set_immediate(c, o, 1); break;
	case I16: set_immediate(c, o, 2); break;
	case X: o->kind = INSN_OPERAND_SRC_STR; break;
	case Y: o->kind = INSN_OPERAND_DST_STR; break;
	case S: o->kind = INSN_OPERAND_STACK; break;
	case DX: o->kind = INSN_OPERAND_PORT_DX; break;
	case PI:
		o->kind = INSN_OPERAND_PORT_IMM;
		out->imm = take(c, 1);
		break;
	case V: o->kind = INSN_OPERAND_XMM; break;
	case VL: o->kind = INSN_OPERAND_XMM_LOW; break;
	case VH: o->kind = INSN_OPERAND_XMM_HIGH; break;
	case CR:
		o->kind = INSN_OPERAND_CR;
		o->reg |= (uint8_t)(c->lock << 3); /* AltMovCr8, APM 24593 §3.1.5 */
		break;
	case DR: o->kind = INSN_OPERAND_DR; break;
	}
}

/* LOCK is #UD but for a read-modify-write of memory (APM 24594 §1.2.5), and MOV CR. */
static bool lock_is_allowed(const struct insn *out)
{
	if (out->op == INSN_OP_OTHER)
		return out->dst.kind == INSN_OPERAND_CR || out->src.kind == INSN_OPERAND_CR;
	if (out->dst.kind != INSN_OPERAND_MEM)
		return false;
	return (out->op >= INSN_OP_ADD && out->op < INSN_OP_CMP) ||
	       (out->op >= INSN_OP_INC && out->op <= INSN_OP_CMPXCHG8B && out->op != INSN_OP_BT);
}

static void decode_sizes(const struct cursor *c, struct entry e, uint8_t mem_size)
{
	struct insn *out = c->out;
	uint8_t size = mem_size ? mem_size : operand_size(c, e);

	if (mem_size == 1)
		size = c->rex & 8 ? 8 : 4;
	if (e.op == INSN_OP_CMPXCHG8B)
		size = c->rex & 8 ? 16 : 8;
	out->aligned = (e.flags & AL) || (e.op == INSN_OP_CMPXCHG8B && size == 16);
	out->dst.size = size;
	out->src.size = e.flags & S8 ? 1 : e.flags & S16 ? 2 : size;
	if (e.op == INSN_OP_MOVSX && out->map == 0 && size == 8)
		out->src.size = 4;
}

int insn_decode(const uint8_t *bytes, size_t len, enum insn_mode mode, struct insn *out)
{
	struct cursor c = {.bytes = bytes, .len = len, .seg = INSN_REG_NONE, .out = out};
	uint8_t mem_size = 0;
	struct entry e;

	*out = (struct insn){.mode = (uint8_t)mode, .base = INSN_REG_NONE, .index = INSN_REG_NONE};
	e = take_opcode(&c);
	if (c.status != INSN_OK)
		return c.status;
	if (mode == INSN_MODE_64)
		out->addr_size = c.p67 ? 4 : 8;
	else
		out->addr_size = c.p67 != (mode < INSN_MODE_32) ? 2 : 4;
	out->seg = c.seg == INSN_REG_NONE ? INSN_DS : c.seg;
	out->rep = c.rep;
	out->lock = c.lock;
	if (entry_has_modrm(e)) {
		out->modrm = (uint8_t)take(&c, 1);
		e = resolve_entry(&c, e, &mem_size);
		decode_modrm(&c, e.dst == R || e.src == R);
	}
	if (e.op == INSN_OP_BAD || (mode == INSN_MODE_64 && (e.flags & NO64)))
		fail(&c, INSN_BAD);
	out->op = e.op;
	decode_sizes(&c, e, mem_size);
	decode_operand(&c, e.dst, &out->dst);
	decode_operand(&c, e.src, &out->src);
	if (out->lock && !lock_is_allowed(out))
		fail(&c, INSN_BAD);
	out->len = (uint8_t)c.pos;
	return c.status;
}

int insn_length(const uint8_t *bytes, size_t len, enum insn_mode mode)
{
	struct insn insn;
	int status = insn_decode(bytes, len, mode, &insn);

	return status == INSN_OK ? insn.len : status;
}
