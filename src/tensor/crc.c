/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/crc.h"

#include <zlib.h>

#include "tensor/crc_impl.h"

uint32_t crc_plain(uint32_t before, struct str bytes)
{
    return (uint32_t)crc32_z(before, (const unsigned char *)bytes.at, bytes.len);
}

uint32_t crc_of(uint32_t before, struct str bytes)
{
    uint32_t crc;
    return crc_fast(before, bytes, &crc) ? crc : crc_plain(before, bytes);
}
