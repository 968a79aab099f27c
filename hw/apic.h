/* SPDX-License-Identifier: BSD-2-Clause */
/* Local APIC and IOAPIC registers (SDM vol. 3 ch. 11 "APIC", APM 24593 ch. 16). */
#pragma once

#define APIC_BASE_DEFAULT 0xfee00000ull
#define APIC_PAGE_BYTES   0x1000u

/* Register numbers: the x2APIC MSR is 0x800 + n, the xAPIC offset n << 4. */
#define APIC_REG_ID            0x02u
#define APIC_REG_VERSION       0x03u
#define APIC_REG_TPR           0x08u
#define APIC_REG_APR           0x09u /* xAPIC only */
#define APIC_REG_PPR           0x0au
#define APIC_REG_EOI           0x0bu
#define APIC_REG_RRD           0x0cu /* xAPIC only */
#define APIC_REG_LDR           0x0du
#define APIC_REG_DFR           0x0eu /* xAPIC only */
#define APIC_REG_SVR           0x0fu
#define APIC_REG_ISR           0x10u /* eight registers of 32 bits */
#define APIC_REG_TMR           0x18u
#define APIC_REG_IRR           0x20u
#define APIC_REG_ESR           0x28u
#define APIC_REG_LVT_CMCI      0x2fu
#define APIC_REG_ICR           0x30u /* x2APIC: all 64 bits */
#define APIC_REG_ICR_HIGH      0x31u /* xAPIC only */
#define APIC_REG_LVT_TIMER     0x32u
#define APIC_REG_LVT_THERMAL   0x33u
#define APIC_REG_LVT_PERF      0x34u
#define APIC_REG_LVT_LINT0     0x35u
#define APIC_REG_LVT_LINT1     0x36u
#define APIC_REG_LVT_ERROR     0x37u
#define APIC_REG_TIMER_INITIAL 0x38u
#define APIC_REG_TIMER_CURRENT 0x39u
#define APIC_REG_TIMER_DIVIDE  0x3eu
#define APIC_REG_SELF_IPI      0x3fu /* x2APIC only */

#define APIC_SVR_ENABLE           0x100u
#define APIC_SVR_EOI_NO_BROADCAST 0x1000u

#define APIC_LVT_VECTOR_MASK        0xffu
#define APIC_LVT_PENDING            (1u << 12)
#define APIC_LVT_ACTIVE_LOW         (1u << 13)
#define APIC_LVT_REMOTE_IRR         (1u << 14)
#define APIC_LVT_LEVEL              (1u << 15)
#define APIC_LVT_MASKED             (1u << 16)
#define APIC_LVT_TIMER_PERIODIC     (1u << 17)
#define APIC_LVT_TIMER_TSC_DEADLINE (2u << 17)
#define APIC_TIMER_DIVIDE_BY_1      0xbu

#define APIC_DELIVERY_SHIFT  8u
#define APIC_DELIVERY_FIXED  (0u << 8)
#define APIC_DELIVERY_LOWEST (1u << 8)
#define APIC_DELIVERY_SMI    (2u << 8)
#define APIC_DELIVERY_NMI    (4u << 8)
#define APIC_DELIVERY_INIT   (5u << 8)
#define APIC_DELIVERY_SIPI   (6u << 8)
#define APIC_DELIVERY_EXTINT (7u << 8)
#define APIC_DELIVERY_MASK   (7u << 8)

#define APIC_ICR_LOGICAL        (1u << 11)
#define APIC_ICR_BUSY           (1u << 12) /* xAPIC only */
#define APIC_ICR_ASSERT         (1u << 14)
#define APIC_ICR_LEVEL          (1u << 15)
#define APIC_ICR_SHORTHAND_MASK (3u << 18)
#define APIC_ICR_SELF           (1u << 18)
#define APIC_ICR_ALL            (2u << 18)
#define APIC_ICR_OTHERS         (3u << 18)

#define IOAPIC_BASE_DEFAULT 0xfec00000ull
#define IOAPIC_MMIO_SELECT  0x00u
#define IOAPIC_MMIO_WINDOW  0x10u
#define IOAPIC_REG_ID       0x00u
#define IOAPIC_REG_VERSION  0x01u
#define IOAPIC_REG_ARB      0x02u
#define IOAPIC_REG_REDIRECT 0x10u /* two registers for each pin */
