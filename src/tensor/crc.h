/* SPDX-License-Identifier: Apache-2.0
 *
 * The CRC-32 of zip: crc_of(before, bytes) is the CRC of `bytes` appended to earlier bytes whose
 * CRC is `before`; 0 for no earlier bytes.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

uint32_t crc_of(uint32_t before, struct str bytes);
