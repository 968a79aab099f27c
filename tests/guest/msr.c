/* SPDX-License-Identifier: BSD-2-Clause */
/* MSRs: an unknown one is #GP, a known one keeps what is legal and refuses what is not. */

#include "tests/guest/lib/guest.h"

struct access {
	uint32_t msr;
	uint64_t value;
};

static void do_read(void *argument)
{
	struct access *a = argument;

	a->value = rdmsr(a->msr);
}

static void do_write(void *argument)
{
	const struct access *a = argument;

	wrmsr(a->msr, a->value);
}

static int reads(uint32_t msr, uint64_t *value)
{
	struct access a = {.msr = msr};
	int vector = catch (do_read, &a);

	*value = a.value;
	return vector;
}

static int writes(uint32_t msr, uint64_t value)
{
	struct access a = {.msr = msr, .value = value};

	return catch (do_write, &a);
}

static void test_unknown(void)
{
	static const uint32_t unknown[] = {0x12345678, 0xc0001fff, 0x4b564dff, 0x40000000,
	        0xffffffff, 0x1fff, 0x4c8, 0xc0010117 /* VM_HSAVE_PA */, 0x480 /* VMX */, 0x3a};
	uint64_t value;

	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		if (unknown[i] != 0x3a)
			check_same(reads(unknown[i], &value), VECTOR_GP);
		check_same(writes(unknown[i], 0), VECTOR_GP);
		check_same(this_cpu()->caught_error, 0);
	}
	check_same(writes(0xc0010114, 0), VECTOR_GP); /* VM_CR is locked */
	check_same(reads(0xc0010114, &value), -1);
	check_same(value & 0x18, 0x18);
}

/* Keeps a legal value; refuses another with #GP and nothing changed. */
static void check_kept(uint32_t msr, uint64_t legal, uint64_t illegal)
{
	uint64_t before, value;

	check_same(reads(msr, &before), -1);
	check_same(writes(msr, legal), -1);
	check_same(reads(msr, &value), -1);
	check_same(value, legal);
	if (illegal != 0) {
		check_same(writes(msr, illegal), VECTOR_GP);
		check_same(reads(msr, &value), -1);
		check_same(value, legal);
	}
	check_same(writes(msr, before), -1);
}

static void test_kept(void)
{
	/* FS and GS base, LSTAR and the like are the CPU's own; the emulator's WRMSR takes them
	 * even when not canonical, so only their keeping is tested. */
	check_kept(0x277, 0x0007040600070401, 0x0002040600070406); /* PAT: type 2 is none */
	check_kept(0x277, 0x0606060606060606, 0x0806060606060606);
	check_kept(0xc0000081, 0x0023001000000000, 0); /* STAR */
	check_kept(0xc0000082, 0xffffffff81000000, 0); /* LSTAR */
	check_kept(0xc0000083, 0xffffffff81000000, 0);
	check_kept(0xc0000084, 0x257fd5, 0);
	check_kept(0xc0000100, 0xffff888000000000, 0); /* FS base */
	check_kept(0xc0000102, 0xffff888000000000, 0);
	check_kept(0x174, 0x10, 0);
	check_kept(0x175, 0x1000, 0);
	check_kept(0x176, 0xffffffff81000000, 0);
	check_kept(0xc0000103, 0x1234, 1ull << 32); /* TSC_AUX */
	check_kept(0x200, 0x80000006, 0x80000106);  /* MTRR: bits 8-11 are reserved */
	check_kept(0x201, 0xf80000800, 0xf80000a00);
	check_kept(0x2ff, 0xc06, 0xc02);
	check_kept(0xc0000080, rdmsr(0xc0000080) | 1, 1ull << 40); /* EFER */
	check_kept(0x1b, rdmsr(0x1b), rdmsr(0x1b) | 1);            /* APIC base */
}

/* EFER.LME cannot go while paging is on, and LMA is the CPU's own. */
static void test_efer(void)
{
	uint64_t efer = rdmsr(0xc0000080);

	check_same(writes(0xc0000080, efer & ~(1ull << 8)), VECTOR_GP);
	check_same(writes(0xc0000080, efer & ~(1ull << 10)), -1);
	check_same(rdmsr(0xc0000080), efer);
}

static void test_tsc(void)
{
	uint64_t before, adjust;

	check_same(rdmsr(0x3b), 0);
	before = rdtsc();
	wrmsr(0x3b, 1ull << 40);
	check(rdtsc() - before >= 1ull << 40);
	check(rdtsc() - before < (1ull << 40) + info->tsc_hz);
	wrmsr(0x10, 1000); /* moves TSC_ADJUST by the same amount */
	check(rdtsc() >= 1000);
	check(rdtsc() < info->tsc_hz);
	check(rdmsr(0x10) < info->tsc_hz);
	adjust = rdmsr(0x3b);
	check(adjust != 0 && adjust != 1ull << 40);
	wrmsr(0x3b, 0);
	check(rdtsc() >= before);
	check(rdtsc() - before < info->tsc_hz * 10);
}

void guest_main(void)
{
	apic_enable(false);
	test("an unknown MSR is #GP(0)");
	test_unknown();
	test("known ones keep legal values and refuse others");
	test_kept();
	test("EFER's rules");
	test_efer();
	test("TSC and TSC_ADJUST move each other");
	test_tsc();
}
