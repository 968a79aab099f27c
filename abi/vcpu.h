/* SPDX-License-Identifier: BSD-2-Clause */
/* A vCPU's register state as it crosses between hyp and root: groups, with a mask of which are
 * valid. */
#pragma once

#include "abi/types.h"

#define KEEL_VCPU_GPR     (1u << 0) /* gpr, rip, rflags */
#define KEEL_VCPU_SEGS    (1u << 1) /* segs, gdtr, idtr */
#define KEEL_VCPU_CONTROL (1u << 2) /* cr0, cr2, cr3, cr4, efer */
#define KEEL_VCPU_MSRS    (1u << 3) /* star … pat */
#define KEEL_VCPU_RUN     (1u << 4) /* run_state */
#define KEEL_VCPU_ALL     0x1fu

#define KEEL_RUN_READY     0u /* runs (or will, once the VM does) */
#define KEEL_RUN_WAIT_SIPI 1u
#define KEEL_RUN_HALTED    2u
#define KEEL_RUN_EXIT      3u /* get only: waits for root on its exit slot */

/* Order of gpr[]: the encoding's. */
enum keel_gpr {
	KEEL_RAX,
	KEEL_RCX,
	KEEL_RDX,
	KEEL_RBX,
	KEEL_RSP,
	KEEL_RBP,
	KEEL_RSI,
	KEEL_RDI,
	KEEL_R8,
	KEEL_R9,
	KEEL_R10,
	KEEL_R11,
	KEEL_R12,
	KEEL_R13,
	KEEL_R14,
	KEEL_R15,
};

enum keel_seg {
	KEEL_ES,
	KEEL_CS,
	KEEL_SS,
	KEEL_DS,
	KEEL_FS,
	KEEL_GS,
	KEEL_LDTR,
	KEEL_TR,
};

struct keel_segment {
	uint64_t base;
	uint32_t limit; /* bytes - 1, expanded */
	uint16_t selector;
	uint16_t attr; /* descriptor bits 40-47 in 0-7, 52-55 in 8-11 (the VMCB's packing, APM
	                  §15.5) */
};
KEEL_ASSERT_SIZE(struct keel_segment, 16);

struct keel_vcpu_state {
	uint32_t groups;    /* which groups are asked for or given */
	uint32_t run_state; /* KEEL_RUN_* */
	uint64_t gpr[16];
	uint64_t rip;
	uint64_t rflags;
	struct keel_segment segs[8]; /* index: enum keel_seg */
	struct keel_segment gdtr;    /* selector and attr 0 */
	struct keel_segment idtr;
	uint64_t cr0, cr2, cr3, cr4;
	uint64_t efer;
	uint64_t star, lstar, cstar, sfmask;
	uint64_t kernel_gs_base;
	uint64_t sysenter_cs, sysenter_esp, sysenter_eip;
	uint64_t pat;
	uint64_t reserved[8]; /* 0 */
};
KEEL_ASSERT_OFFSET(struct keel_vcpu_state, gpr, 8);
KEEL_ASSERT_OFFSET(struct keel_vcpu_state, segs, 152);
KEEL_ASSERT_OFFSET(struct keel_vcpu_state, cr0, 312);
KEEL_ASSERT_SIZE(struct keel_vcpu_state, 488);
