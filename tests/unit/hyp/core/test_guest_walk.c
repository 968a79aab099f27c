/* SPDX-License-Identifier: BSD-2-Clause */
/* The page walk against tables made by hand: every paging mode, right, fault code and A/D bit. */
/* sources: hyp/core/guest_walk.c */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/core/guest_memory.h"
#include "hyp/core/guest_walk.h"

#define RAM_BYTES 0x40000u
static uint8_t ram[RAM_BYTES] __attribute__((aligned(4096)));

void *guest_ram(struct vm *vm, gpa_t gpa, size_t bytes)
{
	(void)vm;
	if (gpa.value + bytes > RAM_BYTES || gpa.value % 4096 + bytes > 4096)
		return NULL;
	return ram + gpa.value;
}

#define P   1ull
#define W   2ull
#define U   4ull
#define A   0x20ull
#define D   0x40ull
#define PS  0x80ull
#define NX  (1ull << 63)
#define CR0 (1ull << 31 | 1)
#define WP  (1ull << 16)
#define PAE (1ull << 5)
#define LMA (1ull << 10)
#define NXE (1ull << 11)

static struct cpu_mode m;
static uint64_t flags;
static uint32_t error;

static uint64_t *e64(uint64_t at)
{
	return (uint64_t *)(void *)(ram + at);
}

static uint32_t *e32(uint64_t at)
{
	return (uint32_t *)(void *)(ram + at);
}

static int set_up(void **state)
{
	(void)state;
	memset(ram, 0, sizeof(ram));
	memset(&m, 0, sizeof(m));
	flags = 0;
	error = 0x5555;
	return 0;
}

/* 4 levels: 1000h -> 2000h -> 3000h -> 4000h -> frame 5000h, for linear 0000_1234_5678_9xxx's
 * indices. */
#define LINEAR 0x123456789abcull
static void long_tables(uint64_t rights)
{
	m.cr0 = CR0 | WP;
	m.cr3 = 0x1000;
	m.cr4 = PAE;
	m.efer = LMA | NXE;
	*e64(0x1000 + ((LINEAR >> 39) & 511) * 8) = 0x2000 | P | W | U;
	*e64(0x2000 + ((LINEAR >> 30) & 511) * 8) = 0x3000 | P | W | U;
	*e64(0x3000 + ((LINEAR >> 21) & 511) * 8) = 0x4000 | P | W | U;
	*e64(0x4000 + ((LINEAR >> 12) & 511) * 8) = 0x5000 | rights;
}

static bool walk(uint64_t linear, unsigned access, uint64_t *gpa)
{
	gpa_t g = GPA(0);
	bool ok = guest_walk(NULL, &m, flags, linear, access, &g, &error);

	*gpa = g.value;
	return ok;
}

static void assert_maps(uint64_t linear, unsigned access, uint64_t expect)
{
	uint64_t gpa;

	if (!walk(linear, access, &gpa))
		fail_msg("fault %x at %llx", error, (unsigned long long)linear);
	assert_int_equal(gpa, expect);
}

static void assert_faults(uint64_t linear, unsigned access, uint32_t code)
{
	uint64_t gpa;

	assert_false(walk(linear, access, &gpa));
	assert_int_equal(error, code);
}

static void no_paging_is_identity(void **state)
{
	(void)state;
	m.cr0 = 1;
	assert_maps(0x1234, WALK_WRITE, 0x1234);
}

static void long_mode_4k(void **state)
{
	(void)state;
	long_tables(P | W | U);
	assert_maps(LINEAR, 0, 0x5abc);
	assert_int_equal(*e64(0x4000 + 0x189 * 8) & (A | D), A);
	assert_int_equal(*e64(0x1000 + ((LINEAR >> 39) & 511) * 8) & (A | D), A);
	assert_maps(LINEAR, WALK_WRITE, 0x5abc);
	assert_int_equal(*e64(0x4000 + 0x189 * 8) & (A | D), A | D);
}

static void large_and_huge_pages(void **state)
{
	(void)state;
	long_tables(P);
	*e64(0x3000 + ((LINEAR >> 21) & 511) * 8) = 0x7fe00000 | P | W | PS;
	assert_maps(LINEAR, WALK_WRITE, 0x7fe00000 | (LINEAR & 0x1fffff));
	assert_int_equal(*e64(0x3000 + ((LINEAR >> 21) & 511) * 8) & (A | D), A | D);
	*e64(0x3000 + ((LINEAR >> 21) & 511) * 8) |= 0x2000; /* reserved in a 2 MiB entry */
	assert_faults(LINEAR, 0, PF_PRESENT | PF_RESERVED);
	*e64(0x2000 + ((LINEAR >> 30) & 511) * 8) = 0x1c0000000 | P | W | PS;
	assert_maps(LINEAR, 0, 0x1c0000000 | (LINEAR & 0x3fffffff));
	*e64(0x1000 + ((LINEAR >> 39) & 511) * 8) |= PS; /* no such page at that level */
	assert_faults(LINEAR, 0, PF_PRESENT | PF_RESERVED);
}

static void five_levels(void **state)
{
	uint64_t high = LINEAR | 3ull << 48;

	(void)state;
	long_tables(P | W | U);
	m.cr4 |= 1ull << 12;
	m.cr3 = 0x6000;
	*e64(0x6000 + 3 * 8) = 0x1000 | P | W | U;
	assert_maps(high, 0, 0x5abc);
	assert_faults(LINEAR, 0, 0);
}

static void rights_gather_over_the_levels(void **state)
{
	(void)state;
	long_tables(P | W | U);
	m.cpl = 3;
	assert_maps(LINEAR, WALK_WRITE, 0x5abc);
	*e64(0x2000 + ((LINEAR >> 30) & 511) * 8) &= ~W;
	assert_faults(LINEAR, WALK_WRITE, PF_PRESENT | PF_WRITE | PF_USER);
	assert_maps(LINEAR, 0, 0x5abc);
	*e64(0x1000 + ((LINEAR >> 39) & 511) * 8) &= ~U;
	assert_faults(LINEAR, 0, PF_PRESENT | PF_USER);
	m.cpl = 0;
	assert_faults(LINEAR, WALK_WRITE, PF_PRESENT | PF_WRITE); /* WP */
	m.cr0 &= ~WP;
	assert_maps(LINEAR, WALK_WRITE, 0x5abc);
}

static void faults_set_no_dirty_bit(void **state)
{
	(void)state;
	long_tables(P | U);
	m.cpl = 3;
	assert_faults(LINEAR, WALK_WRITE, PF_PRESENT | PF_WRITE | PF_USER);
	assert_int_equal(*e64(0x4000 + 0x189 * 8) & (A | D), 0);
}

static void absent_entries(void **state)
{
	(void)state;
	long_tables(0);
	assert_faults(LINEAR, WALK_WRITE, PF_WRITE);
	assert_faults(LINEAR, WALK_FETCH, PF_FETCH);
	m.cpl = 3;
	assert_faults(LINEAR, 0, PF_USER);
	/* Tables where no RAM is. */
	*e64(0x3000 + ((LINEAR >> 21) & 511) * 8) = 0xfee00000 | P | W | U;
	assert_faults(LINEAR, 0, PF_USER);
	m.cr3 = 0x000ffffffffff000;
	assert_faults(LINEAR, 0, PF_USER);
}

static void no_execute(void **state)
{
	(void)state;
	long_tables(P | U);
	assert_maps(LINEAR, WALK_FETCH, 0x5abc);
	*e64(0x3000 + ((LINEAR >> 21) & 511) * 8) |= NX; /* at any level */
	assert_faults(LINEAR, WALK_FETCH, PF_PRESENT | PF_FETCH);
	assert_maps(LINEAR, 0, 0x5abc);
	m.efer &= ~NXE;
	assert_faults(LINEAR, 0, PF_PRESENT | PF_RESERVED);
}

static void smep_and_smap(void **state)
{
	(void)state;
	long_tables(P | W | U);
	m.cr4 |= 1ull << 20;
	assert_faults(LINEAR, WALK_FETCH, PF_PRESENT | PF_FETCH);
	m.cr4 |= 1ull << 21;
	assert_faults(LINEAR, 0, PF_PRESENT);
	flags = 1ull << 18; /* AC */
	assert_maps(LINEAR, 0, 0x5abc);
	flags = 0;
	m.cpl = 3;
	assert_maps(LINEAR, WALK_FETCH, 0x5abc);
	m.cpl = 0;
	*e64(0x4000 + 0x189 * 8) &= ~U;
	assert_maps(LINEAR, WALK_FETCH, 0x5abc);
}

static void two_levels(void **state)
{
	uint64_t linear = 0x00c0b123;

	(void)state;
	m.cr0 = CR0 | WP;
	m.cr3 = 0x1fff; /* the low bits do not count */
	*e32(0x1000 + 3 * 4) = 0x2000 | P | W | U;
	*e32(0x2000 + 0xb * 4) = 0x3000 | P | W | U;
	assert_maps(linear, WALK_WRITE, 0x3123);
	assert_int_equal(*e32(0x2000 + 0xb * 4), 0x3000 | P | W | U | A | D);
	assert_int_equal(*e32(0x2000 + 0xc * 4), 0); /* the neighbour is untouched */
	*e32(0x1000 + 3 * 4) = 0x00400000 | P | W | PS;
	assert_faults(linear, 0, 0); /* without PSE the bit means nothing: a table outside of RAM */
	m.cr4 = 1ull << 4;
	assert_maps(linear, 0, 0x0040b123);
	*e32(0x1000 + 3 * 4) |= 0x5u << 13; /* PSE-36 */
	assert_maps(linear, 0, 0x50040b123);
}

static void pae_three_levels(void **state)
{
	uint64_t linear = 0xc0201123;

	(void)state;
	m.cr0 = CR0 | WP;
	m.cr4 = PAE;
	m.efer = NXE;
	m.cr3 = 0x1020; /* 32-byte aligned */
	*e64(0x1020 + 3 * 8) = 0x2000 | P;
	*e64(0x2000 + 1 * 8) = 0x3000 | P | W | U;
	*e64(0x3000 + 1 * 8) = 0x4000 | P | W | U;
	m.cpl = 3;
	assert_maps(linear, WALK_WRITE, 0x4123); /* the top entry has no rights to lack */
	assert_int_equal(*e64(0x1020 + 3 * 8), 0x2000 | P); /* nor an A bit */
	*e64(0x1020 + 3 * 8) |= W;                          /* reserved there */
	assert_faults(linear, 0, PF_PRESENT | PF_RESERVED | PF_USER);
}

/* Key 5 on the page: bit 0 of its two forbids access, bit 1 writes. */
static void protection_keys(void **state)
{
	const uint64_t key = 5ull << 59, pke = 1ull << 22;
	const uint32_t no_access = 1u << 10, no_write = 2u << 10;

	(void)state;
	long_tables(P | W | U | key);
	m.cpl = 3;
	m.pkru = no_access;
	assert_maps(LINEAR, 0, 0x5abc); /* CR4.PKE is off */
	m.cr4 |= pke;
	assert_faults(LINEAR, 0, PF_PRESENT | PF_USER | PF_KEY);
	assert_faults(LINEAR, WALK_WRITE, PF_PRESENT | PF_USER | PF_WRITE | PF_KEY);
	assert_maps(LINEAR, WALK_FETCH, 0x5abc);
	m.pkru = no_write;
	assert_maps(LINEAR, 0, 0x5abc);
	assert_faults(LINEAR, WALK_WRITE, PF_PRESENT | PF_USER | PF_WRITE | PF_KEY);
	m.cpl = 0; /* the kernel is bound too, its writes only under CR0.WP */
	assert_faults(LINEAR, WALK_WRITE, PF_PRESENT | PF_WRITE | PF_KEY);
	m.cr0 &= ~WP;
	assert_maps(LINEAR, WALK_WRITE, 0x5abc);
	m.pkru = ~(3u << 10); /* all other keys */
	assert_maps(LINEAR, WALK_WRITE, 0x5abc);
	m.pkru = no_access;
	long_tables(P | W | key); /* a page of the kernel's has no key */
	m.cr4 |= pke;
	assert_maps(LINEAR, WALK_WRITE, 0x5abc);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, set_up)
	const struct CMUnitTest tests[] = {
	        T(no_paging_is_identity),
	        T(long_mode_4k),
	        T(large_and_huge_pages),
	        T(five_levels),
	        T(rights_gather_over_the_levels),
	        T(faults_set_no_dirty_bit),
	        T(absent_entries),
	        T(no_execute),
	        T(smep_and_smap),
	        T(protection_keys),
	        T(two_levels),
	        T(pae_three_levels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
