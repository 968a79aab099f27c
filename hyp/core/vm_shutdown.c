/* SPDX-License-Identifier: BSD-2-Clause */
/* Triple faults, told with all that is known: who made one has little else to find out why. */

#include "hyp/core/vm_shutdown.h"
#include "hyp/core/trace.h"
#include "hyp/core/vm.h"
#include "hyp/x86/x86.h"

#define TELL_MAX 8u /* a VM that does nothing but fail must not fill the log */

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

void vm_shutdown(struct vcpu *v)
{
	struct vm *vm = v->vm->vm;

	log_line("vm %u vcpu %u: triple fault at rip %llx", vm->id, v->index,
	        (unsigned long long)v->regs.rip);
	vm_tell_state(v);
	vm_stop(vm, KEEL_VM_STATE_RESET, KEEL_EVENT_TRIPLE_FAULT, KEEL_RESET_TRIPLE_FAULT);
}
