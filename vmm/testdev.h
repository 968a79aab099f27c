/* SPDX-License-Identifier: BSD-2-Clause */
/* The device that public guest test suites expect: an exit port, echo ports, interrupt lines,
 * memory behind MMIO. */
#pragma once

#include "vmm/hv.h"
#include "vmm/vault.h"

/*
 * QEMU's isa-debug-exit and pc-testdev together; only a VM whose file says `testdev = yes` has it.
 *   0xf4             a write ends the VM with that value, as "the guest ended with N" in its log
 *   0xe0-0xe3        keep what is written
 *   0xe4             takes writes (a page to be unmapped at other hosts: here nothing is cached)
 *   0x2000 + n       n < 24: a write sets interrupt line n high (not 0) or low
 *   0xff000000       64 KiB of memory, each access to which is an exit
 * What it keeps outlives the device process.
 */
#define TESTDEV_EXIT_PORT    0xf4u
#define TESTDEV_ECHO_PORT    0xe0u
#define TESTDEV_FLUSH_PORT   0xe4u
#define TESTDEV_LINE_PORT    0x2000u
#define TESTDEV_LINES        24u
#define TESTDEV_MEMORY       0xff000000ull
#define TESTDEV_MEMORY_BYTES 0x10000u

struct testdev_state {  /* VAULT_TESTDEV, live */
	uint32_t lines; /* bit n: line n is high */
	uint8_t echo[4];
	uint64_t reserved[7];
	uint8_t memory[TESTDEV_MEMORY_BYTES];
};
KEEL_ASSERT_SIZE(struct testdev_state, 64 + TESTDEV_MEMORY_BYTES);

struct testdev {
	struct hv *hv;
	struct testdev_state *state; /* in the vault; NULL: the VM has none */
	bool ended; /* the guest wrote the exit port: machine.c acts and clears it */
	uint32_t result;
};

/* Takes the state from the vault, or a fresh one, and drives the lines by it. 0 or a negative
 * errno.
 */
int testdev_attach(struct testdev *dev, struct hv *hv, const struct vault *vault);
void testdev_reset(struct testdev *dev);
/* An access of the guest's. False: not ours. */
bool testdev_pio(struct testdev *dev, uint64_t port, unsigned size, bool write, uint64_t *value);
bool testdev_mmio(struct testdev *dev, uint64_t gpa, unsigned size, bool write, uint64_t *value);
