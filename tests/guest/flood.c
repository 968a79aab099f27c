/* SPDX-License-Identifier: BSD-2-Clause */
/* Floods its serial port, more than the ring holds, while a second vCPU counts its own time. */

#include "tests/guest/lib/guest.h"

static volatile bool stop;
static volatile uint64_t turns, longest;

static void count(void)
{
	uint64_t last = rdtsc();

	while (!stop) {
		uint64_t now = rdtsc();

		if (now - last > longest)
			longest = now - last;
		last = now;
		turns++;
	}
}

void guest_main(void)
{
	static uint8_t text[4096];
	uint64_t kib = argument("kib=", 600), bytes = argument("bytes=", 3000);

	apic_enable(false);
	if (info->vcpus > 1) {
		if (!cpu_start(1))
			guest_exit(95);
		cpu_run(1, count);
	}
	/* Without a look at the line status, as a careless guest does. */
	for (uint64_t i = 0; i < bytes; i++)
		outb(0x3f8, (uint8_t)('a' + i % 26));
	/* And faster than one exit a byte. */
	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)('A' + i % 26);
	for (uint64_t i = 0; i < kib / 4; i++) {
		const uint8_t *from = text;
		uint64_t count = sizeof(text);

		__asm__ volatile("rep outsb" : "+S"(from), "+c"(count) : "d"(0x3f8) : "memory");
	}
	stop = true;
	test("the other vCPU went on");
	if (info->vcpus > 1) {
		check(cpu_wait(1));
		check(turns > 1000);
	}
}
