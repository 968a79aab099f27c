/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes in any state: the decoder agrees with capstone, and a step keeps to what insn.h
 * promises. */
/* sources: lib/insn_decode.c lib/insn_exec.c lib/insn_alu.c */
/* libs: -lcapstone */
#include "lib/insn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/lib/test_insn_capstone.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct input {
	uint8_t mode, linear_bits, seg_bits, reserved;
	uint8_t bytes[16];
	uint64_t gpr[16], rip, rflags, data;
	struct insn_seg seg[6];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_decoder(const struct input *in, enum insn_mode mode)
{
	static struct reference reference;
	const char *wrong;
	struct insn insn;
	int status, length;

	if (!reference.insn)
		CHECK(reference_open(&reference) == 0);
	wrong = reference_compare(&reference, in->bytes, mode);
	if (wrong)
		fprintf(stderr, "%s; capstone: %s %s\n", wrong, reference.insn->mnemonic,
		        reference.insn->op_str);
	CHECK(!wrong);
	length = insn_length(in->bytes, sizeof(in->bytes), mode);
	CHECK(length != INSN_SHORT && length <= INSN_MAX_LEN && length != 0);
	for (size_t len = 0; len < sizeof(in->bytes); len++) {
		status = insn_decode(in->bytes, len, mode, &insn);
		if (length > 0)
			CHECK(status == ((int)len < length ? INSN_SHORT : INSN_OK));
		else
			CHECK(status == length || status == INSN_SHORT);
	}
}

static void check_piece(const struct insn_piece *p, enum insn_mode mode)
{
	CHECK(p->size >= 1 && p->size <= 8);
	CHECK(p->rights && !(p->rights & ~(INSN_READ | INSN_WRITE)));
	if (p->port)
		CHECK(p->addr <= 0xffff && (p->size & (p->size - 1)) == 0);
	else
		CHECK((p->addr & 0xfff) + p->size <= 0x1000);
	if (mode != INSN_MODE_64)
		CHECK(p->addr <= 0xffffffff);
}

/* Every readable piece is asked for once, in order, then every one to write; registers change at
 * the end only. */
static void run_step(struct insn_step *step, struct insn_regs *regs, uint64_t data)
{
	struct insn_regs before = *regs;
	unsigned int turns = 0;
	struct insn_piece *p;

	while ((p = insn_next(step, regs)) != NULL) {
		CHECK(turns++ < 2 * INSN_MAX_PIECES);
		CHECK(p >= step->piece && p < step->piece + step->pieces);
		CHECK(p->rights & (step->writing ? INSN_WRITE : INSN_READ));
		if (step->writing)
			CHECK(p->size == 8 || p->data >> (8 * p->size) == 0);
		else
			p->data = data;
		CHECK(insn_next(step, regs) == p);
		insn_done(step);
	}
	CHECK(step->results <= 4);
	CHECK(memcmp(&before, regs, sizeof(before)) == 0);
	insn_commit(step, regs);
	CHECK(step->again == (regs->rip == before.rip) || step->insn.mode < INSN_MODE_32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct insn_step step;
	struct insn_regs regs;
	struct input in;
	uint64_t xmm[16][2];
	enum insn_mode mode;
	int status;

	if (size > sizeof(in))
		return 0;
	memset(&in, 0, sizeof(in));
	memcpy(&in, data, size);
	mode = in.mode & 3;
	check_decoder(&in, mode);
	memset(&regs, 0, sizeof(regs));
	memset(xmm, in.reserved, sizeof(xmm));
	memcpy(regs.gpr, in.gpr, sizeof(regs.gpr));
	memcpy(regs.seg, in.seg, sizeof(regs.seg));
	regs.rip = in.rip;
	regs.rflags = in.rflags;
	regs.linear_bits = in.linear_bits & 1 ? 57 : 48;
	regs.xmm = in.linear_bits & 2 ? xmm : NULL;
	for (unsigned int i = 0; i < 6 && (in.seg_bits & 1); i++)
		regs.seg[i] = (struct insn_seg){.limit = 0xffffffff, .attr = 0xcf3};
	memset(&step, 0xee, sizeof(step));
	if (insn_decode(in.bytes, sizeof(in.bytes), mode, &step.insn) != INSN_OK)
		return 0;
	for (unsigned int iteration = 0; iteration < 4; iteration++) {
		status = insn_plan(&step, &regs);
		CHECK(status == INSN_OK || status == INSN_REFUSED || status == INSN_FAULT);
		CHECK(step.pieces <= INSN_MAX_PIECES);
		if (status == INSN_FAULT)
			CHECK(step.vector == 12 || step.vector == 13);
		if (status != INSN_OK)
			return 0;
		for (unsigned int i = 0; i < step.pieces; i++)
			check_piece(&step.piece[i], mode);
		run_step(&step, &regs, in.data);
		if (!step.again)
			return 0;
	}
	return 0;
}
