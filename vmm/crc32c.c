/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32C by the CPU's own instruction where it has it (SSE4.2), else by a sixteen-entry table. */
#include "vmm/crc32c.h"

#include <string.h>

static uint32_t add_by_table(uint32_t crc, const uint8_t *at, size_t bytes)
{
	/* Entry n is n shifted through four bits of the reflected polynomial 82F63B78h (RFC 3720
	 * B.4). */
	static const uint32_t table[16] = {
	        0x00000000,
	        0x105ec76f,
	        0x20bd8ede,
	        0x30e349b1,
	        0x417b1dbc,
	        0x5125dad3,
	        0x61c69362,
	        0x7198540d,
	        0x82f63b78,
	        0x92a8fc17,
	        0xa24bb5a6,
	        0xb21572c9,
	        0xc38d26c4,
	        0xd3d3e1ab,
	        0xe330a81a,
	        0xf36e6f75,
	};
	for (; bytes > 0; bytes--) {
		crc ^= *at++;
		crc = (crc >> 4) ^ table[crc & 15u];
		crc = (crc >> 4) ^ table[crc & 15u];
	}
	return crc;
}

__attribute__((target("sse4.2"))) static uint32_t add_by_cpu(
        uint32_t crc, const uint8_t *at, size_t bytes)
{
	uint64_t wide = crc, word;

	for (; bytes >= sizeof(word); bytes -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		wide = __builtin_ia32_crc32di(wide, word);
	}
	crc = (uint32_t)wide;
	for (; bytes > 0; bytes--)
		crc = __builtin_ia32_crc32qi(crc, *at++);
	return crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
	if (__builtin_cpu_supports("sse4.2"))
		return ~add_by_cpu(~crc, data, bytes);
	return ~add_by_table(~crc, data, bytes);
}
