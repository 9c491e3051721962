/* SPDX-License-Identifier: Apache-2.0 */
#include "data/boundaries/scan_isa.h"

const struct scan_kernel *const scan_table[] = {
    &scan_kernel_avx512, &scan_kernel_avx2, &scan_kernel_sse2, &scan_kernel_plain, NULL,
};
