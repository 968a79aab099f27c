/* SPDX-License-Identifier: BSD-2-Clause */
/* Walking lists of buffers: copying in and out of them, and moving their start. */
#pragma once

#include <stddef.h>
#include <sys/uio.h>

size_t iov_total(const struct iovec *iov, unsigned count);

/* Copies from the list, starting skip bytes into it. Returns the bytes copied: less than size only
 * at the end of the list. */
size_t iov_copy_from(const struct iovec *iov, unsigned count, size_t skip, void *out, size_t size);
/* The same, into the list. */
size_t iov_copy_to(
        const struct iovec *iov, unsigned count, size_t skip, const void *in, size_t size);

/* Takes bytes off the front: entries used up are skipped by moving *iov. Returns the new count. */
unsigned iov_advance(struct iovec **iov, unsigned count, size_t bytes);
/* Cuts the list after `bytes`. Returns the new count. */
unsigned iov_truncate(struct iovec *iov, unsigned count, size_t bytes);
