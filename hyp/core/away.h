/* SPDX-License-Identifier: BSD-2-Clause */
/* What a VM wants to happen to it when root is away for long (DESIGN §2 rule 5). */
#pragma once

#include "abi/types.h"

/*
 * Root is away from the moment that it ends until a later one reports ready: the starts that fail
 * in between are all one absence. A VM whose policy is not to wait is paused, or stopped with the
 * event of a reset, once that has lasted as long as its file says; the device process that attaches
 * afterwards runs it on, boots it or lets it end.
 */

/* Root has ended (again). The boot CPU's restart, or a trial's end: any CPU, no lock held. */
void away_begin(void);
/* It is back and ready. */
void away_end(void);
bool away_is(void);
/* Host TSC at which away_run has something to do; UINT64_MAX: never. One CPU asks (root_restart.c).
 */
uint64_t away_deadline(void);
void away_run(uint64_t now_tsc);
