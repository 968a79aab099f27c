/* SPDX-License-Identifier: BSD-2-Clause */
/* The one door by which hyp reaches a VM's memory. */
#pragma once

#include "hyp/core/guest_walk.h"
#include "hyp/x86/addr.h"

struct vm;
struct vcpu;

/*
 * hyp's pointer to bytes of a VM's RAM; NULL when any of it is no RAM, or when it crosses a 4 KiB
 * page. The guest and root change what is there at any time: read a value once, check it, use it.
 */
void *guest_ram(struct vm *vm, gpa_t gpa, size_t bytes);
/* Is RAM that the guest only reads: a write of it is one to a device. */
bool guest_is_rom(const struct vm *vm, gpa_t gpa);
/* Copies within RAM, over page borders too. False: part of it is no RAM, or for a write ROM;
 * nothing was written. */
bool guest_read(struct vm *vm, gpa_t gpa, void *to, size_t bytes);
bool guest_write(struct vm *vm, gpa_t gpa, const void *from, size_t bytes);

/*
 * The bytes of the instruction at RIP, at most 15, as the CPU would fetch them. Returns how many
 * were got. If fewer than asked, *error is the page fault's error code and *linear its address;
 * no_ram: the code lies where no RAM is.
 */
struct fetch_fault {
	uint64_t linear;
	uint32_t error;
	bool no_ram;
};
size_t guest_fetch(
        struct vcpu *v, const struct cpu_mode *mode, uint8_t bytes[15], struct fetch_fault *fault);
