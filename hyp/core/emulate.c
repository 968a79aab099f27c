/* SPDX-License-Identifier: BSD-2-Clause */
/* Drives lib/insn: fetch, decode, translate all pieces, and only then act on them, with all state
 * in the vCPU. */

#include "hyp/core/emulate.h"
#include "hyp/core/access.h"
#include "hyp/core/guest_memory.h"
#include "hyp/core/vm_exit.h"
#include "hyp/x86/x86.h"
#include "lib/string.h"

/* Iterations of one REP in one exit: then the guest is entered again, so that it takes its
 * interrupts. */
#define REPEAT_MAX 256

#define CR0_PE    1ull
#define CR4_LA57  (1ull << 12)
#define EFER_LMA  (1ull << 10)
#define RFLAGS_VM (1ull << 17)

static enum insn_mode mode_of(const struct vcpu *v, const struct cpu_mode *m)
{
	uint16_t attr = (uint16_t)((m->long_mode ? 0x200 : 0) | (m->default_32 ? 0x400 : 0));

	return insn_mode_from_state(
	        m->cr0 & CR0_PE, v->regs.rflags & RFLAGS_VM, m->efer & EFER_LMA, attr);
}

static void raise_fetch(struct vcpu *v, const struct fetch_fault *f)
{
	if (f->no_ram)
		vcpu_raise_ud(
		        v); /* nothing there: a PC reads FFh bytes, which are no instruction */
	else
		vcpu_raise_pf(v, f->linear, f->error);
}

bool emulate_decode(struct vcpu *v, const struct cpu_mode *mode, struct insn *insn)
{
	struct fetch_fault fault;
	uint8_t bytes[15];
	size_t got = v->exit.insn_bytes;
	int status = INSN_SHORT;

	if (got > 0) {
		memcpy(bytes, v->exit.insn, sizeof(bytes));
		status = insn_decode(bytes, got, mode_of(v, mode), insn);
	}
	if (status == INSN_SHORT) {
		got = guest_fetch(v, mode, bytes, &fault);
		status = insn_decode(bytes, got, mode_of(v, mode), insn);
	}
	switch (status) {
	case INSN_OK: return true;
	case INSN_SHORT: raise_fetch(v, &fault); return false;
	case INSN_LONG: vcpu_raise_gp(v); return false;
	default: vcpu_raise_ud(v); return false;
	}
}

/* The registers as lib/insn wants them. In 64-bit mode only FS and GS have bases, and none limits.
 */
static void load_regs(struct vcpu *v, const struct cpu_mode *mode, struct insn_regs *r)
{
	memset(r, 0, sizeof(*r));
	memcpy(r->gpr, v->regs.gpr, sizeof(r->gpr));
	r->rip = v->regs.rip;
	r->rflags = v->regs.rflags;
	r->linear_bits = mode->cr4 & CR4_LA57 ? 57 : 48;
	if (mode->long_mode) {
		for (unsigned i = 0; i < 6; i++)
			r->seg[i].base = mode->seg_base[i];
	} else {
		struct keel_vcpu_state s;

		cpu_state_get(v->cpu_state, &v->regs, &s);
		for (unsigned i = 0; i < 6; i++)
			r->seg[i] = (struct insn_seg){.base = s.segs[i].base,
			        .limit = s.segs[i].limit,
			        .attr = s.segs[i].attr};
	}
	if (v->vm->step.insn.op == INSN_OP_VMOV) {
		/* The guest's XMM registers are in the CPU: hyp uses none. */
		__asm__ volatile("fxsave64 (%0)" : : "r"(v->vm->fx) : "memory");
		r->xmm = (uint64_t(*)[2])(void *)&v->vm->fx[160 / 8];
	}
}

static void store_regs(struct vcpu *v, const struct insn_regs *r)
{
	memcpy(v->regs.gpr, r->gpr, sizeof(r->gpr));
	v->regs.rip = r->rip;
	v->regs.rflags = r->rflags;
	vcpu_step_over(v, 0); /* the interrupt shadow ends */
	if (r->xmm != NULL)
		__asm__ volatile("fxrstor64 (%0)" : : "r"(v->vm->fx) : "memory");
}

/*
 * Finds out where each piece lies, with the rights it needs, before any is touched. Where the exit
 * itself told the address of the only piece, the CPU has walked already. False: a page fault was
 * raised.
 */
static bool translate(struct vcpu *v, const struct cpu_mode *mode)
{
	struct insn_step *step = &v->vm->step;
	bool known = v->exit.kind == KEEL_KIND_MMIO && step->pieces == 1 && !step->piece[0].port;

	for (unsigned i = 0; i < step->pieces; i++) {
		struct insn_piece *p = &step->piece[i];
		unsigned access = p->rights & INSN_WRITE ? WALK_WRITE : 0;
		uint32_t error;
		gpa_t gpa;

		if (p->port)
			continue;
		if (known && (p->addr ^ v->exit.gpa) % PAGE_BYTES == 0) {
			p->gpa = v->exit.gpa;
			continue;
		}
		if (!guest_walk(v->vm->vm, mode, v->regs.rflags, p->addr, access, &gpa, &error)) {
			vcpu_raise_pf(v, p->addr, error);
			return false;
		}
		p->gpa = gpa.value;
	}
	return true;
}

static uint64_t low_bytes(uint64_t value, unsigned bytes)
{
	return bytes >= 8 ? value : value & ((1ull << (bytes * 8)) - 1);
}

/* Of what is left of a piece: devices and root take 1, 2, 4 or 8 bytes; a page border leaves 3, 5,
 * 6 or 7 too. */
static unsigned next_chunk(unsigned left)
{
	return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* A chunk's access was answered. True: it was the piece's last. */
static bool chunk_done(
        struct vcpu *v, struct insn_piece *p, bool write, unsigned bytes, uint64_t data)
{
	struct vcpu_vm *x = v->vm;

	if (!write)
		p->data |= low_bytes(data, bytes) << (x->piece_done * 8);
	x->piece_done = (uint8_t)(x->piece_done + bytes);
	if (x->piece_done < p->size)
		return false;
	x->piece_done = 0;
	return true;
}

/* A piece outside of RAM, from the chunk that is next. False: root is asked. */
static bool do_chunks(struct vcpu *v, struct insn_piece *p, bool write)
{
	uint8_t space = (uint8_t)(p->port ? ACCESS_PIO : ACCESS_MMIO);
	uint64_t at = p->port ? (uint16_t)p->addr : p->gpa, data;
	struct vcpu_vm *x = v->vm;
	unsigned bytes;

	if (x->piece_done == 0 && !write)
		p->data = 0;
	do {
		bytes = next_chunk(p->size - x->piece_done);
		data = low_bytes(p->data >> (x->piece_done * 8), bytes);
		if (!access_do(v, space, at + x->piece_done, bytes, write, &data))
			return false;
	} while (!chunk_done(v, p, write, bytes, data));
	return true;
}

/* One piece. False: root is asked. */
static bool do_piece(struct vcpu *v, struct insn_piece *p, bool write)
{
	struct vm *vm = v->vm->vm;

	if (!p->port && (write ? guest_write(vm, GPA(p->gpa), &p->data, p->size)
	                       : guest_read(vm, GPA(p->gpa), &p->data, p->size)))
		return true;
	return do_chunks(v, p, write);
}

/* All pieces from where the step stands. False: root is asked. */
static bool run_pieces(struct vcpu *v, const struct insn_regs *regs)
{
	struct insn_step *step = &v->vm->step;
	struct insn_piece *p;

	while ((p = insn_next(step, regs)) != NULL) {
		if (!do_piece(v, p, step->writing)) {
			v->vm->pending = PENDING_STEP;
			return false;
		}
		insn_done(step);
	}
	return true;
}

static bool begin_step(struct vcpu *v, const struct cpu_mode *mode, const struct insn_regs *regs)
{
	struct insn_step *step = &v->vm->step;

	switch (insn_plan(step, regs)) {
	case INSN_OK: return translate(v, mode);
	case INSN_FAULT: vcpu_raise(v, step->vector, true, 0); return false;
	default:
		if (vm_log_once(v->vm->vm,
		            0x1000000u | (uint32_t)(step->insn.map << 8) | step->insn.opcode))
			log_line("vm %u: instruction %x:%02x on emulated memory is not carried out",
			        v->vm->vm->id, step->insn.map, step->insn.opcode);
		vcpu_raise_ud(v);
		return false;
	}
}

/* A step whose pieces are done, and further iterations of a REP. */
static void finish(struct vcpu *v, const struct cpu_mode *mode, struct insn_regs *regs)
{
	struct insn_step *step = &v->vm->step;

	for (unsigned done = 1;; done++) {
		insn_commit(step, regs);
		store_regs(v, regs);
		v->exit.kind = KEEL_KIND_NONE; /* its address was the first iteration's */
		/* Not one begun iteration more: what is done to a device has to be committed. */
		if (!step->again || done >= REPEAT_MAX || v->vm->fault ||
		        __atomic_load_n(&v->look, __ATOMIC_RELAXED) != 0)
			return;
		if (!begin_step(v, mode, regs) || !run_pieces(v, regs))
			return;
	}
}

void emulate_start(struct vcpu *v)
{
	struct insn_step *step = &v->vm->step;
	struct cpu_mode mode;
	struct insn_regs regs;

	memset(step, 0, sizeof(*step));
	v->vm->piece_done = 0;
	cpu_mode_get(v->cpu_state, &mode);
	if (!emulate_decode(v, &mode, &step->insn))
		return;
	load_regs(v, &mode, &regs);
	if (begin_step(v, &mode, &regs) && run_pieces(v, &regs))
		finish(v, &mode, &regs);
}

void emulate_resume(struct vcpu *v)
{
	struct insn_step *step = &v->vm->step;
	struct cpu_mode mode;
	struct insn_regs regs;
	struct insn_piece *p;
	uint64_t data = access_answer(v);

	v->vm->pending = PENDING_NONE;
	cpu_mode_get(v->cpu_state, &mode);
	load_regs(v, &mode, &regs);
	p = insn_next(step, &regs);
	hyp_assert(p != NULL);
	if (chunk_done(v, p, step->writing, v->vm->access.size, data))
		insn_done(step);
	if (run_pieces(v, &regs))
		finish(v, &mode, &regs);
}
