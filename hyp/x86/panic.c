/* SPDX-License-Identifier: BSD-2-Clause */
/* The end: stops the other CPUs, says what is known, and resets the machine after a while. */
#include "hyp/x86/internal.h"

#include <stdarg.h>
#include "hw/apic.h"
#include "lib/cmdline.h"
#include "lib/fmt.h"
#include "lib/string.h"

#define PANIC_RESET_S_DEFAULT 10u
#define CALLS_MAX             24u
#define NOBODY                UINT32_MAX

static uint32_t panic_cpu = NOBODY;                    /* (a) */
static uint64_t reset_after_s = PANIC_RESET_S_DEFAULT; /* UINT64_MAX: halt */

void panic_configure(const char *cmdline)
{
	char text[16];
	int n = cmdline_find(cmdline, "panic", text, sizeof(text));

	if (n < 0)
		return;
	if (!strcmp(text, "halt"))
		reset_after_s = UINT64_MAX;
	else if (!cmdline_parse_size(text, &reset_after_s))
		log_line("panic=%s: neither a number of seconds nor halt", text);
}

bool panic_stops_us(void)
{
	uint32_t owner = __atomic_load_n(&panic_cpu, __ATOMIC_ACQUIRE);

	return owner != NOBODY && owner != percpu()->index;
}

static void stop_others(void)
{
	for (unsigned i = 0; i < cpu_count; i++)
		if (i != percpu()->index)
			apic_icr_write((uint64_t)percpu_of(i)->apic_id << 32 | APIC_DELIVERY_NMI |
			               APIC_ICR_ASSERT);
}

/* One CPU panics; a second one stops, and a panic within the panic resets at once. */
static void enter(void)
{
	uint32_t expected = NOBODY;

	if (!__atomic_compare_exchange_n(&panic_cpu, &expected, percpu()->index, false,
	            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		if (expected == percpu()->index)
			machine_reset();
		for (;;)
			__asm__ volatile("cli; hlt");
	}
	stop_others();
	log_break_lock();
}

/* A word that points behind a call instruction: E8 with 32 bits, or FF /2 of 2, 3 or 6 bytes. */
static bool is_return_address(uint64_t v)
{
	const uint8_t *at = (const uint8_t *)(uintptr_t)v;

	if (v < (uintptr_t)image_start + 8 || v >= (uintptr_t)image_text_end)
		return false;
	return at[-5] == 0xe8 || (at[-2] == 0xff && (at[-1] & 0x38) == 0x10) ||
	       (at[-3] == 0xff && (at[-2] & 0x38) == 0x10) ||
	       (at[-6] == 0xff && (at[-5] & 0x38) == 0x10);
}

/* No frame pointers: every word on the stack that looks like a return address, in order; some may
 * be of calls that have ended. */
static void print_calls(uint64_t sp)
{
	const uint64_t *word = (const uint64_t *)(sp & ~7ull);
	const uint64_t *end = (const uint64_t *)(void *)percpu();
	unsigned printed = 0;

	for (; word < end && printed < CALLS_MAX; word++) {
		if (!is_return_address(*word))
			continue;
		log_line("  called from %llx", (unsigned long long)*word);
		printed++;
	}
}

/* hyp/core overrides it to print the last exits. */
__attribute__((weak)) void core_dump(void)
{
}

_Noreturn static void leave(void)
{
	uint64_t start = tsc_now();

	core_dump();
	if (reset_after_s == UINT64_MAX)
		log_line("panic=halt: halted");
	while (reset_after_s == UINT64_MAX || tsc_now() - start < reset_after_s * tsc_hz)
		cpu_pause();
	machine_reset();
}

void panic(const char *format, ...)
{
	char what[200];
	va_list args;

	enter();
	va_start(args, format);
	fmt_vprint(what, sizeof(what), format, args);
	va_end(args);
	log_line("PANIC on CPU %u: %s", percpu()->index, what);
	print_calls((uintptr_t)__builtin_frame_address(0));
	leave();
}

static void print_registers(const struct interrupt_frame *f)
{
	uint64_t cr2, cr3;

	__asm__ volatile("mov %%cr2, %0" : "=r"(cr2));
	__asm__ volatile("mov %%cr3, %0" : "=r"(cr3));
#define U(x) ((unsigned long long)(x))
	log_line("  rip %016llx rsp %016llx rflags %08llx cr2 %016llx cr3 %llx", U(f->rip),
	        U(f->rsp), U(f->rflags), U(cr2), U(cr3));
	log_line("  rax %016llx rbx %016llx rcx %016llx rdx %016llx", U(f->rax), U(f->rbx),
	        U(f->rcx), U(f->rdx));
	log_line("  rsi %016llx rdi %016llx rbp %016llx r8  %016llx", U(f->rsi), U(f->rdi),
	        U(f->rbp), U(f->r8));
	log_line("  r9  %016llx r10 %016llx r11 %016llx r12 %016llx", U(f->r9), U(f->r10),
	        U(f->r11), U(f->r12));
	log_line("  r13 %016llx r14 %016llx r15 %016llx", U(f->r13), U(f->r14), U(f->r15));
#undef U
}

void panic_frame(const struct interrupt_frame *f, const char *what)
{
	enter();
	log_line("PANIC on CPU %u: %s: vector %llu, error %llx", percpu()->index, what,
	        (unsigned long long)f->vector, (unsigned long long)f->error);
	print_registers(f);
	print_calls(f->rsp);
	leave();
}

/* Ways to reset, from the one the firmware names to the one that cannot fail. */
void machine_reset(void)
{
	const struct acpi_gas *r = &acpi_info.reset_reg;
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) no_idt = {0, 0};

	if (r->address && r->space == ACPI_SPACE_IO)
		outb((uint16_t)r->address, acpi_info.reset_value);
	if (r->address && r->space == ACPI_SPACE_MEMORY)
		*(volatile uint8_t *)hpa_to_virt(HPA(r->address)) = acpi_info.reset_value;
	outb(0xcf9, 0x02);
	outb(0xcf9, 0x06);
	outb(0x64, 0xfe);
	__asm__ volatile("lidt %0; int3" : : "m"(no_idt));
	__builtin_unreachable();
}
