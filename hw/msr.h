/* SPDX-License-Identifier: BSD-2-Clause */
/* Model-specific registers, control registers and page table bits, by the manuals' names (no C
 * here: assembly includes it). */
#pragma once

#define MSR_TSC                0x00000010
#define MSR_APIC_BASE          0x0000001b
#define MSR_FEATURE_CONTROL    0x0000003a
#define MSR_TSC_ADJUST         0x0000003b
#define MSR_SPEC_CTRL          0x00000048
#define MSR_PRED_CMD           0x00000049
#define MSR_BIOS_UPDATE_ID     0x0000008b
#define MSR_MTRR_CAP           0x000000fe
#define MSR_ARCH_CAPABILITIES  0x0000010a
#define MSR_SYSENTER_CS        0x00000174
#define MSR_SYSENTER_ESP       0x00000175
#define MSR_SYSENTER_EIP       0x00000176
#define MSR_MCG_CAP            0x00000179
#define MSR_MCG_STATUS         0x0000017a
#define MSR_MCG_CTL            0x0000017b
#define MSR_PERF_STATUS        0x00000198
#define MSR_MISC_ENABLE        0x000001a0
#define MSR_DEBUGCTL           0x000001d9
#define MSR_MTRR_PHYS_BASE0    0x00000200
#define MSR_MTRR_FIX_64K       0x00000250
#define MSR_MTRR_FIX_16K_80000 0x00000258
#define MSR_MTRR_FIX_16K_A0000 0x00000259
#define MSR_MTRR_FIX_4K_C0000  0x00000268
#define MSR_PAT                0x00000277
#define MSR_MTRR_DEF_TYPE      0x000002ff
#define MSR_MC0_CTL            0x00000400
#define MSR_TSC_DEADLINE       0x000006e0
#define MSR_X2APIC_BASE        0x00000800
#define MSR_XSS                0x00000da0
#define MSR_EFER               0xc0000080
#define MSR_STAR               0xc0000081
#define MSR_LSTAR              0xc0000082
#define MSR_CSTAR              0xc0000083
#define MSR_SFMASK             0xc0000084
#define MSR_FS_BASE            0xc0000100
#define MSR_GS_BASE            0xc0000101
#define MSR_KERNEL_GS_BASE     0xc0000102
#define MSR_TSC_AUX            0xc0000103
#define MSR_AMD_SYSCFG         0xc0010010
#define MSR_AMD_HWCR           0xc0010015
#define MSR_AMD_PATCH_LEVEL    0x0000008b
#define MSR_AMD_VM_CR          0xc0010114
#define MSR_AMD_VM_HSAVE_PA    0xc0010117

#define APIC_BASE_BSP     (1 << 8)
#define APIC_BASE_X2APIC  (1 << 10)
#define APIC_BASE_ENABLE  (1 << 11)
#define APIC_BASE_ADDRESS 0xffffffffff000

#define EFER_SCE   (1 << 0)
#define EFER_LME   (1 << 8)
#define EFER_LMA   (1 << 10)
#define EFER_NXE   (1 << 11)
#define EFER_SVME  (1 << 12)
#define EFER_LMSLE (1 << 13)
#define EFER_FFXSR (1 << 14)

#define VM_CR_SVMDIS (1 << 4)
#define VM_CR_LOCK   (1 << 3)

/* The PAT as it is after reset: 0 WB, 1 WT, 2 UC-, 3 UC, and again. */
#define PAT_RESET 0x0007040600070406

#define CR0_PE 0x00000001
#define CR0_MP 0x00000002
#define CR0_EM 0x00000004
#define CR0_TS 0x00000008
#define CR0_ET 0x00000010
#define CR0_NE 0x00000020
#define CR0_WP 0x00010000
#define CR0_AM 0x00040000
#define CR0_NW 0x20000000
#define CR0_CD 0x40000000
#define CR0_PG 0x80000000

#define CR4_VME        0x00000001
#define CR4_PVI        0x00000002
#define CR4_TSD        0x00000004
#define CR4_DE         0x00000008
#define CR4_PSE        0x00000010
#define CR4_PAE        0x00000020
#define CR4_MCE        0x00000040
#define CR4_PGE        0x00000080
#define CR4_PCE        0x00000100
#define CR4_OSFXSR     0x00000200
#define CR4_OSXMMEXCPT 0x00000400
#define CR4_UMIP       0x00000800
#define CR4_LA57       0x00001000
#define CR4_VMXE       0x00002000
#define CR4_FSGSBASE   0x00010000
#define CR4_PCIDE      0x00020000
#define CR4_OSXSAVE    0x00040000
#define CR4_SMEP       0x00100000
#define CR4_SMAP       0x00200000
#define CR4_PKE        0x00400000

#define RFLAGS_CF    0x00000001
#define RFLAGS_FIXED 0x00000002
#define DR6_BS       0x00004000 /* single step */
#define RFLAGS_TF    0x00000100
#define RFLAGS_IF    0x00000200
#define RFLAGS_DF    0x00000400
#define RFLAGS_RF    0x00010000
#define RFLAGS_VM    0x00020000
#define RFLAGS_AC    0x00040000

#define PTE_PRESENT  0x001
#define PTE_WRITE    0x002
#define PTE_USER     0x004
#define PTE_PWT      0x008
#define PTE_PCD      0x010
#define PTE_ACCESSED 0x020
#define PTE_DIRTY    0x040
#define PTE_LARGE    0x080 /* in a PDPTE or PDE */
#define PTE_GLOBAL   0x100
#define PTE_NX       0x8000000000000000
#define PTE_ADDRESS  0x000ffffffffff000
