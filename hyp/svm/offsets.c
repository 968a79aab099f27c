/* SPDX-License-Identifier: BSD-2-Clause */
/* Offsets that switch.S needs, generated so that no byte is counted by hand. */

#include "hyp/cpu/cpu.h"

#define OFFSET(sym, type, field) __asm__ volatile("\n->" #sym " %0" : : "i"(offsetof(type, field)))

void offsets_svm(void);
void offsets_svm(void)
{
	OFFSET(REGS_RCX, struct cpu_regs, gpr[KEEL_RCX]);
	OFFSET(REGS_RDX, struct cpu_regs, gpr[KEEL_RDX]);
	OFFSET(REGS_RBX, struct cpu_regs, gpr[KEEL_RBX]);
	OFFSET(REGS_RBP, struct cpu_regs, gpr[KEEL_RBP]);
	OFFSET(REGS_RSI, struct cpu_regs, gpr[KEEL_RSI]);
	OFFSET(REGS_RDI, struct cpu_regs, gpr[KEEL_RDI]);
	OFFSET(REGS_R8, struct cpu_regs, gpr[KEEL_R8]);
	OFFSET(REGS_R9, struct cpu_regs, gpr[KEEL_R9]);
	OFFSET(REGS_R10, struct cpu_regs, gpr[KEEL_R10]);
	OFFSET(REGS_R11, struct cpu_regs, gpr[KEEL_R11]);
	OFFSET(REGS_R12, struct cpu_regs, gpr[KEEL_R12]);
	OFFSET(REGS_R13, struct cpu_regs, gpr[KEEL_R13]);
	OFFSET(REGS_R14, struct cpu_regs, gpr[KEEL_R14]);
	OFFSET(REGS_R15, struct cpu_regs, gpr[KEEL_R15]);
}
