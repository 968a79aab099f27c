/* SPDX-License-Identifier: BSD-2-Clause */
/* The 8254 timer (data sheet 231164) and port 61h, which gates its channel 2. */
#pragma once

#include "hyp/dev/platform.h"

#define PIT_HZ       1193182u
#define PIT_CHANNELS 3u

/* Everything under the platform's lock. Counts are of the PIT's clock since TSC 0. */
struct pit_channel {
	uint32_t count;      /* 1..65536 (BCD: ..10000) */
	uint32_t next_count; /* modes 2 and 3: takes over at next_start; 0: none */
	uint64_t start;      /* when count was loaded */
	uint64_t next_start;
	uint64_t stopped; /* gate low in modes 0, 4, 2, 3: elapsed count when it stopped */
	uint16_t latch;
	uint8_t latch_bytes; /* 2, 1, or 0: nothing latched */
	uint8_t status;
	bool status_latched;
	uint8_t mode;
	uint8_t access; /* 1: low byte, 2: high byte, 3: low then high */
	bool bcd;
	bool loaded;    /* a count was written since the mode */
	bool triggered; /* modes 1 and 5: the gate rose since */
	bool gate;
	bool write_high; /* access 3: the high byte is next */
	bool read_high;
	uint8_t write_low;
};

struct pit {
	struct pit_channel channel[PIT_CHANNELS];
	uint64_t irq_count; /* count of channel 0's next rising edge; PLATFORM_NEVER */
	uint64_t deadline;  /* the same as TSC */
	uint8_t port_61h;   /* bits 0..3 as written */
};

void pit_reset(struct pit *pit);
uint8_t pit_read(struct platform *p, uint16_t port, uint64_t now);
void pit_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now);
void pit_run(struct platform *p, uint64_t now);
