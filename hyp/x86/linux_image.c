/* SPDX-License-Identifier: BSD-2-Clause */
/* bzImage heads and where their parts go (Documentation/arch/x86/boot.rst). */
#include "hyp/x86/linux_image.h"

#include "hyp/x86/e820.h"
#include "lib/string.h"

#define FOUR_GIB     (4ull << 30)
#define LOW_MIN      0x1000u
#define LOW_LIMIT    0xa0000u
#define PAYLOAD_UNIT 16u /* of syssize */

static const char *check_header(const struct linux_setup_header *h)
{
	if (h->boot_flag != LINUX_BOOT_FLAG || h->header != LINUX_HEADER_MAGIC)
		return "it is no bzImage (no HdrS at offset 202h)";
	if (h->version < LINUX_PROTOCOL_MIN)
		return "its boot protocol is older than 2.12";
	if (!(h->xloadflags & LINUX_XLF_KERNEL_64) || !(h->loadflags & LINUX_LOADED_HIGH))
		return "it has no 64-bit entry point";
	if (h->relocatable_kernel &&
	        (!h->kernel_alignment || h->kernel_alignment & (h->kernel_alignment - 1)))
		return "its alignment is not a power of two";
	return NULL;
}

const char *linux_image_parse(const void *image, uint64_t size, struct linux_layout *l)
{
	const uint8_t *bytes = image;
	struct linux_setup_header *h = &l->header;
	const char *why;
	uint64_t end, sects;

	memset(l, 0, sizeof(*l));
	if (size < LINUX_HEADER_OFFSET + sizeof(*h))
		return "it is too small for a bzImage";
	/* An older kernel's head is shorter; what follows it is code. */
	end = LINUX_HEADER_END_BASE + bytes[LINUX_HEADER_END_BASE - 1];
	if (end > LINUX_HEADER_OFFSET + sizeof(*h))
		end = LINUX_HEADER_OFFSET + sizeof(*h);
	memcpy(h, bytes + LINUX_HEADER_OFFSET, end - LINUX_HEADER_OFFSET);
	why = check_header(h);
	if (why)
		return why;
	sects = h->setup_sects ? h->setup_sects : LINUX_SETUP_SECTS_IF_ZERO;
	l->payload_offset = (sects + 1) * LINUX_SECTOR_BYTES;
	l->payload_bytes = (uint64_t)h->syssize * PAYLOAD_UNIT;
	if (l->payload_bytes <= LINUX_ENTRY_64_OFFSET || size < l->payload_offset ||
	        size - l->payload_offset < l->payload_bytes)
		return "it is cut off";
	l->span_bytes = h->init_size > l->payload_bytes ? h->init_size : l->payload_bytes;
	return NULL;
}

enum { AVOID_KERNEL_SOURCE, AVOID_INITRD_SOURCE, AVOID_KERNEL, AVOID_INITRD, AVOID_COUNT };

static bool meets_source(const struct boot_range *avoid, uint64_t start, uint64_t size)
{
	for (unsigned i = 0; i <= AVOID_INITRD_SOURCE; i++)
		if (avoid[i].size && e820_overlaps(&avoid[i], start, size))
			return true;
	return false;
}

static uint64_t place_kernel(
        const struct linux_image *m, const struct linux_layout *l, const struct boot_range *avoid)
{
	uint64_t want = l->header.pref_address;

	if (e820_is_ram(m->e820, m->e820_count, want, l->span_bytes) &&
	        want + l->span_bytes <= FOUR_GIB && !meets_source(avoid, want, l->span_bytes))
		return want;
	if (!l->header.relocatable_kernel)
		return E820_NONE;
	/* Not lower: the kernel would move itself up to its preferred address. */
	return e820_find_top(m->e820, m->e820_count, l->span_bytes, l->header.kernel_alignment,
	        want, FOUR_GIB, avoid, AVOID_COUNT);
}

static uint64_t place_initrd(
        const struct linux_image *m, const struct linux_layout *l, const struct boot_range *avoid)
{
	bool high = l->header.xloadflags & LINUX_XLF_CAN_BE_LOADED_ABOVE_4G;
	uint64_t limit = high ? UINT64_MAX : (uint64_t)l->header.initrd_addr_max + 1;
	uint64_t bytes = (m->initrd_bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	uint64_t here = m->initrd.value, at;

	if (!(here & (PAGE_BYTES - 1)) && here + bytes <= limit &&
	        e820_is_ram(m->e820, m->e820_count, here, bytes) &&
	        !e820_overlaps(&avoid[AVOID_KERNEL], here, bytes))
		return here;
	at = e820_find_top(m->e820, m->e820_count, bytes, PAGE_BYTES, LOW_MIN,
	        limit < FOUR_GIB ? limit : FOUR_GIB, avoid, AVOID_COUNT);
	if (at == E820_NONE && high)
		at = e820_find_top(m->e820, m->e820_count, bytes, PAGE_BYTES, FOUR_GIB, limit,
		        avoid, AVOID_COUNT);
	return at;
}

const char *linux_image_place(const struct linux_image *m, struct linux_layout *l)
{
	struct boot_range avoid[AVOID_COUNT] = {
	        [AVOID_KERNEL_SOURCE] = {m->kernel.value, m->kernel_bytes, BOOT_RANGE_RAM},
	        [AVOID_INITRD_SOURCE] = {m->initrd.value, m->initrd_bytes, BOOT_RANGE_RAM},
	};

	l->kernel = place_kernel(m, l, avoid);
	if (l->kernel == E820_NONE)
		return "there is no room for the kernel in root's memory below 4 GiB";
	avoid[AVOID_KERNEL] = (struct boot_range){l->kernel, l->span_bytes, BOOT_RANGE_RAM};
	l->initrd = 0;
	if (m->initrd_bytes) {
		l->initrd = place_initrd(m, l, avoid);
		if (l->initrd == E820_NONE)
			return "there is no room for the initrd in root's memory";
		avoid[AVOID_INITRD] = (struct boot_range){
		        l->initrd, m->initrd_bytes, BOOT_RANGE_RAM};
	}
	/* Below 640 KiB, where the kernel's own choice of a random place never falls. */
	l->block = e820_find_top(m->e820, m->e820_count, LINUX_BLOCK_BYTES, PAGE_BYTES, LOW_MIN,
	        LOW_LIMIT, avoid, AVOID_COUNT);
	if (l->block == E820_NONE)
		l->block = e820_find_top(m->e820, m->e820_count, LINUX_BLOCK_BYTES, PAGE_BYTES,
		        LOW_MIN, FOUR_GIB, avoid, AVOID_COUNT);
	return l->block == E820_NONE ? "there is no room for the zero page" : NULL;
}
