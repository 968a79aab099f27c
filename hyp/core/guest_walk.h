/* SPDX-License-Identifier: BSD-2-Clause */
/* The guest's own page tables walked in software, with the rights, the faults and the A/D bits of
 * the CPU's walk. */
#pragma once

#include "hyp/cpu/cpu.h"
#include "hyp/x86/addr.h"

struct vm;

#define WALK_WRITE 1u
#define WALK_FETCH 2u

/* Page-fault error code bits (APM vol 2 24593 §8.4.2). */
#define PF_PRESENT  1u
#define PF_WRITE    2u
#define PF_USER     4u
#define PF_RESERVED 8u
#define PF_FETCH    16u
#define PF_KEY      32u

/*
 * Linear to guest-physical. False: *error is the error code of the #PF to inject (CR2 = linear).
 * Table entries outside of RAM read as not present. Sets A in each entry and D in the last for a
 * write, by compare-and-exchange as the CPU does; if another vCPU changes an entry meanwhile the
 * walk starts over, a few times at most.
 */
bool guest_walk(struct vm *vm, const struct cpu_mode *mode, uint64_t rflags, uint64_t linear,
        unsigned access, gpa_t *gpa, uint32_t *error);
