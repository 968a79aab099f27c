/* SPDX-License-Identifier: BSD-2-Clause */
/* Doorbells: guest writes that become a bit and a signal to root while the vCPU goes on. */
#pragma once

#include "abi/hypercall.h"
#include "abi/shared.h"
#include "lib/spinlock.h"

#define DOORBELL_BUCKETS 256u
#define DOORBELL_END     0xffffu

struct doorbell {
	uint64_t address;
	uint64_t value;
	uint32_t size; /* 0: any */
	uint8_t space; /* KEEL_DOORBELL_PIO or MMIO */
	bool match;    /* only writes of value */
	bool used;
	uint16_t next; /* in its bucket; DOORBELL_END */
};

/* All under lock. */
struct doorbell_table {
	struct spinlock lock;
	uint32_t count;
	uint16_t bucket[DOORBELL_BUCKETS];
	struct doorbell bells[KEEL_MAX_DOORBELLS];
};

void doorbell_init(struct doorbell_table *t);
/* Checks all but the index's being free. 0 or -KEEL_EINVAL. */
int doorbell_check(const struct keel_hc_doorbell *d);
/* Needs: doorbell_check gave 0. 0, -KEEL_EBUSY (index in use), -KEEL_EEXIST (the same write rings
 * another). */
int doorbell_add(struct doorbell_table *t, const struct keel_hc_doorbell *d);
int doorbell_remove(struct doorbell_table *t, uint32_t index);
/* The doorbell that a write rings, or -1. */
int doorbell_find(
        struct doorbell_table *t, uint8_t space, uint64_t address, uint32_t size, uint64_t value);
/* Sets the bit. True: it was clear, so root has to be told. */
bool doorbell_ring(struct keel_vm_shared *shared, unsigned index);
