/* SPDX-License-Identifier: BSD-2-Clause */
/* CPUID by a table of leaves: bits shown of the host's, then a fix-up for what is the VM's own (APM
 * vol 3 24594 appendix E). */

#include "hyp/core/cpuid_policy.h"
#include "abi/cpuid.h"
#include "hyp/dev/platform.h"

#define ALL  0xffffffffu
#define B(n) (1u << (n))

#define L1_ECX_XSAVE B(26)

/* VME, PVI, TSD, DE, PSE, PAE, MCE, PGE, PCE, OSFXSR, OSXMMEXCPT */
#define CR4_ALWAYS   0x7ffull
#define CR4_UMIP     (1ull << 11)
#define CR4_FSGSBASE (1ull << 16)
#define CR4_PCIDE    (1ull << 17)
#define CR4_OSXSAVE  (1ull << 18)
#define CR4_SMEP     (1ull << 20)
#define CR4_SMAP     (1ull << 21)
#define CR4_PKE      (1ull << 22)

/* x87, SSE, AVX, AVX-512, PKRU: what is shown of XCR0. MPX is gone; AMX state is not offered. */
#define XCR0_OFFERED 0x2e7ull
#define XCR0_PKRU    0x200ull
#define XCR0_AVX512  0xe0ull

/* Leaf 1. Not shown: DTES64, MONITOR, DS-CPL, VMX, SMX, EIST, TM2, CNXT-ID, SDBG, xTPR, PDCM,
 * DCA, OSXSAVE (from CR4). */
#define L1_ECX                                                                                     \
	(B(0) | B(1) | B(9) | B(12) | B(13) | B(17) | B(19) | B(20) | B(22) | B(23) | B(25) |      \
	        B(26) | B(28) | B(29) | B(30))
#define L1_ECX_SET (B(21) | B(24) | B(31)) /* x2APIC and TSC deadline are hyp's own; hypervisor */
/* Not shown: PSN, DS, ACPI, SS, HTT (by topology), TM, IA64, PBE. */
#define L1_EDX 0x078bfbffu

/* FSGSBASE, BMI1, AVX2, SMEP, BMI2, ERMS, INVPCID, AVX-512 F DQ IFMA CD BW VL, RDSEED, ADX, SMAP,
 * CLFLUSHOPT, CLWB, SHA, and FPU CS/DS quirks. */
#define L7_EBX                                                                                     \
	(B(0) | B(3) | B(5) | B(6) | B(7) | B(8) | B(9) | B(10) | B(13) | B(16) | B(17) | B(18) |  \
	        B(19) | B(20) | B(21) | B(23) | B(24) | B(28) | B(29) | B(30) | B(31))
#define L7_EBX_SET B(1) /* TSC_ADJUST */
/* AVX-512 VBMI VBMI2 VNNI BITALG VPOPCNTDQ, UMIP, PKU, GFNI, VAES, VPCLMULQDQ, RDPID. No LA57: its
 * longer walks bring a VM nothing. */
#define L7_ECX                                                                                     \
	(B(1) | B(2) | L7_ECX_PKU | B(6) | B(8) | B(9) | B(10) | B(11) | B(12) | B(14) | B(22))
#define L7_ECX_PKU    B(3)
#define L7_EDX        (B(4) | B(14)) /* FSRM, SERIALIZE */
#define L7_AVX512_EBX (B(16) | B(17) | B(21) | B(28) | B(30) | B(31))
#define L7_AVX512_ECX (B(1) | B(6) | B(11) | B(12) | B(14))

/* LAHF, CMP_LEGACY (by topology), AltMovCr8, ABM, SSE4A, misaligned SSE, prefetch, XOP, FMA4, TBM,
 * TOPOEXT. Not: SVM, ExtApic, OSVW, IBS, SKINIT, WDT, LWP, performance counters, MWAITX. */
#define L81_ECX (B(0) | B(4) | B(5) | B(6) | B(7) | B(8) | B(11) | B(16) | B(21) | B(22))
#define L81_EDX 0x2dd3fbffu /* not: FFXSR, 3DNow! and its extensions */

/* CLOCKSOURCE, NOP_IO_DELAY, CLOCKSOURCE2, PV_EOI, PV_SEND_IPI, POLL_CONTROL, MSI_EXT_DEST_ID,
 * stable clock */
#define KVM_FEATURES (B(0) | B(1) | B(3) | B(6) | B(11) | B(12) | B(15) | B(24))

#define MAX_BASIC    0xdu
#define MAX_EXTENDED 0x80000021u

typedef void (*fixup_fn)(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r);

static unsigned topology_shift(const struct cpuid_view *v)
{
	unsigned shift = 0;

	while ((1u << shift) < v->vcpus)
		shift++;
	return shift;
}

static void fix_basic(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)v, (void)leaf, (void)sub;
	r->eax = r->eax >= 0xb && r->eax < MAX_BASIC ? r->eax : MAX_BASIC;
}

static void fix_extended(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)v, (void)leaf, (void)sub;
	if (r->eax > MAX_EXTENDED)
		r->eax = MAX_EXTENDED;
}

static void fix_features(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)leaf, (void)sub;
	r->ebx = (r->ebx & 0xffff) | (v->vcpus << 16) | (v->apic_id << 24);
	r->ecx |= L1_ECX_SET;
	if (r->ecx & L1_ECX_XSAVE && v->cr4 & CR4_OSXSAVE)
		r->ecx |= B(27);
	if (v->vcpus > 1)
		r->edx |= B(28);
	if (!v->apic_on)
		r->edx &= ~B(9);
}

/* Intel's caches: levels 1 and 2 are a vCPU's own, level 3 all share. */
static void fix_caches(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	uint32_t shared = ((r->eax >> 5) & 7) >= 3 ? (1u << topology_shift(v)) - 1 : 0;

	(void)sub;
	if ((r->eax & 0x1f) == 0)
		return;
	r->eax &= 0x3fff;
	r->eax |= shared << 14;
	if (leaf == 4)
		r->eax |= ((1u << topology_shift(v)) - 1) << 26;
}

static void fix_arat(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)v, (void)leaf, (void)sub;
	r->eax = B(2); /* the LAPIC timer runs always */
}

static void fix_structured(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)leaf;
	if (sub == 0) {
		r->eax = r->eax != 0 ? 1 : 0;
		r->ebx |= L7_EBX_SET;
		if ((cpuid_policy_xcr0(v->host) & XCR0_AVX512) != XCR0_AVX512) {
			r->ebx &= ~L7_AVX512_EBX;
			r->ecx &= ~L7_AVX512_ECX;
		}
		if (!(cpuid_policy_xcr0(v->host) & XCR0_PKRU))
			r->ecx &= ~L7_ECX_PKU;
		if (r->ecx & L7_ECX_PKU && v->cr4 & CR4_PKE)
			r->ecx |= B(4);
	} else if (sub == 1) {
		r->eax &= B(4) | B(10) | B(11) | B(12); /* AVX-VNNI, fast short REP */
		r->ebx = r->ecx = r->edx = 0;
	} else {
		*r = (struct cpuid_result){0};
	}
}

/* One thread a core, all cores in one package. */
static void fix_topology(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)leaf;
	*r = (struct cpuid_result){.ecx = sub & 0xff, .edx = v->apic_id};
	if (sub == 0) {
		r->ebx = 1;
		r->ecx |= 1u << 8;
	} else if (sub == 1) {
		r->eax = topology_shift(v);
		r->ebx = v->vcpus;
		r->ecx |= 2u << 8;
	}
}

uint64_t cpuid_policy_xcr0(struct cpuid_result (*host)(uint32_t leaf, uint32_t subleaf))
{
	struct cpuid_result d = host(0xd, 0);
	uint64_t all = (((uint64_t)d.edx << 32) | d.eax) & XCR0_OFFERED;

	if (!(host(1, 0).ecx & L1_ECX_XSAVE))
		return 0;
	if ((all & XCR0_AVX512) != XCR0_AVX512)
		all &= ~XCR0_AVX512;
	return all;
}

uint64_t cpuid_policy_cr4(struct cpuid_result (*host)(uint32_t leaf, uint32_t subleaf))
{
	struct cpuid_result f = host(1, 0), s = host(7, 0);
	uint32_t f_ecx = f.ecx & L1_ECX, s_ebx = s.ebx & L7_EBX, s_ecx = s.ecx & L7_ECX;

	return CR4_ALWAYS | (f_ecx & B(17) ? CR4_PCIDE : 0) | (f_ecx & B(26) ? CR4_OSXSAVE : 0) |
	       (s_ebx & B(0) ? CR4_FSGSBASE : 0) | (s_ebx & B(7) ? CR4_SMEP : 0) |
	       (s_ebx & B(20) ? CR4_SMAP : 0) | (s_ecx & B(2) ? CR4_UMIP : 0) |
	       (s_ecx & L7_ECX_PKU && cpuid_policy_xcr0(host) & XCR0_PKRU ? CR4_PKE : 0);
}

/* Bytes of an XSAVE area for these components; compacted: as XSAVEC lays it out. */
static uint32_t xsave_bytes(const struct cpuid_view *v, uint64_t components, bool compacted)
{
	uint32_t bytes = 512 + 64;

	for (unsigned i = 2; i < 63; i++) {
		struct cpuid_result c;

		if (!(components >> i & 1))
			continue;
		c = v->host(0xd, i);
		if (compacted)
			bytes = (c.ecx & 2 ? (bytes + 63) & ~63u : bytes) + c.eax;
		else if (c.ebx + c.eax > bytes)
			bytes = c.ebx + c.eax;
	}
	return bytes;
}

static void fix_xsave(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	uint64_t all = cpuid_policy_xcr0(v->host);

	(void)leaf;
	if (all == 0 || (sub >= 2 && (sub > 62 || !(all >> sub & 1)))) {
		*r = (struct cpuid_result){0};
	} else if (sub == 0) {
		r->eax = (uint32_t)all;
		r->edx = (uint32_t)(all >> 32);
		r->ebx = xsave_bytes(v, v->xcr0 & all, false);
		r->ecx = xsave_bytes(v, all, false);
	} else if (sub == 1) {
		r->eax &= B(0) | B(1) | B(2); /* XSAVEOPT, XSAVEC, XGETBV 1; no supervisor state */
		r->ebx = r->eax & B(1) ? xsave_bytes(v, v->xcr0 & all, true) : 0;
		r->ecx = r->edx = 0;
	} else {
		r->ecx &= 2;
		r->edx = 0;
	}
}

static void fix_kvm(const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)sub;
	if (leaf == KEEL_CPUID_KVM_BASE)
		*r = (struct cpuid_result){
		        KEEL_CPUID_KVM_BASE + 0x10, 0x4b4d564b, 0x564b4d56, 0x4d};
	else if (leaf == KEEL_CPUID_KVM_BASE + 1)
		*r = (struct cpuid_result){KVM_FEATURES, 0, 0, v->pinned ? B(0) : 0};
	else /* 40000010h: TSC and LAPIC timer rate in kHz */
		*r = (struct cpuid_result){v->tsc_khz, PLATFORM_LAPIC_TIMER_HZ / 1000, 0, 0};
}

static void fix_keel(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)v, (void)sub;
	if (leaf == KEEL_CPUID_BASE)
		*r = (struct cpuid_result){KEEL_CPUID_INFO, KEEL_CPUID_SIGNATURE_EBX,
		        KEEL_CPUID_SIGNATURE_EBX, KEEL_CPUID_SIGNATURE_EBX};
	else
		*r = (struct cpuid_result){KEEL_ABI_VERSION, KEEL_ROLE_VM, 0, 0};
}

static void fix_amd_features(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)leaf, (void)sub;
	if (v->vcpus > 1 && v->host(0x80000001, 0).ecx & B(1))
		r->ecx |= B(1);
	if (v->host(0x80000000, 0).eax < 0x8000001e)
		r->ecx &= ~B(22);
	if (!v->apic_on)
		r->edx &= ~B(9);
}

/* Invariant TSC, whatever the host says of its own: all of hyp's clocks stand on it, so a VM may as
 * well. */
static void fix_power(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)v, (void)leaf, (void)sub;
	r->edx = B(8);
}

static void fix_sizes(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	uint32_t bits = r->eax & 0xff;

	(void)leaf, (void)sub;
	r->eax = (bits < v->phys_bits ? bits : v->phys_bits) | 48u << 8;
	r->ecx = (v->vcpus - 1) | topology_shift(v) << 12;
}

static void fix_amd_topology(
        const struct cpuid_view *v, uint32_t leaf, uint32_t sub, struct cpuid_result *r)
{
	(void)leaf, (void)sub;
	*r = (struct cpuid_result){v->apic_id, v->apic_id & 0xff, 0, 0};
}

struct cpuid_leaf {
	uint32_t first, last;
	uint32_t eax, ebx, ecx, edx; /* what is shown of the host's */
	fixup_fn fixup;
};

/* Sorted; a leaf that is not here reads as 0. */
static const struct cpuid_leaf leaves[] = {
        {0x0, 0x0, ALL, ALL, ALL, ALL, fix_basic},
        {0x1, 0x1, ALL, 0xffff, L1_ECX, L1_EDX, fix_features},
        {0x2, 0x2, ALL, ALL, ALL, ALL, NULL},
        {0x4, 0x4, ALL, ALL, ALL, ALL, fix_caches},
        {0x6, 0x6, 0, 0, 0, 0, fix_arat},
        {0x7, 0x7, ALL, L7_EBX, L7_ECX, L7_EDX, fix_structured},
        {0xb, 0xb, 0, 0, 0, 0, fix_topology},
        {0xd, 0xd, ALL, ALL, ALL, ALL, fix_xsave},
        {KEEL_CPUID_KVM_BASE, KEEL_CPUID_KVM_BASE + 1, 0, 0, 0, 0, fix_kvm},
        {KEEL_CPUID_KVM_BASE + 0x10, KEEL_CPUID_KVM_BASE + 0x10, 0, 0, 0, 0, fix_kvm},
        {KEEL_CPUID_BASE, KEEL_CPUID_INFO, 0, 0, 0, 0, fix_keel},
        {0x80000000, 0x80000000, ALL, ALL, ALL, ALL, fix_extended},
        {0x80000001, 0x80000001, ALL, ALL, L81_ECX, L81_EDX, fix_amd_features},
        {0x80000002, 0x80000006, ALL, ALL, ALL, ALL, NULL},
        {0x80000007, 0x80000007, 0, 0, 0, 0, fix_power},
        {0x80000008, 0x80000008, ALL, B(0) | B(2) | B(9), 0, 0, fix_sizes},
        {0x80000019, 0x80000019, ALL, ALL, 0, 0, NULL},
        {0x8000001a, 0x8000001a, ALL, 0, 0, 0, NULL},
        {0x8000001d, 0x8000001d, ALL, ALL, ALL, ALL, fix_caches},
        {0x8000001e, 0x8000001e, 0, 0, 0, 0, fix_amd_topology},
        {0x80000021, 0x80000021, B(2) | B(6), 0, 0, 0, NULL},
};
#define LEAVES (sizeof(leaves) / sizeof(leaves[0]))

struct cpuid_result cpuid_policy(const struct cpuid_view *view, uint32_t leaf, uint32_t subleaf)
{
	struct cpuid_result r = {0};

	for (size_t i = 0; i < LEAVES; i++) {
		const struct cpuid_leaf *l = &leaves[i];

		if (leaf < l->first || leaf > l->last)
			continue;
		r = view->host(leaf, subleaf);
		r.eax &= l->eax;
		r.ebx &= l->ebx;
		r.ecx &= l->ecx;
		r.edx &= l->edx;
		if (l->fixup != NULL)
			l->fixup(view, leaf, subleaf, &r);
		break;
	}
	return r;
}
