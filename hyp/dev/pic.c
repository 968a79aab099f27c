/* SPDX-License-Identifier: BSD-2-Clause */
/* The 8259A pair: edges and levels in, one INTR out, vectors on acknowledge. */
#include "hyp/dev/pic.h"
#include "hyp/dev/platform_state.h"

#define MASTER  0
#define SLAVE   1
#define CASCADE 2u

#define PORT_MASTER      0x20u
#define PORT_SLAVE       0xa0u
#define PORT_ELCR_MASTER 0x4d0u

static const uint8_t elcr_writable[2] = {
        0xf8, 0xde}; /* timer, keyboard, cascade, RTC, FPU are edges always */

/* As firmware leaves them for the OS: the PC's vectors, all masked (after ICW1 nothing is). */
void pic_reset(struct pic *pic)
{
	*pic = (struct pic){.output = false};
	pic->chip[MASTER] = (struct pic_chip){.lowest = 7, .imr = 0xff, .base = 0x08};
	pic->chip[SLAVE] = (struct pic_chip){.lowest = 7, .imr = 0xff, .base = 0x70};
}

/* How far below the highest priority the first set input is; 8: none. */
static unsigned rank(const struct pic_chip *c, uint8_t inputs)
{
	unsigned n = 0;

	while (n < 8 && (inputs >> ((c->lowest + 1u + n) & 7) & 1) == 0)
		n++;
	return n;
}

/* The input that the chip asks for, or -1. */
static int request(const struct pic_chip *c, bool is_master)
{
	uint8_t service = c->isr;
	unsigned wanted = rank(c, c->irr & (uint8_t)~c->imr);

	if (c->special_mask)
		service &= (uint8_t)~c->imr;
	/* Fully nested: a slave may ask again while one of its own is in service. */
	if (c->special_nested && is_master)
		service &= (uint8_t) ~(1u << CASCADE);
	if (wanted == 8 || wanted >= rank(c, service))
		return -1;
	return (int)((c->lowest + 1u + wanted) & 7);
}

static void set_input(struct pic_chip *c, unsigned input, bool high)
{
	uint8_t bit = (uint8_t)(1u << input);

	if ((c->elcr & bit) != 0)
		c->irr = high ? c->irr | bit : c->irr & (uint8_t)~bit;
	else if (high && (c->lines & bit) == 0)
		c->irr |= bit;
	c->lines = high ? c->lines | bit : c->lines & (uint8_t)~bit;
}

static void update(struct platform *p)
{
	struct pic *pic = &p->pic;
	bool output;

	/* The slave's INT is the cascade's wire; a new edge for each of its requests. */
	set_input(&pic->chip[MASTER], CASCADE, false);
	if (request(&pic->chip[SLAVE], false) >= 0)
		set_input(&pic->chip[MASTER], CASCADE, true);
	else
		pic->chip[MASTER].irr &= (uint8_t) ~(1u << CASCADE);
	output = request(&pic->chip[MASTER], true) >= 0;
	if (output == pic->output)
		return;
	__atomic_store_n(&pic->output, output, __ATOMIC_RELEASE);
	platform_set_intr(p, output);
}

void pic_set_line(struct platform *p, unsigned irq, bool high)
{
	set_input(&p->pic.chip[irq >> 3], irq & 7, high);
	update(p);
}

static void acknowledge_input(struct pic_chip *c, unsigned input)
{
	uint8_t bit = (uint8_t)(1u << input);

	if (c->auto_eoi) {
		if (c->rotate_on_auto_eoi)
			c->lowest = (uint8_t)input;
	} else {
		c->isr |= bit;
	}
	if ((c->elcr & bit) == 0)
		c->irr &= (uint8_t)~bit;
}

/* A request that is gone by the time it is acknowledged gives input 7 without an ISR bit (data
 * sheet: default IR7). */
uint8_t pic_peek(const struct pic *pic)
{
	int input = request(&pic->chip[MASTER], true);

	if (input != (int)CASCADE)
		return (uint8_t)(pic->chip[MASTER].base + (input < 0 ? 7 : input));
	input = request(&pic->chip[SLAVE], false);
	return (uint8_t)(pic->chip[SLAVE].base + (input < 0 ? 7 : input));
}

uint8_t pic_acknowledge(struct platform *p)
{
	struct pic *pic = &p->pic;
	uint8_t vector = pic_peek(pic);
	int input = request(&pic->chip[MASTER], true), slave_input;

	if (input == (int)CASCADE) {
		slave_input = request(&pic->chip[SLAVE], false);
		if (slave_input >= 0)
			acknowledge_input(&pic->chip[SLAVE], (unsigned)slave_input);
	}
	if (input >= 0)
		acknowledge_input(&pic->chip[MASTER], (unsigned)input);
	update(p);
	return vector;
}

static void write_icw1(struct pic_chip *c, uint8_t value)
{
	uint8_t lines = c->lines, elcr = c->elcr;

	*c = (struct pic_chip){.lowest = 7, .init_step = 2, .wants_icw4 = (value & 1) != 0};
	c->elcr = elcr;
	c->lines = lines;
	c->irr = lines & elcr; /* edges are to come again, levels are still there */
}

static void write_ocw2(struct pic_chip *c, uint8_t value)
{
	unsigned input = value & 7, first = rank(c, c->isr);

	if ((value & 0x40) == 0) /* not specific: the one with the highest priority */
		input = (c->lowest + 1u + first) & 7;
	switch (value >> 5) {
	case 0: c->rotate_on_auto_eoi = false; break;
	case 4: c->rotate_on_auto_eoi = true; break;
	case 1: /* EOI, specific or not, with rotation or not */
	case 3:
	case 5:
	case 7:
		if ((value & 0x40) == 0 && first == 8)
			break;
		c->isr &= (uint8_t) ~(1u << input);
		if ((value & 0x80) != 0)
			c->lowest = (uint8_t)input;
		break;
	case 6: c->lowest = (uint8_t)input; break;
	default: break;
	}
}

static void write_command(struct pic_chip *c, uint8_t value)
{
	if ((value & 0x10) != 0) {
		write_icw1(c, value);
	} else if ((value & 0x08) != 0) { /* OCW3 */
		if ((value & 0x04) != 0)
			c->poll = true;
		if ((value & 0x02) != 0)
			c->read_isr = (value & 1) != 0;
		if ((value & 0x40) != 0)
			c->special_mask = (value & 0x20) != 0;
	} else {
		write_ocw2(c, value);
	}
}

static void write_data(struct pic_chip *c, uint8_t value)
{
	switch (c->init_step) {
	case 2:
		c->base = value & 0xf8;
		c->init_step = 3;
		break;
	case 3: /* how they are wired is fixed */ c->init_step = c->wants_icw4 ? 4 : 0; break;
	case 4:
		c->special_nested = (value & 0x10) != 0;
		c->auto_eoi = (value & 0x02) != 0;
		c->init_step = 0;
		break;
	default: c->imr = value; break;
	}
}

/* Data sheet "Poll command": the read acknowledges, and tells whether there was a request and
 * which. */
static uint8_t read_poll(struct platform *p, unsigned which)
{
	struct pic_chip *c = &p->pic.chip[which];
	int input = request(c, which == MASTER);

	c->poll = false;
	if (input < 0)
		return 7;
	acknowledge_input(c, (unsigned)input);
	update(p);
	return (uint8_t)(0x80 | input);
}

uint8_t pic_read(struct platform *p, uint16_t port, uint64_t now)
{
	unsigned which = port >= PORT_ELCR_MASTER ? port & 1u : port >= PORT_SLAVE;
	struct pic_chip *c = &p->pic.chip[which];

	(void)now;
	if (port >= PORT_ELCR_MASTER)
		return c->elcr;
	if (c->poll)
		return read_poll(p, which);
	if ((port & 1) != 0)
		return c->imr;
	return c->read_isr ? c->isr : c->irr;
}

void pic_write(struct platform *p, uint16_t port, uint8_t value, uint64_t now)
{
	unsigned which = port >= PORT_ELCR_MASTER ? port & 1u : port >= PORT_SLAVE;
	struct pic_chip *c = &p->pic.chip[which];

	(void)now;
	if (port >= PORT_ELCR_MASTER) {
		c->elcr = value & elcr_writable[which];
		/* Levels follow their wires, former edges are kept. */
		c->irr = (c->irr & (uint8_t)~c->elcr) | (c->lines & c->elcr);
	} else if ((port & 1) != 0) {
		write_data(c, value);
	} else {
		write_command(c, value);
	}
	update(p);
}
