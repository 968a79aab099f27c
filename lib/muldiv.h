/* SPDX-License-Identifier: BSD-2-Clause */
/* Products of 64 x 64 bits and quotients of 128 / 64 bits, without a library's help. */
#pragma once

#include "abi/types.h"

/* (a * b) >> shift, saturated. Needs: shift < 128. */
static inline uint64_t muldiv_mul_shift(uint64_t a, uint64_t b, unsigned shift)
{
	unsigned __int128 product = ((unsigned __int128)a * b) >> shift;

	return product > UINT64_MAX ? UINT64_MAX : (uint64_t)product;
}

/* a * b / divisor, rounded down, saturated (also for divisor 0). */
static inline uint64_t muldiv_u64(uint64_t a, uint64_t b, uint64_t divisor)
{
	unsigned __int128 product = (unsigned __int128)a * b;
	uint64_t high = (uint64_t)(product >> 64), quotient, rest;

	if (high >= divisor)
		return UINT64_MAX;
	__asm__("divq %4"
	        : "=a"(quotient), "=d"(rest)
	        : "a"((uint64_t)product), "d"(high), "rm"(divisor)
	        : "cc");
	return quotient;
}
