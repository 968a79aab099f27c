/* SPDX-License-Identifier: BSD-2-Clause */
/* Carries out the instruction that touched emulated memory, or a string port instruction. */
#pragma once

#include "hyp/core/vm.h"

/* At an MMIO exit or a string PIO exit. Afterwards the instruction is done, a fault was raised, or
 * root is asked. */
void emulate_start(struct vcpu *v);
/* Root answered: the step goes on. Needs: pending == PENDING_STEP, answered. */
void emulate_resume(struct vcpu *v);
/* Decodes the instruction at RIP. False: a fault was raised. */
bool emulate_decode(struct vcpu *v, const struct cpu_mode *mode, struct insn *insn);
