/* SPDX-License-Identifier: Apache-2.0 */
#include "num/conv_fast.h"

const struct conv_fast *conv_fast_choose(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return &conv_fast_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &conv_fast_avx2;
    return &conv_fast_any;
}
