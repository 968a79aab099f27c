/* SPDX-License-Identifier: BSD-2-Clause */
/* The device's process dies under load, again and again: how long the driver waits for its next
 * answer. */
#pragma once

#include "bench/ring/load.h"

/*
 * So many times: some load, SIGKILL, and a connection to whoever was started instead. Prints the
 * waits in milliseconds, from the signal to the first answer, as JSON. Needs: something starts the
 * device anew. -1: no answer came, or a wrong one (said on standard error).
 */
int kill_run(struct front *f, struct load *l, unsigned kills);
