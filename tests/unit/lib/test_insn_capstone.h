/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares what lib/insn_decode.c makes of some bytes with what capstone does; for the unit test
 * and the fuzzer. */
#pragma once

#include "lib/insn.h"

#include <capstone/capstone.h>
#include <stdio.h>
#include <string.h>

struct reference {
	csh handle[4]; /* by enum insn_mode */
	cs_insn *insn;
	uint64_t compared; /* instructions that both know and hyp carries out */
	uint64_t lengths;  /* those of which only the length was compared */
};

static inline int reference_open(struct reference *r)
{
	static const cs_mode modes[4] = {CS_MODE_16, CS_MODE_16, CS_MODE_32, CS_MODE_64};

	memset(r, 0, sizeof(*r));
	for (int i = 0; i < 4; i++) {
		if (cs_open(CS_ARCH_X86, modes[i], &r->handle[i]) != CS_ERR_OK)
			return -1;
		cs_option(r->handle[i], CS_OPT_DETAIL, CS_OPT_ON);
	}
	r->insn = cs_malloc(r->handle[0]);
	return 0;
}

static inline void reference_close(struct reference *r)
{
	cs_free(r->insn, 1);
	for (int i = 0; i < 4; i++)
		cs_close(&r->handle[i]);
}

/* What each of our operations is called there; several names may stand for one. */
static const struct {
	uint16_t op, first, last;
} reference_names[] = {
        {INSN_OP_ADD, X86_INS_ADD, X86_INS_ADD},
        {INSN_OP_OR, X86_INS_OR, X86_INS_OR},
        {INSN_OP_ADC, X86_INS_ADC, X86_INS_ADC},
        {INSN_OP_SBB, X86_INS_SBB, X86_INS_SBB},
        {INSN_OP_AND, X86_INS_AND, X86_INS_AND},
        {INSN_OP_SUB, X86_INS_SUB, X86_INS_SUB},
        {INSN_OP_XOR, X86_INS_XOR, X86_INS_XOR},
        {INSN_OP_CMP, X86_INS_CMP, X86_INS_CMP},
        {INSN_OP_TEST, X86_INS_TEST, X86_INS_TEST},
        {INSN_OP_INC, X86_INS_INC, X86_INS_INC},
        {INSN_OP_DEC, X86_INS_DEC, X86_INS_DEC},
        {INSN_OP_NOT, X86_INS_NOT, X86_INS_NOT},
        {INSN_OP_NEG, X86_INS_NEG, X86_INS_NEG},
        {INSN_OP_BT, X86_INS_BT, X86_INS_BT},
        {INSN_OP_BTS, X86_INS_BTS, X86_INS_BTS},
        {INSN_OP_BTR, X86_INS_BTR, X86_INS_BTR},
        {INSN_OP_BTC, X86_INS_BTC, X86_INS_BTC},
        {INSN_OP_XCHG, X86_INS_XCHG, X86_INS_XCHG},
        {INSN_OP_XADD, X86_INS_XADD, X86_INS_XADD},
        {INSN_OP_CMPXCHG, X86_INS_CMPXCHG, X86_INS_CMPXCHG},
        {INSN_OP_CMPXCHG8B, X86_INS_CMPXCHG8B, X86_INS_CMPXCHG8B},
        {INSN_OP_CMPXCHG8B, X86_INS_CMPXCHG16B, X86_INS_CMPXCHG16B},
        {INSN_OP_MOV, X86_INS_MOV, X86_INS_MOV},
        {INSN_OP_MOV, X86_INS_MOVABS, X86_INS_MOVABS},
        {INSN_OP_MOV, X86_INS_MOVNTI, X86_INS_MOVNTI},
        {INSN_OP_MOVZX, X86_INS_MOVZX, X86_INS_MOVZX},
        {INSN_OP_MOVSX, X86_INS_MOVSX, X86_INS_MOVSX},
        {INSN_OP_MOVSX, X86_INS_MOVSXD, X86_INS_MOVSXD},
        {INSN_OP_MOVBE, X86_INS_MOVBE, X86_INS_MOVBE},
        {INSN_OP_CMOV, X86_INS_CMOVA, X86_INS_CMOVA},
        {INSN_OP_CMOV, X86_INS_CMOVAE, X86_INS_CMOVAE},
        {INSN_OP_CMOV, X86_INS_CMOVB, X86_INS_CMOVB},
        {INSN_OP_CMOV, X86_INS_CMOVBE, X86_INS_CMOVBE},
        {INSN_OP_CMOV, X86_INS_CMOVE, X86_INS_CMOVE},
        {INSN_OP_CMOV, X86_INS_CMOVG, X86_INS_CMOVG},
        {INSN_OP_CMOV, X86_INS_CMOVGE, X86_INS_CMOVGE},
        {INSN_OP_CMOV, X86_INS_CMOVL, X86_INS_CMOVL},
        {INSN_OP_CMOV, X86_INS_CMOVLE, X86_INS_CMOVLE},
        {INSN_OP_CMOV, X86_INS_CMOVNE, X86_INS_CMOVNE},
        {INSN_OP_CMOV, X86_INS_CMOVNO, X86_INS_CMOVNO},
        {INSN_OP_CMOV, X86_INS_CMOVNP, X86_INS_CMOVNP},
        {INSN_OP_CMOV, X86_INS_CMOVNS, X86_INS_CMOVNS},
        {INSN_OP_CMOV, X86_INS_CMOVO, X86_INS_CMOVO},
        {INSN_OP_CMOV, X86_INS_CMOVP, X86_INS_CMOVP},
        {INSN_OP_CMOV, X86_INS_CMOVS, X86_INS_CMOVS},
        {INSN_OP_SETCC, X86_INS_SETAE, X86_INS_SETS},
        {INSN_OP_PUSH, X86_INS_PUSH, X86_INS_PUSH},
        {INSN_OP_POP, X86_INS_POP, X86_INS_POP},
        {INSN_OP_IN, X86_INS_IN, X86_INS_IN},
        {INSN_OP_OUT, X86_INS_OUT, X86_INS_OUT},
        {INSN_OP_INS, X86_INS_INSB, X86_INS_INSB},
        {INSN_OP_INS, X86_INS_INSW, X86_INS_INSW},
        {INSN_OP_INS, X86_INS_INSD, X86_INS_INSD},
        {INSN_OP_OUTS, X86_INS_OUTSB, X86_INS_OUTSB},
        {INSN_OP_OUTS, X86_INS_OUTSW, X86_INS_OUTSW},
        {INSN_OP_OUTS, X86_INS_OUTSD, X86_INS_OUTSD},
        {INSN_OP_MOVS, X86_INS_MOVSB, X86_INS_MOVSB},
        {INSN_OP_MOVS, X86_INS_MOVSW, X86_INS_MOVSW},
        {INSN_OP_MOVS, X86_INS_MOVSD, X86_INS_MOVSD},
        {INSN_OP_MOVS, X86_INS_MOVSQ, X86_INS_MOVSQ},
        {INSN_OP_STOS, X86_INS_STOSB, X86_INS_STOSB},
        {INSN_OP_STOS, X86_INS_STOSW, X86_INS_STOSW},
        {INSN_OP_STOS, X86_INS_STOSD, X86_INS_STOSD},
        {INSN_OP_STOS, X86_INS_STOSQ, X86_INS_STOSQ},
        {INSN_OP_LODS, X86_INS_LODSB, X86_INS_LODSB},
        {INSN_OP_LODS, X86_INS_LODSW, X86_INS_LODSW},
        {INSN_OP_LODS, X86_INS_LODSD, X86_INS_LODSD},
        {INSN_OP_LODS, X86_INS_LODSQ, X86_INS_LODSQ},
        {INSN_OP_CMPS, X86_INS_CMPSB, X86_INS_CMPSB},
        {INSN_OP_CMPS, X86_INS_CMPSW, X86_INS_CMPSW},
        {INSN_OP_CMPS, X86_INS_CMPSD, X86_INS_CMPSD},
        {INSN_OP_CMPS, X86_INS_CMPSQ, X86_INS_CMPSQ},
        {INSN_OP_SCAS, X86_INS_SCASB, X86_INS_SCASB},
        {INSN_OP_SCAS, X86_INS_SCASW, X86_INS_SCASW},
        {INSN_OP_SCAS, X86_INS_SCASD, X86_INS_SCASD},
        {INSN_OP_SCAS, X86_INS_SCASQ, X86_INS_SCASQ},
        {INSN_OP_VMOV, X86_INS_MOVUPS, X86_INS_MOVUPS},
        {INSN_OP_VMOV, X86_INS_MOVUPD, X86_INS_MOVUPD},
        {INSN_OP_VMOV, X86_INS_MOVAPS, X86_INS_MOVAPS},
        {INSN_OP_VMOV, X86_INS_MOVAPD, X86_INS_MOVAPD},
        {INSN_OP_VMOV, X86_INS_MOVDQA, X86_INS_MOVDQA},
        {INSN_OP_VMOV, X86_INS_MOVDQU, X86_INS_MOVDQU},
        {INSN_OP_VMOV, X86_INS_MOVNTPS, X86_INS_MOVNTPS},
        {INSN_OP_VMOV, X86_INS_MOVNTPD, X86_INS_MOVNTPD},
        {INSN_OP_VMOV, X86_INS_MOVNTDQ, X86_INS_MOVNTDQ},
        {INSN_OP_VMOV, X86_INS_MOVNTDQA, X86_INS_MOVNTDQA},
        {INSN_OP_VMOV, X86_INS_LDDQU, X86_INS_LDDQU},
        {INSN_OP_VMOV, X86_INS_MOVSS, X86_INS_MOVSS},
        {INSN_OP_VMOV, X86_INS_MOVSD, X86_INS_MOVSD},
        {INSN_OP_VMOV, X86_INS_MOVLPS, X86_INS_MOVLPS},
        {INSN_OP_VMOV, X86_INS_MOVLPD, X86_INS_MOVLPD},
        {INSN_OP_VMOV, X86_INS_MOVHPS, X86_INS_MOVHPS},
        {INSN_OP_VMOV, X86_INS_MOVHPD, X86_INS_MOVHPD},
        {INSN_OP_VMOV, X86_INS_MOVD, X86_INS_MOVD},
        {INSN_OP_VMOV, X86_INS_MOVQ, X86_INS_MOVQ},
};

static inline bool reference_is_named(unsigned int id, unsigned int op)
{
	for (size_t i = 0; i < sizeof(reference_names) / sizeof(reference_names[0]); i++)
		if (reference_names[i].op == op && id >= reference_names[i].first &&
		        id <= reference_names[i].last)
			return true;
	return false;
}

static inline bool reference_is_carried_out(unsigned int id)
{
	for (unsigned int op = INSN_OP_ADD; op < INSN_OP_COUNT; op++)
		if (reference_is_named(id, op))
			return true;
	return false;
}

/* The name of a general register; size 16 means an XMM register. */
static inline void reference_register_name(
        char *name, size_t room, unsigned int reg, unsigned int size)
{
	static const char *const words[] = {"ax", "cx", "dx", "bx", "sp", "bp", "si", "di"};
	static const char *const high[] = {"ah", "ch", "dh", "bh"};
	static const char *const low[] = {"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil"};

	if (size == 16)
		snprintf(name, room, "xmm%u", reg);
	else if (size == 1 && reg >= INSN_REG_HIGH)
		snprintf(name, room, "%s", high[reg & 3]);
	else if (reg >= 8)
		snprintf(name, room, "r%u%s", reg,
		        size == 8   ? ""
		        : size == 4 ? "d"
		        : size == 2 ? "w"
		                    : "b");
	else if (size == 1)
		snprintf(name, room, "%s", low[reg]);
	else
		snprintf(name, room, "%s%s", size == 8 ? "r" : size == 4 ? "e" : "", words[reg]);
}

static inline bool reference_same_register(
        csh handle, unsigned int theirs, unsigned int reg, unsigned int size)
{
	char name[16];

	if (reg == INSN_REG_NONE)
		return theirs == X86_REG_INVALID || theirs == X86_REG_EIZ || theirs == X86_REG_RIZ;
	reference_register_name(name, sizeof(name), reg, size);
	return theirs != X86_REG_INVALID && strcmp(name, cs_reg_name(handle, theirs)) == 0;
}

static inline uint64_t reference_mask(unsigned int size)
{
	return size >= 8 ? ~0ull : (1ull << 8 * size) - 1;
}

static inline const char *reference_compare_segment(const struct insn *in, unsigned int theirs)
{
	static const unsigned int segments[] = {
	        X86_REG_ES, X86_REG_CS, X86_REG_SS, X86_REG_DS, X86_REG_FS, X86_REG_GS};

	/* In 64-bit code a CPU ignores ES to DS; after FS or GS capstone takes them for an
	 * override. */
	if (theirs == X86_REG_INVALID ||
	        (in->mode == INSN_MODE_64 && theirs != X86_REG_FS && theirs != X86_REG_GS))
		return in->seg < INSN_FS || theirs != X86_REG_INVALID ? NULL : "segment";
	return theirs == segments[in->seg] ? NULL : "segment";
}

static inline const char *reference_compare_memory(
        csh handle, const struct insn *in, const x86_op_mem *m)
{
	uint64_t mask = reference_mask(in->addr_size);

	if (in->base == INSN_REG_RIP) {
		if (m->base != (in->addr_size == 8 ? X86_REG_RIP : X86_REG_EIP))
			return "not RIP-relative there";
	} else if (!reference_same_register(handle, m->base, in->base, in->addr_size)) {
		return "base";
	}
	if (!reference_same_register(handle, m->index, in->index, in->addr_size))
		return "index";
	if (in->index != INSN_REG_NONE && m->scale != 1 << in->scale)
		return "scale";
	if (((uint64_t)m->disp & mask) != ((uint64_t)in->disp & mask))
		return "displacement";
	return reference_compare_segment(in, m->segment);
}

static inline const char *reference_compare_operand(
        csh handle, const struct insn *in, const struct insn_operand *o, const cs_x86_op *theirs)
{
	unsigned int pointer; /* or the bytes of an immediate */

	switch (o->kind) {
	case INSN_OPERAND_MEM:
		if (theirs->type != X86_OP_MEM)
			return "not memory there";
		if (theirs->size != o->size)
			return "size of memory";
		return reference_compare_memory(handle, in, &theirs->mem);
	case INSN_OPERAND_REG:
		if (theirs->type != X86_OP_REG ||
		        !reference_same_register(handle, theirs->reg, o->reg, o->size))
			return "register";
		return NULL;
	case INSN_OPERAND_XMM:
	case INSN_OPERAND_XMM_LOW:
	case INSN_OPERAND_XMM_HIGH:
		if (theirs->type != X86_OP_REG ||
		        !reference_same_register(handle, theirs->reg, o->reg, 16))
			return "vector register";
		return NULL;
	case INSN_OPERAND_PORT_DX:
		return theirs->type == X86_OP_REG && theirs->reg == X86_REG_DX ? NULL : "port";
	case INSN_OPERAND_PORT_IMM:
	case INSN_OPERAND_IMM:
		if (theirs->type != X86_OP_IMM)
			return "not an immediate there";
		pointer = in->op >= INSN_OP_BT && in->op <= INSN_OP_BTC
		                  ? 1
		                  : o->size; /* BT: not extended there */
		return ((uint64_t)theirs->imm ^ in->imm) & reference_mask(pointer) ? "immediate"
		                                                                   : NULL;
	case INSN_OPERAND_SRC_STR:
	case INSN_OPERAND_DST_STR:
		pointer = o->kind == INSN_OPERAND_SRC_STR ? 6 : 7;
		if (theirs->type != X86_OP_MEM || theirs->size != o->size)
			return "string operand";
		if (!reference_same_register(handle, theirs->mem.base, pointer, in->addr_size))
			return "string pointer";
		return pointer == 6 ? reference_compare_segment(in, theirs->mem.segment) : NULL;
	default: return "kind of operand";
	}
}

static inline const char *reference_compare_operands(
        csh handle, const struct insn *in, const cs_insn *theirs)
{
	const cs_x86 *x = &theirs->detail->x86;
	const struct insn_operand *ours[2] = {&in->dst, &in->src};
	unsigned int count = 0;

	for (unsigned int i = 0; i < 2; i++) {
		const char *wrong;

		if (ours[i]->kind == INSN_OPERAND_NONE || ours[i]->kind == INSN_OPERAND_STACK)
			continue;
		if (count >= x->op_count)
			return "fewer operands there";
		wrong = reference_compare_operand(handle, in, ours[i], &x->operands[count++]);
		if (wrong)
			return wrong;
	}
	return count == x->op_count ? NULL : "more operands there";
}

static inline bool reference_touches_other_registers(csh handle, const cs_insn *theirs)
{
	const cs_x86 *x = &theirs->detail->x86;

	for (unsigned int i = 0; i < x->op_count; i++) {
		const char *name = x->operands[i].type == X86_OP_REG
		                           ? cs_reg_name(handle, x->operands[i].reg)
		                           : "";
		size_t len = strlen(name);

		if (strncmp(name, "mm", 2) == 0 || strncmp(name, "cr", 2) == 0 ||
		        strncmp(name, "dr", 2) == 0)
			return true;
		if (len == 2 && name[1] == 's')
			return true;
	}
	return false;
}

/* What hyp does not carry out though it has the name of something that hyp does; and where LOCK is
 * #UD. */
static inline bool reference_may_be_refused(
        csh handle, const struct insn *in, const cs_insn *theirs)
{
	const cs_x86 *x = &theirs->detail->x86;
	unsigned int id = theirs->id;
	bool writes_memory = x->op_count > 0 && x->operands[0].type == X86_OP_MEM;

	if (x->prefix[0] == X86_PREFIX_LOCK || in->lock) {
		if (!writes_memory || id == X86_INS_CMP || id == X86_INS_TEST || id == X86_INS_BT)
			return true;
		return reference_is_named(id, INSN_OP_VMOV) ||
		       !(reference_is_named(id, INSN_OP_XCHG) ||
		               reference_is_named(id, INSN_OP_XADD) ||
		               reference_is_named(id, INSN_OP_CMPXCHG) ||
		               reference_is_named(id, INSN_OP_CMPXCHG8B) ||
		               (in->op >= INSN_OP_ADD && in->op <= INSN_OP_BTC));
	}
	if (reference_touches_other_registers(handle, theirs))
		return true;
	if (reference_is_named(id,
	            INSN_OP_VMOV)) /* between registers; with a prefix that changes what it is */
		return (in->modrm >= 0xc0 || in->rep) && (in->map == 1 || in->map == 2);
	if (id == X86_INS_MOVNTI || id == X86_INS_MOVBE) /* #UD on CPUs */
		return in->rep || (id == X86_INS_MOVNTI && x->prefix[2] == X86_PREFIX_OPSIZE);
	if (id == X86_INS_MOVNTDQA)
		return true; /* capstone takes it without 66 */
	if (id == X86_INS_CMPSD && in->map == 1)
		return true; /* the vector comparison of that name */
	return id == X86_INS_XCHG && in->map == 0 && in->opcode >= 0x90 && in->opcode <= 0x97;
}

/*
 * Where capstone 4 is wrong about prefixes, and the CPU (test_insn_native.c) agrees with hyp: 66
 * together with F2 or F3; other prefixes, or two REX, between the one that chooses an SSE
 * instruction and its opcode; 66 for SSE in 16-bit code; REX.W together with 67, on IN and OUT, on
 * near branches, and with 66 on PUSH and POP; 66 on near branches; REX.W with F3 on
 * MOVQ; MOVSXD but with REX.W alone. MOVDIRI it does not know.
 */
static inline bool reference_is_unreliable(const struct insn *in, const uint8_t *bytes)
{
	bool p66 = false, p67 = false, wide = false,
	     in_out = in->op >= INSN_OP_IN && in->op <= INSN_OP_OUTS;
	bool branch = in->map == 0 &&
	              (in->opcode == 0xc2 || in->opcode == 0xe8 || in->opcode == 0xe9);
	unsigned int last = 0, rexes = 0;

	for (unsigned int at = 0; at < in->len; at++) {
		bool rex = in->mode == INSN_MODE_64 && (bytes[at] & 0xf0) == 0x40;

		if (!rex &&
		        (bytes[at] == 0 ||
		                !strchr("\x66\x67\xf0\xf2\xf3\x26\x2e\x36\x3e\x64\x65", bytes[at])))
			break;
		wide = rex && (bytes[at] & 8);
		rexes += rex;
		p66 = p66 || bytes[at] == 0x66;
		p67 = p67 || bytes[at] == 0x67;
		last = rex ? last : bytes[at];
	}
	if ((p66 && in->rep) || (wide && p67))
		return true;
	if (wide && (in_out || (p66 && (in->op == INSN_OP_PUSH || in->op == INSN_OP_POP))))
		return true;
	if (in->op == INSN_OP_VMOV && (p66 || in->rep))
		return in->mode < INSN_MODE_32 || rexes > 1 || (wide && in->rep) ||
		       (last != 0x66 && last < 0xf2);
	if (in->op == INSN_OP_MOVSX && in->map == 0 && (p66 || in->rep || !wide))
		return true;
	if (branch && (wide || p66))
		return true;
	return in->op == INSN_OP_MOV && in->map == 2;
}

static inline const char *reference_compare_refused(
        struct reference *r, const struct insn *in, int status)
{
	const cs_insn *theirs = r->insn;

	if (reference_is_carried_out(theirs->id))
		return reference_may_be_refused(r->handle[in->mode], in, theirs) ? NULL
		                                                                 : "not known here";
	if (status != INSN_OK)
		return NULL;
	if (theirs->id == X86_INS_UD0 || theirs->id == X86_INS_UD2B)
		return NULL; /* capstone knows no ModRM there */
	r->lengths++;
	return theirs->size == in->len ? NULL : "length";
}

/* NULL, or what differs. bytes must be 15 or more. */
static inline const char *reference_compare(
        struct reference *r, const uint8_t *bytes, enum insn_mode mode)
{
	struct insn in;
	const uint8_t *at = bytes;
	size_t left = INSN_MAX_LEN;
	uint64_t address = 0;
	int status = insn_decode(bytes, INSN_MAX_LEN, mode, &in);
	bool known = cs_disasm_iter(r->handle[mode], &at, &left, &address, r->insn);

	if (status == INSN_OK && reference_is_unreliable(&in, bytes))
		return NULL;
	if (status != INSN_OK || in.op == INSN_OP_OTHER)
		return known ? reference_compare_refused(r, &in, status) : NULL;
	if (in.op == INSN_OP_NOP)
		return known && r->insn->size != in.len ? "length" : NULL;
	if (!known)
		return "not known there";
	if (r->insn->size != in.len)
		return "length";
	r->compared++;
	if (!reference_is_named(r->insn->id, in.op))
		return "operation";
	return reference_compare_operands(r->handle[mode], &in, r->insn);
}
