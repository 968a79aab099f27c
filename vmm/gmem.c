/* SPDX-License-Identifier: BSD-2-Clause */
/* Guest memory by address and length: the checks behind every copy and every iovec. */
#include "vmm/gmem.h"

#include <string.h>

#include "abi/hypercall.h"

#define FOUR_GIB (1ull << 32)

void gmem_init(struct gmem *gmem, uint8_t *ram, uint64_t ram_bytes, uint64_t ram_low_bytes)
{
	*gmem = (struct gmem){.count = 1, .regions = {{0, ram_low_bytes, ram}}};
	if (ram_bytes > ram_low_bytes) {
		gmem->regions[1] = (struct gmem_region){
		        FOUR_GIB, ram_bytes - ram_low_bytes, ram + ram_low_bytes};
		gmem->count = 2;
	}
}

uint8_t *gmem_range(const struct gmem *gmem, uint64_t gpa, uint64_t bytes)
{
	if (bytes == 0)
		return NULL;
	for (unsigned i = 0; i < gmem->count; i++) {
		const struct gmem_region *region = &gmem->regions[i];

		if (gpa >= region->gpa && gpa - region->gpa < region->bytes)
			return bytes <= region->bytes - (gpa - region->gpa)
			               ? region->hva + (gpa - region->gpa)
			               : NULL;
	}
	return NULL;
}

bool gmem_read(const struct gmem *gmem, uint64_t gpa, void *out, size_t bytes)
{
	const uint8_t *from = gmem_range(gmem, gpa, bytes);

	if (from == NULL)
		return bytes == 0;
	memcpy(out, from, bytes);
	/* The caller checks and uses its copy: no compiler may fetch from the guest again. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

bool gmem_write(const struct gmem *gmem, uint64_t gpa, const void *in, size_t bytes)
{
	uint8_t *to = gmem_range(gmem, gpa, bytes);

	if (to == NULL)
		return bytes == 0;
	memcpy(to, in, bytes);
	return true;
}

bool gmem_zero(const struct gmem *gmem, uint64_t gpa, size_t bytes)
{
	uint8_t *to = gmem_range(gmem, gpa, bytes);

	if (to == NULL)
		return bytes == 0;
	memset(to, 0, bytes);
	return true;
}

bool gmem_iov(const struct gmem *gmem, uint64_t gpa, uint64_t bytes, struct iovec *iov,
        unsigned *count, unsigned max)
{
	uint8_t *at = gmem_range(gmem, gpa, bytes);
	struct iovec *last = *count > 0 ? &iov[*count - 1] : NULL;

	if (at == NULL)
		return bytes == 0;
	if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == at) {
		last->iov_len += bytes;
		return true;
	}
	if (*count == max)
		return false;
	iov[(*count)++] = (struct iovec){at, bytes};
	return true;
}
