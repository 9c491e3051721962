/* SPDX-License-Identifier: Apache-2.0 */
#include "data/ends/split_isa.h"

const struct split_kernel *const split_table[] = {
    &split_kernel_avx512, &split_kernel_avx2, &split_kernel_sse2, &split_kernel_plain, NULL,
};
