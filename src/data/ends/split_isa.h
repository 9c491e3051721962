/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/ends/split.h"

extern const struct split_kernel split_kernel_avx512, split_kernel_avx2, split_kernel_sse2,
    split_kernel_plain;
/* Best first, ends with NULL: split_table_x86.c or split_table_any.c. */
extern const struct split_kernel *const split_table[];
