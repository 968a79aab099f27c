/* SPDX-License-Identifier: BSD-2-Clause */
/* The MSRs that Linux, FreeBSD and firmware touch on an AMD or Intel CPU without vPMU, SMM or
 * nested virtualization. */

#include "hyp/core/msr_policy.h"

#define KEEP(a, b, at, init, bits)                                                                 \
	{                                                                                          \
		.first = (a), .last = (b), .action = MSR_KEEP, .index = (at), .value = (init),     \
		.mask = (bits)                                                                     \
	}
#define FIXED(a, v)                                                                                \
	{                                                                                          \
		.first = (a), .last = (a), .action = MSR_FIXED, .value = (v)                       \
	}
#define DULL(a, b, v)                                                                              \
	{                                                                                          \
		.first = (a), .last = (b), .action = MSR_DULL, .value = (v)                        \
	}
#define REG(a, reg, how, bits)                                                                     \
	{                                                                                          \
		.first = (a), .last = (a), .action = MSR_REG, .check = (how), .index = (reg),      \
		.mask = (bits)                                                                     \
	}
#define PLATFORM(a, b)                                                                             \
	{                                                                                          \
		.first = (a), .last = (b), .action = MSR_PLATFORM                                  \
	}
#define SPECIAL(a, what)                                                                           \
	{                                                                                          \
		.first = (a), .last = (a), .action = MSR_SPECIAL, .index = (what)                  \
	}
#define MTRR(a, at, init, bits)                                                                    \
	{                                                                                          \
		.first = (a), .last = (a), .action = MSR_KEEP, .check = MSR_CHECK_MTRR,            \
		.index = (at), .value = (init), .mask = (bits)                                     \
	}
#define ANY UINT64_MAX

/* Sorted by address. Numbers: APM vol 2 24593 appendix A, SDM vol 4 chapter 2, Linux'
 * kvm/x86/msr.rst. */
static const struct msr_rule rules[] = {
        SPECIAL(0x10, MSR_SPECIAL_TSC), SPECIAL(0x11, MSR_SPECIAL_KVM_WALL),
        SPECIAL(0x12, MSR_SPECIAL_KVM_SYSTEM_TIME), FIXED(0x17, 0), /* platform id */
        PLATFORM(0x1b, 0x1b),                                       /* APIC base */
        DULL(0x2a, 0x2a, 0),                                        /* power-on configuration */
        SPECIAL(0x3b, MSR_SPECIAL_TSC_ADJUST),
        DULL(0x79, 0x79, 0),          /* microcode update: taken, without effect */
        DULL(0x8b, 0x8b, 0x01000065), /* microcode revision */
        FIXED(0xfe, 0x508),           /* MTRR capabilities: 8 ranges, fixed ones, WC */
        REG(0x174, CPU_SYSENTER_CS, MSR_CHECK_NONE, 0xffffffff),
        REG(0x175, CPU_SYSENTER_ESP, MSR_CHECK_CANONICAL, ANY),
        REG(0x176, CPU_SYSENTER_EIP, MSR_CHECK_CANONICAL, ANY),
        FIXED(0x179, 0),               /* machine check: no banks */
        KEEP(0x17a, 0x17a, 0, 0, 0x7), /* MCG_STATUS */
        DULL(0x17b, 0x17b, 0),         /* MCG_CTL */
        DULL(0x186, 0x189, 0),         /* performance event selects: none count */
        DULL(0x198, 0x198, 0),         /* performance status */
        KEEP(0x1a0, 0x1a0, 1, 0x1801, 0x0000000400c51809ull), /* MISC_ENABLE */
        DULL(0x1d9, 0x1d9,
                0), /* DEBUGCTL: branch records and single-step on branches not offered */
        DULL(0x1db, 0x1de, 0),                        /* last branch and exception addresses */
        KEEP(0x200, 0x20f, 2, 0, 0x000ffffffffff8ff), /* variable MTRRs: base or mask */
        KEEP(0x250, 0x250, 18, 0, ANY),               /* fixed MTRRs */
        KEEP(0x258, 0x259, 19, 0, ANY), KEEP(0x268, 0x26f, 21, 0, ANY),
        REG(0x277, CPU_PAT, MSR_CHECK_PAT, ANY),
        /* MTRR default type: on, write-back, as firmware leaves it (a VM started without one has
         * none to do it, and Linux takes PAT for off without). */
        MTRR(0x2ff, 29, 0x806, 0xcff), SPECIAL(0x6e0, MSR_SPECIAL_TSC_DEADLINE),
        PLATFORM(0x800, 0x8ff), /* x2APIC */
        SPECIAL(0x4b564d00, MSR_SPECIAL_KVM_WALL), SPECIAL(0x4b564d01, MSR_SPECIAL_KVM_SYSTEM_TIME),
        SPECIAL(0x4b564d04, MSR_SPECIAL_KVM_PV_EOI),
        KEEP(0x4b564d05, 0x4b564d05, 30, 1,
                0x1), /* POLL_CONTROL: the guest polls, so hyp need not */
        SPECIAL(0xc0000080, MSR_SPECIAL_EFER), REG(0xc0000081, CPU_STAR, MSR_CHECK_NONE, ANY),
        REG(0xc0000082, CPU_LSTAR, MSR_CHECK_CANONICAL, ANY),
        REG(0xc0000083, CPU_CSTAR, MSR_CHECK_CANONICAL, ANY),
        REG(0xc0000084, CPU_SFMASK, MSR_CHECK_NONE, 0xffffffff),
        REG(0xc0000100, CPU_FS_BASE, MSR_CHECK_CANONICAL, ANY),
        REG(0xc0000101, CPU_GS_BASE, MSR_CHECK_CANONICAL, ANY),
        REG(0xc0000102, CPU_KERNEL_GS_BASE, MSR_CHECK_CANONICAL, ANY),
        REG(0xc0000103, CPU_TSC_AUX, MSR_CHECK_NONE, 0xffffffff),
        DULL(0xc0010000, 0xc0010007, 0), /* K7 performance events */
        DULL(0xc0010010, 0xc0010010, 0), /* SYSCFG: no memory encryption, no TOM2 */
        KEEP(0xc0010015, 0xc0010015, 31, 1ull << 24,
                0x1040048ull | 1ull << 24), /* HWCR, TSC at P0 */
        DULL(0xc001001a, 0xc001001a, 0),    /* TOP_MEM */
        DULL(0xc001001d, 0xc001001d, 0),    /* TOP_MEM2 */
        DULL(0xc001001f, 0xc001001f, 0),    /* NB_CFG */
        DULL(0xc0010020, 0xc0010020, 0),    /* microcode loader */
        DULL(0xc0010055, 0xc0010055, 0),    /* INT_PENDING: no C1E */
        DULL(0xc0010058, 0xc0010058, 0),    /* MMIO configuration base: told by ACPI */
        DULL(0xc0010061, 0xc0010064, 0),    /* P-state limit, control, status, P0 */
        FIXED(0xc0010114, 0x18),            /* VM_CR: SVM disabled and locked */
        DULL(0xc0010140, 0xc0010141, 0),    /* OS visible workarounds */
        DULL(0xc0010200, 0xc001020b, 0),    /* performance events, family 15h on */
        DULL(0xc0011020, 0xc0011028, 0), /* LS_CFG, IC_CFG, DC_CFG, BU_CFG, FP_CFG and their like */
        DULL(0xc0011029, 0xc0011029, 2), /* DE_CFG: LFENCE serializes */
        DULL(0xc001102a, 0xc001102d, 0), /* BU_CFG2, CU_CFG2, LS_CFG2 … */
};
#define RULES (sizeof(rules) / sizeof(rules[0]))

const struct msr_rule *msr_policy_find(uint32_t msr)
{
	size_t low = 0, high = RULES;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (msr > rules[middle].last)
			low = middle + 1;
		else if (msr < rules[middle].first)
			high = middle;
		else
			return &rules[middle];
	}
	return NULL;
}

static bool is_canonical(uint64_t value)
{
	return (uint64_t)((int64_t)(value << 16) >> 16) == value;
}

static bool is_memory_type(uint64_t type, bool pat)
{
	return type <= (pat ? 7u : 6u) && type != 2 && type != 3;
}

bool msr_policy_is_legal(const struct msr_rule *rule, uint64_t value)
{
	if (value & ~rule->mask)
		return false;
	switch (rule->check) {
	case MSR_CHECK_NONE: return true;
	case MSR_CHECK_CANONICAL: return is_canonical(value);
	case MSR_CHECK_PAT:
		for (unsigned i = 0; i < 8; i++)
			if (!is_memory_type((value >> (i * 8)) & 0xff, true))
				return false;
		return true;
	case MSR_CHECK_MTRR: return is_memory_type(value & 0xff, false);
	}
	return false;
}

void msr_policy_reset(uint64_t stores[MSR_STORES])
{
	for (size_t i = 0; i < RULES; i++)
		if (rules[i].action == MSR_KEEP)
			for (uint32_t m = rules[i].first; m <= rules[i].last; m++)
				stores[rules[i].index + (m - rules[i].first)] = rules[i].value;
}
