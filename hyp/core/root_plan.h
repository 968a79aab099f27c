/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of the kept images the next root is started from: the rule alone, host-tested. */
#pragma once

#include "abi/types.h"

/*
 * There are two places for images. `good` is the last one that reported ready (at first: the one
 * that the machine was booted with). The other may be `staged`: whole and not yet tried. It is
 * tried once: if that root does not report ready before it ends, hyp falls back to the good one. A
 * good image that ends ROOT_PLAN_TRIES times in a row without a report is not started again: the
 * VMs run on without root.
 */
#define ROOT_PLAN_NONE  2u
#define ROOT_PLAN_TRIES 3u

struct root_plan {
	uint32_t current;  /* 0 or 1; ROOT_PLAN_NONE: root is down for good */
	uint32_t good;     /* 0 or 1 */
	bool staged;       /* the place that is not good holds a whole, untried image */
	bool ready;        /* the current root has reported ready */
	uint32_t failures; /* roots in a row from the good image that did not */
};

/* The place to start from, now that the current root has ended; it becomes the current one. */
uint32_t root_plan_next(struct root_plan *p);
/* The current root is good: false if it was known to be. */
bool root_plan_ready(struct root_plan *p);
/* The place where the next images may be laid; ROOT_PLAN_NONE while the current root, on trial,
 * runs from it. */
uint32_t root_plan_free(const struct root_plan *p);
