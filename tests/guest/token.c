/* SPDX-License-Identifier: BSD-2-Clause */
/* vCPUs that spin on PAUSE for each other: a token goes round, and whoever waits for it does
 * nothing else. With fewer CPUs than vCPUs the spinners have to make way. */

#include "tests/guest/lib/guest.h"

static volatile uint64_t token, passes;

static void pass(void)
{
	unsigned me = this_cpu()->index;

	for (;;) {
		uint64_t now = token;

		if (now >= passes)
			return;
		if (now % info->vcpus == me)
			token = now + 1;
		else
			pause();
	}
}

void guest_main(void)
{
	passes = argument("passes=", 2000);
	test("a token goes round");
	for (unsigned i = 1; i < info->vcpus; i++) {
		check(cpu_start(i));
		cpu_run(i, pass);
	}
	pass();
	for (unsigned i = 1; i < info->vcpus; i++)
		check(cpu_wait(i));
	print("passes: %lu\n", token);
}
