/* SPDX-License-Identifier: BSD-2-Clause */
/* The pair of 8259A interrupt controllers (data sheet 231468) with the edge/level control registers
 * of the PIIX. */
#pragma once

#include "hyp/dev/platform.h"

/* Everything under the platform's lock; output is also read without it. */
struct pic_chip {
	uint8_t irr;
	uint8_t imr;
	uint8_t isr;
	uint8_t lines;     /* level of each input */
	uint8_t elcr;      /* 1: level-triggered */
	uint8_t lowest;    /* input with the lowest priority; 7 after ICW1 */
	uint8_t base;      /* vector of input 0 */
	uint8_t init_step; /* which ICW comes next: 2..4; 0: running */
	bool wants_icw4;
	bool read_isr;
	bool poll;
	bool special_mask;
	bool auto_eoi;
	bool rotate_on_auto_eoi;
	bool special_nested;
};

struct pic {
	struct pic_chip chip[2]; /* master, slave on the master's input 2 */
	bool output;             /* INTR; written under the lock, read by any CPU */
};

void pic_reset(struct pic *pic);
void pic_set_line(struct platform *p, unsigned irq, bool high);
uint8_t pic_peek(const struct pic *pic); /* the vector that an acknowledge would give now */
uint8_t pic_acknowledge(struct platform *p);
uint8_t pic_read(struct platform *p, uint16_t port, uint64_t now);
void pic_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now);
