/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32C by sixteen-entry table: the vault's records are small and written seldom. */
#include "vmm/crc32c.h"

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
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
	const uint8_t *at = data;

	crc = ~crc;
	for (; bytes > 0; bytes--) {
		crc ^= *at++;
		crc = (crc >> 4) ^ table[crc & 15u];
		crc = (crc >> 4) ^ table[crc & 15u];
	}
	return ~crc;
}
