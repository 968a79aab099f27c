/* SPDX-License-Identifier: BSD-2-Clause */
/* The PC platform of one VM as hyp answers it: every clock, interrupt controller, serial port and
 * reset line. */
#pragma once

#include "abi/types.h"

/*
 * One struct platform per VM holds the LAPIC of each vCPU, the IOAPIC, 8259 pair, 8254, ACPI PM
 * timer, HPET, RTC and one 16550. It knows nothing of VMCBs, nested page tables or CPUs: the core
 * hands it accesses and the guest's TSC, and takes from it what to inject and when to look again.
 * It compiles for the host and is tested there.
 *
 * Time. `now` is always the guest's TSC (host TSC + the VM's offset). Every clock is elapsed TSC
 * times one ratio from the common base 0; no clock adds steps. Deadlines are guest TSC values;
 * PLATFORM_NEVER means none; others are below 2^63.
 *
 * Locking. Everything but the LAPICs is guarded by `lock` inside the platform (taken here, never
 * held over a callback that takes it again). A LAPIC belongs to the CPU on which its vCPU runs;
 * other CPUs only post into it by atomic bits (platform_msi, platform_pin, IPIs, timers of shared
 * devices) and then call notify(vcpu_mask), so that the core makes the vCPU look.
 */

#define PLATFORM_MAX_VCPUS 64u
#define PLATFORM_NEVER     UINT64_MAX

/* The console ring's size in bytes; the core gives the memory (page-aligned, from the VM's own
 * share of the pool). */
#define PLATFORM_CONSOLE_BYTES (256u * 1024u)

/* Fixed numbers that CPUID leaves and ACPI tables have to tell. */
#define PLATFORM_LAPIC_TIMER_HZ 1000000000u /* undivided; CPUID 40000010h ebx = 1000000 kHz */
#define PLATFORM_PM_TIMER_PORT  0x608u      /* 32 bits (FADT: TMR_VAL_EXT) */
#define PLATFORM_RESET_PORT     0xcf9u      /* FADT reset register: value 06h */
#define PLATFORM_HPET_BASE      0xfed00000ull

struct platform; /* defined in hyp/dev/platform_state.h, so that the core can place it and the tests
                    can look inside */

enum platform_reset_cause {
	PLATFORM_RESET_NONE,
	PLATFORM_RESET_CF9,      /* also ACPI's reset register */
	PLATFORM_RESET_KEYBOARD, /* port 64h */
	PLATFORM_RESET_PORT_92H,
};

/* What the core must do, called by the platform on any CPU, with no platform lock held. `ctx` is
 * config.ctx. */
struct platform_ops {
	/*
	 * Each vCPU in mask has something new (interrupt, NMI, INIT, SIPI): make it call
	 * platform_next_event soon. The vCPU whose own access caused it is never in mask: the core
	 * looks again before it enters that one anyway.
	 */
	void (*notify)(void *ctx, uint64_t vcpu_mask);
	/* The guest asked for a reset (once until platform_init; platform_reset_cause says how). */
	void (*reset)(void *ctx);
	/*
	 * The console ring got its first unread byte since the last platform_console_read, or input
	 * that was refused may be written again (root may want to be told).
	 */
	void (*console_ready)(void *ctx);
};

struct platform_config {
	const struct platform_ops *ops;
	void *ctx;
	unsigned vcpus;              /* 1..PLATFORM_MAX_VCPUS; LAPIC ids are 0..vcpus-1 */
	unsigned phys_bits;          /* the VM's physical address width (CPUID 80000008h); 0: 52 */
	uint64_t tsc_hz;             /* guest TSC frequency */
	int64_t wall_clock_s;        /* seconds since 1970 UTC at guest TSC 0 */
	uint64_t ram_below_4g_bytes; /* for the CMOS memory-size bytes */
	uint64_t ram_above_4g_bytes;
	uint8_t *console; /* PLATFORM_CONSOLE_BYTES */
};

/*
 * Power-on state; also used for a VM reset (console content and its positions, the RTC's time and
 * its CMOS memory are kept then: pass keep_console). Nobody else may be in the platform, but
 * platform_console_read and _write may (and wait).
 */
void platform_init(struct platform *p, const struct platform_config *config, bool keep_console);

/* Port and MMIO accesses of one vCPU. True: answered here (*value holds what a read gives; a write
 * is done). False: not ours. */
bool platform_pio(struct platform *p, unsigned vcpu, uint16_t port, unsigned size, bool write,
        uint32_t *value, uint64_t now);
bool platform_mmio(struct platform *p, unsigned vcpu, uint64_t gpa, unsigned size, bool write,
        uint64_t *value, uint64_t now);

enum platform_msr_result {
	PLATFORM_MSR_OK,
	PLATFORM_MSR_GP,      /* ours, but refused: inject #GP(0) */
	PLATFORM_MSR_UNKNOWN, /* not a platform MSR */
};
/* IA32_APIC_BASE, x2APIC 800h-8FFh, IA32_TSC_DEADLINE. */
enum platform_msr_result platform_rdmsr(
        struct platform *p, unsigned vcpu, uint32_t msr, uint64_t *value, uint64_t now);
enum platform_msr_result platform_wrmsr(
        struct platform *p, unsigned vcpu, uint32_t msr, uint64_t value, uint64_t now);

/* Interrupt sources from outside hyp (root) or from the core. MSI by x86 address/data incl. the
 * extended destination id. */
void platform_msi(struct platform *p, uint64_t address, uint32_t data);
/* Level of an IOAPIC pin as wired from one of up to 4 sources (they are ORed); source 0 is the
 * platform's own. */
void platform_pin(struct platform *p, unsigned pin, unsigned source, bool high);
/* The NMI wire (LINT1) of one vCPU: taken as its LVT says (power-on: boot vCPU as NMI, others
 * masked), always while its LAPIC is off. */
void platform_nmi(struct platform *p, unsigned vcpu);
/* KVM_HC_SEND_IPI: bitmap low/high over APIC ids from min, icr as given (fixed or NMI; another is
 * -22). Returns how many took it. */
int platform_pv_ipi(
        struct platform *p, uint64_t bitmap_low, uint64_t bitmap_high, uint32_t min, uint32_t icr);

/* What the vCPU should take next, highest priority first; the core injects what its state allows.
 */
enum platform_event {
	PLATFORM_EVENT_NONE,
	PLATFORM_EVENT_INIT, /* reset this vCPU into wait-for-SIPI (BSP: to the reset vector) */
	PLATFORM_EVENT_SIPI, /* start at vector << 12 */
	PLATFORM_EVENT_NMI,
	PLATFORM_EVENT_INTR, /* needs RFLAGS.IF; priority against TPR is already judged */
};
/*
 * Looks only. For PLATFORM_EVENT_INTR *vector is what would be injected. The event is consumed by
 * platform_accept, which is called when the injection is sure (INTR: moves IRR to ISR or
 * acknowledges the 8259 and returns the vector actually taken).
 */
enum platform_event platform_next_event(struct platform *p, unsigned vcpu, uint8_t *vector);
uint8_t platform_accept(struct platform *p, unsigned vcpu, enum platform_event event);
/* CR8 of the vCPU (0..15), as the core reads it on exit and before entry. */
void platform_set_tpr(struct platform *p, unsigned vcpu, unsigned cr8);
unsigned platform_get_tpr(const struct platform *p, unsigned vcpu);
/* EOI of the highest ISR bit without a register access (PV EOI: the guest cleared its flag). */
void platform_eoi(struct platform *p, unsigned vcpu);
/* True when the interrupt in service may end by PV EOI (edge, nothing else pending): core then sets
 * the guest's flag. */
bool platform_pv_eoi_possible(const struct platform *p, unsigned vcpu);
/*
 * 0: nothing waits. Else an interrupt of this priority class waits only because CR8 >= it: the core
 * must exit when the guest lowers CR8 below it (VMX: the TPR threshold; SVM: intercept CR8 writes,
 * or V_IRQ with V_INTR_PRIO).
 */
unsigned platform_tpr_threshold(const struct platform *p, unsigned vcpu);

/*
 * Timers. The earliest guest TSC at which platform_run_timers must be called for this vCPU's LAPIC
 * timer, or for the shared devices (PIT, HPET, RTC, UART; any CPU may run those). Running early is
 * harmless.
 */
uint64_t platform_vcpu_deadline(const struct platform *p, unsigned vcpu);
uint64_t platform_shared_deadline(struct platform *p);
void platform_run_vcpu_timer(struct platform *p, unsigned vcpu, uint64_t now);
void platform_run_shared_timers(struct platform *p, uint64_t now);

/*
 * Console ring: bytes are numbered from 0 since VM creation. Reads up to len bytes from *position;
 * if they were overwritten already *position moves to the oldest kept byte first. Returns the
 * count. Writes feed the receiver: returns how many were taken.
 */
size_t platform_console_read(struct platform *p, uint64_t *position, uint8_t *out, size_t len);
size_t platform_console_write(struct platform *p, const uint8_t *in, size_t len);
/* A break after what was written so far. False: no room now. */
bool platform_console_break(struct platform *p);
enum platform_reset_cause platform_reset_cause(struct platform *p);
