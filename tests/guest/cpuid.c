/* SPDX-License-Identifier: BSD-2-Clause */
/* CPUID: who is below, what is hidden, and that what is shown works, on every vCPU alike. */

#include "tests/guest/lib/guest.h"

#define CR4_PCIDE    (1ull << 17)
#define CR4_OSXSAVE  (1ull << 18)
#define CR4_SMEP     (1ull << 20)
#define CR4_SMAP     (1ull << 21)
#define CR4_UMIP     (1ull << 11)
#define CR4_FSGSBASE (1ull << 16)
#define CR4_PKE      (1ull << 22)
#define CR4_VMXE     (1ull << 13)
#define CR4_LA57     (1ull << 12)
#define CR4_PCE      (1ull << 8)

static void test_signature(void)
{
	struct cpuid_regs r = cpuid(0x40000000, 0);

	check_same(cpuid(1, 0).ecx >> 31, 1);
	check(r.eax >= 0x40000001);
	check_same(r.ebx, 0x4b4d564b); /* KVMKVMKVM */
	check_same(r.ecx, 0x564b4d56);
	check_same(r.edx, 0x4d);
	r = cpuid(0x40000001, 0);
	for (unsigned bit = 0; bit < 32; bit++)
		if ((1u << bit) & (1u << 0 | 1u << 3 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 24))
			check(r.eax >> bit & 1);
	r = cpuid(0x40000010, 0);
	check_same(r.eax, info->tsc_hz / 1000);
	check_same(r.ebx, 1000000);
	r = cpuid(0x40000100, 0);
	check_same(r.ebx, 0x6c65654b);
	check_same(cpuid(0x40000101, 0).ebx, 2); /* a VM */
}

static void do_insn_vmrun(void *argument)
{
	__asm__ volatile("vmrun" : : "a"(argument) : "memory");
}
static void do_insn_vmload(void *argument)
{
	__asm__ volatile("vmload" : : "a"(argument) : "memory");
}
static void do_stgi(void *argument)
{
	(void)argument;
	__asm__ volatile("stgi");
}
static void do_monitor(void *argument)
{
	__asm__ volatile("monitor" : : "a"(argument), "c"(0), "d"(0));
}
static void do_mwait(void *argument)
{
	(void)argument;
	__asm__ volatile("mwait" : : "a"(0), "c"(0));
}
static void set_svme(void *argument)
{
	(void)argument;
	wrmsr(0xc0000080, rdmsr(0xc0000080) | 1u << 12);
}

/* What a VM cannot have is not shown, and refused like on a CPU without it. */
static void test_hidden(void)
{
	static uint8_t page[4096] __attribute__((aligned(4096)));
	struct cpuid_regs r = cpuid(1, 0);

	check_same(r.ecx >> 3 & 1, 0);               /* MONITOR */
	check_same(r.ecx >> 5 & 1, 0);               /* VMX */
	check_same(cpuid(0x80000001, 0).ecx & 4, 0); /* SVM */
	r = cpuid(0x8000000a, 0);
	check_same(r.eax | r.ebx | r.ecx | r.edx, 0);
	check_same(catch (do_insn_vmrun, page), VECTOR_UD);
	check_same(catch (do_insn_vmload, page), VECTOR_UD);
	check_same(catch (do_stgi, NULL), VECTOR_UD);
	check_same(catch (do_monitor, page), VECTOR_UD);
	check_same(catch (do_mwait, NULL), VECTOR_UD);
	check_same(catch (set_svme, NULL), VECTOR_GP);
	check_same(rdmsr(0xc0000080) >> 12 & 1, 0);
	check_same(cpuid(0x12345678, 0).eax, 0);
	check_same(cpuid(0x90000000, 0).eax, 0);
}

static void set_cr4(void *bits)
{
	WRITE_CR(4, READ_CR(4) | (uint64_t)bits);
}

/* A bit of CR4 can be set where its feature is shown, and is #GP where not. */
static void check_cr4(uint64_t bits, bool shown)
{
	uint64_t before = READ_CR(4);
	int vector = catch (set_cr4, (void *)bits);

	check_same(vector, shown ? -1 : VECTOR_GP);
	check_same(READ_CR(4), shown ? before | bits : before);
	WRITE_CR(4, before);
}

static void do_xgetbv(void *argument)
{
	uint32_t lo, hi;

	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"((uint32_t)(uint64_t)argument));
}
static void do_xsetbv(void *value)
{
	__asm__ volatile("xsetbv" : : "a"((uint32_t)(uint64_t)value), "d"(0), "c"(0));
}

static void test_cr4(void)
{
	struct cpuid_regs f = cpuid(1, 0), s = cpuid(7, 0);

	check_cr4(CR4_OSXSAVE, f.ecx >> 26 & 1);
	check_cr4(CR4_PCIDE, f.ecx >> 17 & 1);
	check_cr4(CR4_SMEP, s.ebx >> 7 & 1);
	check_cr4(CR4_SMAP, s.ebx >> 20 & 1);
	check_cr4(CR4_FSGSBASE, s.ebx & 1);
	check_cr4(CR4_UMIP, s.ecx >> 2 & 1);
	check_cr4(CR4_VMXE, false);
	check_same(cpuid(1, 0).ecx >> 27 & 1, 0);
}

static void test_xsave(void)
{
	struct cpuid_regs d = cpuid(0xd, 0);
	uint64_t cr4 = READ_CR(4);

	if (!(cpuid(1, 0).ecx >> 26 & 1))
		return;
	check_same(catch (do_xgetbv, NULL), VECTOR_UD); /* OSXSAVE is off */
	WRITE_CR(4, cr4 | CR4_OSXSAVE);
	check_same(cpuid(1, 0).ecx >> 27 & 1, 1);
	check_same(catch (do_xgetbv, NULL), -1);
	check_same(catch (do_xgetbv, (void *)5), VECTOR_GP);
	check_same(catch (do_xsetbv, (void *)0), VECTOR_GP); /* x87 is always there */
	check_same(catch (do_xsetbv, (void *)5), VECTOR_GP); /* AVX without SSE */
	check_same(catch (do_xsetbv, (void *)(1ull << 30 | 1)), VECTOR_GP);
	check_same(d.eax & 3, 3);
	check_same(catch (do_xsetbv, (void *)(uint64_t)3), -1);
	check_same(cpuid(0xd, 0).ebx, 576); /* for what XCR0 enables now */
	check_same(catch (do_xsetbv, (void *)(uint64_t)d.eax), -1);
	check_same(cpuid(0xd, 0).ebx, d.ecx);
	check(d.ecx >= 576);
	check_same(catch (do_xsetbv, (void *)(uint64_t)1), -1);
	WRITE_CR(4, cr4);
}

static void do_features(void *argument)
{
	uint64_t out, mask = (uint64_t)argument;

	if (mask & 1)
		__asm__ volatile("popcnt %0, %0" : "=r"(out) : "0"(1ull));
	if (mask & 2)
		__asm__ volatile("rdtscp" : "=a"(out) : : "rcx", "rdx");
	if (mask & 4)
		__asm__ volatile("movbe %1, %0" : "=r"(out) : "m"(mask));
	if (mask & 8)
		__asm__ volatile("rdrand %0" : "=r"(out));
	if (mask & 16)
		__asm__ volatile("rdseed %0" : "=r"(out));
	if (mask & 32)
		__asm__ volatile("lzcnt %0, %0" : "=r"(out) : "0"(1ull));
	if (mask & 64)
		__asm__ volatile("clflushopt %0" : "+m"(mask));
	if (mask & 128)
		__asm__ volatile("clwb %0" : "+m"(mask));
	if (mask & 256)
		__asm__ volatile("andn %0, %0, %0" : "=r"(out) : "0"(1ull));
	if (mask & 512)
		__asm__ volatile("shlx %0, %0, %0" : "=r"(out) : "0"(1ull));
	if (mask & 1024)
		__asm__ volatile("rdpid %0" : "=r"(out));
}

static void test_instructions(void)
{
	struct cpuid_regs f = cpuid(1, 0), s = cpuid(7, 0), e = cpuid(0x80000001, 0);
	uint64_t mask = (f.ecx >> 23 & 1) | (e.edx >> 27 & 1) << 1 | (f.ecx >> 22 & 1) << 2 |
	                (f.ecx >> 30 & 1) << 3 | (s.ebx >> 18 & 1) << 4 | (e.ecx >> 5 & 1) << 5 |
	                (s.ebx >> 23 & 1) << 6 | (s.ebx >> 24 & 1) << 7 | (s.ebx >> 3 & 1) << 8 |
	                (s.ebx >> 8 & 1) << 9 | (s.ecx >> 22 & 1) << 10;

	for (unsigned bit = 0; bit < 11; bit++)
		if (mask >> bit & 1 && catch (do_features, (void *)(1ull << bit)) != -1)
			test_failed(__FILE__, __LINE__, "shown, but not there: feature", bit, 0);
	check(f.ecx >> 21 & 1);          /* x2APIC */
	check(f.ecx >> 24 & 1);          /* TSC deadline */
	check(s.ebx >> 1 & 1);           /* TSC_ADJUST */
	check(cpuid(6, 0).eax >> 2 & 1); /* ARAT */
	check_same(cpuid(0x80000008, 0).eax >> 8 & 0xff, 48);
}

static struct cpuid_regs seen[GUEST_CPUS_MAX][8];
static const uint32_t seen_leaves[8] = {0, 1, 7, 0xb, 0xd, 0x40000001, 0x80000001, 0x80000008};

static void look(void)
{
	for (unsigned i = 0; i < 8; i++)
		seen[this_cpu()->index][i] = cpuid(seen_leaves[i], 0);
}

/* All the same but the ids. */
static void test_topology(void)
{
	struct cpuid_regs t = cpuid(0xb, 1);

	look();
	for (unsigned c = 0; c < info->vcpus; c++) {
		struct cpuid_regs *s = seen[c];

		if (c != 0) {
			check(cpu_start(c));
			cpu_run(c, look);
			check(cpu_wait(c));
		}
		check_same(s[1].ebx >> 24, c);
		check_same(s[1].ebx >> 16 & 0xff, info->vcpus);
		check_same(s[3].edx, c);
		s[1].ebx &= 0xffffff;
		s[3].edx = 0;
		check_same(memcmp(s, seen[0], sizeof(seen[0])), 0);
	}
	check_same(t.ebx, info->vcpus);
	check((1u << t.eax) >= info->vcpus);
	check_same(cpuid(1, 0).edx >> 28 & 1, info->vcpus > 1);
}

void guest_main(void)
{
	apic_enable(false);
	test("KVM's and keelOS's signatures, paravirtual features");
	test_signature();
	test("nested virtualization, MONITOR and unknown leaves are hidden");
	test_hidden();
	test("CR4 has the bits that CPUID shows, and no others");
	test_cr4();
	test("XSAVE: OSXSAVE, XCR0, sizes");
	test_xsave();
	test("instructions that CPUID shows work");
	test_instructions();
	test("every vCPU sees the same, with its own id");
	test_topology();
}
