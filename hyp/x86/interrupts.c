/* SPDX-License-Identifier: BSD-2-Clause */
/* What hyp does with an interrupt, NMI or exception that arrives in hyp itself. */
#include "hyp/x86/internal.h"

#include "hw/apic.h"

#define IDT_ENTRIES     256u
#define STUB_BYTES      16u
#define KERNEL_CS       0x08u
#define GATE_INTERRUPT  0x8e00u
#define VECTOR_NMI      2u
#define VECTOR_GP       13u
#define VECTOR_EXTERNAL 32u

struct idt_gate {
	uint16_t offset_low, selector, flags, offset_middle;
	uint32_t offset_high, reserved;
};
KEEL_ASSERT_SIZE(struct idt_gate, 16);

struct descriptor_pointer {
	uint16_t limit;
	uint64_t base;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct descriptor_pointer, 10);

struct fixup {
	uint64_t fault, resume;
};

/* stubs.S */
extern char interrupt_stubs[];
extern char window_take_gif_start[], window_take_gif_last[];
extern char window_take_if_start[], window_take_if_last[];
extern char window_wait_gif_start[], window_wait_gif_hlt[], window_wait_gif_end[];
extern char window_wait_if_start[], window_wait_if_hlt[], window_wait_if_end[];
extern void window_take_gif(void);
extern void window_take_if(void);
extern void window_wait_gif(void);
extern void window_wait_if(const uint32_t *kick_pending);
/* hyp.ld */
extern const struct fixup fixup_table[], fixup_table_end[];

bool cpu_has_gif;
static struct idt_gate idt[IDT_ENTRIES] __attribute__((section(".late_rodata")));

void interrupts_build_idt(void)
{
	for (unsigned i = 0; i < IDT_ENTRIES; i++) {
		uint64_t stub = (uintptr_t)interrupt_stubs + (uint64_t)i * STUB_BYTES;

		idt[i] = (struct idt_gate){
		        .offset_low = (uint16_t)stub,
		        .selector = KERNEL_CS,
		        .flags = GATE_INTERRUPT,
		        .offset_middle = (uint16_t)(stub >> 16),
		        .offset_high = (uint32_t)(stub >> 32),
		};
	}
}

void interrupts_load_idt(void)
{
	struct descriptor_pointer p = {sizeof(idt) - 1, (uintptr_t)idt};

	__asm__ volatile("lidt %0" : : "m"(p));
}

static bool is_between(uint64_t rip, const char *start, const char *end)
{
	return rip >= (uintptr_t)start && rip <= (uintptr_t)end;
}

/* Past the HLT of a wait: who interrupted it has something to be looked at. */
static void leave_wait(struct interrupt_frame *f)
{
	if (is_between(f->rip, window_wait_gif_start, window_wait_gif_hlt))
		f->rip = (uintptr_t)window_wait_gif_end;
	else if (is_between(f->rip, window_wait_if_start, window_wait_if_hlt))
		f->rip = (uintptr_t)window_wait_if_end;
}

static bool in_window(uint64_t rip)
{
	if (cpu_has_gif)
		return is_between(rip, window_take_gif_start, window_take_gif_last) ||
		       is_between(rip, window_wait_gif_start, window_wait_gif_end);
	return is_between(rip, window_take_if_start, window_take_if_last) ||
	       is_between(rip, window_wait_if_start, window_wait_if_end + 1);
}

static bool apic_bit(uint32_t first_reg, uint8_t vector)
{
	return apic_read(first_reg + vector / 32u) >> vector % 32 & 1;
}

static void take_vector(uint8_t vector)
{
	struct percpu *p = percpu();

	if (vector != HYP_TIMER_VECTOR) {
		/* The 8259's come without an ISR bit: an EOI would end another one. */
		if (p->root_closed && apic_bit(APIC_REG_ISR, vector) &&
		        !apic_bit(APIC_REG_TMR, vector)) {
			p->put_off[vector / 64] |= 1ull << vector % 64;
			apic_eoi();
			return;
		}
		percpu_pend_vector(p, vector);
		return;
	}
	/* Without its ISR bit it is a spurious interrupt: root programs the same vector for those.
	 */
	if (apic_bit(APIC_REG_ISR, HYP_TIMER_VECTOR)) {
		p->timer_fired = 1;
		apic_eoi();
	}
}

static bool apply_fixup(struct interrupt_frame *f)
{
	for (const struct fixup *x = fixup_table; x < fixup_table_end; x++) {
		if (x->fault != f->rip)
			continue;
		f->rip = x->resume;
		return true;
	}
	return false;
}

/*
 * Runs on whatever stack hyp was on. FS, GS, TR and LDTR may be a guest's, and on an emulator an
 * interrupt may come where GIF is 0: so nothing here needs them, and such a stray is counted and
 * kept for root like any other.
 */
void interrupt_dispatch(struct interrupt_frame *f)
{
	struct percpu *p = percpu();

	if (f->vector == VECTOR_NMI) {
		if (panic_stops_us())
			for (;;)
				__asm__ volatile("cli; hlt");
		p->nmi_seen++;
	} else if (f->vector >= VECTOR_EXTERNAL) {
		if (!in_window(f->rip))
			p->stray_interrupts++;
		take_vector((uint8_t)f->vector);
	} else if (f->vector != VECTOR_GP || !apply_fixup(f)) {
		panic_frame(f, "exception in hyp");
	}
	leave_wait(f);
}

void interrupts_take(void)
{
	if (cpu_has_gif)
		window_take_gif();
	else
		window_take_if();
}

void interrupts_wait(void)
{
	const uint32_t *kick = &percpu()->kick_pending;

	if (!cpu_has_gif)
		window_wait_if(kick);
	else if (!__atomic_load_n(kick, __ATOMIC_ACQUIRE)) /* pairs with cpu_kick */
		window_wait_gif();
}
