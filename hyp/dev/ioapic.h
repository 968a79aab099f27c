/* SPDX-License-Identifier: BSD-2-Clause */
/* The IOAPIC (82093AA data sheet; version 20h with the EOI register of the ICH9 data sheet §13.5).
 */
#pragma once

#include "hw/apic.h"
#include "hyp/dev/platform.h"

#define IOAPIC_PINS     24u
#define IOAPIC_MMIO_EOI 0x40u

/* Everything under the platform's lock. */
struct ioapic {
	uint64_t redirect[IOAPIC_PINS];
	uint64_t resume_tsc[IOAPIC_PINS]; /* a level pin whose re-delivery is held back until then;
	                                     PLATFORM_NEVER */
	uint64_t deadline;                /* the first of these */
	uint16_t repeats[IOAPIC_PINS];    /* EOIs in a row that found the line still high */
	uint8_t lines[IOAPIC_PINS]; /* who drives it high: 0..3 as platform_pin, 4..6 the HPET's
	                               timers */
	uint32_t id;
	uint8_t select;
};

void ioapic_reset(struct ioapic *io);
uint32_t ioapic_read(struct platform *p, uint32_t offset);
void ioapic_write(struct platform *p, uint32_t offset, uint32_t value, uint64_t now);
void ioapic_set_pin(struct platform *p, unsigned pin, unsigned source, bool high);
void ioapic_eoi(struct platform *p, uint8_t vector, uint64_t now);
/* Offers every level pin that is high and not yet accepted again: a LAPIC came on. */
void ioapic_retry(struct platform *p);
void ioapic_run(struct platform *p, uint64_t now);
