/* SPDX-License-Identifier: BSD-2-Clause */
/* x86 arithmetic: results and flags of the operations that take one or two operands of 1 to 8
 * bytes. */
#include "lib/insn_alu.h"

#include "lib/insn.h"

#define ALL (ALU_CF | ALU_PF | ALU_AF | ALU_ZF | ALU_SF | ALU_OF)

static uint64_t value_mask(unsigned int size)
{
	return ~0ull >> (64 - 8 * size);
}

static uint64_t flags_of_result(uint64_t result, unsigned int size)
{
	uint64_t flags = 0;

	if (!(__builtin_popcount((unsigned int)result & 0xff) & 1))
		flags |= ALU_PF;
	if (result == 0)
		flags |= ALU_ZF;
	if (result >> (8 * size - 1) & 1)
		flags |= ALU_SF;
	return flags;
}

/* carries: bit n set where a carry, or borrow, came out of bit n. */
static uint64_t flags_of_carries(uint64_t carries, unsigned int size)
{
	uint64_t top = carries >> (8 * size - 1) & 1, next = carries >> (8 * size - 2) & 1;

	return (top ? ALU_CF : 0) | (carries & 8 ? ALU_AF : 0) | (top != next ? ALU_OF : 0);
}

static uint64_t add(uint64_t a, uint64_t b, uint64_t carry, unsigned int size, uint64_t *flags)
{
	uint64_t result = (a + b + carry) & value_mask(size);

	*flags |= flags_of_carries((a & b) | ((a | b) & ~result), size);
	return result;
}

static uint64_t subtract(
        uint64_t a, uint64_t b, uint64_t borrow, unsigned int size, uint64_t *flags)
{
	uint64_t result = (a - b - borrow) & value_mask(size);

	*flags |= flags_of_carries((~a & b) | ((~a | b) & result), size);
	return result;
}

static uint64_t bit_operation(
        unsigned int op, unsigned int size, uint64_t a, uint64_t b, uint64_t *rflags)
{
	uint64_t bit = 1ull << (b & (8 * size - 1));

	*rflags &= ~(uint64_t)ALU_CF;
	if (a & bit)
		*rflags |= ALU_CF;
	switch (op) {
	case INSN_OP_BTS: return a | bit;
	case INSN_OP_BTR: return a & ~bit;
	case INSN_OP_BTC: return a ^ bit;
	default: return a;
	}
}

uint64_t alu_binary(unsigned int op, unsigned int size, uint64_t a, uint64_t b, uint64_t *rflags)
{
	uint64_t changed = ALL, flags = 0, carry = *rflags & ALU_CF, result;

	a &= value_mask(size);
	b &= value_mask(size);
	switch (op) {
	case INSN_OP_ADD: result = add(a, b, 0, size, &flags); break;
	case INSN_OP_ADC: result = add(a, b, carry, size, &flags); break;
	case INSN_OP_SUB:
	case INSN_OP_CMP: result = subtract(a, b, 0, size, &flags); break;
	case INSN_OP_SBB: result = subtract(a, b, carry, size, &flags); break;
	case INSN_OP_NEG: result = subtract(0, a, 0, size, &flags); break;
	case INSN_OP_AND:
	case INSN_OP_TEST: result = a & b; break;
	case INSN_OP_OR: result = a | b; break;
	case INSN_OP_XOR: result = a ^ b; break;
	case INSN_OP_INC:
		changed = ALL & ~ALU_CF;
		result = add(a, 1, 0, size, &flags);
		break;
	case INSN_OP_DEC:
		changed = ALL & ~ALU_CF;
		result = subtract(a, 1, 0, size, &flags);
		break;
	case INSN_OP_NOT: return ~a & value_mask(size);
	default: return bit_operation(op, size, a, b, rflags);
	}
	flags |= flags_of_result(result, size);
	*rflags = (*rflags & ~changed) | (flags & changed);
	return result;
}

bool alu_condition(unsigned int opcode, uint64_t rflags)
{
	bool cf = rflags & ALU_CF, zf = rflags & ALU_ZF, sf = rflags & ALU_SF, of = rflags & ALU_OF;
	bool holds;

	switch (opcode >> 1 & 7) {
	case 0: holds = of; break;
	case 1: holds = cf; break;
	case 2: holds = zf; break;
	case 3: holds = cf || zf; break;
	case 4: holds = sf; break;
	case 5: holds = rflags & ALU_PF; break;
	case 6: holds = sf != of; break;
	default: holds = zf || sf != of; break;
	}
	return holds != (opcode & 1);
}

uint64_t alu_sign_extend(uint64_t value, unsigned int size)
{
	unsigned int unused_bits = 64 - 8 * size;

	return (uint64_t)((int64_t)(value << unused_bits) >> unused_bits);
}
