/* SPDX-License-Identifier: BSD-2-Clause */
/* What the handlers of a VM's exits share. */
#pragma once

#include "hyp/core/vm.h"

#define VECTOR_DB 1u
#define VECTOR_UD 6u
#define VECTOR_DF 8u
#define VECTOR_GP 13u
#define VECTOR_PF 14u

/* Does what v->exit asks for. Afterwards run_state says whether the vCPU can go on. */
void vm_exit(struct vcpu *v);
/* Takes up what waited for root's answer. Needs: answered. */
void vm_exit_resume(struct vcpu *v);

/* An exception at the next entry. The first one raised counts. */
void vcpu_raise(struct vcpu *v, uint8_t vector, bool has_error, uint32_t error);
void vcpu_raise_gp(struct vcpu *v);
void vcpu_raise_ud(struct vcpu *v);
void vcpu_raise_pf(struct vcpu *v, uint64_t linear, uint32_t error);
/* The instruction is done: rip moves on by length, and a guest that single-steps gets its #DB. */
void vcpu_step_over(struct vcpu *v, unsigned length);
/* The MSRs of vm_msr.c: false, #GP was raised. */
bool vm_msr_read(struct vcpu *v, uint32_t msr, uint64_t *value);
bool vm_msr_write(struct vcpu *v, uint32_t msr, uint64_t value);
