/* SPDX-License-Identifier: BSD-2-Clause */
/* What the vendor-free CPU code offers to the core: memory, interrupts of this CPU, time, log,
 * other CPUs. */
#pragma once

#include "abi/types.h"
#include "hyp/x86/addr.h"
#include "hyp/x86/boot_info.h"
#include "hyp/x86/percpu.h"

/*
 * Start. boot.S enters long mode, x86 code parses the loader's block, moves hyp to the top of RAM
 * below 4 GiB, builds its own page tables (W^X; a direct map of all RAM and MMIO, NX, at
 * DIRECT_MAP_BASE), IDT, LAPIC (x2APIC if the CPU has it), calibrates the TSC and starts all other
 * CPUs. Then core_main runs on the boot CPU; core_cpu_main on each CPU after core_main released
 * them.
 */
_Noreturn void core_main(struct boot_info *info); /* defined by hyp/core */
_Noreturn void core_cpu_main(void); /* defined by hyp/core; entered once smp_release() was called */
void core_dump(void); /* hyp/core may define it: more words in a panic. Needs: takes no lock */
void smp_release(void);

/* Memory. */
#define DIRECT_MAP_BASE 0xffff800000000000ull
static inline void *hpa_to_virt(hpa_t hpa)
{
	return (void *)(DIRECT_MAP_BASE + hpa.value);
}
hpa_t virt_to_hpa(const void *p); /* direct map or hyp's image */
/* hpa lies in the direct map: always for RAM, not always for devices high up. */
bool memory_is_reachable(hpa_t hpa);
/* The range that hyp keeps for itself (image, stacks, heap); everything in it is hidden from root.
 */
void memory_hyp_range(hpa_t *start, uint64_t *size_bytes);
/* Zeroed, page-aligned pages from hyp's own heap (fixed size at boot); NULL when it is used up.
 * Boot and VM creation only. */
void *heap_alloc_pages(size_t count);
void heap_free_pages(void *p, size_t count);
/* Sizes for KEEL_HC_INFO. */
struct memory_figures {
	uint64_t image_bytes, heap_bytes, heap_free_bytes;
};
struct memory_figures memory_figures(void);
/* Physical address width that root may see mapped, in bits (CPUID 80000008h, capped at 48). */
unsigned memory_phys_bits(void);

/* Log: COM1 and a ring of 64 KiB; one line at a time, prefixed with CPU and microseconds. Format:
 * lib/fmt.h's subset of printf. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
size_t log_read(uint64_t *position, char *out, size_t len);
/* Stops the other CPUs by NMI, prints, and resets after 10 s (`panic=SECONDS` or `panic=halt` on
 * the command line). */
_Noreturn void panic(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* One line on the console, then halts: for a machine that hyp cannot run on. */
_Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void machine_reset(void);
#define hyp_assert(cond)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			panic("%s:%d: assertion failed: %s", __FILE__, __LINE__, #cond);           \
	} while (0)

/* Time. */
static inline uint64_t tsc_now(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return ((uint64_t)hi << 32) | lo;
}
extern uint64_t tsc_hz;
extern uint64_t hyp_entry_tsc; /* at hyp's first instruction */
/* Seconds since 1970 at TSC 0, from the CMOS RTC as it stood at the start. */
int64_t wall_clock_at_boot_s(void);

/*
 * The local APIC of this CPU. It is root's in almost everything; hyp keeps the timer (root's use of
 * it is multiplexed by hyp/core/root_apic.c), NMI as the kick, and vector HYP_TIMER_VECTOR while
 * its own deadline is the earlier one.
 */
#define HYP_TIMER_VECTOR 0xffu
extern bool apic_is_x2apic; /* the mode that all CPUs were started in (`x2apic=off` on the command
                               line: xAPIC) */
/*
 * Changes this CPU's APIC mode for root, to xAPIC or x2APIC; all functions here follow it from then
 * on. From x2APIC to xAPIC the APIC is off for a moment (APM 24593 §16.9), which
 * resets its registers: timer and LVTs are masked after it, and kicks may be lost on the way.
 * False: the CPU refuses the value.
 */
bool apic_base_write(uint64_t value);
uint32_t apic_read(uint32_t reg); /* reg: x2APIC register number 0x00-0x3f (xAPIC offset >> 4) */
void apic_write(uint32_t reg, uint32_t value);
void apic_icr_write(
        uint64_t icr); /* x2APIC layout: destination in bits 63:32; translated for xAPIC */
void apic_eoi(void);
/* Arms this CPU's timer for a TSC value with the given vector (one-shot; TSC deadline mode if the
 * CPU has it, else the count, rounded up). */
void apic_timer_arm(uint64_t deadline_tsc, uint8_t vector);
void apic_timer_stop(void);
extern uint64_t apic_timer_hz; /* undivided count rate */
/* Sends an NMI to that CPU after setting its kick_pending; nothing is sent if one was pending
 * already. Any CPU, any time. */
void cpu_kick(unsigned index);
/*
 * Set by the vendor for a CPU that now and then forgets a pending NMI or interrupt (an emulator's;
 * see hyp/svm/tcg.c). There a kick whose NMI has not come for long is sent again.
 */
extern bool cpu_loses_events;
/* An NMI is pending on this CPU for certain when this returns. Needs: GIF 0. */
void cpu_kick_self_surely(void);
/* Sends a lost kick of this CPU again. Before it sleeps. */
void cpu_kick_find_lost(void);

/*
 * Set by the vendor at its start if the CPU has a global interrupt flag (STGI, CLGI): then hyp runs
 * with GIF 0 outside of the two functions below, and NMIs too arrive only there. Without it hyp
 * runs with IF 0 and NMIs may arrive anywhere.
 */
extern bool cpu_has_gif;
/*
 * Opens GIF and IF for a moment so that what is pending reaches hyp's stubs: vectors other than our
 * timer's go to pending_for_root without EOI, HYP_TIMER_VECTOR sets timer_fired (EOI sent; a
 * spurious FFh without its ISR bit is ignored), NMIs count in nmi_seen. Needs: GIF 0.
 *
 * While root_closed is set, edges get their EOI at once and go to put_off: in service for long they
 * would keep out what has no higher priority, at F0h and up hyp's own timer too. Levels would only
 * be raised again.
 */
void interrupts_take(void);
/*
 * Sleeps until an interrupt or a kick. Needs: GIF 0; returns with GIF 0. If kick_pending is set,
 * returns at once; an NMI between the check and the HLT is not lost (the stub moves the return
 * address past the HLT).
 */
void interrupts_wait(void);

/* Ports. */
static inline void outb(uint16_t port, uint8_t v)
{
	__asm__ volatile("outb %0, %1" : : "a"(v), "Nd"(port));
}
static inline void outw(uint16_t port, uint16_t v)
{
	__asm__ volatile("outw %0, %1" : : "a"(v), "Nd"(port));
}
static inline void outl(uint16_t port, uint32_t v)
{
	__asm__ volatile("outl %0, %1" : : "a"(v), "Nd"(port));
}
static inline uint8_t inb(uint16_t port)
{
	uint8_t v;

	__asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}
static inline uint16_t inw(uint16_t port)
{
	uint16_t v;

	__asm__ volatile("inw %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}
static inline uint32_t inl(uint16_t port)
{
	uint32_t v;

	__asm__ volatile("inl %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}
static inline uint64_t msr_read(uint32_t msr)
{
	uint32_t lo, hi;

	__asm__ volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr));
	return ((uint64_t)hi << 32) | lo;
}
static inline void msr_write(uint32_t msr, uint64_t v)
{
	__asm__ volatile("wrmsr" : : "c"(msr), "a"((uint32_t)v), "d"((uint32_t)(v >> 32)));
}
/* False if the CPU has no such MSR or refuses the value (#GP). */
bool msr_read_safe(uint32_t msr, uint64_t *value);
bool msr_write_safe(uint32_t msr, uint64_t value);
static inline void cpu_pause(void)
{
	__asm__ volatile("pause");
}
struct cpuid_result {
	uint32_t eax, ebx, ecx, edx;
};
static inline struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf)
{
	struct cpuid_result r;

	__asm__ volatile("cpuid"
	                 : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
	                 : "a"(leaf), "c"(subleaf));
	return r;
}

/* PCI configuration space of segment 0 in memory (MCFG); NULL: there is none. Bus b, device d,
 * function f at base + (b << 20 | d << 15 | f << 12). */
struct pci_ecam {
	hpa_t base;
	uint8_t start_bus, end_bus;
};
const struct pci_ecam *acpi_ecam(void);
/* The port of the FADT's RESET_REG (ACPI 6.5 §4.8.3.6), 0: it has none, or it is no port; and
 * whether a write there is a reset. */
uint16_t acpi_reset_port(void);
bool acpi_is_reset(uint16_t port, uint32_t value);

/* Root's boot image (Linux's 64-bit boot protocol, Documentation/arch/x86/boot.rst). */
struct linux_image {
	hpa_t kernel; /* bzImage as loaded or staged */
	uint64_t kernel_bytes;
	hpa_t initrd;
	uint64_t initrd_bytes;
	const char *cmdline;
	uint64_t rsdp;
	const struct boot_range *e820; /* what root may see: rewritten, hyp and pool reserved */
	unsigned e820_count;
};
struct linux_entry { /* registers of root's first vCPU: 64-bit mode, identity-mapped page tables in
	                root's memory */
	uint64_t rip, rsi, rsp, cr3, gdt_base;
	uint16_t gdt_limit, cs, ds;
};
/* Lays kernel, initrd, zero page, GDT and page tables into root's RAM. 0, or -1 after a log line
 * that says why. */
int linux_load(const struct linux_image *image, struct linux_entry *entry);
