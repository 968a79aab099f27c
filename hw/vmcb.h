/* SPDX-License-Identifier: BSD-2-Clause */
/* AMD's virtual machine control block and the SVM MSRs, exit codes and bits (APM vol 2, 24593
 * r3.42, appendix B and C). */
#pragma once

#include "abi/types.h"

/* Intercept words, VMCB offsets 000h-017h. Bit = word * 32 + n. */
#define VMCB_I_CR_READ(n)   (0 + (n))
#define VMCB_I_CR_WRITE(n)  (16 + (n))
#define VMCB_I_DR_READ(n)   (32 + (n))
#define VMCB_I_DR_WRITE(n)  (48 + (n))
#define VMCB_I_EXCEPTION(n) (64 + (n))
#define VMCB_I_INTR         96
#define VMCB_I_NMI          97
#define VMCB_I_SMI          98
#define VMCB_I_INIT         99
#define VMCB_I_VINTR        100
#define VMCB_I_CR0_SEL      101
#define VMCB_I_RDPMC        111
#define VMCB_I_CPUID        114
#define VMCB_I_IRET         116
#define VMCB_I_INVD         118
#define VMCB_I_PAUSE        119
#define VMCB_I_HLT          120
#define VMCB_I_INVLPGA      122
#define VMCB_I_IOIO         123
#define VMCB_I_MSR          124
#define VMCB_I_TASK_SWITCH  125
#define VMCB_I_FERR         126
#define VMCB_I_SHUTDOWN     127
#define VMCB_I_VMRUN        128
#define VMCB_I_VMMCALL      129
#define VMCB_I_VMLOAD       130
#define VMCB_I_VMSAVE       131
#define VMCB_I_STGI         132
#define VMCB_I_CLGI         133
#define VMCB_I_SKINIT       134
#define VMCB_I_RDTSCP       135
#define VMCB_I_WBINVD       137
#define VMCB_I_MONITOR      138
#define VMCB_I_MWAIT        139
#define VMCB_I_XSETBV       141
#define VMCB_I_RDPRU        142

struct vmcb_segment {
	uint16_t selector;
	uint16_t attr; /* descriptor bits 40-47 in 0-7, 52-55 in 8-11 */
	uint32_t limit;
	uint64_t base;
};
KEEL_ASSERT_SIZE(struct vmcb_segment, 16);

/* vintr word, offset 060h */
#define VMCB_V_TPR_MASK     0xffull
#define VMCB_V_IRQ          (1ull << 8)
#define VMCB_V_PRIO_SHIFT   16
#define VMCB_V_IGN_TPR      (1ull << 20)
#define VMCB_V_INTR_MASKING (1ull << 24)
#define VMCB_V_VECTOR_SHIFT 32

/* event injection and exit interrupt information, §15.20 */
#define VMCB_EVENT_VECTOR(e)  ((uint8_t)(e))
#define VMCB_EVENT_TYPE(e)    ((unsigned)((e) >> 8) & 7u)
#define VMCB_EVENT_TYPE_SHIFT 8
#define VMCB_EVENT_ERROR      (1ull << 11)
#define VMCB_EVENT_VALID      (1ull << 31)
#define VMCB_EVENT_CODE(e)    ((uint32_t)((e) >> 32))

#define VMCB_TLB_NOTHING    0u
#define VMCB_TLB_FLUSH_ALL  1u
#define VMCB_TLB_FLUSH_ASID 3u

#define VMCB_NP_ENABLE 1ull

struct vmcb {
	uint32_t intercepts[6]; /* 000h */
	uint8_t reserved1[0x3c - 0x18];
	uint16_t pause_threshold; /* 03Ch */
	uint16_t pause_count;
	uint64_t iopm_base;  /* 040h */
	uint64_t msrpm_base; /* 048h */
	uint64_t tsc_offset; /* 050h */
	uint32_t asid;       /* 058h */
	uint8_t tlb_control; /* 05Ch */
	uint8_t reserved2[3];
	uint64_t vintr;         /* 060h */
	uint64_t shadow;        /* 068h: bit 0 interrupt shadow */
	uint64_t exit_code;     /* 070h */
	uint64_t exit_info1;    /* 078h */
	uint64_t exit_info2;    /* 080h */
	uint64_t exit_int_info; /* 088h */
	uint64_t np_control;    /* 090h */
	uint64_t avic_bar;      /* 098h */
	uint64_t ghcb;          /* 0A0h */
	uint64_t event_inject;  /* 0A8h */
	uint64_t n_cr3;         /* 0B0h */
	uint64_t virt_ext;      /* 0B8h */
	uint32_t clean;         /* 0C0h */
	uint32_t reserved3;
	uint64_t next_rip; /* 0C8h */
	uint8_t fetched;   /* 0D0h */
	uint8_t fetched_bytes[15];
	uint8_t reserved4[0x400 - 0xe0];
	/* state save area, 400h */
	struct vmcb_segment es, cs, ss, ds, fs, gs, gdtr, ldtr, idtr, tr; /* 400h */
	uint8_t reserved5[0x4cb - 0x4a0];
	uint8_t cpl; /* 4CBh */
	uint32_t reserved6;
	uint64_t efer; /* 4D0h */
	uint8_t reserved7[0x548 - 0x4d8];
	uint64_t cr4;    /* 548h */
	uint64_t cr3;    /* 550h */
	uint64_t cr0;    /* 558h */
	uint64_t dr7;    /* 560h */
	uint64_t dr6;    /* 568h */
	uint64_t rflags; /* 570h */
	uint64_t rip;    /* 578h */
	uint8_t reserved8[0x5d8 - 0x580];
	uint64_t rsp; /* 5D8h */
	uint8_t reserved9[0x5f8 - 0x5e0];
	uint64_t rax;            /* 5F8h */
	uint64_t star;           /* 600h */
	uint64_t lstar;          /* 608h */
	uint64_t cstar;          /* 610h */
	uint64_t sfmask;         /* 618h */
	uint64_t kernel_gs_base; /* 620h */
	uint64_t sysenter_cs;    /* 628h */
	uint64_t sysenter_esp;   /* 630h */
	uint64_t sysenter_eip;   /* 638h */
	uint64_t cr2;            /* 640h */
	uint8_t reserved10[0x668 - 0x648];
	uint64_t g_pat;          /* 668h */
	uint64_t dbgctl;         /* 670h */
	uint64_t br_from;        /* 678h */
	uint64_t br_to;          /* 680h */
	uint64_t last_excp_from; /* 688h */
	uint64_t last_excp_to;   /* 690h */
	uint8_t reserved11[0x1000 - 0x698];
};
KEEL_ASSERT_SIZE(struct vmcb, 4096);
KEEL_ASSERT_OFFSET(struct vmcb, pause_threshold, 0x3c);
KEEL_ASSERT_OFFSET(struct vmcb, iopm_base, 0x40);
KEEL_ASSERT_OFFSET(struct vmcb, msrpm_base, 0x48);
KEEL_ASSERT_OFFSET(struct vmcb, tsc_offset, 0x50);
KEEL_ASSERT_OFFSET(struct vmcb, asid, 0x58);
KEEL_ASSERT_OFFSET(struct vmcb, tlb_control, 0x5c);
KEEL_ASSERT_OFFSET(struct vmcb, vintr, 0x60);
KEEL_ASSERT_OFFSET(struct vmcb, shadow, 0x68);
KEEL_ASSERT_OFFSET(struct vmcb, exit_code, 0x70);
KEEL_ASSERT_OFFSET(struct vmcb, exit_info1, 0x78);
KEEL_ASSERT_OFFSET(struct vmcb, exit_info2, 0x80);
KEEL_ASSERT_OFFSET(struct vmcb, exit_int_info, 0x88);
KEEL_ASSERT_OFFSET(struct vmcb, np_control, 0x90);
KEEL_ASSERT_OFFSET(struct vmcb, event_inject, 0xa8);
KEEL_ASSERT_OFFSET(struct vmcb, n_cr3, 0xb0);
KEEL_ASSERT_OFFSET(struct vmcb, virt_ext, 0xb8);
KEEL_ASSERT_OFFSET(struct vmcb, clean, 0xc0);
KEEL_ASSERT_OFFSET(struct vmcb, next_rip, 0xc8);
KEEL_ASSERT_OFFSET(struct vmcb, fetched, 0xd0);
KEEL_ASSERT_OFFSET(struct vmcb, es, 0x400);
KEEL_ASSERT_OFFSET(struct vmcb, gdtr, 0x460);
KEEL_ASSERT_OFFSET(struct vmcb, ldtr, 0x470);
KEEL_ASSERT_OFFSET(struct vmcb, idtr, 0x480);
KEEL_ASSERT_OFFSET(struct vmcb, tr, 0x490);
KEEL_ASSERT_OFFSET(struct vmcb, cpl, 0x4cb);
KEEL_ASSERT_OFFSET(struct vmcb, efer, 0x4d0);
KEEL_ASSERT_OFFSET(struct vmcb, cr4, 0x548);
KEEL_ASSERT_OFFSET(struct vmcb, dr7, 0x560);
KEEL_ASSERT_OFFSET(struct vmcb, rflags, 0x570);
KEEL_ASSERT_OFFSET(struct vmcb, rip, 0x578);
KEEL_ASSERT_OFFSET(struct vmcb, rsp, 0x5d8);
KEEL_ASSERT_OFFSET(struct vmcb, rax, 0x5f8);
KEEL_ASSERT_OFFSET(struct vmcb, star, 0x600);
KEEL_ASSERT_OFFSET(struct vmcb, kernel_gs_base, 0x620);
KEEL_ASSERT_OFFSET(struct vmcb, cr2, 0x640);
KEEL_ASSERT_OFFSET(struct vmcb, g_pat, 0x668);
KEEL_ASSERT_OFFSET(struct vmcb, dbgctl, 0x670);

/* Exit codes, appendix C */
#define SVM_EXIT_CR_READ     0x000u
#define SVM_EXIT_CR_WRITE    0x010u
#define SVM_EXIT_DR_READ     0x020u
#define SVM_EXIT_DR_WRITE    0x030u
#define SVM_EXIT_EXCEPTION   0x040u
#define SVM_EXIT_INTR        0x060u
#define SVM_EXIT_NMI         0x061u
#define SVM_EXIT_SMI         0x062u
#define SVM_EXIT_INIT        0x063u
#define SVM_EXIT_VINTR       0x064u
#define SVM_EXIT_CR0_SEL     0x065u
#define SVM_EXIT_RDPMC       0x06fu
#define SVM_EXIT_CPUID       0x072u
#define SVM_EXIT_IRET        0x074u
#define SVM_EXIT_INVD        0x076u
#define SVM_EXIT_PAUSE       0x077u
#define SVM_EXIT_HLT         0x078u
#define SVM_EXIT_INVLPGA     0x07au
#define SVM_EXIT_IOIO        0x07bu
#define SVM_EXIT_MSR         0x07cu
#define SVM_EXIT_TASK_SWITCH 0x07du
#define SVM_EXIT_SHUTDOWN    0x07fu
#define SVM_EXIT_VMRUN       0x080u
#define SVM_EXIT_VMMCALL     0x081u
#define SVM_EXIT_VMLOAD      0x082u
#define SVM_EXIT_VMSAVE      0x083u
#define SVM_EXIT_STGI        0x084u
#define SVM_EXIT_CLGI        0x085u
#define SVM_EXIT_SKINIT      0x086u
#define SVM_EXIT_WBINVD      0x089u
#define SVM_EXIT_MONITOR     0x08au
#define SVM_EXIT_MWAIT       0x08bu
#define SVM_EXIT_MWAIT_COND  0x08cu
#define SVM_EXIT_XSETBV      0x08du
#define SVM_EXIT_NPF         0x400u
#define SVM_EXIT_INVALID     0xffffffffu /* low half: the emulator zero-extends 32 bits */

/* exit_info1 of IOIO, §15.10.2 */
#define SVM_IOIO_IN      (1u << 0)
#define SVM_IOIO_STRING  (1u << 2)
#define SVM_IOIO_REP     (1u << 3)
#define SVM_IOIO_SIZE(i) (((i) >> 4) & 7u)
#define SVM_IOIO_ADDR16  (1u << 7)
#define SVM_IOIO_ADDR32  (1u << 8)
#define SVM_IOIO_SEG(i)  (((i) >> 10) & 7u)

/* exit_info1 of NPF, §15.25.6 */
#define SVM_NPF_PRESENT    (1ull << 0)
#define SVM_NPF_WRITE      (1ull << 1)
#define SVM_NPF_FETCH      (1ull << 4)
#define SVM_NPF_TABLE_WALK (1ull << 33)

/* CPUID Fn8000_000A_EDX */
#define SVM_FEATURE_NP             (1u << 0)
#define SVM_FEATURE_NRIP           (1u << 3)
#define SVM_FEATURE_FLUSH_BY_ASID  (1u << 6)
#define SVM_FEATURE_DECODE_ASSISTS (1u << 7)
#define SVM_FEATURE_PAUSE_FILTER   (5u << 10) /* bit 10, and bit 12: its threshold */

#define MSR_VM_CR_SVMDIS (1ull << 4)
