/* SPDX-License-Identifier: BSD-2-Clause */
/* The last exits of each CPU, kept for a panic's words: they tell the machine's (or an emulator's)
 * faults from ours. */
#pragma once

#include "hyp/core/partition.h"

/* Notes v->exit. Owner CPU only; a few stores. */
void trace_exit(const struct vcpu *v);

/* Logs this CPU's last exits. */
void trace_tell(void);
