/* SPDX-License-Identifier: BSD-2-Clause */
/* Which MSRs a VM has and what each does: a table; what is not in it gets #GP. */
#pragma once

#include "abi/types.h"
#include "hyp/cpu/cpu.h"

enum msr_action {
	MSR_KEEP,     /* a value of its own for each vCPU; bits outside of mask: #GP */
	MSR_FIXED,    /* reads as value, a write is #GP */
	MSR_DULL,     /* reads as value, a write does nothing */
	MSR_REG,      /* a register of the vendor's state */
	MSR_PLATFORM, /* the platform answers */
	MSR_SPECIAL,  /* hyp/core/vm_msr.c */
};

enum msr_special {
	MSR_SPECIAL_TSC,
	MSR_SPECIAL_TSC_ADJUST,
	MSR_SPECIAL_TSC_DEADLINE,
	MSR_SPECIAL_EFER,
	MSR_SPECIAL_KVM_WALL,
	MSR_SPECIAL_KVM_SYSTEM_TIME,
	MSR_SPECIAL_KVM_PV_EOI,
};

/* What a value must be besides fitting the mask. */
enum msr_check {
	MSR_CHECK_NONE,
	MSR_CHECK_CANONICAL,
	MSR_CHECK_PAT,  /* eight memory types, each 0, 1, 4, 5, 6 or 7 */
	MSR_CHECK_MTRR, /* the low byte is a memory type other than 7 */
};

#define MSR_STORES 48u /* indices of MSR_KEEP */

struct msr_rule {
	uint32_t first, last;
	enum msr_action action;
	enum msr_check check;
	uint32_t index; /* KEEP: of first, then counting up; REG: enum cpu_reg; SPECIAL: enum
	                   msr_special */
	uint64_t value; /* what it reads as, or its power-on value */
	uint64_t mask;  /* bits that may be written */
};

/* NULL: no such MSR. */
const struct msr_rule *msr_policy_find(uint32_t msr);
bool msr_policy_is_legal(const struct msr_rule *rule, uint64_t value);
void msr_policy_reset(uint64_t stores[MSR_STORES]);
