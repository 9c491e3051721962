/* SPDX-License-Identifier: Apache-2.0
 *
 * The two ways to a CRC-32.
 */
#pragma once

#include "tensor/crc.h"

/* zlib's. */
uint32_t crc_plain(uint32_t before, struct str bytes);
/* A faster one; false where this machine has none, or where it would not pay. */
bool crc_fast(uint32_t before, struct str bytes, uint32_t *crc);
