/* SPDX-License-Identifier: BSD-2-Clause */
/* What stands around an entry on the emulator: each cure for the fault that it is meant for. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/svm/tcg.c"

bool cpu_loses_events = true;
static struct vmcb vmcb;
static struct cpu_vcpu vcpu;
static uint32_t tpr, tpr_in_guest;
static unsigned kicks, tpr_writes;
static bool entered;
static uint64_t cr4_in_guest;

uint32_t apic_read(uint32_t reg)
{
	assert_int_equal(reg, APIC_REG_TPR);
	return tpr;
}
void apic_write(uint32_t reg, uint32_t value)
{
	assert_int_equal(reg, APIC_REG_TPR);
	tpr = value;
	assert_true(entered);
	tpr_writes++;
}
void cpu_kick_self_surely(void)
{
	assert_false(entered);
	kicks++;
}
void svm_enter(uint64_t vmcb_hpa, struct cpu_regs *regs)
{
	(void)vmcb_hpa, (void)regs;
	entered = true;
	cr4_in_guest = vmcb.cr4;
	tpr = tpr_in_guest;
}

static void enter(enum cpu_role role, uint32_t guest_tpr)
{
	struct cpu_regs regs = {0};

	vcpu = (struct cpu_vcpu){.vmcb = &vmcb, .role = role};
	tpr = 0x10;
	tpr_in_guest = guest_tpr;
	kicks = tpr_writes = 0;
	entered = false;
	tcg_enter(&vcpu, &regs);
}

static void inject(enum cpu_inject_type type, unsigned vector)
{
	vmcb.event_inject = VMCB_EVENT_VALID | (uint64_t)type << VMCB_EVENT_TYPE_SHIFT | vector;
}

/* Only an injected interrupt is repeated, and only for it is the run ended. */
static void test_an_injected_interrupt_is_followed_by_an_nmi(void **state)
{
	(void)state;
	memset(&vmcb, 0, sizeof(vmcb));
	enter(CPU_ROLE_VM, 0x10);
	assert_int_equal(kicks, 0);
	inject(CPU_INJECT_EXCEPTION, 14);
	enter(CPU_ROLE_VM, 0x10);
	inject(CPU_INJECT_NMI, 2);
	enter(CPU_ROLE_VM, 0x10);
	assert_int_equal(kicks, 0);
	inject(CPU_INJECT_INTR, 0xfb);
	enter(CPU_ROLE_VM, 0x10);
	assert_int_equal(kicks, 1);
	enter(CPU_ROLE_ROOT, 0x10);
	assert_int_equal(kicks, 1);
}

static void test_the_apic_looks_again_after_a_window(void **state)
{
	(void)state;
	memset(&vmcb, 0, sizeof(vmcb));
	enter(CPU_ROLE_VM, 0x10);
	assert_int_equal(tpr_writes, 0);
	vmcb.vintr = VMCB_V_IRQ;
	enter(CPU_ROLE_VM, 0x10);
	assert_int_equal(tpr_writes, 1);
	assert_int_equal(tpr, 0x10);
	enter(CPU_ROLE_ROOT, 0x20);
	assert_int_equal(tpr_writes, 1);
	assert_int_equal(tpr, 0x20); /* its own */
}

/* Long mode asked for and not paging: the one state after which hyp's own paging would stay off. */
static void test_a_guest_before_long_mode_has_pae(void **state)
{
	const uint64_t paging = CR0_PG | CR0_PE;

	(void)state;
	memset(&vmcb, 0, sizeof(vmcb));
	enter(CPU_ROLE_VM, 0x10);
	assert_int_equal(vmcb.cr4, 0);
	vmcb.cr0 = paging; /* a 32-bit guest's, without PAE */
	vmcb.efer = EFER_LME;
	enter(CPU_ROLE_VM, 0x10);
	assert_int_equal(vmcb.cr4, 0);
	vmcb.cr0 = 0;
	enter(CPU_ROLE_VM, 0x10);
	assert_int_equal(cr4_in_guest, CR4_PAE);
	assert_int_equal(vmcb.cr4, 0); /* lent */
	vmcb.cr4 = CR4_PAE;
	enter(CPU_ROLE_VM, 0x10);
	assert_int_equal(vmcb.cr4, CR4_PAE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_an_injected_interrupt_is_followed_by_an_nmi),
	        cmocka_unit_test(test_the_apic_looks_again_after_a_window),
	        cmocka_unit_test(test_a_guest_before_long_mode_has_pae),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
