/* SPDX-License-Identifier: BSD-2-Clause */
/* Triple faults: told with all that is known, and taken back where the emulator was wrong. */

#include "hyp/core/vm_shutdown.h"
#include "hw/msr.h"
#include "hyp/core/guest_memory.h"
#include "hyp/core/trace.h"
#include "hyp/core/vm.h"
#include "hyp/x86/x86.h"

/*
 * The lab's emulator has been seen to end a guest by a triple fault in the middle of its work: RIP
 * behind a WRMSR, CR2 the IDT's gate of the double fault, on a page that never changes. No CPU that
 * reads what is in memory comes to that. So where the CPU is known for faults (cpu_loses_events)
 * the claim is held against the guest's own tables: if they map RIP and CR2, and the IDT's gates of
 * page and double faults are present, the vCPU goes on where it was. The fourth
 * within a second is believed.
 */
#define RETRIES_MAX 3u
#define TELL_MAX    8u /* a VM that does nothing but fail must not fill the log */
#define VECTOR_DF   8u
#define VECTOR_PF   14u
#define GATE_BYTES  16u
#define GATE_TYPE   5u /* the byte with P and the type */
#define GATE_P      0x80u

void vm_tell_state(struct vcpu *v)
{
	struct keel_vcpu_state s;

	if (__atomic_fetch_add(&v->vm->vm->told, 1, __ATOMIC_RELAXED) >= TELL_MAX)
		return;
	cpu_state_get(v->cpu_state, &v->regs, &s);
	log_line("  rip %llx rsp %llx rflags %llx cr0 %llx cr2 %llx cr3 %llx cr4 %llx efer %llx",
	        (unsigned long long)s.rip, (unsigned long long)s.gpr[KEEL_RSP],
	        (unsigned long long)s.rflags, (unsigned long long)s.cr0, (unsigned long long)s.cr2,
	        (unsigned long long)s.cr3, (unsigned long long)s.cr4, (unsigned long long)s.efer);
	log_line("  gdt %llx limit %x idt %llx limit %x; event type %u vector %u was under way",
	        (unsigned long long)s.gdtr.base, s.gdtr.limit, (unsigned long long)s.idtr.base,
	        s.idtr.limit, v->exit.cut_type, v->exit.cut_vector);
	for (unsigned i = 0; i < 8; i++)
		log_line("  segment %u: %04x base %llx limit %x attr %x", i, s.segs[i].selector,
		        (unsigned long long)s.segs[i].base, s.segs[i].limit, s.segs[i].attr);
	trace_tell();
}

static bool maps(struct vcpu *v, uint64_t linear, unsigned access, gpa_t *gpa)
{
	struct cpu_mode mode;
	uint32_t error;

	cpu_mode_get(v->cpu_state, &mode);
	mode.cpl = 0; /* the CPU reads the IDT as itself */
	return guest_walk(v->vm->vm, &mode, v->regs.rflags, linear, access, gpa, &error);
}

static bool has_gate(struct vcpu *v, const struct keel_segment *idt, unsigned vector)
{
	uint8_t gate[GATE_BYTES];
	gpa_t gpa;

	return idt->limit >= (vector + 1) * GATE_BYTES - 1 &&
	       maps(v, idt->base + (uint64_t)vector * GATE_BYTES, 0, &gpa) &&
	       guest_read(v->vm->vm, gpa, gate, sizeof(gate)) && gate[GATE_TYPE] & GATE_P;
}

static bool is_contradicted(struct vcpu *v)
{
	struct keel_vcpu_state s;
	gpa_t gpa;

	cpu_state_get(v->cpu_state, &v->regs, &s);
	return (s.efer & EFER_LMA) && maps(v, s.rip, WALK_FETCH, &gpa) && maps(v, s.cr2, 0, &gpa) &&
	       has_gate(v, &s.idtr, VECTOR_PF) && has_gate(v, &s.idtr, VECTOR_DF);
}

/* True: it goes on. An interrupt that was under way comes again; a fault comes by itself if it was
 * one. */
static bool take_back(struct vcpu *v)
{
	struct vcpu_vm *x = v->vm;

	uint64_t now = tsc_now();

	x->shutdowns = now - x->shutdown_tsc < tsc_hz ? x->shutdowns + 1 : 1;
	x->shutdown_tsc = now;
	if (!cpu_loses_events || x->shutdowns > RETRIES_MAX || !is_contradicted(v))
		return false;
	if (x->cut_type == CPU_INJECT_EXCEPTION)
		x->cut_type = CPU_INJECT_NONE;
	cpu_flush(v->cpu_state);
	log_line("vm %u vcpu %u: the emulator's fault: a triple fault at rip %llx over memory that "
	         "the "
	         "guest's tables map; it goes on",
	        x->vm->id, v->index, (unsigned long long)v->regs.rip);
	return true;
}

void vm_shutdown(struct vcpu *v)
{
	struct vm *vm = v->vm->vm;

	if (take_back(v)) {
		vm_tell_state(v);
		return;
	}
	log_line("vm %u vcpu %u: triple fault at rip %llx", vm->id, v->index,
	        (unsigned long long)v->regs.rip);
	vm_tell_state(v);
	vm_stop(vm, KEEL_VM_STATE_RESET, KEEL_EVENT_TRIPLE_FAULT, KEEL_RESET_TRIPLE_FAULT);
}
