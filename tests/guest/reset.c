/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends itself in the way that its argument says: reset ports, triple faults on either vCPU, and
 * worse. */

#include "tests/guest/lib/guest.h"

static void triple_fault(void)
{
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) none = {0, 0};

	__asm__ volatile("lidt %0; int3" : : "m"(none));
}

static void spin(void)
{
	for (;;)
		pause();
}

/* An exception whose handler's stack lies where nothing is. */
static void no_stack(void)
{
	__asm__ volatile("movq %0, %%rsp; pushq $1; ud2" : : "r"(0xd1001000ull));
}

/* Page tables where nothing is. */
static void no_tables(void)
{
	WRITE_CR(3, 0xd1000000);
	__asm__ volatile("1: jmp 1b");
}

static void on_ap(void (*fn)(void))
{
	if (info->vcpus < 2 || !cpu_start(1))
		guest_exit(95);
	cpu_run(1, fn);
}

static bool is(const char *way)
{
	return argument(way, 0) == 1;
}

void guest_main(void)
{
	apic_enable(false);
	print("boot %lu\n", info->boots);
	if (info->boots == argument("boots=", UINT64_MAX))
		guest_exit(0);
	if (is("cf9="))
		outb(0xcf9, 6);
	else if (is("kbd="))
		outb(0x64, 0xfe);
	else if (is("port92="))
		outb(0x92, 1);
	else if (is("triple="))
		triple_fault();
	else if (is("ap=")) {
		on_ap(triple_fault);
		spin();
	} else if (is("both=")) {
		on_ap(triple_fault);
		triple_fault();
	} else if (is("nostack="))
		no_stack();
	else if (is("notables="))
		no_tables();
	spin();
}
