/* SPDX-License-Identifier: BSD-2-Clause */
/* Decode and carry out the one x86 instruction that an exit stopped at; for hyp without NRIP save
 * and decode assists. */
#pragma once

#include "abi/types.h"

/*
 * Essay: an instruction in pieces.
 *
 * An exit for emulated memory stops at an instruction that the CPU did not carry out. To finish it
 * hyp needs the bytes, the registers, and memory: emulated memory on one side and perhaps RAM on
 * the other (MOVS, PUSH m). The answer for emulated memory may come much later, from another
 * process, or from its successor after a restart. So nothing of an instruction under way lives on a
 * stack: it is all in struct insn_step, plain data that the exit record keeps.
 *
 *   insn_decode    bytes -> struct insn. Knows no registers. Fails with a status, changes nothing.
 *   insn_plan      insn + registers -> the pieces of memory (or ports) that will be read and
 * written, or a fault. Changes no register. (caller)       translates every piece with its rights
 * before it acts on any, and remembers where each lies in piece.gpa. A page fault found here has
 * had no side effect: INS has not read its port, a store over two pages has not written its first
 * half. insn_next      the piece to do now; the same one until insn_done is called. step.writing
 * says which way. When all reads are in, it works out results into the step. insn_done      that
 * piece is done, once. For a read, piece.data was set before. insn_commit    registers, flags and
 * rip; cannot fail.
 *
 * A piece lies within one 4 KiB page and has 1 to 8 bytes. A repeated string instruction is one
 * iteration a step: step.again says that rip has not moved and the same insn may be planned again
 * (or the guest resumed, which comes to the same, and lets interrupts in).
 *
 * Registers must not change between insn_plan and insn_commit: the vCPU stands still. The caller
 * sees to what belongs to no instruction: paging rights, interrupt shadow, single-step. A CMPXCHG
 * that fails writes nothing, though a CPU writes the old value back.
 */

#define INSN_MAX_LEN    15
#define INSN_MAX_PIECES 4

enum insn_status {
	INSN_OK = 0,
	INSN_SHORT = -1,   /* the bytes given end within the instruction: fetch more, or fault */
	INSN_LONG = -2,    /* longer than 15 bytes: #GP(0) */
	INSN_BAD = -3,     /* #UD, or not known here */
	INSN_REFUSED = -4, /* decoded, length good, but not one that insn_plan carries out */
	INSN_FAULT = -5,   /* the guest gets step.vector with error code 0 */
};

/* REAL is also virtual-8086 mode: 16-bit code whose segments have a limit but no type. */
enum insn_mode { INSN_MODE_REAL, INSN_MODE_16, INSN_MODE_32, INSN_MODE_64 };

/* ADD to CMP stand in the order of ModRM.reg and of opcodes 00-3F. */
enum insn_op {
	INSN_OP_BAD,   /* a hole in a table */
	INSN_OP_OTHER, /* operands and length only: for intercepts, never emulated */
	INSN_OP_NOP,   /* prefetches and cache line flushes: no access, no result */
	INSN_OP_ADD,
	INSN_OP_OR,
	INSN_OP_ADC,
	INSN_OP_SBB,
	INSN_OP_AND,
	INSN_OP_SUB,
	INSN_OP_XOR,
	INSN_OP_CMP,
	INSN_OP_TEST,
	INSN_OP_INC,
	INSN_OP_DEC,
	INSN_OP_NOT,
	INSN_OP_NEG,
	INSN_OP_BT,
	INSN_OP_BTS,
	INSN_OP_BTR,
	INSN_OP_BTC,
	INSN_OP_XCHG,
	INSN_OP_XADD,
	INSN_OP_CMPXCHG,
	INSN_OP_CMPXCHG8B, /* and 16B, by the operand's size */
	INSN_OP_MOV,
	INSN_OP_MOVZX,
	INSN_OP_MOVSX, /* and MOVSXD */
	INSN_OP_MOVBE,
	INSN_OP_CMOV,
	INSN_OP_SETCC,
	INSN_OP_PUSH,
	INSN_OP_POP,
	INSN_OP_IN,
	INSN_OP_OUT,
	INSN_OP_INS,
	INSN_OP_OUTS,
	INSN_OP_MOVS,
	INSN_OP_STOS,
	INSN_OP_LODS,
	INSN_OP_CMPS,
	INSN_OP_SCAS,
	INSN_OP_VMOV, /* an SSE move between one XMM register and memory */
	INSN_OP_COUNT,
};

enum insn_operand_kind {
	INSN_OPERAND_NONE,
	INSN_OPERAND_REG,     /* reg: 0-15, or INSN_REG_HIGH + 0..3 for AH CH DH BH */
	INSN_OPERAND_IMM,     /* insn.imm, sign-extended */
	INSN_OPERAND_MEM,     /* base, index, scale, disp */
	INSN_OPERAND_SRC_STR, /* seg:[rSI] */
	INSN_OPERAND_DST_STR, /* ES:[rDI] */
	INSN_OPERAND_STACK,
	INSN_OPERAND_PORT_DX,
	INSN_OPERAND_PORT_IMM,
	INSN_OPERAND_XMM,      /* a load narrower than 16 bytes clears the rest */
	INSN_OPERAND_XMM_LOW,  /* a load leaves the high 8 bytes alone */
	INSN_OPERAND_XMM_HIGH, /* the high 8 bytes only */
	INSN_OPERAND_CR,
	INSN_OPERAND_DR,
};

enum insn_seg_index { INSN_ES, INSN_CS, INSN_SS, INSN_DS, INSN_FS, INSN_GS };

#define INSN_REG_HIGH 0x10
#define INSN_REG_RIP  0x10 /* as a base: the address of the next instruction */
#define INSN_REG_NONE 0xff /* as a base or index */

struct insn_operand {
	uint8_t kind; /* enum insn_operand_kind */
	uint8_t reg;
	uint8_t size; /* bytes: 1, 2, 4, 8, 16 */
};

struct insn {
	uint8_t op;     /* enum insn_op */
	uint8_t mode;   /* enum insn_mode */
	uint8_t len;    /* bytes, prefixes and all */
	uint8_t map;    /* 0 one byte, 1 0F, 2 0F38, 3 0F3A */
	uint8_t opcode; /* its last byte; the condition of CMOV and SETCC is its low half */
	uint8_t modrm;
	uint8_t addr_size; /* bytes: 2, 4, 8 */
	uint8_t rep;       /* 0, 0xf2 or 0xf3 as found, also where it means nothing */
	struct insn_operand dst, src;
	uint8_t lock;
	uint8_t aligned; /* memory must be aligned to the operand's size, else #GP */
	uint8_t seg;     /* enum insn_seg_index, of INSN_OPERAND_MEM and INSN_OPERAND_SRC_STR */
	uint8_t base, index, scale; /* scale: a shift, 0-3 */
	uint8_t reserved[4];
	int64_t disp;
	uint64_t imm;
};
KEEL_ASSERT_SIZE(struct insn, 40);

/* attr as in the VMCB: type 3:0, S 4, DPL 6:5, P 7, AVL 8, L 9, D/B 10, G 11 (APM 24593 §15.5.1).
 * limit in bytes. */
struct insn_seg {
	uint64_t base;
	uint32_t limit;
	uint16_t attr;
	uint16_t reserved;
};

struct insn_regs {
	uint64_t gpr[16]; /* rax rcx rdx rbx rsp rbp rsi rdi r8-r15: the order of the encoding */
	uint64_t rip;
	uint64_t rflags;
	struct insn_seg seg[6]; /* by enum insn_seg_index; in 64-bit mode only the bases of FS and
	                           GS count */
	uint64_t (
	        *xmm)[2]; /* 16 registers (byte 160 of an FXSAVE area), or NULL: VMOV is refused */
	uint8_t linear_bits; /* 48, or 57 with five-level paging */
};

#define INSN_READ  1u
#define INSN_WRITE 2u

struct insn_piece {
	uint64_t addr;  /* linear, or a port */
	uint64_t gpa;   /* the caller's: where the piece was found to lie */
	uint64_t data;  /* little-endian; bytes from size on are ignored on reads, 0 on writes */
	uint8_t size;   /* 1 to 8, within one page */
	uint8_t rights; /* INSN_READ | INSN_WRITE: what the instruction may do to it */
	uint8_t port;   /* 1: addr is an I/O port */
	uint8_t is_dst; /* belongs to insn.dst, else to insn.src */
	uint8_t reserved[4];
};
KEEL_ASSERT_SIZE(struct insn_piece, 32);

struct insn_step {
	struct insn insn;                         /* in: from insn_decode */
	struct insn_piece piece[INSN_MAX_PIECES]; /* of src first, then of dst */
	uint8_t pieces;
	uint8_t current; /* index of the first piece not yet done in this direction */
	uint8_t writing; /* 0 reads, 1 writes: results stand below and in piece.data */
	uint8_t again;   /* after insn_commit: a repeated instruction has iterations left */
	uint8_t idle;    /* repeated no times: no access, no result */
	uint8_t vector;  /* with INSN_FAULT: 12 #SS or 13 #GP */
	uint8_t results; /* how many of out_ are used */
	uint8_t xmm_reg; /* INSN_REG_NONE: none */
	uint8_t out_reg[4];
	uint8_t reserved[4];
	uint64_t out_value[4];
	uint64_t xmm[2];
	uint64_t rflags, rip;
};
KEEL_ASSERT_SIZE(struct insn_step, 248);

/* The mode of code, from what the vCPU state has: CR0.PE, RFLAGS.VM, EFER.LMA and CS's attributes.
 */
static inline enum insn_mode insn_mode_from_state(bool pe, bool vm86, bool lma, uint16_t cs_attr)
{
	if (!pe || vm86)
		return INSN_MODE_REAL;
	if (lma && (cs_attr & 0x200))
		return INSN_MODE_64;
	return (cs_attr & 0x400) ? INSN_MODE_32 : INSN_MODE_16;
}

/* The linear address to fetch instruction bytes from. */
static inline uint64_t insn_fetch_address(const struct insn_regs *regs, enum insn_mode mode)
{
	return mode == INSN_MODE_64 ? regs->rip
	                            : (regs->seg[INSN_CS].base + regs->rip) & 0xffffffffu;
}

/*
 * Decodes the instruction at bytes, of which len (any number; at most 15 are looked at) are there.
 * Returns INSN_OK, INSN_SHORT, INSN_LONG or INSN_BAD; *out is valid after INSN_OK only.
 * VEX, EVEX and XOP encodings are INSN_BAD.
 */
int insn_decode(const uint8_t *bytes, size_t len, enum insn_mode mode, struct insn *out);

/* The instruction's length, 1 to 15, or insn_decode's status (negative). For intercepts without
 * NRIP save. */
int insn_length(const uint8_t *bytes, size_t len, enum insn_mode mode);

/* Offset of INSN_OPERAND_MEM within its segment, truncated to the address size (bit offsets of BT
 * not applied). */
uint64_t insn_effective_address(const struct insn *insn, const struct insn_regs *regs);

/*
 * Offset to linear address for an access of size bytes with rights, by the rules of the mode: type,
 * limit, canonical form. Returns 0, or the vector to inject with error code 0 (12 or 13).
 */
int insn_linear_address(const struct insn_regs *regs, enum insn_mode mode, unsigned int seg,
        uint64_t offset, unsigned int size, unsigned int rights, uint64_t *linear);

/* Needs: step->insn. Returns INSN_OK, INSN_REFUSED, or INSN_FAULT with step->vector; see the essay.
 */
int insn_plan(struct insn_step *step, const struct insn_regs *regs);

/* NULL: nothing left to do but insn_commit. */
struct insn_piece *insn_next(struct insn_step *step, const struct insn_regs *regs);

void insn_done(struct insn_step *step);

/* Needs: insn_next returned NULL. */
void insn_commit(struct insn_step *step, struct insn_regs *regs);
