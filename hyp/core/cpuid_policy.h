/* SPDX-License-Identifier: BSD-2-Clause */
/* What a VM's CPUID says: the host's leaves through masks, and what hyp adds. */
#pragma once

#include "hyp/x86/x86.h"

/* All that an answer depends on besides the leaf. */
struct cpuid_view {
	struct cpuid_result (*host)(uint32_t leaf, uint32_t subleaf);
	uint32_t apic_id;
	uint32_t vcpus;
	uint64_t cr4; /* OSXSAVE and PKE show in CPUID */
	uint64_t xcr0;
	unsigned phys_bits;
	bool apic_on; /* IA32_APIC_BASE bit 11 */
	bool pinned;  /* KEEL_VM_PINNED: the REALTIME hint */
	uint32_t tsc_khz;
};

struct cpuid_result cpuid_policy(const struct cpuid_view *view, uint32_t leaf, uint32_t subleaf);
/* The XCR0 bits that a VM may set on this host; 0: no XSAVE. */
uint64_t cpuid_policy_xcr0(struct cpuid_result (*host)(uint32_t leaf, uint32_t subleaf));
/* The CR4 bits that a VM may set: those of the features that it is shown. */
uint64_t cpuid_policy_cr4(struct cpuid_result (*host)(uint32_t leaf, uint32_t subleaf));
