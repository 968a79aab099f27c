/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of hyp/x86 offer to each other and to nobody else, in the order in which the boot
 * goes through them. */
#pragma once

#include "hw/acpi.h"
#include "hyp/x86/x86.h"

/* hyp.ld's marks. */
extern char image_start[], image_text_end[], image_rodata_end[], image_end[];
extern char boot_start[], image_load_end[]; /* physical: where the loader put the image */

/* serial.c: one 16550, polled. Silent when there is none. */
void serial_init(uint16_t port); /* 0: no output */
void serial_write(const char *text, size_t n);

/* log.c */
void log_break_lock(
        void); /* in a panic: the holder may be stopped, so lines no longer wait for it */

/* paging.c */
#define STACKS_BASE 0xffffffffc0000000ull
#define MAP_WRITE   1u
#define MAP_EXEC    2u
#define MAP_UC      4u
/* Maps a page-aligned range with the largest pages that fit, where nothing is mapped yet; tables
 * come from the heap. */
void paging_map(uint64_t va, uint64_t hpa, uint64_t size, unsigned flags);
/* Builds hyp's final page tables for an image that will lie at image_hpa; not yet in use. */
void paging_build(const struct boot_info *info, uint64_t image_hpa);
hpa_t paging_root(void);
void paging_identity_page(
        uint64_t hpa); /* one executable page at its own address, for the trampoline */
void paging_identity_drop(void);
void paging_flush(void); /* this CPU's TLB */
/* A new 16 KiB stack with its unmapped neighbour; returns the struct percpu at its top. */
struct percpu *paging_make_stack(unsigned index);

/* heap.c: over a range in the direct map. */
void heap_init(void *base, size_t pages);
void heap_count(size_t *pages, size_t *free);

/* memory.c: takes hyp's range, moves the modules there, builds page tables, moves hyp, and goes on
 * at next. */
_Noreturn void memory_move(struct boot_info *info, void (*next)(void));
extern uint64_t image_hpa; /* where the image lies now */

/* cpu.c: control registers, GDT and IDT of this CPU, and the PIC out of the way. */
void cpu_setup(void);
void pic_silence(void);

/* interrupts.c: the stubs of stubs.S call in here. */
struct interrupt_frame {
	uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax;
	uint64_t vector, error;
	uint64_t rip, cs, rflags, rsp, ss;
};
void interrupt_dispatch(struct interrupt_frame *f);
void interrupts_build_idt(void);
void interrupts_load_idt(void);

/* panic.c */
_Noreturn void panic_frame(const struct interrupt_frame *f, const char *what);
bool panic_stops_us(void); /* true on a CPU other than the one that panics */
void panic_configure(const char *cmdline);

/* acpi.c: what hyp itself needs of the tables. */
#define ACPI_IOAPICS_MAX 16u
struct acpi_info {
	uint32_t apic_ids[CPU_MAX]; /* enabled CPUs in the MADT's order */
	unsigned cpu_count;
	unsigned cpus_ignored; /* more than CPU_MAX */
	hpa_t madt;            /* 0: none */
	uint64_t lapic_address;
	uint64_t ioapics[ACPI_IOAPICS_MAX]; /* HPAs */
	unsigned ioapic_count;
	uint16_t pm_timer_port; /* 0: none */
	bool pm_timer_32;
	struct acpi_gas reset_reg; /* address 0: none */
	uint8_t reset_value;
	uint8_t rtc_century; /* CMOS index, 0: none */
	struct pci_ecam ecam;
};
extern struct acpi_info acpi_info;
void acpi_init(uint64_t rsdp);
/* The BIOS's RSDP in low memory, 0: none (§5.2.5.1). */
uint64_t acpi_scan_rsdp(void);
/* Adds the CPUs of a MADT of size bytes. Checked by its lengths; a damaged one ends early. */
void acpi_read_madt(const void *madt, size_t size, struct acpi_info *info);
/* Root is not told of this CPU: its entry in the MADT is disabled. */
void acpi_hide_cpu(uint32_t id);

/* apic.c */
void apic_init_boot(const char *cmdline); /* decides on x2APIC */
void apic_init_cpu(void);
uint32_t apic_id(void);
void apic_send_init(uint32_t id);
void apic_send_sipi(uint32_t id, uint8_t page);
void apic_timer_free_run(void); /* masked, from the top, for the calibration */

/* time.c: a first guess at once, the exact figure from all that passes between begin and end. */
void time_calibrate_begin(void);
void time_calibrate_end(void);
void time_wait_us(uint64_t us);

/* smp.c */
void smp_start(const struct boot_info *info);
/* core_main on CPU 0: this one, unless park=boot. */
_Noreturn void smp_go_on(struct boot_info *info);
