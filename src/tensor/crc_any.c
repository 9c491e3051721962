/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/crc_impl.h"

bool crc_fast(uint32_t before, struct str bytes, uint32_t *crc)
{
    (void)before;
    (void)bytes;
    (void)crc;
    return false;
}
