/* SPDX-License-Identifier: BSD-2-Clause */
/* The few things that the daemon asks of hyp, so that a test can stand in for it. */
#pragma once

#include "abi/hypercall.h"

/* All return 0 or a negative errno. */
struct hyp {
	int (*info)(struct hyp *hyp, struct keel_hc_info *info);
	/* The first VM with an id of at least head.vm; -ENOENT: none. */
	int (*vm_info)(struct hyp *hyp, struct keel_hc_vm_info *info);
	int (*vm_create)(struct hyp *hyp, struct keel_hc_vm_create *block);
	/* Needs: no device process. -EBUSY: one is there, or its I/O is not over; may wait 4 s. */
	int (*vm_destroy)(struct hyp *hyp, uint32_t vm);
	/* Root is up; root lives (again within timeout_ms, 0: no watch). */
	int (*root_ready)(struct hyp *hyp);
	int (*root_beat)(struct hyp *hyp, uint32_t timeout_ms);
	int fd;
};

/* /dev/keel. 0 or -errno. */
int hyp_open(struct hyp *hyp);
void hyp_close(struct hyp *hyp);
