/* SPDX-License-Identifier: BSD-2-Clause */
/* What the library's own parts share with its assembly. */
#pragma once

#include "tests/guest/lib/guest.h"

extern const uint8_t trampoline[], trampoline_end[], trampoline_index[], guest_entries[];
int catch_call(void (*fn)(void *), void *argument, uint64_t *rsp);
_Noreturn void guest_uncatch(uint64_t rsp, uint32_t vector);

/* Called from assembly. */
void guest_begin(void);
void guest_cpu_setup(uint64_t index);
void guest_ap_begin(uint64_t index);
void guest_trap(struct frame *f);

struct mb1_info;
/* Writes the info block; before anything else of this library. */
void guest_from_multiboot(const struct mb1_info *mb);
