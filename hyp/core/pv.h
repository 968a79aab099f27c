/* SPDX-License-Identifier: BSD-2-Clause */
/* KVM's paravirtual interface, as far as CPUID 40000001h offers it (Linux
 * Documentation/virt/kvm/x86). */
#pragma once

#include "hyp/core/vm.h"

/* MSRs. False: #GP. */
bool pv_write_system_time(struct vcpu *v, uint64_t value);
bool pv_write_wall_clock(struct vcpu *v, uint64_t value);
bool pv_write_eoi(struct vcpu *v, uint64_t value);
/* The guest's clock page again, after its TSC was adjusted. */
void pv_update_clock(struct vcpu *v);
/* After an exit: did the guest end its interrupt by the flag? */
void pv_eoi_collect(struct vcpu *v);
/* Before an entry: may it? */
void pv_eoi_offer(struct vcpu *v);
/* A VM's VMCALL or VMMCALL: what RAX gets. */
uint64_t pv_hypercall(struct vcpu *v);
