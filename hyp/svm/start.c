/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds out what the CPU's SVM offers and turns it on (APM 24593 §15.4, §15.30). */

#include "hyp/svm/svm.h"
#include "hw/msr.h"
#include "hyp/x86/arena.h"
#include "hyp/x86/x86.h"

uint32_t svm_features;
uint32_t svm_asids;
bool svm_has_1g, svm_has_xsave, svm_has_tsc_aux, svm_has_ibpb;
uint64_t svm_xcr0_all;
uint32_t svm_xsave_bytes;

static uint8_t host_save[CPU_MAX][PAGE_BYTES] __attribute__((aligned(4096)));

#define CPUID_1_ECX_XSAVE         (1u << 26)
#define CPUID_7_ECX_PKU           (1u << 3)
#define CPUID_80000001_ECX_SVM    (1u << 2)
#define CPUID_80000001_EDX_1G     (1u << 26)
#define CPUID_80000001_EDX_RDTSCP (1u << 27)
#define CPUID_80000008_EBX_IBPB   (1u << 12)

/* "TCGTCGTCGTCG" in the leaf where a hypervisor says its name. */
static bool is_tcg(void)
{
	struct cpuid_result name = cpuid(0x40000000, 0);

	return name.ebx == 0x54474354 && name.ecx == 0x43544743 && name.edx == 0x47435447;
}

static void probe_xsave(void)
{
	struct cpuid_result d;

	svm_has_xsave = cpuid(1, 0).ecx & CPUID_1_ECX_XSAVE;
	svm_xsave_bytes = 512 + 64;
	if (!svm_has_xsave)
		return;
	d = cpuid(0xd, 0);
	svm_xcr0_all = ((uint64_t)d.edx << 32) | d.eax;
	svm_xsave_bytes = d.ecx;
}

const char *cpu_probe(void)
{
	if (cpuid(0x80000000, 0).eax < 0x8000000a ||
	        !(cpuid(0x80000001, 0).ecx & CPUID_80000001_ECX_SVM))
		return "this CPU has no SVM (CPUID 80000001h ECX bit 2): keelOS needs an AMD CPU "
		       "with SVM";
	if (msr_read(MSR_AMD_VM_CR) & MSR_VM_CR_SVMDIS)
		return "SVM is turned off by the firmware (VM_CR.SVMDIS): turn it on in its set-up";
	svm_features = cpuid(0x8000000a, 0).edx;
	svm_asids = cpuid(0x8000000a, 0).ebx;
	if (!(svm_features & SVM_FEATURE_NP))
		return "this CPU's SVM has no nested paging (CPUID 8000000Ah EDX bit 0)";
	if (svm_asids < 3)
		return "this CPU's SVM has fewer than three ASIDs (CPUID 8000000Ah EBX)";
	svm_has_1g = cpuid(0x80000001, 0).edx & CPUID_80000001_EDX_1G;
	svm_has_tsc_aux = cpuid(0x80000001, 0).edx & CPUID_80000001_EDX_RDTSCP;
	svm_has_ibpb = cpuid(0x80000008, 0).ebx & CPUID_80000008_EBX_IBPB;
	cpu_loses_events = is_tcg();
	probe_xsave();
	return NULL;
}

void cpu_start(void)
{
	uint8_t *save = host_save[percpu()->index];
	uint64_t cr4;

	msr_write(MSR_EFER, msr_read(MSR_EFER) | EFER_SVME);
	percpu()->vendor = save;
	percpu()->vendor_hpa = virt_to_hpa(save);
	msr_write(MSR_AMD_VM_HSAVE_PA, percpu()->vendor_hpa.value);
	cpu_has_gif = true;
	__asm__ volatile("clgi");
	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	cr4 |= CR4_OSFXSR | CR4_OSXMMEXCPT | (svm_has_xsave ? CR4_OSXSAVE : 0) |
	       (cpuid(7, 0).ecx & CPUID_7_ECX_PKU ? CR4_PKE : 0);
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4));
}
