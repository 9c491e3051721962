/* SPDX-License-Identifier: Apache-2.0 */
#include "num/fast.h"

const struct num_fast *num_fast_choose(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return &num_fast_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &num_fast_avx2;
    return &num_fast_any;
}
