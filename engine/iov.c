/* SPDX-License-Identifier: BSD-2-Clause */
/* Walking lists of buffers. */
#include "engine/iov.h"

#include <string.h>

size_t iov_total(const struct iovec *iov, unsigned count)
{
	size_t total = 0;

	for (unsigned i = 0; i < count; i++)
		total += iov[i].iov_len;
	return total;
}

static size_t iov_copy(const struct iovec *iov, unsigned count, size_t skip, unsigned char *to,
        const unsigned char *from, size_t size)
{
	size_t done = 0;

	for (unsigned i = 0; i < count && done < size; i++) {
		size_t part = iov[i].iov_len;

		if (skip >= part) {
			skip -= part;
			continue;
		}
		part -= skip;
		if (part > size - done)
			part = size - done;
		if (to)
			memcpy(to + done, (unsigned char *)iov[i].iov_base + skip, part);
		else
			memcpy((unsigned char *)iov[i].iov_base + skip, from + done, part);
		skip = 0;
		done += part;
	}
	return done;
}

size_t iov_copy_from(const struct iovec *iov, unsigned count, size_t skip, void *out, size_t size)
{
	return iov_copy(iov, count, skip, out, NULL, size);
}

size_t iov_copy_to(
        const struct iovec *iov, unsigned count, size_t skip, const void *in, size_t size)
{
	return iov_copy(iov, count, skip, NULL, in, size);
}

unsigned iov_advance(struct iovec **iov, unsigned count, size_t bytes)
{
	while (count && bytes >= (*iov)->iov_len) {
		bytes -= (*iov)->iov_len;
		(*iov)++;
		count--;
	}
	if (count && bytes) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + bytes;
		(*iov)->iov_len -= bytes;
	}
	return count;
}

unsigned iov_truncate(struct iovec *iov, unsigned count, size_t bytes)
{
	for (unsigned i = 0; i < count; i++) {
		if (bytes <= iov[i].iov_len) {
			iov[i].iov_len = bytes;
			return bytes ? i + 1 : i;
		}
		bytes -= iov[i].iov_len;
	}
	return count;
}
