/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may watch a ring instead of sleeping: one thread of the process, and only where it pays. */
#pragma once

#include <stdbool.h>

/* One queue's experience. Its thread's own. */
struct watch {
	unsigned score; /* 0: watches were in vain lately */
	unsigned skips;
};

#define WATCH_START ((struct watch){.score = 1})

/* True: this thread is now the one that watches, and must leave. False: sleep instead. */
bool watch_enter(struct watch *watch);
void watch_leave(struct watch *watch, bool found_work);
