/* SPDX-License-Identifier: BSD-2-Clause */
/* A vCPU on SVM: how its VMCB is made, entered, injected into and what it traps (APM 24593 ch. 15).
 */

#include "hyp/cpu/cpu.h"
#include "abi/hypercall.h"
#include "hw/msr.h"
#include "hyp/x86/arena.h"
#include "hyp/svm/svm.h"
#include "hyp/x86/x86.h"

#define MSRPM_BYTES 8192u
#define IOPM_BYTES  12288u
/* So many PAUSEs, none later than so many cycles after the one before, are one exit (§15.14.4). */
#define PAUSE_COUNT     512u
#define PAUSE_THRESHOLD 128u

/* What both roles trap: what would let a guest reach SVM itself, or stop the machine. */
static const uint8_t traps_all[] = {
        VMCB_I_NMI,
        VMCB_I_CPUID,
        VMCB_I_INVLPGA,
        VMCB_I_IOIO,
        VMCB_I_MSR,
        VMCB_I_SHUTDOWN,
        VMCB_I_VMRUN,
        VMCB_I_VMMCALL,
        VMCB_I_VMLOAD,
        VMCB_I_VMSAVE,
        VMCB_I_STGI,
        VMCB_I_CLGI,
        VMCB_I_SKINIT,
        VMCB_I_HLT,
};

/*
 * A VM also traps what must not reach the real machine. CR4: the CPU allows bits of features that
 * the VM is not shown, and the emulator ends the run with VMEXIT_INVALID on bits that it has not.
 * #DB and #AC: a guest can make the CPU
 * deliver them without end and never leave guest mode (CVE-2015-8104, CVE-2015-5307).
 */
static const uint8_t traps_vm[] = {
        VMCB_I_CR_WRITE(4), VMCB_I_INTR, VMCB_I_INIT, VMCB_I_RDPMC, VMCB_I_INVD, VMCB_I_WBINVD,
        VMCB_I_MONITOR, VMCB_I_MWAIT, VMCB_I_XSETBV, VMCB_I_RDPRU, VMCB_I_FERR, VMCB_I_EXCEPTION(1),
        VMCB_I_EXCEPTION(17),
        VMCB_I_EXCEPTION(18), /* #MC is the machine's, so root's: a VM has no banks */
};

/* MSRs that a VM uses without an exit: VMRUN, VMLOAD or cpu_switch changes them with the guest. */
static const uint32_t msrs_vm_direct[] = {
        MSR_FS_BASE,
        MSR_GS_BASE,
        MSR_KERNEL_GS_BASE,
        MSR_STAR,
        MSR_LSTAR,
        MSR_CSTAR,
        MSR_SFMASK,
        MSR_SYSENTER_CS,
        MSR_SYSENTER_ESP,
        MSR_SYSENTER_EIP,
};

static void msrpm_set(uint8_t *map, uint32_t msr, bool read, bool write)
{
	uint32_t index;
	unsigned shift;

	if (msr < 0x2000)
		index = msr;
	else if (msr >= 0xc0000000 && msr < 0xc0002000)
		index = 0x2000 + (msr - 0xc0000000);
	else if (msr >= 0xc0010000 && msr < 0xc0012000)
		index = 0x4000 + (msr - 0xc0010000);
	else
		return; /* outside the map: always exits (§15.11) */
	shift = (index % 4) * 2;
	map[index / 4] = (uint8_t)((map[index / 4] & ~(3u << shift)) |
	                           (((read ? 1u : 0u) | (write ? 2u : 0u)) << shift));
}

void cpu_trap_msr(struct cpu_vcpu *c, uint32_t msr, bool read, bool write)
{
	msrpm_set(c->msrpm, msr, read, write);
}

void cpu_trap_port(struct cpu_vcpu *c, uint16_t port, unsigned count)
{
	for (unsigned p = port; p < port + count; p++)
		c->iopm[p / 8] |= (uint8_t)(1u << (p % 8));
}

static void vmcb_init(struct cpu_vcpu *c)
{
	struct vmcb *vmcb = c->vmcb;

	for (size_t i = 0; i < sizeof(traps_all); i++)
		vmcb_intercept(vmcb, traps_all[i], true);
	if (c->role == CPU_ROLE_VM) {
		for (size_t i = 0; i < sizeof(traps_vm); i++)
			vmcb_intercept(vmcb, traps_vm[i], true);
		vmcb->vintr = VMCB_V_INTR_MASKING;
		if ((svm_features & SVM_FEATURE_PAUSE_FILTER) == SVM_FEATURE_PAUSE_FILTER) {
			vmcb->pause_count = PAUSE_COUNT;
			vmcb->pause_threshold = PAUSE_THRESHOLD;
		}
	}
	vmcb->iopm_base = virt_to_hpa(c->iopm).value;
	vmcb->msrpm_base = virt_to_hpa(c->msrpm).value;
	vmcb->np_control = VMCB_NP_ENABLE;
	vmcb->n_cr3 = c->nested->table.value;
	vmcb->asid = 1;
}

static uint64_t serials; /* (a) */

struct cpu_vcpu *cpu_vcpu_create(
        struct arena *arena, enum cpu_role role, const struct cpu_nested *nested)
{
	struct cpu_vcpu *c = arena_object(arena, sizeof(*c));
	bool vm = role == CPU_ROLE_VM;

	if (c == NULL)
		return NULL;
	c->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	c->role = role;
	c->nested = nested;
	c->vmcb = arena_pages(arena, 1);
	c->xsave = arena_object(arena, svm_xsave_bytes);
	c->msrpm = arena_object(arena, MSRPM_BYTES);
	c->iopm = arena_object(arena, IOPM_BYTES);
	if (c->vmcb == NULL || c->xsave == NULL || c->msrpm == NULL || c->iopm == NULL)
		return NULL;
	c->vmcb_hpa = virt_to_hpa(c->vmcb).value;
	__builtin_memset(c->msrpm, vm ? 0xff : 0, MSRPM_BYTES);
	__builtin_memset(c->iopm, vm ? 0xff : 0, IOPM_BYTES);
	if (vm) {
		for (size_t i = 0; i < sizeof(msrs_vm_direct) / sizeof(msrs_vm_direct[0]); i++)
			msrpm_set(c->msrpm, msrs_vm_direct[i], false, false);
	} else {
		msrpm_set(c->msrpm, MSR_EFER, true, true);
		msrpm_set(c->msrpm, MSR_AMD_VM_CR, true, true);
		msrpm_set(c->msrpm, MSR_AMD_VM_HSAVE_PA, true, true);
	}
	vmcb_init(c);
	return c;
}

void cpu_trap(struct cpu_vcpu *c, enum cpu_trap trap, bool on)
{
	switch (trap) {
	case CPU_TRAP_INTR:
		/* V_INTR_MASKING with it: root that runs with IF 0 must not keep hyp's timer from
		 * being seen. */
		vmcb_intercept(c->vmcb, VMCB_I_INTR, on);
		c->vmcb->vintr = (c->vmcb->vintr & ~VMCB_V_INTR_MASKING) |
		                 (on ? VMCB_V_INTR_MASKING : 0);
		break;
	case CPU_TRAP_CR8_WRITE:
		c->cr8_trap = on;
		vmcb_intercept(c->vmcb, VMCB_I_CR_WRITE(8), on || (c->vmcb->vintr & VMCB_V_IRQ));
		break;
	case CPU_TRAP_HALT: vmcb_intercept(c->vmcb, VMCB_I_HLT, on); break;
	case CPU_TRAP_PAUSE: vmcb_intercept(c->vmcb, VMCB_I_PAUSE, on); break;
	}
}

void cpu_tsc_offset(struct cpu_vcpu *c, uint64_t offset)
{
	c->vmcb->tsc_offset = offset;
}

void cpu_inject(struct cpu_vcpu *c, enum cpu_inject_type type, uint8_t vector, bool has_error,
        uint32_t error)
{
	hyp_assert(!(c->vmcb->event_inject & VMCB_EVENT_VALID));
	c->vmcb->event_inject = vector | ((uint64_t)type << VMCB_EVENT_TYPE_SHIFT) |
	                        VMCB_EVENT_VALID |
	                        (has_error ? VMCB_EVENT_ERROR | ((uint64_t)error << 32) : 0);
	if (type == CPU_INJECT_NMI) {
		c->nmi_in_service = true;
		c->nmi_iret = false;
		vmcb_intercept(c->vmcb, VMCB_I_IRET, true); /* the end of the NMI's handler */
	}
}

struct cpu_can cpu_can_take(const struct cpu_vcpu *c, const struct cpu_regs *regs)
{
	bool injecting = c->vmcb->event_inject & VMCB_EVENT_VALID;
	bool shadow = c->vmcb->shadow & 1;

	return (struct cpu_can){
	        .intr = (regs->rflags & RFLAGS_IF) && !shadow && !injecting,
	        .nmi = !c->nmi_in_service && !shadow && !injecting,
	        .injecting = injecting,
	        .in_nmi = c->nmi_in_service && !c->nmi_iret,
	        .shadow = shadow,
	};
}

/*
 * A virtual interrupt of the highest priority that never arrives: its exit says that the guest can
 * take one (§15.21.4). While it waits, a VM's writes of CR8 exit too: the emulator raises the
 * virtual interrupt from there without its lock, and aborts.
 */
void cpu_window(struct cpu_vcpu *c, bool on)
{
	struct vmcb *vmcb = c->vmcb;

	/* A VM's next NMI comes right behind the IRET of the one before, which IF does not hold
	 * back. (Root has its #DB for itself, and takes it at its next exit.) */
	c->nmi_step = on && c->nmi_iret && c->role == CPU_ROLE_VM;
	on = on && !c->nmi_step;
	vmcb_intercept(vmcb, VMCB_I_VINTR, on);
	vmcb_intercept(vmcb, VMCB_I_CR_WRITE(8), c->cr8_trap || (on && c->role == CPU_ROLE_VM));
	vmcb->vintr &= ~(VMCB_V_IRQ | (0xfull << VMCB_V_PRIO_SHIFT) | VMCB_V_IGN_TPR);
	if (on)
		vmcb->vintr |= VMCB_V_IRQ | (0xfull << VMCB_V_PRIO_SHIFT) | VMCB_V_IGN_TPR;
}

bool cpu_skip(struct cpu_vcpu *c, struct cpu_regs *regs, unsigned length)
{
	regs->rip += length;
	if (!(c->vmcb->cs.attr & 0x200) || !(c->vmcb->efer & EFER_LMA))
		regs->rip &= 0xffffffffu;
	c->vmcb->shadow &= ~1ull;
	if (!(regs->rflags & RFLAGS_TF))
		return false;
	c->vmcb->dr6 |= DR6_BS;
	return true;
}

/* An NMI's handler ends with IRET: trapped, then let run; from the next exit elsewhere on a new NMI
 * may come. */
static void track_nmi(struct cpu_vcpu *c, const struct cpu_regs *regs)
{
	if (!c->nmi_in_service)
		return;
	if (c->vmcb->exit_code == SVM_EXIT_IRET) {
		vmcb_intercept(c->vmcb, VMCB_I_IRET, false);
		c->nmi_iret = true;
		c->nmi_iret_rip = regs->rip;
	} else if (c->nmi_iret && regs->rip != c->nmi_iret_rip) {
		c->nmi_in_service = false;
		c->nmi_iret = false;
	}
}

/*
 * The entry had TF set for the sake of nmi_step. The IRET has loaded the guest's own flags, or has
 * not been carried out yet.
 */
static void end_nmi_step(struct cpu_vcpu *c, struct cpu_regs *regs, uint64_t dr6)
{
	struct vmcb *vmcb = c->vmcb;

	if (regs->rip == c->nmi_iret_rip && vmcb->exit_code != SVM_EXIT_EXCEPTION + 1) {
		regs->rflags &= ~(uint64_t)RFLAGS_TF;
		return;
	}
	c->nmi_step = c->nmi_in_service = c->nmi_iret = false;
	if (vmcb->exit_code != SVM_EXIT_EXCEPTION + 1)
		return;
	vmcb->dr6 = dr6;
	vmcb->exit_code = SVM_EXIT_VINTR; /* an NMI can be taken now: no more than a window */
}

void cpu_run(struct cpu_vcpu *c, struct cpu_regs *regs, struct cpu_exit *exit)
{
	struct vmcb *vmcb = c->vmcb;
	const uint64_t dr6 = vmcb->dr6;
	/* A guest that single-steps its IRET has the trap for itself. */
	bool step = c->nmi_step && !(regs->rflags & RFLAGS_TF);

	hyp_assert(c->loaded);
	vmcb->rax = regs->gpr[KEEL_RAX];
	vmcb->rsp = regs->gpr[KEEL_RSP];
	vmcb->rip = regs->rip;
	vmcb->rflags = regs->rflags | (step ? RFLAGS_TF : 0);
	svm_asid_prepare(c);
	if (cpu_loses_events)
		tcg_enter(c, regs);
	else
		svm_enter(c->vmcb_hpa, regs);
	regs->gpr[KEEL_RAX] = vmcb->rax;
	regs->gpr[KEEL_RSP] = vmcb->rsp;
	regs->rip = vmcb->rip;
	regs->rflags = vmcb->rflags;
	vmcb->event_inject = 0;
	if (step)
		end_nmi_step(c, regs, dr6);
	track_nmi(c, regs);
	svm_exit_translate(c, regs, exit);
}

static void xsave_area_reset(struct cpu_vcpu *c)
{
	uint8_t *x = c->xsave;

	/* FCW 037Fh, MXCSR 1F80h; XSTATE_BV 0 makes XRSTOR load initial values of everything else.
	 */
	__builtin_memset(x, 0, svm_xsave_bytes);
	x[0] = 0x7f;
	x[1] = 0x03;
	x[24] = 0x80;
	x[25] = 0x1f;
}

void cpu_vcpu_reset(struct cpu_vcpu *c, struct cpu_regs *regs, int sipi_vector)
{
	struct vmcb *v = c->vmcb;
	const struct vmcb_segment data = {.attr = 0x93, .limit = 0xffff};
	uint32_t signature = cpuid(1, 0).eax;
	bool loaded = c->loaded;

	if (loaded)
		cpu_switch(c, NULL);
	__builtin_memset(regs, 0, sizeof(*regs));
	regs->gpr[KEEL_RDX] = signature;
	regs->rflags = RFLAGS_FIXED;
	regs->rip = sipi_vector < 0 ? 0xfff0 : 0;
	v->es = v->ss = v->ds = v->fs = v->gs = data;
	v->cs = data;
	v->cs.attr = 0x9b;
	v->cs.selector = sipi_vector < 0 ? 0xf000 : (uint16_t)(sipi_vector << 8);
	v->cs.base = sipi_vector < 0 ? 0xffff0000 : (uint64_t)sipi_vector << 12;
	v->gdtr = v->idtr = (struct vmcb_segment){.limit = 0xffff};
	v->ldtr = (struct vmcb_segment){.attr = 0x82, .limit = 0xffff};
	v->tr = (struct vmcb_segment){.attr = 0x8b, .limit = 0xffff};
	v->cpl = 0;
	v->efer = EFER_SVME;
	v->cr0 = CR0_CD | CR0_NW | CR0_ET;
	v->cr2 = v->cr3 = v->cr4 = 0;
	v->dr6 = 0xffff0ff0;
	v->dr7 = 0x400;
	v->star = v->lstar = v->cstar = v->sfmask = v->kernel_gs_base = 0;
	v->sysenter_cs = v->sysenter_esp = v->sysenter_eip = 0;
	v->g_pat = PAT_RESET;
	v->dbgctl = 0;
	v->shadow = 0;
	v->event_inject = 0;
	/* Not from what is there: a VMRUN that was refused may have written it (§15.5.1 leaves the
	 * VMCB undefined then, and the emulator writes 0). Without it a VM's CR8 is the machine's.
	 */
	v->vintr = vmcb_intercepts(v, VMCB_I_INTR) ? VMCB_V_INTR_MASKING : 0;
	vmcb_intercept(v, VMCB_I_VINTR, false);
	vmcb_intercept(v, VMCB_I_CR_WRITE(8), false);
	vmcb_intercept(v, VMCB_I_IRET, false);
	c->nmi_in_service = c->nmi_iret = c->nmi_step = false;
	c->xcr0 = 1;
	c->tsc_aux = 0;
	c->debugctl = 0;
	__builtin_memset(c->dr, 0, sizeof(c->dr));
	xsave_area_reset(c);
	cpu_flush(c);
	if (loaded)
		cpu_switch(NULL, c);
}
