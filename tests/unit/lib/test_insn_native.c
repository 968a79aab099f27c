/* SPDX-License-Identifier: BSD-2-Clause */
/* Random instructions, carried out by lib/insn_exec.c and by the CPU itself, must come to the same.
 */
/* sources: lib/insn_decode.c lib/insn_exec.c lib/insn_alu.c */
#include "lib/insn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <asm/ldt.h>
#include <asm/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/*
 * An instruction is put into a page of code between loads and stores of all registers. In 64-bit
 * mode it is called as it is; 16- and 32-bit code runs in segments of the local descriptor table,
 * entered and left by far jumps, with GS as the flat segment that reaches the context. Everything
 * lies below 4 GiB. KEEL_INSN_SEED and KEEL_INSN_ROUNDS repeat or lengthen a run.
 */
#define LOW          0x20000000u
#define CODE         (LOW + 0x0000)
#define CONTEXT      (LOW + 0x1000)
#define SCRATCH      (LOW + 0x4000) /* a hole before and behind it */
#define SCRATCH_SIZE 0x2000u
#define STACK_TOP    (LOW + 0x9000)
#define LOW_SIZE     0xa000u

#define FLAGS     0x8d5u /* OF SF ZF AF PF CF */
#define RFLAGS_DF 0x400u

struct context {
	uint64_t in[16], out[16];
	uint64_t xmm_in[16][2], xmm_out[16][2];
	uint64_t flags_in, flags_out;
	uint64_t saved_rsp;
	uint32_t selector_ds, selector_es, selector_ss;
	uint32_t far_in[2], far_out[2];
};

static struct context *const context = (struct context *)(uintptr_t)CONTEXT;
static uint8_t *const scratch = (uint8_t *)(uintptr_t)SCRATCH;

static uint64_t random_state;
static uint8_t *emit_at;
static uint8_t *insn_at;
static sigjmp_buf fault_jump;
static volatile int fault_vector;

static uint64_t random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dull;
}

static unsigned int random_below(unsigned int n)
{
	return (unsigned int)((random64() >> 32) % n);
}

static uint64_t random_value(void)
{
	static const uint64_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff,
	        0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff,
	        0xf, 0x10};

	if (random_below(3) == 0)
		return edges[random_below(16)];
	return random64() >> (random_below(4) == 0 ? random_below(64) : 0);
}

static void emit(unsigned int n, ...)
{
	va_list bytes;

	va_start(bytes, n);
	for (unsigned int i = 0; i < n; i++)
		*emit_at++ = (uint8_t)va_arg(bytes, int);
	va_end(bytes);
}

static void emit32(uint64_t value)
{
	uint32_t v = (uint32_t)value;

	memcpy(emit_at, &v, 4);
	emit_at += 4;
}

#define ADDRESS(field) (CONTEXT + offsetof(struct context, field))

static void emit_room_for_insn(void)
{
	insn_at = emit_at;
	memset(emit_at, 0x90, 16);
	emit_at += 16;
}

static void emit_save(void)
{
	emit(10, 0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57);
	emit(4, 0x48, 0x89, 0x24, 0x25), emit32(ADDRESS(saved_rsp));
}

static void emit_restore(void)
{
	emit(4, 0x48, 0x8b, 0x24, 0x25), emit32(ADDRESS(saved_rsp));
	emit(1, 0xfc);
	emit(11, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3);
}

static void build_stub_64(void)
{
	emit_at = (uint8_t *)(uintptr_t)CODE;
	emit_save();
	for (int i = 0; i < 16; i++) {
		emit(5, i < 8 ? 0x40 : 0x44, 0x0f, 0x10, 0x04 | (i & 7) << 3, 0x25);
		emit32(ADDRESS(xmm_in) + 16u * (unsigned)i);
	}
	emit(3, 0xff, 0x34, 0x25), emit32(ADDRESS(flags_in)), emit(1, 0x9d);
	for (int i = 0; i < 16; i++) {
		emit(4, i < 8 ? 0x48 : 0x4c, 0x8b, 0x04 | (i & 7) << 3, 0x25);
		emit32(ADDRESS(in) + 8u * (unsigned)i);
	}
	emit_room_for_insn();
	for (int i = 0; i < 16; i++) {
		emit(4, i < 8 ? 0x48 : 0x4c, 0x89, 0x04 | (i & 7) << 3, 0x25);
		emit32(ADDRESS(out) + 8u * (unsigned)i);
	}
	emit(4, 0x48, 0x8b, 0x24, 0x25), emit32(ADDRESS(saved_rsp));
	emit(4, 0x9c, 0x8f, 0x04, 0x25), emit32(ADDRESS(flags_out));
	for (int i = 0; i < 16; i++) {
		emit(5, i < 8 ? 0x40 : 0x44, 0x0f, 0x11, 0x04 | (i & 7) << 3, 0x25);
		emit32(ADDRESS(xmm_out) + 16u * (unsigned)i);
	}
	emit_restore();
}

/* Prefixes for a 32-bit operation on GS:[disp32]. */
static void emit_gs(bool code16)
{
	if (code16)
		emit(2, 0x66, 0x67);
	emit(1, 0x65);
}

static void build_stub_legacy(bool code16)
{
	uint8_t *entry;

	emit_at = (uint8_t *)(uintptr_t)CODE;
	emit_save();
	/* GS and SS flat. SS too: after a fault and a SYSRET it may still have the last one's base.
	 */
	emit(9, 0xb8, 0x2b, 0, 0, 0, 0x8e, 0xe8, 0x8e, 0xd0);
	emit(3, 0x8b, 0x04, 0x25), emit32(ADDRESS(selector_ds)), emit(2, 0x8e, 0xd8);
	emit(3, 0x8b, 0x04, 0x25), emit32(ADDRESS(selector_es)), emit(2, 0x8e, 0xc0);
	emit(1, 0xbc), emit32(STACK_TOP);
	emit(3, 0xff, 0x2c, 0x25), emit32(ADDRESS(far_in)); /* ljmp *far_in */
	entry = emit_at;
	emit_gs(code16), emit(2, 0xff, 0x35), emit32(ADDRESS(flags_in));
	if (code16)
		emit(1, 0x66);
	emit(1, 0x9d);
	emit_gs(code16), emit(2, 0x8b, 0x05), emit32(ADDRESS(selector_ss)), emit(2, 0x8e, 0xd0);
	for (int i = 0; i < 8; i++)
		emit_gs(code16), emit(2, 0x8b, 0x05 | i << 3),
		        emit32(ADDRESS(in) + 8u * (unsigned)i);
	emit_room_for_insn();
	for (int i = 0; i < 8; i++)
		emit_gs(code16), emit(2, 0x89, 0x05 | i << 3),
		        emit32(ADDRESS(out) + 8u * (unsigned)i);
	if (code16)
		emit(1, 0x66);
	emit(1, 0xb8), emit32(0x2b), emit(2, 0x8e, 0xd0); /* mov $0x2b, %eax; mov %eax, %ss */
	if (code16)
		emit(1, 0x66);
	emit(1, 0xbc), emit32(STACK_TOP);
	if (code16)
		emit(1, 0x66);
	emit(1, 0x9c), emit_gs(code16), emit(2, 0x8f, 0x05), emit32(ADDRESS(flags_out));
	emit_gs(code16), emit(2, 0xff, 0x2d), emit32(ADDRESS(far_out));
	context->far_in[0] = (uint32_t)(uintptr_t)entry - LOW;
	context->far_out[0] = (uint32_t)(uintptr_t)emit_at;
	context->far_out[1] = 0x33;
	emit(6, 0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0);
	emit_restore();
}

static void on_fault(int signal, siginfo_t *info, void *ucontext)
{
	(void)signal, (void)info;
	fault_vector = (int)((ucontext_t *)ucontext)->uc_mcontext.gregs[REG_TRAPNO];
	siglongjmp(fault_jump, 1);
}

static int setup(void **state)
{
	static uint8_t stack[65536];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
	void *low = mmap((void *)(uintptr_t)LOW, LOW_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	(void)state;
	if (low != (void *)(uintptr_t)LOW)
		return -1;
	mprotect((void *)(uintptr_t)(SCRATCH - 0x1000), 0x1000, PROT_NONE);
	mprotect((void *)(uintptr_t)(SCRATCH + SCRATCH_SIZE), 0x1000, PROT_NONE);
	sigaltstack(&alternate, NULL);
	return 0;
}

/* In each test: cmocka sets handlers of its own, on the stack that the test has lost. */
static void catch_faults(void)
{
	struct sigaction action = {
	        .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	for (int s = 0; s < 3; s++)
		sigaction((int[]){SIGSEGV, SIGBUS, SIGILL}[s], &action, NULL);
}

struct trial {
	uint8_t bytes[32];
	unsigned int modrm_at;
	struct insn_regs regs;
	struct insn insn;
	uint64_t xmm[16][2];
};

static uint64_t rounds_or(uint64_t standard)
{
	const char *text = getenv("KEEL_INSN_ROUNDS");

	return text ? strtoull(text, NULL, 0) : standard;
}

static void seed(uint64_t standard)
{
	const char *text = getenv("KEEL_INSN_SEED");

	random_state = text ? strtoull(text, NULL, 0) : standard;
}

/* long: one line a prefix. Random prefixes and bytes around one opcode. */
static void make_bytes(struct trial *t, enum insn_mode mode, unsigned int map, uint8_t opcode)
{
	static const uint8_t segments[] = {0x26, 0x2e, 0x36, 0x3e, 0x65, 0x65};
	unsigned int at = 0;

	for (unsigned int i = 0; i < 4; i++) {
		unsigned int n = random_below(12);

		if (n == 0)
			t->bytes[at++] = 0x66;
		else if (n == 1 && random_below(2))
			t->bytes[at++] = 0x67;
		else if (n == 2)
			t->bytes[at++] = random_below(2) ? 0xf2 : 0xf3;
		else if (n == 3)
			t->bytes[at++] = segments[random_below(6)];
		else if (n == 4 && random_below(3) == 0)
			t->bytes[at++] = 0xf0;
		else if (n == 5 && mode == INSN_MODE_64 && random_below(4) == 0)
			t->bytes[at++] = (uint8_t)(0x40 +
			                           random_below(16)); /* maybe not the last */
	}
	if (mode == INSN_MODE_64 && random_below(2))
		t->bytes[at++] = (uint8_t)(0x40 + random_below(16));
	if (map >= 1)
		t->bytes[at++] = 0x0f;
	if (map == 2)
		t->bytes[at++] = 0x38;
	t->bytes[at++] = opcode;
	t->modrm_at = at;
	for (unsigned int i = at; i < sizeof(t->bytes); i++)
		t->bytes[i] = (uint8_t)random64();
	if (random_below(2))
		t->bytes[at] &= 0x3f; /* more of the short forms */
}

static void make_registers(struct trial *t, enum insn_mode mode)
{
	for (int i = 0; i < 16; i++) {
		t->regs.gpr[i] = random_value();
		if (mode != INSN_MODE_64)
			t->regs.gpr[i] &= 0xffffffff;
		t->xmm[i][0] = random_value();
		t->xmm[i][1] = random_value();
	}
	t->regs.rflags = (random64() & (FLAGS | RFLAGS_DF)) | 0x202;
	t->regs.xmm = mode == INSN_MODE_64 ? t->xmm : NULL; /* legacy stubs do not load them */
	t->regs.linear_bits = 48;
	t->regs.rip = (uintptr_t)insn_at - (mode == INSN_MODE_64 ? 0 : LOW);
	for (unsigned int i = 0; i < SCRATCH_SIZE; i += 8) {
		uint64_t value = i & 0x300 ? random64() : random_value();

		memcpy(scratch + i, &value, 8);
	}
}

static uint64_t segment_base(const struct trial *t, unsigned int seg)
{
	if (t->insn.mode == INSN_MODE_64 && seg < INSN_FS)
		return 0;
	return t->regs.seg[seg].base;
}

/* A place in scratch for size bytes; locked accesses must not cross a cache line. */
static uint64_t random_target(const struct trial *t, unsigned int size)
{
	uint64_t target = SCRATCH + 0x400 + random_below(SCRATCH_SIZE - 0x800);

	if (random_below(4) == 0)
		target = SCRATCH + 0x1000 - random_below(17);
	if (t->insn.lock || t->insn.op == INSN_OP_XCHG || (t->insn.aligned && random_below(8)))
		target &= ~(uint64_t)(size - 1);
	return target;
}

static void patch_bytes(struct trial *t, unsigned int at, uint64_t value, unsigned int n)
{
	memcpy(t->bytes + at, &value, n);
}

/* Changes a register or the displacement so that the operand in memory lies at target. */
static void aim_memory(struct trial *t, uint64_t target)
{
	struct insn *in = &t->insn;
	uint64_t wanted = target - segment_base(t, in->seg);
	uint64_t delta = wanted - insn_effective_address(in, &t->regs);
	unsigned int disp_at = t->modrm_at + 1;

	if (in->base < 16) {
		bool stack = in->op == INSN_OP_PUSH || in->op == INSN_OP_POP;

		if (in->index != in->base && !(stack && in->base == 4))
			t->regs.gpr[in->base] += delta;
		return;
	}
	if (in->map == 0 && in->opcode >= 0xa0 && in->opcode <= 0xa3) {
		patch_bytes(t, t->modrm_at, wanted, in->addr_size);
		return;
	}
	if (in->index < 16) {
		t->regs.gpr[in->index] = random_below(256);
		delta = wanted - insn_effective_address(in, &t->regs);
	}
	if (in->addr_size != 2 && (in->modrm & 7) == 4)
		disp_at++;
	patch_bytes(t, disp_at, (uint64_t)in->disp + delta, in->addr_size == 2 ? 2 : 4);
}

static void aim_operands(struct trial *t)
{
	struct insn_operand o[2] = {t->insn.src, t->insn.dst};
	bool narrow = t->insn.addr_size < 8;

	if (t->insn.op >= INSN_OP_BT && t->insn.op <= INSN_OP_BTC &&
	        o[0].kind == INSN_OPERAND_REG && random_below(8))
		t->regs.gpr[o[0].reg] = (uint64_t)((int64_t)random_below(8192) - 4096);
	if (t->insn.rep && t->insn.op >= INSN_OP_MOVS && t->insn.op <= INSN_OP_SCAS) {
		t->regs.gpr[1] = random_below(6);
		if (narrow && random_below(2))
			t->regs.gpr[1] |= random64() << (8 * t->insn.addr_size);
	}
	for (int i = 0; i < 2; i++) {
		uint64_t target = random_target(t, o[i].size), high = 0;

		if (narrow && random_below(2))
			high = random64() << (8 * t->insn.addr_size);
		if (o[i].kind == INSN_OPERAND_SRC_STR)
			t->regs.gpr[6] = (target - segment_base(t, t->insn.seg)) | high;
		if (o[i].kind == INSN_OPERAND_DST_STR)
			t->regs.gpr[7] = (target - segment_base(t, INSN_ES)) | high;
		if (o[i].kind == INSN_OPERAND_STACK) {
			bool word = t->insn.mode != INSN_MODE_64 &&
			            !(t->regs.seg[INSN_SS].attr & 0x400);

			t->regs.gpr[4] = target - segment_base(t, INSN_SS);
			t->regs.gpr[4] += word ? random64() & 0xffff0000 : 0;
		}
	}
	if (random_below(64) == 0)
		return; /* left wherever it points: mostly a fault, else not run */
	for (int i = 0; i < 2; i++)
		if (o[i].kind == INSN_OPERAND_MEM)
			aim_memory(t, random_target(t, o[i].size));
}

static void cut_registers(struct trial *t)
{
	for (int i = 0; i < 16 && t->insn.mode != INSN_MODE_64; i++)
		t->regs.gpr[i] &= 0xffffffff;
}

/* Half of the CMPXCHGs shall succeed. */
static void match_accumulator(struct trial *t, const struct insn_step *step)
{
	uint64_t value[2] = {0, 0};

	if (t->insn.op != INSN_OP_CMPXCHG && t->insn.op != INSN_OP_CMPXCHG8B)
		return;
	if (step->pieces == 0 || random_below(2))
		return;
	memcpy(value, (const void *)(uintptr_t)step->piece[0].addr, t->insn.dst.size);
	if (t->insn.op == INSN_OP_CMPXCHG8B && t->insn.dst.size == 8)
		value[1] = value[0] >> 32;
	t->regs.gpr[0] = value[0];
	if (t->insn.op == INSN_OP_CMPXCHG8B)
		t->regs.gpr[2] = value[1];
	cut_registers(t);
}

static bool pieces_lie_in_scratch(const struct insn_step *step)
{
	for (unsigned int i = 0; i < step->pieces; i++) {
		const struct insn_piece *p = &step->piece[i];

		if (p->port || p->addr < SCRATCH || p->addr > SCRATCH + SCRATCH_SIZE - p->size)
			return false;
	}
	return true;
}

/* Returns the vector of a fault, 0 after success, -1 for what must not run natively. */
static int emulate(struct trial *t, struct insn_regs *regs, uint8_t *memory)
{
	struct insn_step step = {.insn = t->insn};

	for (unsigned int iteration = 0; iteration < 16; iteration++) {
		struct insn_piece *p;
		int status = insn_plan(&step, regs);

		if (!pieces_lie_in_scratch(&step))
			return -1;
		if (status == INSN_FAULT)
			return iteration ? -1 : step.vector;
		if (status != INSN_OK)
			return -1;
		while ((p = insn_next(&step, regs)) != NULL) {
			if (step.writing)
				memcpy(memory + (p->addr - SCRATCH), &p->data, p->size);
			else
				memcpy(&p->data, memory + (p->addr - SCRATCH), p->size);
			insn_done(&step);
		}
		insn_commit(&step, regs);
		if (!step.again)
			return 0;
	}
	return -1;
}

static int run_natively(const struct trial *t)
{
	memcpy(context->in, t->regs.gpr, sizeof(context->in));
	memcpy(context->xmm_in, t->xmm, sizeof(context->xmm_in));
	context->flags_in = t->regs.rflags;
	memset(insn_at, 0x90, 16);
	memcpy(insn_at, t->bytes, t->insn.len);
	fault_vector = 0;
	if (sigsetjmp(fault_jump, 0) == 0)
		((void (*)(void))(uintptr_t)CODE)();
	return fault_vector;
}

static void describe(const struct trial *t, const char *what, uint64_t emulated, uint64_t native)
{
	fprintf(stderr, "mode %u:", t->insn.mode);
	for (int i = 0; i < t->insn.len; i++)
		fprintf(stderr, " %02x", t->bytes[i]);
	fprintf(stderr, ": %s: emulated %llx, native %llx\n", what, (unsigned long long)emulated,
	        (unsigned long long)native);
}

static int compare(const struct trial *t, const struct insn_regs *regs, const uint8_t *memory,
        uint64_t xmm[16][2])
{
	unsigned int registers = t->insn.mode == INSN_MODE_64 ? 16 : 8;
	uint64_t mask = t->insn.mode == INSN_MODE_64 ? ~0ull : 0xffffffff;
	uint64_t emulated_flags = regs->rflags & (FLAGS | RFLAGS_DF);
	uint64_t native_flags = context->flags_out & (FLAGS | RFLAGS_DF);
	char name[32];
	int wrong = 0;

	for (unsigned int i = 0; i < registers; i++) {
		if ((regs->gpr[i] & mask) == (context->out[i] & mask))
			continue;
		snprintf(name, sizeof(name), "register %u", i);
		describe(t, name, regs->gpr[i] & mask, context->out[i] & mask);
		wrong++;
	}
	if (emulated_flags != native_flags) {
		describe(t, "flags", emulated_flags, native_flags);
		wrong++;
	}
	if (memcmp(memory, scratch, SCRATCH_SIZE) != 0) {
		unsigned int i = 0;

		while (memory[i] == scratch[i])
			i++;
		describe(t, "memory", memory[i], scratch[i]);
		wrong++;
	}
	for (int i = 0; i < 32 && t->insn.mode == INSN_MODE_64; i++) {
		if (xmm[i / 2][i % 2] == context->xmm_out[i / 2][i % 2])
			continue;
		snprintf(name, sizeof(name), "xmm%d half %d", i / 2, i % 2);
		describe(t, name, xmm[i / 2][i % 2], context->xmm_out[i / 2][i % 2]);
		wrong++;
	}
	return wrong;
}

static struct {
	uint64_t done, faults, ops[INSN_OP_COUNT];
} tally;

/* What CPUs do not agree on: hyp does as AMD's. */
static bool is_vendors_own(const struct trial *t)
{
	if (t->insn.op == INSN_OP_CMPXCHG && t->insn.dst.kind == INSN_OPERAND_REG)
		return true; /* does a failed one cut its destination to 32 bits? */
	return t->insn.rep && t->insn.addr_size < 8; /* does none at all cut the counter? */
}

static int try_once(struct trial *t)
{
	static uint8_t memory[SCRATCH_SIZE];
	uint64_t xmm[16][2];
	struct insn_regs regs;
	struct insn_step step;
	int expected, vector;

	aim_operands(t);
	cut_registers(t);
	if (insn_decode(t->bytes, sizeof(t->bytes), t->insn.mode, &t->insn) != INSN_OK)
		return 0;
	if (is_vendors_own(t) && !__builtin_cpu_is("amd"))
		return 0;
	step.insn = t->insn;
	if (insn_plan(&step, &t->regs) == INSN_OK && pieces_lie_in_scratch(&step))
		match_accumulator(t, &step);
	regs = t->regs;
	memcpy(xmm, t->xmm, sizeof(xmm));
	regs.xmm = t->regs.xmm ? xmm : NULL;
	memcpy(memory, scratch, SCRATCH_SIZE);
	expected = emulate(t, &regs, memory);
	if (expected < 0)
		return 0;
	vector = run_natively(t);
	tally.done++;
	tally.faults += expected != 0;
	tally.ops[t->insn.op]++;
	if (vector && expected && t->insn.op == INSN_OP_CMPS)
		return 0; /* which of its two operands is looked at first is not architectural */
	if (vector != expected) {
		describe(t, "vector", (uint64_t)expected, (uint64_t)vector);
		return 1;
	}
	return expected ? 0 : compare(t, &regs, memory, xmm);
}

/* What runs at user level and is carried out here. */
static bool is_tested(const struct insn *insn)
{
	return insn->op > INSN_OP_NOP && (insn->op < INSN_OP_IN || insn->op > INSN_OP_OUTS) &&
	       !(insn->map == 2 && insn->opcode == 0xf9); /* MOVDIRI: not on every CPU */
}

static void run_trials(enum insn_mode mode, uint64_t rounds, void (*vary)(struct trial *t))
{
	static const uint8_t map2[] = {0x2a, 0xf0, 0xf1};
	struct trial t;
	uint8_t opcode;
	int wrong = 0;

	catch_faults();
	memset(&tally, 0, sizeof(tally));
	memset(&t, 0, sizeof(t));
	for (uint64_t i = 0; i < rounds && wrong < 20; i++) {
		unsigned int map = random_below(50) == 0 ? 2 : random_below(2);

		if (i % 512 == 0) {
			make_registers(&t, mode);
			vary(&t);
		}
		opcode = map == 2 ? map2[random_below(3)] : (uint8_t)random64();
		make_bytes(&t, mode, map, opcode);
		if (insn_decode(t.bytes, sizeof(t.bytes), mode, &t.insn) != INSN_OK ||
		        !is_tested(&t.insn))
			continue;
		if (t.insn.map != map || t.insn.opcode != opcode)
			continue; /* opcode is a prefix */
		for (int n = 0; n < 16; n++)
			t.regs.gpr[n] = random_value();
		t.regs.rflags = (random64() & (FLAGS | RFLAGS_DF)) | 0x202;
		wrong += try_once(&t);
	}
	printf("mode %d: %llu instructions, %llu of them faults\n", mode,
	        (unsigned long long)tally.done, (unsigned long long)tally.faults);
	assert_int_equal(wrong, 0);
	if (rounds < 10000)
		return;
	for (unsigned int op = INSN_OP_NOP + 1; op < INSN_OP_COUNT; op++)
		if ((op < INSN_OP_IN || op > INSN_OP_OUTS) && op != INSN_OP_VMOV)
			assert_true(tally.ops[op] > 0);
}

static void vary_64(struct trial *t)
{
	uint64_t base = random_below(2) ? LOW - random_below(0x100000) : random_below(0x10000000);

	t->regs.seg[INSN_GS].base = base;
	assert_int_equal(syscall(SYS_arch_prctl, ARCH_SET_GS, base), 0);
}

static void test_agrees_with_cpu_64(void **state)
{
	(void)state;
	seed(0x6b65656c01);
	build_stub_64();
	run_trials(INSN_MODE_64, rounds_or(300000), vary_64);
	assert_true(tally.ops[INSN_OP_VMOV] > 0);
}

static void set_segment(
        struct trial *t, unsigned int seg, unsigned int entry, struct user_desc descriptor)
{
	unsigned int attr = 0xf3; /* present, DPL 3, data, read and write, accessed */

	descriptor.entry_number = entry;
	descriptor.seg_not_present = 0;
	if (descriptor.contents == MODIFY_LDT_CONTENTS_CODE)
		attr = 0xfb;
	if (descriptor.read_exec_only)
		attr &= ~2u;
	if (descriptor.contents == MODIFY_LDT_CONTENTS_STACK)
		attr |= 4;
	t->regs.seg[seg].base = descriptor.base_addr;
	t->regs.seg[seg].limit = descriptor.limit;
	t->regs.seg[seg].attr = (uint16_t)(attr | (descriptor.seg_32bit ? 0x400 : 0));
	assert_int_equal(syscall(SYS_modify_ldt, 1, &descriptor, sizeof(descriptor)), 0);
}

/* Data segments around scratch: base, limit, direction, rights at random. */
static struct user_desc random_data_segment(void)
{
	struct user_desc d = {.base_addr = SCRATCH - random_below(0x7000), .limit = 0xffff};

	d.seg_32bit = random_below(2);
	d.read_exec_only = random_below(8) == 0;
	if (random_below(4) == 0)
		d.limit = SCRATCH + random_below(SCRATCH_SIZE) - d.base_addr;
	if (random_below(8) == 0) {
		d.contents = MODIFY_LDT_CONTENTS_STACK;
		d.limit = (SCRATCH + random_below(0x800)) - d.base_addr;
	}
	return d;
}

static bool legacy_code32;

static void vary_legacy(struct trial *t)
{
	struct user_desc code = {.base_addr = LOW,
	        .limit = 0xffff,
	        .contents = MODIFY_LDT_CONTENTS_CODE,
	        .seg_32bit = legacy_code32,
	        .read_exec_only = random_below(4) == 0};
	struct user_desc stack = random_data_segment();

	stack.read_exec_only = 0; /* SS must be writable */
	set_segment(t, INSN_CS, 0, code);
	set_segment(t, INSN_DS, 1, random_data_segment());
	set_segment(t, INSN_ES, 2, random_data_segment());
	set_segment(t, INSN_SS, 3, stack);
	t->regs.seg[INSN_GS] = (struct insn_seg){.limit = 0xffffffff, .attr = 0xcf3};
	context->far_in[1] = 7;
	context->selector_ds = 1 << 3 | 7;
	context->selector_es = 2 << 3 | 7;
	context->selector_ss = 3 << 3 | 7;
}

static bool has_local_descriptors(void)
{
	struct user_desc empty = {.entry_number = 4, .read_exec_only = 1, .seg_not_present = 1};

	return syscall(SYS_modify_ldt, 1, &empty, sizeof(empty)) == 0;
}

static void test_agrees_with_cpu_32(void **state)
{
	(void)state;
	if (!has_local_descriptors())
		skip();
	seed(0x6b65656c02);
	legacy_code32 = true;
	build_stub_legacy(false);
	run_trials(INSN_MODE_32, rounds_or(200000), vary_legacy);
}

static void test_agrees_with_cpu_16(void **state)
{
	(void)state;
	if (!has_local_descriptors())
		skip();
	seed(0x6b65656c03);
	legacy_code32 = false;
	build_stub_legacy(true);
	run_trials(INSN_MODE_16, rounds_or(200000), vary_legacy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_agrees_with_cpu_64),
	        cmocka_unit_test(test_agrees_with_cpu_32),
	        cmocka_unit_test(test_agrees_with_cpu_16),
	};

	return cmocka_run_group_tests_name("insn_native", tests, setup, NULL);
}
