/* SPDX-License-Identifier: BSD-2-Clause */
/* CPUID leaves by which software finds out that it runs on hyp, in which role, and where the shared
 * page is. */
#pragma once

#include "abi/types.h"

#define KEEL_ABI_VERSION 1u

/*
 * Two hypervisor ranges are shown to root and to VMs: KVM's at 40000000h (so that stock systems use
 * its paravirtual parts, as far as 40000001h offers them; none to root) and ours at 40000100h.
 */
#define KEEL_CPUID_KVM_BASE 0x40000000u
#define KEEL_CPUID_BASE     0x40000100u /* eax: highest leaf of ours; ebx, ecx, edx: "KeelKeelKeel" */
#define KEEL_CPUID_INFO                                                                            \
	0x40000101u /* eax: KEEL_ABI_VERSION; ebx: role; root only: edx:ecx = HPA of               \
	               keel_root_shared */

#define KEEL_CPUID_SIGNATURE_EBX 0x6c65654bu /* "Keel" */

#define KEEL_ROLE_ROOT 1u
#define KEEL_ROLE_VM   2u
