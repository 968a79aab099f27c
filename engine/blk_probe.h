/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a storage blocks in submission: asked by measuring, at open. */
#pragma once

#include "engine/blk_file.h"

/*
 * A few reads are handed to the kernel at once. Storage that takes them and answers later gets
 * io_uring. Storage during whose answers the submitting thread stands still (a ZFS volume's, say)
 * is read by threads too, and gets workers if that is faster by a fifth. Whatever came in between
 * (a scheduler, a cache) falls on single rounds; the best of three counts.
 */
struct blk_probe {
	bool measured;
	uint64_t submit_ns;  /* for all reads of a round, the best round's */
	uint64_t ring_ns;    /* the same until the last answer */
	uint64_t threads_ns; /* by a thread each; UINT64_MAX: there was no need to know */
};

void blk_probe_run(const struct blk_file *file, struct blk_probe *out);
bool blk_probe_wants_workers(const struct blk_probe *probe);
/* In a few words for the operator. */
void blk_probe_describe(const struct blk_probe *probe, char *out, size_t out_bytes);
