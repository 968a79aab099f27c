/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes the runner's info block from what a Multiboot loader told, so that a guest runs anywhere.
 */

#include "hw/multiboot.h"
#include "tests/guest/lib/guest.h"
#include "tests/guest/lib/internal.h"

#define PM_TIMER      0x608
#define PM_TIMER_HZ   3579545u
#define MEASURE_TICKS (PM_TIMER_HZ / 20)

/* Against the PM timer, which is at this port on keelOS and on QEMU's q35; 1 GHz where it stands.
 */
static uint64_t measure_tsc_hz(void)
{
	uint32_t start = inl(PM_TIMER), ticks = 0;
	uint64_t tsc = rdtsc();

	for (unsigned reads = 0; reads < 1000000 && ticks < MEASURE_TICKS; reads++)
		ticks = (inl(PM_TIMER) - start) & 0xffffff;
	return ticks < MEASURE_TICKS ? 1000000000 : (rdtsc() - tsc) * PM_TIMER_HZ / ticks;
}

/* The line without its first word, which is the image's path. */
static void copy_arguments(struct board_info *out, const char *line)
{
	unsigned n = 0;

	while (*line != 0 && *line != ' ')
		line++;
	while (*line == ' ')
		line++;
	while (*line != 0 && n < BOARD_ARGUMENTS - 1)
		out->arguments[n++] = *line++;
}

void guest_from_multiboot(const struct mb1_info *mb)
{
	struct board_info *out = (struct board_info *)(uintptr_t)BOARD_INFO;

	memset(out, 0, sizeof(*out));
	if (mb->flags & MB1_INFO_CMDLINE)
		copy_arguments(out, (const char *)(uintptr_t)mb->cmdline);
	out->magic = BOARD_MAGIC;
	out->vcpus = (uint32_t)argument("vcpus=", 1);
	out->ram_bytes = ((uint64_t)mb->mem_upper + 1024) << 10;
	out->tsc_hz = measure_tsc_hz();
	out->seed = argument("seed=", 1);
}
