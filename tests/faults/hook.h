/* SPDX-License-Identifier: BSD-2-Clause */
/* Put before every source of the keelvm that kills itself (-include): makes each store that
 * outlives the process a fault point. */
#pragma once

#include <stdbool.h>

/* One before a store and one after it; the linker gathers them. */
struct fault_point {
	const char *function, *place;
	bool after;
};

void fault_point_pass(const struct fault_point *point);

#define STORE_HOOK(after_, place_)                                                                 \
	do {                                                                                       \
		static const struct fault_point here_ __attribute__((                              \
		        section("fault_points"), used, aligned(8))) = {__func__, place_, after_};  \
		fault_point_pass(&here_);                                                          \
	} while (0)
