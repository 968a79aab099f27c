/* SPDX-License-Identifier: BSD-2-Clause */
/* A vCPU on SVM without the CPU: NMIs in service, what reset leaves of them, windows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/svm/vcpu.c"

static unsigned tcg_enters;

void tcg_enter(struct cpu_vcpu *c, struct cpu_regs *regs)
{
	tcg_enters++;
	svm_enter(c->vmcb_hpa, regs);
}
bool cpu_loses_events;
uint32_t svm_features, svm_asids = 16, svm_xsave_bytes = 576;
bool svm_has_xsave, svm_has_tsc_aux, svm_has_1g;
uint64_t svm_xcr0_all;

static uint64_t next_exit_code, next_rip, next_rflags, next_dr6, entry_rflags;

void svm_enter(uint64_t vmcb_hpa, struct cpu_regs *regs)
{
	struct vmcb *vmcb = (struct vmcb *)(uintptr_t)vmcb_hpa;

	(void)regs;
	entry_rflags = vmcb->rflags;
	vmcb->rflags = next_rflags | (next_exit_code == SVM_EXIT_INTR ? entry_rflags : 0);
	if (next_dr6 != 0)
		vmcb->dr6 = next_dr6;
	next_dr6 = 0;
	vmcb->exit_code = next_exit_code;
	vmcb->rip = next_rip;
}
void svm_asid_prepare(struct cpu_vcpu *c)
{
	(void)c;
}
void svm_exit_translate(struct cpu_vcpu *c, const struct cpu_regs *regs, struct cpu_exit *exit)
{
	(void)c, (void)regs, (void)exit;
}
void cpu_switch(struct cpu_vcpu *from, struct cpu_vcpu *to)
{
	(void)from, (void)to;
}
void cpu_flush(struct cpu_vcpu *c)
{
	(void)c;
}
void *arena_pages(struct arena *a, size_t count)
{
	void *p = aligned_alloc(4096, count * 4096);

	(void)a;
	memset(p, 0, count * 4096);
	return p;
}
void *arena_object(struct arena *a, size_t bytes)
{
	return arena_pages(a, (bytes + 4095) / 4096);
}
hpa_t virt_to_hpa(const void *p)
{
	return HPA((uintptr_t)p);
}
_Noreturn void panic(const char *format, ...)
{
	fail_msg("panic: %s", format);
	abort();
}

static struct cpu_nested nested;
static struct cpu_regs regs;

static struct cpu_vcpu *make(enum cpu_role role)
{
	struct arena arena = {0};
	struct cpu_vcpu *c = cpu_vcpu_create(&arena, role, &nested);

	cpu_vcpu_reset(c, &regs, -1);
	c->loaded = true;
	return c;
}

static void drop(struct cpu_vcpu *c)
{
	free(c->vmcb);
	free(c->xsave);
	free(c->msrpm);
	free(c->iopm);
	free(c);
}

static bool intercepts(const struct cpu_vcpu *c, unsigned bit)
{
	return c->vmcb->intercepts[bit / 32] >> bit % 32 & 1;
}

static void run_to(struct cpu_vcpu *c, uint64_t code, uint64_t rip)
{
	struct cpu_exit exit;

	next_exit_code = code;
	next_rip = rip;
	cpu_run(c, &regs, &exit);
}

static void test_nmi_lasts_until_its_iret_has_run(void **state)
{
	struct cpu_vcpu *c = make(CPU_ROLE_VM);

	(void)state;
	assert_true(cpu_can_take(c, &regs).nmi);
	cpu_inject(c, CPU_INJECT_NMI, 2, false, 0);
	run_to(c, SVM_EXIT_CPUID, 0x1000);
	assert_false(cpu_can_take(c, &regs).nmi);
	assert_true(cpu_can_take(c, &regs).in_nmi);
	run_to(c, SVM_EXIT_IRET, 0x1010);
	assert_false(cpu_can_take(c, &regs).nmi);
	assert_false(cpu_can_take(c, &regs).in_nmi);
	assert_false(intercepts(c, VMCB_I_IRET)); /* so that it runs */
	run_to(c, SVM_EXIT_INTR, 0x1010);
	assert_false(cpu_can_take(c, &regs).nmi); /* it has not run yet */
	run_to(c, SVM_EXIT_INTR, 0x2000);
	assert_true(cpu_can_take(c, &regs).nmi);
	drop(c);
}

/* The IRET is single-stepped, so that the next NMI comes right behind it, whatever its IF. */
static void test_nmi_behind_an_nmi(void **state)
{
	struct cpu_vcpu *c = make(CPU_ROLE_VM);

	(void)state;
	cpu_inject(c, CPU_INJECT_NMI, 2, false, 0);
	run_to(c, SVM_EXIT_IRET, 0x1010);
	cpu_window(c, true);
	assert_false(intercepts(c, VMCB_I_VINTR)); /* which would wait for IF */
	next_rflags = 0;
	c->vmcb->dr6 = 0xffff0ff1;
	run_to(c, SVM_EXIT_INTR, 0x1010); /* it has not run yet: its TF is not the guest's */
	assert_true(entry_rflags & RFLAGS_TF);
	assert_false(regs.rflags & RFLAGS_TF);
	assert_false(cpu_can_take(c, &regs).nmi);
	next_rflags = RFLAGS_IF;
	next_dr6 = 0xffff4ff1;
	run_to(c, SVM_EXIT_EXCEPTION + 1, 0x2000);
	assert_true(entry_rflags & RFLAGS_TF);
	assert_int_equal(c->vmcb->exit_code, SVM_EXIT_VINTR); /* the guest does not hear of it */
	assert_int_equal(c->vmcb->dr6, 0xffff0ff1);
	assert_int_equal(regs.rflags, RFLAGS_IF);
	assert_true(cpu_can_take(c, &regs).nmi);
	run_to(c, SVM_EXIT_INTR, 0x2000);
	assert_false(entry_rflags & RFLAGS_TF);
	/* A guest that single-steps its handler has its trap. */
	cpu_inject(c, CPU_INJECT_NMI, 2, false, 0);
	run_to(c, SVM_EXIT_IRET, 0x1010);
	cpu_window(c, true);
	regs.rflags = RFLAGS_TF;
	run_to(c, SVM_EXIT_EXCEPTION + 1, 0x2000);
	assert_int_equal(c->vmcb->exit_code, SVM_EXIT_EXCEPTION + 1);
	assert_true(cpu_can_take(c, &regs).nmi);
	drop(c);
}

static void test_single_step_over_what_hyp_did(void **state)
{
	struct cpu_vcpu *c = make(CPU_ROLE_VM);

	(void)state;
	regs = (struct cpu_regs){.rip = 0x100, .rflags = RFLAGS_FIXED};
	assert_false(cpu_skip(c, &regs, 2));
	assert_int_equal(c->vmcb->dr6, 0xffff0ff0);
	regs.rflags |= RFLAGS_TF;
	assert_true(cpu_skip(c, &regs, 2));
	assert_int_equal(c->vmcb->dr6, 0xffff4ff0);
	assert_int_equal(regs.rip, 0x104);
	drop(c);
}

/* With the intercept left on, the first IRET after INIT exits for ever. */
static void test_reset_within_an_nmi_lets_iret_run(void **state)
{
	struct cpu_vcpu *c = make(CPU_ROLE_ROOT);

	(void)state;
	cpu_inject(c, CPU_INJECT_NMI, 2, false, 0);
	run_to(c, SVM_EXIT_CPUID, 0x1000);
	assert_true(intercepts(c, VMCB_I_IRET));
	cpu_vcpu_reset(c, &regs, 0x9f);
	assert_false(intercepts(c, VMCB_I_IRET));
	assert_true(cpu_can_take(c, &regs).nmi);
	drop(c);
}

static void test_the_emulator_is_entered_by_its_own_way(void **state)
{
	struct cpu_vcpu *c = make(CPU_ROLE_VM);

	(void)state;
	tcg_enters = 0;
	run_to(c, SVM_EXIT_CPUID, 0x1000);
	assert_int_equal(tcg_enters, 0);
	cpu_loses_events = true;
	run_to(c, SVM_EXIT_CPUID, 0x1000);
	assert_int_equal(tcg_enters, 1);
	cpu_loses_events = false;
	drop(c);
}

/* The VM was stopped for it, and its user resets it. */
static void test_reset_after_a_refused_entry_masks_interrupts_again(void **state)
{
	struct cpu_vcpu *vm = make(CPU_ROLE_VM), *root = make(CPU_ROLE_ROOT);

	(void)state;
	vm->vmcb->vintr = 0;
	cpu_vcpu_reset(vm, &regs, -1);
	assert_int_equal(vm->vmcb->vintr, VMCB_V_INTR_MASKING);
	cpu_vcpu_reset(root, &regs, -1);
	assert_int_equal(root->vmcb->vintr, 0);
	cpu_trap(root, CPU_TRAP_INTR, true);
	cpu_vcpu_reset(root, &regs, -1);
	assert_int_equal(root->vmcb->vintr, VMCB_V_INTR_MASKING);
	drop(vm);
	drop(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_nmi_lasts_until_its_iret_has_run),
	        cmocka_unit_test(test_nmi_behind_an_nmi),
	        cmocka_unit_test(test_single_step_over_what_hyp_did),
	        cmocka_unit_test(test_reset_within_an_nmi_lets_iret_run),
	        cmocka_unit_test(test_the_emulator_is_entered_by_its_own_way),
	        cmocka_unit_test(test_reset_after_a_refused_entry_masks_interrupts_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
