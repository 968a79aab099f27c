/* SPDX-License-Identifier: BSD-2-Clause */
/* sources: hyp/core/guest_memory.c */
/* Which guest-physical addresses are RAM, and which of the VM's frames each is in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hyp/core/guest_memory.h"
#include "hyp/core/vm.h"
#include "hyp/x86/x86.h"

#define GIB (1ull << 30)

bool guest_walk(struct vm *vm, const struct cpu_mode *mode, uint64_t rflags, uint64_t linear,
        unsigned access, gpa_t *gpa, uint32_t *error)
{
	(void)vm, (void)mode, (void)rflags, (void)linear, (void)access, (void)gpa, (void)error;
	return false;
}

static struct vm vm;
static uint32_t *frames;

/* Frame i of the VM's list is number 2 * i + 1. */
static void make(uint64_t ram_bytes, uint64_t firmware_bytes)
{
	uint32_t count = (uint32_t)((ram_bytes + firmware_bytes) / LARGE_BYTES);

	free(frames);
	frames = calloc(count, sizeof(*frames));
	for (uint32_t i = 0; i < count; i++)
		frames[i] = 2 * i + 1;
	vm = (struct vm){.ram_bytes = ram_bytes + firmware_bytes,
	        .firmware_bytes = firmware_bytes,
	        .frames = frames,
	        .ram_frames = count};
}

/* The index in the list of the frame that a page is in, by its first and its last byte; -1: no
 * RAM. */
static int64_t frame_of(uint64_t page)
{
	const uint8_t *first = guest_ram(&vm, GPA(page), 1);
	const uint8_t *last = guest_ram(&vm, GPA(page + PAGE_BYTES - 1), 1);
	uint64_t at;

	if (first == NULL || last == NULL) {
		assert_true(first == last);
		return -1;
	}
	assert_true(last == first + PAGE_BYTES - 1);
	at = (uint64_t)(first - (const uint8_t *)hpa_to_virt(HPA(0)));
	assert_int_equal(at % LARGE_BYTES, page % LARGE_BYTES);
	return (int64_t)((at / LARGE_BYTES - 1) / 2);
}

static void test_small(void **state)
{
	(void)state;
	make(64u << 20, 0);
	assert_int_equal(frame_of(0), 0);
	assert_int_equal(frame_of((64u << 20) - PAGE_BYTES), 31);
	assert_int_equal(frame_of(64u << 20), -1);
	assert_int_equal(frame_of(4 * GIB - PAGE_BYTES), -1);
	assert_int_equal(frame_of(4 * GIB), -1);
	assert_null(guest_ram(&vm, GPA(4095), 2));
	assert_null(guest_ram(&vm, GPA(0), 0));
	assert_null(guest_ram(&vm, GPA(UINT64_MAX - PAGE_BYTES + 1), 1));
}

static void test_firmware_ends_at_4_gib(void **state)
{
	(void)state;
	make(64u << 20, 4u << 20);
	assert_int_equal(frame_of((64u << 20) - PAGE_BYTES), 31);
	assert_int_equal(frame_of(64u << 20), -1);
	assert_int_equal(frame_of(4 * GIB - (4u << 20) - PAGE_BYTES), -1);
	assert_int_equal(frame_of(4 * GIB - (4u << 20)), 32);
	assert_int_equal(frame_of(4 * GIB - PAGE_BYTES), 33);
	assert_int_equal(frame_of(4 * GIB), -1);
	assert_true(guest_is_rom(&vm, GPA(4 * GIB - (4u << 20))));
	assert_true(guest_is_rom(&vm, GPA(4 * GIB - 1)));
	assert_false(guest_is_rom(&vm, GPA(4 * GIB)));
	assert_false(guest_is_rom(&vm, GPA(4 * GIB - (4u << 20) - 1)));
	/* Refused before any byte of it is touched. */
	assert_false(guest_write(&vm, GPA(4 * GIB - PAGE_BYTES), "x", 1));
}

static void test_firmware_beside_high_ram(void **state)
{
	const int64_t low = (int64_t)(KEEL_RAM_BELOW_4G / LARGE_BYTES);

	(void)state;
	make(KEEL_RAM_BELOW_4G + (8u << 20), 2u << 20);
	assert_int_equal(frame_of(KEEL_RAM_BELOW_4G - PAGE_BYTES), low - 1);
	assert_int_equal(frame_of(KEEL_RAM_BELOW_4G), -1);
	assert_int_equal(frame_of(4 * GIB), low);
	assert_int_equal(frame_of(4 * GIB + (8u << 20) - PAGE_BYTES), low + 3);
	assert_int_equal(frame_of(4 * GIB + (8u << 20)), -1);
	assert_int_equal(frame_of(4 * GIB - (2u << 20)), low + 4);
	assert_int_equal(frame_of(4 * GIB - (2u << 20) - PAGE_BYTES), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_small),
	        cmocka_unit_test(test_firmware_ends_at_4_gib),
	        cmocka_unit_test(test_firmware_beside_high_ram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
