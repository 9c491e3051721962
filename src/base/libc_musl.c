/* SPDX-License-Identifier: Apache-2.0 */
#include "base/libc_musl.h"

int mallopt(int setting, int value)
{
    (void)setting, (void)value;
    return 0;
}

int malloc_trim(size_t left_bytes)
{
    (void)left_bytes;
    return 0;
}
