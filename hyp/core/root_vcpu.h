/* SPDX-License-Identifier: BSD-2-Clause */
/* What only root's vCPUs have: the shadow of their real APIC's timer, and what other CPUs sent them
 * through hyp. */
#pragma once

#include "hyp/core/partition.h"
#include "lib/insn.h"

/*
 * Root's local APIC is the real one. hyp keeps three things to itself: ICR messages that would hit
 * hyp (INIT, SIPI, NMI, SMI), the timer, which root and hyp share, and APIC_BASE.
 *
 * The timer. Root's own deadline is computed from its writes. Where hyp has no deadline on this CPU
 * the hardware is armed with root's vector, and root is interrupted without an exit. Else the
 * hardware is armed for the earlier of both with HYP_TIMER_VECTOR, physical interrupts end root's
 * run (CPU_TRAP_INTR), and when root's deadline is due hyp sends root's vector as a self-IPI.
 *
 * (o) owner CPU only, (a) atomic.
 */
struct root_vcpu {
	uint32_t lvt_timer;        /* (o) as root wrote it */
	uint32_t divide;           /* (o) as root wrote it */
	uint32_t initial_count;    /* (o) */
	uint64_t start_tsc;        /* (o) when counting began */
	uint64_t deadline_tsc;     /* (o) next expiry, UINT64_MAX: none */
	uint64_t hyp_deadline_tsc; /* (o) UINT64_MAX: none */
	uint64_t armed_tsc;        /* (o) what the hardware is armed for, UINT64_MAX: stopped */
	bool interrupts_held;      /* (o) CPU_TRAP_INTR is on */
	uint8_t armed_vector;      /* (o) */
	bool armed;                /* (o) armed_* say what the hardware does */
	bool apic_off;             /* (o) root believes that it turned its APIC off */
	uint32_t ldr, icr_high;    /* (o) xAPIC only: as root wrote them */
	uint32_t nmi_pending;      /* (a) an NMI sent through hyp or taken in hyp */
	uint32_t init_pending;     /* (a) */
	uint32_t sipi;             /* (a) 0x100 | vector once one was sent */
	uint32_t stopped_start;    /* (o) which root was put away here last, by its number */
	bool machine_check;        /* (o) one came while a VM ran here */
	bool wait_sipi;            /* (o) after INIT, or an application processor not yet started */
	uint64_t closed_tsc; /* (o) since when something waits that root does not let in, or 0 */
	uint32_t in_guest;   /* (a) between the check of `look` and the exit */
	uint64_t entries;    /* (a) counts entries, for those who wait for an exit */
};

struct root_vcpu *root_this(void); /* of this CPU */

/* hyp/core/root_apic.c. What register means: x2APIC number. True if handled; false: pass to the
 * hardware. */
bool root_apic_read(struct vcpu *v, uint32_t reg, uint64_t *value);
bool root_apic_write(struct vcpu *v, uint32_t reg, uint64_t value);
uint64_t root_apic_base_read(const struct vcpu *v);
bool root_apic_base_write(struct vcpu *v, uint64_t value); /* false: #GP */
uint64_t root_tsc_deadline_read(struct vcpu *v);
void root_tsc_deadline_write(struct vcpu *v, uint64_t value);
void root_apic_init(struct root_vcpu *r);
/* hyp/core/root.c: e820 of root; kernel, zero page and first state into root's memory and its boot
 * vCPU. False, after a line in the log: the image does not fit. */
struct linux_image;
void root_image_e820(struct linux_image *image);
bool root_start(struct vcpu *v, const struct linux_image *image);
/* Sends root's timer vector if its deadline is due and the hardware has not done it. */
void root_timer_check(void);
/* Before root's entry, after the timer is armed. False: interrupts for root or a kick came to
 * light, so what was decided before must be decided again. */
bool root_interrupts_let_go(void);

/* hyp/core/root_exit.c: one exit of root; what must happen next is in v->state. */
void root_exit(struct vcpu *v);
/* hyp/core/root_emulate.c: an access outside of root's mapping, carried out or refused. Bytes at
 * rip, as many as readable, up to 15. */
void root_emulate(struct vcpu *v);
size_t root_fetch(struct vcpu *v, const struct cpu_mode *mode, uint8_t *bytes);
enum insn_mode root_insn_mode(const struct vcpu *v, const struct cpu_mode *mode);
/* hyp/core/root_pci.c: the hyp PCI function in root's configuration space. */
void root_pci_init(struct vcpu *vcpus, unsigned count);
void root_pci_reset(void); /* power-on state, for the next root */
bool root_pci_port(uint16_t port, unsigned size, bool write, uint32_t *value);
bool root_pci_ecam(uint64_t gpa, unsigned size, bool write, uint64_t *value);
void root_send_msi(uint64_t address, uint32_t data);
/* The message that raises root's event interrupt; false: it cannot be sent now and is kept pending.
 */
bool root_pci_event(uint64_t *address, uint32_t *data);
