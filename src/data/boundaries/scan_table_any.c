/* SPDX-License-Identifier: Apache-2.0 */
#include "data/boundaries/scan_isa.h"

const struct scan_kernel *const scan_table[] = {
    &scan_kernel_plain,
    NULL,
};
