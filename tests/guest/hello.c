/* SPDX-License-Identifier: BSD-2-Clause */
/* The first thing that a VM must be able to do: run, print, and say that it is done. */

#include "tests/guest/lib/guest.h"

void guest_main(void)
{
	test("runs in 64-bit mode and prints on COM1");
	print("hello from a VM with %u vCPUs\n", info->vcpus);
	check_same(rdmsr(0xc0000080) & 0xd00, 0xd00);
}
