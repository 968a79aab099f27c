/* SPDX-License-Identifier: BSD-2-Clause */
/* The one door to guest memory: every access by address and length, checked, and copied once. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <sys/uio.h>

/*
 * A value of the guest's is fetched by gmem_read into private memory, then checked, then used from
 * there; it is never looked at twice. Payload (disk and network data) leaves the door as iovecs
 * that lie whole in RAM. A range never spans two regions: between them is a hole. Device registers
 * are no memory, so a DMA aimed at a BAR is refused here (C-15).
 *
 * The table is fixed before the first device is made; all functions may then be called on any
 * thread.
 */
#define GMEM_MAX_REGIONS 4u

struct gmem_region {
	uint64_t gpa;
	uint64_t bytes;
	uint8_t *hva;
};

struct gmem {
	unsigned count;
	struct gmem_region regions[GMEM_MAX_REGIONS]; /* rising, apart */
};

/* Guest RAM as hv maps it: ram_low_bytes at GPA 0, the rest from 4 GiB. */
void gmem_init(struct gmem *gmem, uint8_t *ram, uint64_t ram_bytes, uint64_t ram_low_bytes);
/* Where [gpa, gpa + bytes) is mapped, or NULL if any of it is not RAM. bytes 0: NULL. For rings and
 * payload. */
uint8_t *gmem_range(const struct gmem *gmem, uint64_t gpa, uint64_t bytes);
/* False: some of it is not RAM, nothing was copied. */
bool gmem_read(const struct gmem *gmem, uint64_t gpa, void *out, size_t bytes);
bool gmem_write(const struct gmem *gmem, uint64_t gpa, const void *in, size_t bytes);
bool gmem_zero(const struct gmem *gmem, uint64_t gpa, size_t bytes);
/* Appends the range to iov[*count] (at most max entries, joined with the last one where it
 * continues it). False: not RAM, or full. */
bool gmem_iov(const struct gmem *gmem, uint64_t gpa, uint64_t bytes, struct iovec *iov,
        unsigned *count, unsigned max);
