/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/boundaries/boundary_scan.h"

extern const struct scan_kernel scan_kernel_avx512, scan_kernel_avx2, scan_kernel_sse2,
    scan_kernel_plain;
/* Best first, ends with NULL: scan_table_x86.c or scan_table_any.c. */
extern const struct scan_kernel *const scan_table[];
