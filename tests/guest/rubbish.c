/* SPDX-License-Identifier: BSD-2-Clause */
/* A hostile guest: rubbish into every port, register, MSR and hypercall, and random code. Replayed
 * by its seed. What becomes of it does not matter; hyp, root and the VM beside it must not notice.
 */

#include "tests/guest/lib/guest.h"

#define CODE_BYTES 24

/*
 * This guest's page tables lie far from where stray code runs. The emulator deadlocks where code in
 * a page of active page tables is translated (setting an accessed bit there writes to the page that
 * the translator has locked), and then not even an NMI ends the guest's run: its own fault, not
 * hyp's.
 */
#define TABLES 0xc00000u

static struct random shared_random;

struct rubbish {
	struct random r;
	uint8_t code[64];
};
static struct rubbish rubbish[GUEST_CPUS_MAX];

static uint64_t next(struct rubbish *b)
{
	return random_next(&b->r);
}

static uint64_t below(struct rubbish *b, uint64_t n)
{
	return next(b) % n;
}

/* Values that are more often at some edge than not. */
static uint64_t value(struct rubbish *b)
{
	switch (below(b, 8)) {
	case 0: return 0;
	case 1: return UINT64_MAX;
	case 2: return 1ull << below(b, 64);
	case 3: return (1ull << below(b, 64)) - 1;
	case 4: return below(b, 256);
	case 5: return info->ram_bytes - 4 + below(b, 8);
	case 6: return below(b, 1ull << 32);
	default: return next(b);
	}
}

static uint16_t port(struct rubbish *b)
{
	static const uint16_t known[] = {0x20, 0x21, 0x40, 0x41, 0x42, 0x43, 0x60, 0x61, 0x64, 0x70,
	        0x71, 0x92, 0xa0, 0xa1, 0xcf8, 0xcf9, 0xcfc, 0xcfe, 0x2f8, 0x3f8, 0x3f9, 0x3fa,
	        0x3fb, 0x3fc, 0x3fd, 0x3fe, 0x3ff, 0x4d0, 0x4d1, 0x510, 0x520, 0x528, 0x52c, 0x52d,
	        0x530, 0x534, 0x600, 0x604, 0x608, 0x80, 0xed};
	uint64_t p = below(b, 3) ? known[below(b, sizeof(known) / sizeof(known[0]))] + below(b, 2)
	                         : below(b, 65536);

	/* The runner's exit port ends the run, a reset costs time: now and then is enough. */
	if (p >= BOARD_EXIT_PORT - 3 && p <= BOARD_EXIT_PORT)
		p = 0x80;
	if ((p == 0x64 || p == 0x92 || p == 0xcf9) && below(b, 50) != 0)
		p = 0x80;
	return (uint16_t)p;
}

static void do_port(struct rubbish *b)
{
	uint16_t p = port(b);
	uint64_t v = value(b), count = below(b, 300);
	uint64_t at = below(b, 4) ? 0x600000 + below(b, 8192) : value(b);

	switch (below(b, 8)) {
	case 0: outb(p, (uint8_t)v); break;
	case 1: outw(p, (uint16_t)v); break;
	case 2: outl(p, (uint32_t)v); break;
	case 3: inb(p); break;
	case 4: inw(p); break;
	case 5: inl(p); break;
	case 6: __asm__ volatile("rep outsb" : "+S"(at), "+c"(count) : "d"(p) : "memory"); break;
	default: __asm__ volatile("rep insl" : "+D"(at), "+c"(count) : "d"(p) : "memory"); break;
	}
}

static uint64_t device_address(struct rubbish *b)
{
	static const uint64_t bases[] = {0xfee00000, 0xfee00000, 0xfec00000, 0xfed00000, BOARD_MMIO,
	        BOARD_LOG, 0xd1000000, 0xe0000000, 0xb0000000, 0xfffffff0, 0xc0000000};

	return (bases[below(b, sizeof(bases) / sizeof(bases[0]))] + below(b, 0x480)) &
	       (below(b, 4) ? ~15ull : ~0ull);
}

static void do_mmio(struct rubbish *b)
{
	uint64_t at = device_address(b), v = value(b), other = device_address(b),
	         count = below(b, 40);

	switch (below(b, 13)) {
	case 0: *(volatile uint8_t *)at = (uint8_t)v; break;
	case 1: *(volatile uint16_t *)at = (uint16_t)v; break;
	case 2:
	case 3: *(volatile uint32_t *)at = (uint32_t)v; break;
	case 4: *(volatile uint64_t *)at = v; break;
	case 5: (void)*(volatile uint32_t *)at; break;
	case 6: (void)*(volatile uint64_t *)at; break;
	case 7:
		__asm__ volatile("lock xaddl %k0, (%1)" : "+r"(v) : "r"(at) : "memory", "cc");
		break;
	case 8:
		__asm__ volatile("rep movsb" : "+D"(at), "+S"(other), "+c"(count) : : "memory");
		break;
	case 9: __asm__ volatile("rep stosq" : "+D"(at), "+c"(count) : "a"(v) : "memory"); break;
	case 10: __asm__ volatile("movups %%xmm0, (%0)" : : "r"(at) : "memory"); break;
	case 11:
		__asm__ volatile("lock cmpxchg %1, (%0)"
		                 :
		                 : "r"(at), "r"(v), "a"(v)
		                 : "memory", "cc");
		break;
	default: __asm__ volatile("call *%0" : : "r"(at) : "memory"); break;
	}
}

static uint32_t msr(struct rubbish *b)
{
	static const uint32_t known[] = {0x10, 0x11, 0x12, 0x1b, 0x3b, 0x6e0, 0x277, 0x2ff, 0x200,
	        0x250, 0x1d9, 0x1a0, 0x8b, 0x79, 0x174, 0x175, 0x176, 0xda0, 0xc0000080, 0xc0000081,
	        0xc0000082, 0xc0000084, 0xc0000100, 0xc0000102, 0xc0000103, 0xc0010114, 0xc0010117,
	        0xc0010015, 0x4b564d00, 0x4b564d01, 0x4b564d02, 0x4b564d03, 0x4b564d04, 0x4b564d05};

	switch (below(b, 4)) {
	case 0: return 0x800 + (uint32_t)below(b, 64);
	case 1: return (uint32_t)value(b);
	default: return known[below(b, sizeof(known) / sizeof(known[0]))];
	}
}

static void do_msr(struct rubbish *b)
{
	uint32_t m = msr(b);

	/* GS base is how this guest finds its own feet. */
	if (m == 0xc0000101)
		return;
	if (below(b, 2))
		rdmsr(m);
	else
		wrmsr(m, value(b));
}

static void do_hypercall(struct rubbish *b)
{
	uint64_t nr = below(b, 2)   ? below(b, 14)
	              : below(b, 2) ? 0x4b450000 + below(b, 40)
	                            : value(b);
	uint64_t address = below(b, 2) ? 0x600000 + below(b, 4096) : value(b);

	__asm__ volatile("vmmcall"
	                 : "+a"(nr)
	                 : "b"(address), "c"(value(b)), "d"(value(b)), "S"(below(b, 256))
	                 : "memory");
}

static void do_register(struct rubbish *b)
{
	uint64_t v = value(b);

	switch (below(b, 10)) {
	case 0: WRITE_CR(0, READ_CR(0) ^ (1ull << below(b, 31))); break;
	case 1: WRITE_CR(4, v); break;
	case 2: WRITE_CR(4, READ_CR(4) ^ (1ull << below(b, 24))); break;
	case 3: WRITE_CR(8, below(b, 16)); break;
	case 4: WRITE_CR(3, below(b, 8) ? TABLES | (v & 0x18) : 0xd1000000); break;
	case 5: WRITE_CR(2, v); break;
	case 6:
		__asm__ volatile("mov %0, %%dr0; mov %1, %%dr7"
		                 :
		                 : "r"(v), "r"(below(b, 0x400) | 0x400));
		break;
	case 7:
		__asm__ volatile("xsetbv" : : "a"((uint32_t)v), "d"((uint32_t)next(b)), "c"(0));
		break;
	case 8: cpuid((uint32_t)v, (uint32_t)below(b, 8)); break;
	default: __asm__ volatile("wbinvd; invlpg (%0)" : : "r"(v) : "memory"); break;
	}
}

static void do_ipi(struct rubbish *b)
{
	apic_ipi((uint32_t)value(b), (uint32_t)next(b) & 0xfcfff);
	if (below(b, 4) == 0) {
		irq_on();
		for (unsigned i = 0; i < 200; i++)
			pause();
		irq_off();
	}
}

/*
 * LTR becomes LLDT. The emulator takes an LTR of the null selector, which is #GP on any CPU, and
 * ends itself ("invalid tss") at the next interrupt with a stack of its own.
 */
static void avoid_ltr(uint8_t code[CODE_BYTES])
{
	for (unsigned i = 0; i + 2 < CODE_BYTES; i++)
		if (code[i] == 0x0f && code[i + 1] == 0x00 && (code[i + 2] >> 3 & 7) == 3)
			code[i + 2] ^= 1 << 3;
}

/* Rubbish as code, with device addresses in registers, so that the decoder gets some of it. */
static void do_code(struct rubbish *b)
{
	static const uint8_t starts[] = {
	        0x0f, 0xf0, 0xf2, 0xf3, 0x66, 0x67, 0x48, 0x8b, 0x89, 0xc6, 0xf6, 0x2e};

	for (unsigned i = 0; i < CODE_BYTES; i++)
		b->code[i] = (uint8_t)next(b);
	if (below(b, 2))
		b->code[0] = starts[below(b, sizeof(starts))];
	avoid_ltr(b->code);
	memset(b->code + CODE_BYTES, 0xc3, 8);
	__asm__ volatile("call *%0"
	                 :
	                 : "r"(b->code), "D"(device_address(b)), "S"(device_address(b)),
	                 "a"(device_address(b)), "c"(below(b, 64)), "d"((uint64_t)port(b))
	                 : "memory", "cc", "rbx", "r8", "r9", "r10", "r11");
}

static void one(void *argument)
{
	struct rubbish *b = argument;

	switch (below(b, 16)) {
	case 0:
	case 1:
	case 2:
	case 3: do_port(b); break;
	case 4:
	case 5:
	case 6:
	case 7: do_mmio(b); break;
	case 8:
	case 9: do_msr(b); break;
	case 10:
	case 11: do_hypercall(b); break;
	case 12: do_register(b); break;
	case 13: do_ipi(b); break;
	default: do_code(b); break;
	}
}

/* The runner's tables, moved. */
static void move_tables(void)
{
	uint64_t *pml4 = (uint64_t *)(uintptr_t)TABLES, *pdpt = pml4 + 512;

	memcpy(pml4, (const void *)(uintptr_t)BOARD_TABLES, 6 * 4096);
	pml4[0] += TABLES - BOARD_TABLES;
	for (unsigned i = 0; i < 4; i++)
		pdpt[i] += TABLES - BOARD_TABLES;
}

static void run(void)
{
	struct rubbish *b = &rubbish[this_cpu()->index];

	b->r.state = info->seed * 0x9e3779b97f4a7c15ull + info->boots * 0xbf58476d1ce4e5b9ull +
	             this_cpu()->index;
	WRITE_CR(3, TABLES);
	for (;;)
		catch (one, b);
}

void guest_main(void)
{
	print("seed %lu boot %lu\n", info->seed, info->boots);
	shared_random.state = info->seed + info->boots;
	move_tables();
	apic_enable(random_next(&shared_random) & 1);
	for (unsigned i = 1; i < info->vcpus; i++)
		if (cpu_start(i))
			cpu_run(i, run);
	run();
}
