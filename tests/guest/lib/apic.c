/* SPDX-License-Identifier: BSD-2-Clause */
/* LAPIC in both modes, IOAPIC, 8259. */

#include "tests/guest/lib/guest.h"

#define APIC_PAGE   0xfee00000ull
#define IOAPIC_PAGE 0xfec00000ull
#define X2_MSR(reg) (0x800u + ((reg) >> 4))
#define BASE_ON     (1u << 11)
#define BASE_X2     (1u << 10)
#define ICR_PENDING (1u << 12)

bool apic_is_x2(void)
{
	return rdmsr(APIC_BASE_MSR) & BASE_X2;
}

void apic_enable(bool x2apic)
{
	uint64_t base = rdmsr(APIC_BASE_MSR);

	/* From x2APIC mode only off is a way out (SDM vol 3 §10.12.5). */
	if (base & BASE_X2 && !x2apic)
		wrmsr(APIC_BASE_MSR, base & ~(uint64_t)(BASE_ON | BASE_X2));
	wrmsr(APIC_BASE_MSR, (base & ~(uint64_t)BASE_X2) | BASE_ON | (x2apic ? BASE_X2 : 0));
	apic_write(APIC_TPR, 0);
	apic_write(APIC_SVR, 0x1ff);
}

uint32_t apic_read(unsigned reg)
{
	return apic_is_x2() ? (uint32_t)rdmsr(X2_MSR(reg)) : mmio_read(APIC_PAGE + reg);
}

void apic_write(unsigned reg, uint32_t v)
{
	if (apic_is_x2())
		wrmsr(X2_MSR(reg), v);
	else
		mmio_write(APIC_PAGE + reg, v);
}

void apic_eoi(void)
{
	apic_write(APIC_EOI, 0);
}

void apic_ipi(uint32_t dest, uint32_t icr)
{
	if (apic_is_x2()) {
		wrmsr(X2_MSR(APIC_ICR), (uint64_t)dest << 32 | icr);
		return;
	}
	mmio_write(APIC_PAGE + APIC_ICR2, dest << 24);
	mmio_write(APIC_PAGE + APIC_ICR, icr);
	while (mmio_read(APIC_PAGE + APIC_ICR) & ICR_PENDING)
		pause();
}

bool apic_bit(unsigned base, unsigned vector)
{
	return apic_read(base + vector / 32 * 16) >> (vector % 32) & 1;
}

void handler_eoi(struct frame *f)
{
	(void)f;
	apic_eoi();
}

void ioapic_write(unsigned reg, uint32_t v)
{
	mmio_write(IOAPIC_PAGE, reg);
	mmio_write(IOAPIC_PAGE + 0x10, v);
}

uint32_t ioapic_read(unsigned reg)
{
	mmio_write(IOAPIC_PAGE, reg);
	return mmio_read(IOAPIC_PAGE + 0x10);
}

void ioapic_route(unsigned pin, uint32_t low, uint32_t dest)
{
	ioapic_write(0x10 + pin * 2, IOAPIC_MASKED);
	ioapic_write(0x11 + pin * 2, dest << 24);
	ioapic_write(0x10 + pin * 2, low);
}

void pic_init(uint8_t base)
{
	outb(0x20, 0x11);
	outb(0x21, base);
	outb(0x21, 4);
	outb(0x21, 1);
	outb(0xa0, 0x11);
	outb(0xa1, (uint8_t)(base + 8));
	outb(0xa1, 2);
	outb(0xa1, 1);
	pic_masks(0xffff);
}

void pic_masks(uint16_t mask)
{
	outb(0x21, (uint8_t)mask);
	outb(0xa1, (uint8_t)(mask >> 8));
}
