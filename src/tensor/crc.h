/* SPDX-License-Identifier: Apache-2.0
 *
 * The CRC-32 of zip, of bytes behind others whose CRC is known; 0 for none.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

uint32_t crc_of(uint32_t before, struct str bytes);
