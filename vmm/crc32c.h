/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32C (Castagnoli), the checksum of everything in the vault. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc` (0 at the start): crc32c(crc32c(0, a), b) is that of a and b joined. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);
