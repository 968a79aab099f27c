/* SPDX-License-Identifier: BSD-2-Clause */
/* What VMs' disks did between two looks, for keel top. */
#pragma once

#include <cjson/cJSON.h>

#include "abi/shared.h"

#define TOP_DISKS_MAX 94u

enum top_disk_count {
	TOP_READS,
	TOP_WRITES,
	TOP_REQUESTS,
	TOP_BYTES_IN,
	TOP_BYTES_OUT,
	TOP_TIME_NS,
	TOP_KICKS,
	TOP_CALLS,
	TOP_WAITS,
	TOP_HELD,
	TOP_ERRORS,
	TOP_COUNTS
};

struct top_disk {
	char vm[KEEL_VM_NAME_BYTES];
	char name[16];
	char backend[16];
	double counts[TOP_COUNTS]; /* since the device process began */
};

struct top_disks {
	unsigned count;
	struct top_disk disks[TOP_DISKS_MAX];
};

/* Appends the disks in a device process's statistics; stats may be NULL. */
void top_disks_take(struct top_disks *out, const char *vm, const cJSON *stats);
void top_disks_print(const struct top_disks *before, const struct top_disks *now, double seconds);
/* Those of one VM, as objects. */
void top_disks_json(cJSON *list, const char *vm, const struct top_disks *before,
        const struct top_disks *now, double seconds);
