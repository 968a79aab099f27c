/* SPDX-License-Identifier: BSD-2-Clause */
/* Guest-physical addresses to hyp's direct map, for RAM of the VM and nothing else. */

#include "hyp/core/guest_memory.h"
#include "hyp/core/vm.h"
#include "hyp/x86/x86.h"
#include "lib/string.h"

#define FOUR_GIB (4ull << 30)
#define NO_RAM   UINT64_MAX

bool guest_is_rom(const struct vm *vm, gpa_t gpa)
{
	return gpa.value >= FOUR_GIB - vm->firmware_bytes && gpa.value < FOUR_GIB;
}

/* How far into the VM's list of frames gpa lies. */
static uint64_t ram_offset(const struct vm *vm, uint64_t gpa)
{
	uint64_t ram = vm->ram_bytes - vm->firmware_bytes;

	if (guest_is_rom(vm, GPA(gpa)))
		return vm->ram_bytes - (FOUR_GIB - gpa);
	if (gpa >= FOUR_GIB)
		gpa -= FOUR_GIB - KEEL_RAM_BELOW_4G; /* RAM above the hole follows that below */
	else if (gpa >= KEEL_RAM_BELOW_4G)
		return NO_RAM;
	return gpa < ram ? gpa : NO_RAM;
}

void *guest_ram(struct vm *vm, gpa_t gpa, size_t bytes)
{
	uint64_t at = ram_offset(vm, gpa.value);

	if (bytes == 0 || bytes > PAGE_BYTES || gpa.value % PAGE_BYTES + bytes > PAGE_BYTES ||
	        at == NO_RAM)
		return NULL;
	return (uint8_t *)hpa_to_virt(HPA((uint64_t)vm->frames[at / LARGE_BYTES] << 21)) +
	       at % LARGE_BYTES;
}

/* Bytes up to the end of the page, or up to the end of what is wanted. */
static size_t piece(uint64_t gpa, size_t bytes)
{
	size_t left = PAGE_BYTES - gpa % PAGE_BYTES;

	return bytes < left ? bytes : left;
}

bool guest_read(struct vm *vm, gpa_t gpa, void *to, size_t bytes)
{
	uint8_t *out = to;

	while (bytes > 0) {
		size_t n = piece(gpa.value, bytes);
		const void *p = guest_ram(vm, gpa, n);

		if (p == NULL)
			return false;
		memcpy(out, p, n);
		out += n;
		gpa.value += n;
		bytes -= n;
	}
	return true;
}

static bool all_writable(struct vm *vm, gpa_t gpa, size_t bytes)
{
	for (size_t n; bytes > 0; bytes -= n, gpa.value += n) {
		n = piece(gpa.value, bytes);
		if (guest_ram(vm, gpa, n) == NULL || guest_is_rom(vm, gpa))
			return false;
	}
	return true;
}

bool guest_write(struct vm *vm, gpa_t gpa, const void *from, size_t bytes)
{
	const uint8_t *in = from;

	if (!all_writable(vm, gpa, bytes))
		return false;
	while (bytes > 0) {
		size_t n = piece(gpa.value, bytes);

		memcpy(guest_ram(vm, gpa, n), in, n);
		in += n;
		gpa.value += n;
		bytes -= n;
	}
	return true;
}

size_t guest_fetch(
        struct vcpu *v, const struct cpu_mode *mode, uint8_t bytes[15], struct fetch_fault *fault)
{
	uint64_t linear = v->regs.rip + (mode->long_mode ? 0 : mode->seg_base[KEEL_CS]);
	size_t got = 0;

	while (got < 15) {
		size_t n;
		gpa_t gpa;
		const void *p;

		if (!mode->long_mode)
			linear &= 0xffffffff;
		n = piece(linear, 15 - got);
		*fault = (struct fetch_fault){.linear = linear};
		if (!guest_walk(v->vm->vm, mode, v->regs.rflags, linear, WALK_FETCH, &gpa,
		            &fault->error))
			return got;
		p = guest_ram(v->vm->vm, gpa, n);
		if (p == NULL) {
			fault->no_ram = true;
			return got;
		}
		memcpy(bytes + got, p, n);
		got += n;
		linear += n;
	}
	return got;
}
