/* SPDX-License-Identifier: BSD-2-Clause */
/* Carries out a decoded instruction step by step; memory is the caller's. The states are told in
 * insn.h. */
#include "lib/insn.h"

#include "lib/insn_alu.h"
#include "lib/string.h"

#define VECTOR_SS 12
#define VECTOR_GP 13

#define REG_RAX 0
#define REG_RCX 1
#define REG_RDX 2
#define REG_RBX 3
#define REG_RSP 4
#define REG_RSI 6
#define REG_RDI 7

#define RFLAGS_DF 0x400u
#define RFLAGS_RF 0x10000u

#define ATTR_WRITABLE 0x002u /* of data; of code: readable */
#define ATTR_DOWN     0x004u
#define ATTR_CODE     0x008u
#define ATTR_S        0x010u
#define ATTR_P        0x080u
#define ATTR_DB       0x400u

#define READS_DST  1 /* the operation needs the destination's old value */
#define WRITES_DST 2
#define STRING     4

static const uint8_t traits[INSN_OP_COUNT] = {
        [INSN_OP_ADD... INSN_OP_XOR] = READS_DST | WRITES_DST,
        [INSN_OP_CMP... INSN_OP_TEST] = READS_DST,
        [INSN_OP_INC... INSN_OP_NEG] = READS_DST | WRITES_DST,
        [INSN_OP_BT] = READS_DST,
        [INSN_OP_BTS... INSN_OP_CMPXCHG8B] = READS_DST | WRITES_DST,
        [INSN_OP_MOV... INSN_OP_MOVBE] = WRITES_DST,
        [INSN_OP_CMOV] = READS_DST | WRITES_DST,
        [INSN_OP_SETCC... INSN_OP_OUT] = WRITES_DST,
        [INSN_OP_INS... INSN_OP_LODS] = WRITES_DST | STRING,
        [INSN_OP_CMPS... INSN_OP_SCAS] = READS_DST | STRING,
        [INSN_OP_VMOV] = WRITES_DST,
};

static uint64_t size_mask(unsigned int bytes)
{
	return bytes >= 8 ? ~0ull : (1ull << (8 * bytes)) - 1;
}

uint64_t insn_effective_address(const struct insn *insn, const struct insn_regs *regs)
{
	uint64_t address = (uint64_t)insn->disp;

	if (insn->base == INSN_REG_RIP)
		address += regs->rip + insn->len;
	else if (insn->base != INSN_REG_NONE)
		address += regs->gpr[insn->base & 15];
	if (insn->index != INSN_REG_NONE)
		address += regs->gpr[insn->index & 15] << insn->scale;
	/* POP counts rSP up before it computes the address (APM 24594, POP). */
	if (insn->op == INSN_OP_POP && insn->base == REG_RSP)
		address += insn->dst.size;
	return address & size_mask(insn->addr_size);
}

/* Type and limit, for legacy modes (APM 24593 §4.7, §4.8, §4.12). */
static bool segment_allows(const struct insn_seg *seg, enum insn_mode mode, uint64_t offset,
        unsigned int size, unsigned int rights)
{
	uint64_t last = offset + size - 1;
	unsigned int attr = seg->attr;

	if (mode != INSN_MODE_REAL) {
		if ((attr & (ATTR_P | ATTR_S)) != (ATTR_P | ATTR_S))
			return false;
		if ((rights & INSN_WRITE) && (attr & (ATTR_CODE | ATTR_WRITABLE)) != ATTR_WRITABLE)
			return false;
		if ((attr & (ATTR_CODE | ATTR_WRITABLE)) == ATTR_CODE)
			return false;
		if ((attr & (ATTR_CODE | ATTR_DOWN)) == ATTR_DOWN)
			return offset > seg->limit &&
			       last <= ((attr & ATTR_DB) ? 0xffffffffu : 0xffffu);
	}
	return last <= seg->limit;
}

static bool is_canonical(uint64_t address, unsigned int bits)
{
	unsigned int unused_bits = 64 - bits;

	return (uint64_t)((int64_t)(address << unused_bits) >> unused_bits) == address;
}

int insn_linear_address(const struct insn_regs *regs, enum insn_mode mode, unsigned int seg,
        uint64_t offset, unsigned int size, unsigned int rights, uint64_t *linear)
{
	const struct insn_seg *s = &regs->seg[seg];
	bool allowed;

	if (mode == INSN_MODE_64) {
		*linear = offset + (seg >= INSN_FS ? s->base : 0);
		allowed = is_canonical(*linear, regs->linear_bits) &&
		          is_canonical(*linear + size - 1, regs->linear_bits);
	} else {
		*linear = (offset + s->base) & 0xffffffffu;
		allowed = segment_allows(s, mode, offset, size, rights);
	}
	if (allowed)
		return 0;
	return seg == INSN_SS ? VECTOR_SS : VECTOR_GP;
}

static unsigned int stack_address_size(const struct insn *insn, const struct insn_regs *regs)
{
	if (insn->mode == INSN_MODE_64)
		return 8;
	return (regs->seg[INSN_SS].attr & ATTR_DB) ? 4 : 2;
}

/* A bit offset in a register reaches beyond the operand, in units of its size (APM 24594, BT). */
static uint64_t bit_string_displacement(const struct insn *insn, const struct insn_regs *regs)
{
	unsigned int size = insn->dst.size, unused_bits = 64 - 8 * size;
	int64_t bit;

	if (insn->op < INSN_OP_BT || insn->op > INSN_OP_BTC || insn->src.kind != INSN_OPERAND_REG)
		return 0;
	bit = (int64_t)(regs->gpr[insn->src.reg & 15] << unused_bits) >> unused_bits;
	return (uint64_t)(bit >> 3) & ~(uint64_t)(size - 1);
}

/* Where an operand in memory lies; false: it is none. */
static bool locate_operand(const struct insn *insn, const struct insn_operand *o,
        const struct insn_regs *regs, unsigned int *seg, uint64_t *offset)
{
	uint64_t mask = size_mask(insn->addr_size);

	switch (o->kind) {
	case INSN_OPERAND_MEM:
		*seg = insn->seg;
		*offset = insn_effective_address(insn, regs);
		*offset = (*offset + bit_string_displacement(insn, regs)) & mask;
		return true;
	case INSN_OPERAND_SRC_STR:
		*seg = insn->seg;
		*offset = regs->gpr[REG_RSI] & mask;
		return true;
	case INSN_OPERAND_DST_STR:
		*seg = INSN_ES;
		*offset = regs->gpr[REG_RDI] & mask;
		return true;
	case INSN_OPERAND_STACK:
		*seg = INSN_SS;
		*offset = regs->gpr[REG_RSP] - (insn->op == INSN_OP_PUSH ? o->size : 0u);
		*offset &= size_mask(stack_address_size(insn, regs));
		return true;
	default: return false;
	}
}

static struct insn_piece *add_piece(
        struct insn_step *step, const struct insn_operand *o, unsigned int rights)
{
	struct insn_piece *piece = &step->piece[step->pieces++];

	*piece = (struct insn_piece){.rights = (uint8_t)rights, .is_dst = o == &step->insn.dst};
	return piece;
}

/* Cuts one operand into pieces. At most 4 come together: two operands of 8 bytes, or one of 16. */
static int plan_operand(struct insn_step *step, const struct insn_operand *o,
        const struct insn_regs *regs, unsigned int rights)
{
	const struct insn *insn = &step->insn;
	struct insn_piece *piece;
	unsigned int seg;
	uint64_t offset, linear;

	if (o->kind == INSN_OPERAND_PORT_DX || o->kind == INSN_OPERAND_PORT_IMM) {
		piece = add_piece(step, o, rights);
		piece->port = 1;
		piece->size = o->size;
		piece->addr = o->kind == INSN_OPERAND_PORT_IMM ? insn->imm
		                                               : regs->gpr[REG_RDX] & 0xffff;
		return INSN_OK;
	}
	if (!locate_operand(insn, o, regs, &seg, &offset))
		return INSN_OK;
	step->vector = (uint8_t)insn_linear_address(
	        regs, insn->mode, seg, offset, o->size, rights, &linear);
	if (insn->aligned && (linear & (o->size - 1u)))
		step->vector = VECTOR_GP;
	if (step->vector)
		return INSN_FAULT;
	for (unsigned int done = 0; done < o->size; done += piece->size) {
		unsigned int left = o->size - done, in_page;

		piece = add_piece(step, o, rights);
		piece->addr = linear + done;
		if (insn->mode != INSN_MODE_64)
			piece->addr &= 0xffffffffu;
		in_page = 0x1000 - (unsigned int)(piece->addr & 0xfff);
		left = left > 8 ? 8 : left;
		piece->size = (uint8_t)(left > in_page ? in_page : left);
	}
	return INSN_OK;
}

int insn_plan(struct insn_step *step, const struct insn_regs *regs)
{
	const struct insn *insn = &step->insn;
	unsigned int trait, rights;
	int status;

	*step = (struct insn_step){.insn = step->insn, .xmm_reg = INSN_REG_NONE};
	if (insn->op <= INSN_OP_OTHER || insn->op >= INSN_OP_COUNT)
		return INSN_REFUSED;
	if (insn->op == INSN_OP_VMOV && regs->xmm == NULL)
		return INSN_REFUSED;
	step->rflags = regs->rflags & ~(uint64_t)RFLAGS_RF;
	if (insn->op == INSN_OP_NOP)
		return INSN_OK;
	trait = traits[insn->op];
	rights = (trait & READS_DST ? INSN_READ : 0u) | (trait & WRITES_DST ? INSN_WRITE : 0u);
	if ((trait & STRING) && insn->rep && !(regs->gpr[REG_RCX] & size_mask(insn->addr_size))) {
		step->idle = 1;
		return INSN_OK;
	}
	status = plan_operand(step, &insn->src, regs, INSN_READ);
	return status == INSN_OK ? plan_operand(step, &insn->dst, regs, rights) : status;
}

/* The value of an operand; of memory, what was read. */
static void get_operand(const struct insn_step *step, const struct insn_operand *o,
        const struct insn_regs *regs, uint64_t value[2])
{
	unsigned int at = 0;

	value[0] = value[1] = 0;
	switch (o->kind) {
	case INSN_OPERAND_REG:
		value[0] = regs->gpr[o->reg & (o->reg & INSN_REG_HIGH ? 3 : 15)];
		value[0] >>= o->reg & INSN_REG_HIGH ? 8 : 0;
		break;
	case INSN_OPERAND_IMM: value[0] = step->insn.imm; break;
	case INSN_OPERAND_XMM:
	case INSN_OPERAND_XMM_LOW: memcpy(value, regs->xmm[o->reg & 15], 16); break;
	case INSN_OPERAND_XMM_HIGH: value[0] = regs->xmm[o->reg & 15][1]; break;
	default:
		for (unsigned int i = 0; i < step->pieces; i++) {
			const struct insn_piece *p = &step->piece[i];

			if (p->is_dst != (o == &step->insn.dst))
				continue;
			memcpy((uint8_t *)value + at, &p->data, p->size);
			at += p->size;
		}
	}
	value[0] &= size_mask(o->size);
}

/* Puts a result for a general register into the step; size as for a register operand. */
static void put_register(struct insn_step *step, const struct insn_regs *regs, unsigned int reg,
        unsigned int size, uint64_t value)
{
	unsigned int high = reg & INSN_REG_HIGH, number = high ? reg & 3 : reg & 15;
	unsigned int shift = high ? 8 : 0, i = 0;
	uint64_t mask = size == 4 ? ~0ull : size_mask(size) << shift;

	value = (value & size_mask(size)) << shift;
	while (i < step->results && step->out_reg[i] != number)
		i++;
	if (i == step->results) {
		step->results++;
		step->out_reg[i] = (uint8_t)number;
		step->out_value[i] = regs->gpr[number];
	}
	step->out_value[i] = (step->out_value[i] & ~mask) | value;
}

static void put_xmm(struct insn_step *step, const struct insn_regs *regs,
        const struct insn_operand *o, const uint64_t value[2])
{
	step->xmm_reg = o->reg & 15;
	memcpy(step->xmm, o->kind == INSN_OPERAND_XMM ? value : regs->xmm[step->xmm_reg], 16);
	step->xmm[o->kind == INSN_OPERAND_XMM_HIGH] = value[0];
}

static void put_operand(struct insn_step *step, const struct insn_operand *o,
        const struct insn_regs *regs, const uint64_t value[2])
{
	unsigned int at = 0;

	if (o->kind == INSN_OPERAND_REG) {
		put_register(step, regs, o->reg, o->size, value[0]);
		return;
	}
	if (o->kind >= INSN_OPERAND_XMM && o->kind <= INSN_OPERAND_XMM_HIGH) {
		put_xmm(step, regs, o, value);
		return;
	}
	for (unsigned int i = 0; i < step->pieces; i++) {
		struct insn_piece *p = &step->piece[i];

		if (p->is_dst != (o == &step->insn.dst))
			continue;
		p->data = 0;
		memcpy(&p->data, (const uint8_t *)value + at, p->size);
		at += p->size;
	}
}

/* The destination keeps what it has: no write at all. */
static void cancel_write(struct insn_step *step)
{
	for (unsigned int i = 0; i < step->pieces; i++)
		step->piece[i].rights &= (uint8_t)~INSN_WRITE;
}

static void compute_cmpxchg(struct insn_step *step, const struct insn_regs *regs,
        const uint64_t a[2], const uint64_t b[2])
{
	const struct insn *insn = &step->insn;
	unsigned int size = insn->dst.size;
	uint64_t acc = regs->gpr[REG_RAX] & size_mask(size);

	alu_binary(INSN_OP_CMP, size, acc, a[0], &step->rflags);
	if (acc == a[0]) {
		put_operand(step, &insn->dst, regs, b);
		return;
	}
	cancel_write(step);
	put_register(step, regs, REG_RAX, size, a[0]);
}

static void compute_cmpxchg8b(
        struct insn_step *step, const struct insn_regs *regs, const uint64_t a[2])
{
	unsigned int half = step->insn.dst.size / 2;
	uint64_t mask = size_mask(half), old[2] = {a[0] & mask, half == 8 ? a[1] : a[0] >> 32};
	uint64_t fresh[2] = {regs->gpr[REG_RBX] & mask, regs->gpr[REG_RCX]};

	if (old[0] == (regs->gpr[REG_RAX] & mask) && old[1] == (regs->gpr[REG_RDX] & mask)) {
		step->rflags |= ALU_ZF;
		if (half == 4)
			fresh[0] |= fresh[1] << 32;
		put_operand(step, &step->insn.dst, regs, fresh);
		return;
	}
	step->rflags &= ~(uint64_t)ALU_ZF;
	cancel_write(step);
	put_register(step, regs, REG_RAX, half, old[0]);
	put_register(step, regs, REG_RDX, half, old[1]);
}

static void put_stack_pointer(struct insn_step *step, const struct insn_regs *regs)
{
	const struct insn *insn = &step->insn;
	uint64_t size = insn->dst.size, sp = regs->gpr[REG_RSP];

	if (insn->op == INSN_OP_PUSH || insn->op == INSN_OP_POP)
		put_register(step, regs, REG_RSP, stack_address_size(insn, regs),
		        insn->op == INSN_OP_PUSH ? sp - size : sp + size);
}

/* Counters of a string instruction, and whether another iteration follows (APM 24594 §1.2.6). */
static void advance_string(struct insn_step *step, const struct insn_regs *regs)
{
	const struct insn *insn = &step->insn;
	uint64_t delta = regs->rflags & RFLAGS_DF ? -(uint64_t)insn->dst.size : insn->dst.size;
	unsigned int address = insn->addr_size;
	bool stop = false;

	if (insn->src.kind == INSN_OPERAND_SRC_STR || insn->dst.kind == INSN_OPERAND_SRC_STR)
		put_register(step, regs, REG_RSI, address, regs->gpr[REG_RSI] + delta);
	if (insn->src.kind == INSN_OPERAND_DST_STR || insn->dst.kind == INSN_OPERAND_DST_STR)
		put_register(step, regs, REG_RDI, address, regs->gpr[REG_RDI] + delta);
	if (!insn->rep)
		return;
	put_register(step, regs, REG_RCX, address, regs->gpr[REG_RCX] - 1);
	if (insn->op == INSN_OP_CMPS || insn->op == INSN_OP_SCAS)
		stop = (insn->rep == 0xf3) != ((step->rflags & ALU_ZF) != 0);
	step->again = !stop && ((regs->gpr[REG_RCX] - 1) & size_mask(address)) != 0;
}

/* long: one arm per operation. */
static void compute_operation(struct insn_step *step, const struct insn_regs *regs)
{
	const struct insn *insn = &step->insn;
	unsigned int size = insn->dst.size;
	uint64_t a[2], b[2], result[2] = {0, 0};

	get_operand(step, &insn->dst, regs, a);
	get_operand(step, &insn->src, regs, b);
	switch (insn->op) {
	case INSN_OP_XCHG:
		put_operand(step, &insn->src, regs, a);
		put_operand(step, &insn->dst, regs, b);
		return;
	case INSN_OP_XADD:
		result[0] = alu_binary(INSN_OP_ADD, size, a[0], b[0], &step->rflags);
		put_operand(step, &insn->src, regs, a);
		break;
	case INSN_OP_CMPXCHG: compute_cmpxchg(step, regs, a, b); return;
	case INSN_OP_CMPXCHG8B: compute_cmpxchg8b(step, regs, a); return;
	case INSN_OP_MOVSX: result[0] = alu_sign_extend(b[0], insn->src.size); break;
	case INSN_OP_MOVBE: result[0] = __builtin_bswap64(b[0]) >> (64 - 8 * size); break;
	case INSN_OP_CMOV:
		result[0] = alu_condition(insn->opcode, regs->rflags) ? b[0] : a[0];
		break;
	case INSN_OP_SETCC: result[0] = alu_condition(insn->opcode, regs->rflags); break;
	case INSN_OP_CMPS:
	case INSN_OP_SCAS: alu_binary(INSN_OP_CMP, size, a[0], b[0], &step->rflags); return;
	default:
		if (insn->op >= INSN_OP_MOV)
			memcpy(result, b, 16);
		else
			result[0] = alu_binary(insn->op, size, a[0], b[0], &step->rflags);
	}
	if (traits[insn->op] & WRITES_DST)
		put_operand(step, &insn->dst, regs, result);
}

static void compute(struct insn_step *step, const struct insn_regs *regs)
{
	static const uint64_t rip_mask[] = {0xffff, 0xffff, 0xffffffff, ~0ull};

	if (!step->idle && step->insn.op != INSN_OP_NOP) {
		put_stack_pointer(step, regs);
		compute_operation(step, regs);
		if (traits[step->insn.op] & STRING)
			advance_string(step, regs);
	}
	/* As a CPU does, so that a breakpoint here is taken once (APM 24593 §3.1.6). */
	if (step->again)
		step->rflags |= RFLAGS_RF;
	step->rip = step->again ? regs->rip
	                        : (regs->rip + step->insn.len) & rip_mask[step->insn.mode & 3];
}

struct insn_piece *insn_next(struct insn_step *step, const struct insn_regs *regs)
{
	for (;;) {
		unsigned int right = step->writing ? INSN_WRITE : INSN_READ;

		while (step->current < step->pieces && !(step->piece[step->current].rights & right))
			step->current++;
		if (step->current < step->pieces)
			return &step->piece[step->current];
		if (step->writing)
			return NULL;
		compute(step, regs);
		step->writing = 1;
		step->current = 0;
	}
}

void insn_done(struct insn_step *step)
{
	step->current++;
}

void insn_commit(struct insn_step *step, struct insn_regs *regs)
{
	for (unsigned int i = 0; i < step->results; i++)
		regs->gpr[step->out_reg[i]] = step->out_value[i];
	if (step->xmm_reg != INSN_REG_NONE)
		memcpy(regs->xmm[step->xmm_reg], step->xmm, 16);
	regs->rflags = step->rflags;
	regs->rip = step->rip;
}
