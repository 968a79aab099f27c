/* SPDX-License-Identifier: BSD-2-Clause */
/* The vendor seam: what SVM and VMX each implement, and all that the rest of hyp knows of
 * virtualization hardware. */
#pragma once

#include "abi/exits.h"
#include "abi/types.h"
#include "abi/vcpu.h"
#include "hyp/x86/addr.h"

/*
 * The vendor is chosen at boot by the CPU. A vCPU's hardware state (struct cpu_vcpu) is the
 * vendor's own; the core holds a pointer. After cpu_run returns, regs (all 16 GPRs, rip, rflags)
 * are current and may be changed; the vendor writes them back on the next cpu_run. Everything here
 * runs on the CPU that owns the vCPU, with host interrupts held (GIF 0 on SVM), except where said.
 */
struct cpu_vcpu;

struct cpu_regs {
	uint64_t gpr[16]; /* index: enum keel_gpr */
	uint64_t rip;
	uint64_t rflags;
};

/* An exit in our own words. Only the fields that the kind names are valid. */
struct cpu_exit {
	enum keel_exit_kind kind;
	uint32_t vendor_code; /* for the log only */
	/* PIO */
	uint16_t port;
	uint8_t size;         /* operand bytes: PIO 1, 2, 4 */
	uint8_t address_size; /* bytes: string PIO */
	bool write;           /* PIO out, MMIO store, MSR and CR/DR write */
	bool string, rep;     /* PIO */
	uint8_t segment;      /* enum keel_seg of a string PIO */
	/* CR, DR: register number in reg, GPR number in gpr (0xff: not known, decode) */
	uint8_t reg, gpr;
	/* EXCEPTION */
	uint8_t vector;
	uint32_t error_code;
	/* MMIO (nested page fault) */
	bool fetch;      /* instruction fetch */
	bool table_walk; /* hit while walking the guest's own page tables */
	bool present;    /* mapped, but the access was not allowed */
	uint64_t gpa;
	/* Bytes of the instruction as the CPU fetched them (decode assist); 0: none, fetch it */
	uint8_t insn_bytes;
	uint8_t insn[15];
	/* Instruction length where the hardware gives it (NRIP, PIO); 0: decode it */
	uint8_t length;
	/* An injection that this exit cut short, to be injected again: CPU_INJECT_NONE if none */
	uint8_t cut_type, cut_vector;
	bool cut_has_error;
	uint32_t cut_error;
};

enum cpu_inject_type {
	CPU_INJECT_NONE = 0xff,
	CPU_INJECT_INTR = 0,
	CPU_INJECT_NMI = 2,
	CPU_INJECT_EXCEPTION = 3,
	CPU_INJECT_SOFT = 4,
};

enum cpu_role {
	CPU_ROLE_ROOT, /* all ports, MSRs and interrupts direct except what core asks for */
	CPU_ROLE_VM,   /* all ports and MSRs exit, physical interrupts and CR4 writes exit, TPR is
	                  virtual */
};

/* A nested page table. Flags: what the partition may do. Pages come from the arena, never at run
 * time unless said. */
struct arena;
struct cpu_nested {
	hpa_t table;
	struct arena *arena;
};
#define CPU_NESTED_READ    1u
#define CPU_NESTED_WRITE   2u
#define CPU_NESTED_EXECUTE 4u
#define CPU_NESTED_RWX     7u
#define CPU_NESTED_UC      8u

/* 1. NULL, or one line for the console that says why this CPU cannot run hyp. */
const char *cpu_probe(void);
/* 2. Turns virtualization on on this CPU. */
void cpu_start(void);
/* 3-4. State from pages of the arena (NULL: used up); power-on values as APM vol 2 table 14-1 for
 * the boot CPU. */
struct cpu_vcpu *cpu_vcpu_create(
        struct arena *arena, enum cpu_role role, const struct cpu_nested *nested);
void cpu_vcpu_reset(
        struct cpu_vcpu *c, struct cpu_regs *regs, int sipi_vector /* -1: reset vector */);
/* 5. Enters the guest and comes back with the exit. c must be the loaded one (cpu_switch). */
void cpu_run(struct cpu_vcpu *c, struct cpu_regs *regs, struct cpu_exit *exit);
/* 6. Saves what the hardware holds of `from` (FPU/XSAVE, XCR0, FS/GS/TR/syscall MSRs, DRs) and
 * loads `to`'s. Either may be NULL. */
void cpu_switch(struct cpu_vcpu *from, struct cpu_vcpu *to);
/* 7. Injects at the next entry. The caller has checked that the guest can take it. One at a time
 * (cpu_inject_pending). */
void cpu_inject(struct cpu_vcpu *c, enum cpu_inject_type type, uint8_t vector, bool has_error,
        uint32_t error);
/* 8-9. What the guest can take now; an exit (KIND_WINDOW) as soon as it can take an interrupt. */
struct cpu_can {
	bool intr; /* IF set, no shadow, nothing injected yet */
	bool nmi;  /* no NMI in service (until IRET), no shadow, nothing injected yet */
	bool injecting;
	/* The IRET that ends an NMI's handler has not come. It exits by itself (KIND_WINDOW): an
	 * NMI waits for that, and not by cpu_window, whose exit would come at every entry. */
	bool in_nmi;
	bool shadow; /* the instruction after STI or MOV SS has not run yet */
};
struct cpu_can cpu_can_take(const struct cpu_vcpu *c, const struct cpu_regs *regs);
void cpu_window(struct cpu_vcpu *c, bool on);
/* 10. After an emulated instruction: rip += length and the interrupt shadow ends. True: the guest
 * single-steps; DR6 says so, and a #DB is due (APM vol 2 §13.1.4). */
bool cpu_skip(struct cpu_vcpu *c, struct cpu_regs *regs, unsigned length);
/* 11-12. Register groups; the vCPU may be loaded or not, but does not run. set returns 0 or
 * -KEEL_EINVAL (nothing changed). */
void cpu_state_get(struct cpu_vcpu *c, const struct cpu_regs *regs, struct keel_vcpu_state *out);
int cpu_state_set(struct cpu_vcpu *c, struct cpu_regs *regs, const struct keel_vcpu_state *in);
/* 13. Cheap look at what the software page walk and the decoder need. */
struct cpu_mode {
	uint64_t cr0, cr3, cr4, efer;
	uint32_t pkru; /* of a vCPU that is loaded; 0 while CR4.PKE is off */
	uint8_t cpl;
	bool long_mode;       /* EFER.LMA and CS.L */
	bool default_32;      /* CS.D */
	uint64_t seg_base[6]; /* es cs ss ds fs gs */
};
void cpu_mode_get(struct cpu_vcpu *c, struct cpu_mode *out);
/* 14. Single registers that the core's policy changes: writes with side effects (paging change
 * flushes). */
enum cpu_reg {
	CPU_CR0,
	CPU_CR2,
	CPU_CR3,
	CPU_CR4,
	CPU_CR8,
	CPU_EFER,
	CPU_XCR0,
	CPU_FS_BASE,
	CPU_GS_BASE,
	CPU_KERNEL_GS_BASE,
	CPU_STAR,
	CPU_LSTAR,
	CPU_CSTAR,
	CPU_SFMASK,
	CPU_SYSENTER_CS,
	CPU_SYSENTER_ESP,
	CPU_SYSENTER_EIP,
	CPU_PAT,
	CPU_TSC_AUX,
	CPU_DEBUGCTL,
	CPU_XSS,
	CPU_REG_COUNT
};
uint64_t cpu_reg_get(struct cpu_vcpu *c, enum cpu_reg reg);
void cpu_reg_set(struct cpu_vcpu *c, enum cpu_reg reg, uint64_t value);
/* 15. Intercepts that change at run time. */
enum cpu_trap {
	CPU_TRAP_INTR, /* physical interrupts exit whatever the guest's IF (root: only while hyp has
	                  a deadline) */
	CPU_TRAP_CR8_WRITE, /* VM: a pending interrupt is held back by TPR */
	CPU_TRAP_HALT,
	CPU_TRAP_PAUSE,
};
void cpu_trap(struct cpu_vcpu *c, enum cpu_trap trap, bool on);
/* 16-17. Root only: exits for single MSRs and ports (VMs: everything exits but what cpu_vcpu_create
 * passes: FS/GS base and the like). */
void cpu_trap_msr(struct cpu_vcpu *c, uint32_t msr, bool read, bool write);
void cpu_trap_port(struct cpu_vcpu *c, uint16_t port, unsigned count);
/* 18. guest TSC = host TSC + offset. */
void cpu_tsc_offset(struct cpu_vcpu *c, uint64_t offset);
/* 19. Nested tables: identity of sizes; the largest pages that alignment allows. 0, -KEEL_ENOMEM.
 * bytes multiple of 4 KiB. map with flags 0 unmaps. */
int cpu_nested_create(struct cpu_nested *n, struct arena *arena);
int cpu_nested_map(struct cpu_nested *n, gpa_t gpa, hpa_t hpa, uint64_t bytes, unsigned flags);
bool cpu_nested_lookup(const struct cpu_nested *n, gpa_t gpa, hpa_t *hpa, unsigned *flags);
/* 20. The vCPU's translations are stale: flushed before its next entry. Any CPU may set it; kick
 * the running CPU afterwards. */
void cpu_flush(struct cpu_vcpu *c);
