/* SPDX-License-Identifier: BSD-2-Clause */
/* Arithmetic with x86's flags, on values of 1 to 8 bytes; the part of insn_exec.c that knows no
 * operands. */
#pragma once

#include "abi/types.h"

#define ALU_CF 0x001u
#define ALU_PF 0x004u
#define ALU_AF 0x010u
#define ALU_ZF 0x040u
#define ALU_SF 0x080u
#define ALU_OF 0x800u

/*
 * op is INSN_OP_ADD to INSN_OP_BTC. Values may have rubbish above size bytes; the result has none.
 * Flags that the manual leaves undefined come out as CPUs leave them: AF clear after AND, OR, XOR
 * and TEST; all but CF as they were after BT*.
 */
uint64_t alu_binary(unsigned int op, unsigned int size, uint64_t a, uint64_t b, uint64_t *rflags);

/* Whether the condition in the low 4 bits of a CMOVcc, SETcc or Jcc opcode holds. */
bool alu_condition(unsigned int opcode, uint64_t rflags);

uint64_t alu_sign_extend(uint64_t value, unsigned int size);
