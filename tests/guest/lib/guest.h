/* SPDX-License-Identifier: BSD-2-Clause */
/* The tiny guests' library: CPU access, output, checks, exceptions, interrupts, further vCPUs. */
#pragma once

#include "tests/guest/board.h"

/*
 * A guest is one file with guest_main(). It runs in 64-bit mode on the boot CPU with memory mapped
 * one to one, interrupts off and both 8259s masked. test("name") begins a case, check() fails it
 * and goes on; the guest's result is 1 if any case failed.
 */
void guest_main(void);

#define GUEST_CPUS_MAX 8u

/* ---- CPU ---- */

static inline void outb(uint16_t port, uint8_t v)
{
	__asm__ volatile("outb %0, %1" : : "a"(v), "Nd"(port) : "memory");
}
static inline void outw(uint16_t port, uint16_t v)
{
	__asm__ volatile("outw %0, %1" : : "a"(v), "Nd"(port) : "memory");
}
static inline void outl(uint16_t port, uint32_t v)
{
	__asm__ volatile("outl %0, %1" : : "a"(v), "Nd"(port) : "memory");
}
static inline uint8_t inb(uint16_t port)
{
	uint8_t v;

	__asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port) : "memory");
	return v;
}
static inline uint16_t inw(uint16_t port)
{
	uint16_t v;

	__asm__ volatile("inw %1, %0" : "=a"(v) : "Nd"(port) : "memory");
	return v;
}
static inline uint32_t inl(uint16_t port)
{
	uint32_t v;

	__asm__ volatile("inl %1, %0" : "=a"(v) : "Nd"(port) : "memory");
	return v;
}

static inline uint64_t rdmsr(uint32_t msr)
{
	uint32_t lo, hi;

	__asm__ volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr) : "memory");
	return ((uint64_t)hi << 32) | lo;
}
static inline void wrmsr(uint32_t msr, uint64_t v)
{
	__asm__ volatile("wrmsr"
	                 :
	                 : "c"(msr), "a"((uint32_t)v), "d"((uint32_t)(v >> 32))
	                 : "memory");
}

struct cpuid_regs {
	uint32_t eax, ebx, ecx, edx;
};
static inline struct cpuid_regs cpuid(uint32_t leaf, uint32_t sub)
{
	struct cpuid_regs r;

	__asm__ volatile("cpuid"
	                 : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
	                 : "a"(leaf), "c"(sub));
	return r;
}

static inline uint64_t rdtsc(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
	return ((uint64_t)hi << 32) | lo;
}

#define READ_CR(n)                                                                                 \
	({                                                                                         \
		uint64_t cr_;                                                                      \
		__asm__ volatile("mov %%cr" #n ", %0" : "=r"(cr_) : : "memory");                   \
		cr_;                                                                               \
	})
#define WRITE_CR(n, v) __asm__ volatile("mov %0, %%cr" #n : : "r"((uint64_t)(v)) : "memory")

static inline void irq_on(void)
{
	__asm__ volatile("sti" : : : "memory");
}
static inline void irq_off(void)
{
	__asm__ volatile("cli" : : : "memory");
}
static inline void halt(void)
{
	__asm__ volatile("sti; hlt; cli" : : : "memory");
}
static inline void pause(void)
{
	__asm__ volatile("pause" : : : "memory");
}

static inline uint32_t mmio_read(uint64_t address)
{
	return *(volatile uint32_t *)address;
}
static inline void mmio_write(uint64_t address, uint32_t v)
{
	*(volatile uint32_t *)address = v;
}

static inline uint64_t load(const volatile uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* ---- what the runner told ---- */

#define info ((const struct board_info *)(uintptr_t)BOARD_INFO)

static inline uint64_t us_to_tsc(uint64_t us)
{
	return us * (info->tsc_hz / 1000000);
}
/* argument("rounds=", 10): the number after that word in the arguments, or the default. */
uint64_t argument(const char *word, uint64_t otherwise);

/* ---- output, results ---- */

void print(const char *format, ...); /* %s %c %u %d %x, with l for 64 bits */
void test(const char *name);
void section(
        const char *name); /* ends the running case, and says under which heading others follow */
void test_failed(const char *file, int line, const char *text, uint64_t got, uint64_t wanted);
_Noreturn void guest_exit(int result);
int guest_result(void); /* of the cases so far */
#define check(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			test_failed(__FILE__, __LINE__, #cond, 0, 1);                              \
	} while (0)
#define check_same(got, wanted)                                                                    \
	do {                                                                                       \
		uint64_t got_ = (uint64_t)(got), wanted_ = (uint64_t)(wanted);                     \
		if (got_ != wanted_)                                                               \
			test_failed(__FILE__, __LINE__, #got, got_, wanted_);                      \
	} while (0)
/* Waits for a condition, at most `us` of TSC time; gives the condition. */
#define wait_for(cond, us)                                                                         \
	({                                                                                         \
		uint64_t end_ = rdtsc() + us_to_tsc(us);                                           \
		while (!(cond) && rdtsc() < end_)                                                  \
			pause();                                                                   \
		(bool)(cond);                                                                      \
	})

/* ---- exceptions and interrupts ---- */

struct frame {
	uint64_t gpr[15]; /* r15 … r8, rbp, rdi, rsi, rdx, rcx, rbx, rax */
	uint64_t vector, error;
	uint64_t rip, cs, rflags, rsp, ss;
};
typedef void (*vector_fn)(struct frame *f);
/* NULL: an exception ends the guest, an interrupt is only counted. Handlers do their own EOI. */
void on_vector(unsigned vector, vector_fn fn);

/* Per vCPU, found through GS. */
struct guest_cpu {
	uint32_t index;
	uint32_t started;
	uint64_t interrupts[256];
	void (*work)(void);
	uint64_t work_done;
	/* catch() */
	uint64_t catch_rsp;
	uint32_t caught_vector, caught_error;
	uint64_t caught_cr2, caught_rip;
	uint64_t tss[16];
	uint64_t gdt[8];
	uint8_t fault_stack[8192]
	        __attribute__((aligned(16))); /* upper half: NMI, #DF; lower: #PF */
};
extern struct guest_cpu guest_cpus[GUEST_CPUS_MAX];
static inline struct guest_cpu *this_cpu(void)
{
	struct guest_cpu *c;

	__asm__ volatile("mov %%gs:0, %0" : "=r"(c));
	return c;
}

/* Calls fn(argument); the vector of the exception that it caused, or -1. More in
 * this_cpu()->caught_*. */
int catch (void (*fn)(void *), void *argument);
#define VECTOR_DE 0
#define VECTOR_DB 1
#define VECTOR_BP 3
#define VECTOR_UD 6
#define VECTOR_DF 8
#define VECTOR_GP 13
#define VECTOR_PF 14
#define VECTOR_AC 17

/* ---- further vCPUs ---- */

/* Starts vCPU `index` by INIT and SIPI; it waits for work. False: it did not come. */
bool cpu_start(unsigned index);
/* Puts the start code for it in its place, without sending anything; gives address 0, its table of
 * real-mode vectors. */
uint64_t cpu_prepare(unsigned index);
void cpu_run(unsigned index, void (*fn)(void)); /* does not wait for it */
bool cpu_wait(unsigned index);                  /* until that is done, 30 s at most */

/* ---- LAPIC, in whichever mode it is ---- */

#define APIC_BASE_MSR  0x1bu
#define APIC_ID        0x20u
#define APIC_VERSION   0x30u
#define APIC_TPR       0x80u
#define APIC_PPR       0xa0u
#define APIC_EOI       0xb0u
#define APIC_LDR       0xd0u
#define APIC_DFR       0xe0u
#define APIC_SVR       0xf0u
#define APIC_ISR       0x100u
#define APIC_IRR       0x200u
#define APIC_ESR       0x280u
#define APIC_ICR       0x300u
#define APIC_ICR2      0x310u
#define APIC_LVT_TIMER 0x320u
#define APIC_LVT_LINT0 0x350u
#define APIC_LVT_LINT1 0x360u
#define APIC_LVT_ERROR 0x370u
#define APIC_TMICT     0x380u
#define APIC_TMCCT     0x390u
#define APIC_TDCR      0x3e0u
#define TSC_DEADLINE   0x6e0u

#define LVT_MASKED     (1u << 16)
#define TIMER_PERIODIC (1u << 17)
#define TIMER_DEADLINE (2u << 17)

#define ICR_LOGICAL   (1u << 11)
#define ICR_INIT      (5u << 8)
#define ICR_SIPI      (6u << 8)
#define ICR_NMI       (4u << 8)
#define ICR_ASSERT    (1u << 14)
#define ICR_SELF      (1u << 18)
#define ICR_ALL       (2u << 18)
#define ICR_OTHERS    (3u << 18)
#define ICR_EVERYBODY 0xffffffffu

void apic_enable(bool x2apic);
bool apic_is_x2(void);
uint32_t apic_read(unsigned reg);
void apic_write(unsigned reg, uint32_t v);
void apic_eoi(void);
/* dest: LAPIC id; ICR_EVERYBODY becomes FFh in xAPIC mode. */
void apic_ipi(uint32_t dest, uint32_t icr);
/* Is that vector's bit set in IRR or ISR. */
bool apic_bit(unsigned base, unsigned vector);
/* An interrupt's handler that only sends EOI. */
void handler_eoi(struct frame *f);

/* ---- IOAPIC, 8259 ---- */

void ioapic_write(unsigned reg, uint32_t v);
uint32_t ioapic_read(unsigned reg);
#define IOAPIC_LEVEL   (1u << 15)
#define IOAPIC_LOW     (1u << 13)
#define IOAPIC_REMOTE  (1u << 14)
#define IOAPIC_MASKED  (1u << 16)
#define IOAPIC_LOGICAL (1u << 11)
void ioapic_route(unsigned pin, uint32_t low, uint32_t dest);
void pic_init(uint8_t base);
void pic_masks(uint16_t mask); /* bit n: IRQ n is masked */

/* ---- paging ---- */

/* The PTE of a 4 KiB page; splits the runner's large pages as needed. */
uint64_t *page_entry(uint64_t linear);
static inline void page_flush(uint64_t linear)
{
	__asm__ volatile("invlpg (%0)" : : "r"(linear) : "memory");
}

/* ---- random ---- */

struct random {
	uint64_t state;
};
uint64_t random_next(struct random *r);

void *memset(void *to, int c, size_t n);
void *memcpy(void *to, const void *from, size_t n);
int memcmp(const void *a, const void *b, size_t n);
