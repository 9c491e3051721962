/* SPDX-License-Identifier: Apache-2.0
 *
 * The CRC-32 of zip: that of `bytes` behind other bytes whose CRC is `before`; 0 for none.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

uint32_t crc_of(uint32_t before, struct str bytes);
