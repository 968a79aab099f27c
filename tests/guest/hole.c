/* SPDX-License-Identifier: BSD-2-Clause */
/* Jumps into nothing, data in nothing, and code that runs off the end of memory: faults, not a dead
 * VM. */

#include "tests/guest/lib/guest.h"

static void jump(void *to)
{
	__asm__ volatile("call *%0" : : "r"(to) : "memory");
}

static void read_far(void *at)
{
	(void)*(volatile uint64_t *)at;
}

void guest_main(void)
{
	uint64_t end = info->ram_bytes;

	test("a jump to where nothing is");
	for (unsigned i = 0; i < 50; i++) {
		check_same(catch (jump, (void *)(0xd1000000ull + i * 7)), VECTOR_UD);
		check_same(catch (jump, (void *)(uint64_t)BOARD_MMIO), VECTOR_UD);
		check_same(catch (jump, (void *)0xfee00000ull), VECTOR_UD);
		check_same(catch (jump, (void *)end), VECTOR_UD);
	}
	test("code that runs off the end of memory");
	memset((void *)(end - 8), 0x90, 8);
	check_same(catch (jump, (void *)(end - 8)), VECTOR_UD);
	check_same(this_cpu()->caught_rip, end);
	*(volatile uint8_t *)(end - 1) = 0x8b; /* its other bytes are not there */
	check(catch (jump, (void *)(end - 1)) >= 0);
	test("a read of nothing gives ones");
	check_same(*(volatile uint64_t *)end, UINT64_MAX);
	check_same(*(volatile uint32_t *)(end - 2) >> 16, 0xffff);
	test("beyond what is mapped is a page fault");
	check_same(catch (read_far, (void *)(1ull << 40)), VECTOR_PF);
	check_same(this_cpu()->caught_cr2, 1ull << 40);
	check_same(catch (read_far, (void *)(1ull << 60)), VECTOR_GP);
}
