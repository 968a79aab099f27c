/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process and the whole machine used, from /proc. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct usage {
	uint64_t device_ns; /* CPU time of all threads, the kernel's workers for it included */
	uint64_t device_switches; /* times that one of them went to sleep */
	uint64_t own_ns;
	uint64_t busy_ns; /* of all CPUs, by everybody */
};

void usage_take(struct usage *u, pid_t device);
/* CPUs that neither this process nor the device used, on average. */
double usage_others(const struct usage *before, const struct usage *after, double seconds);
