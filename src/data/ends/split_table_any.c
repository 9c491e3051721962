/* SPDX-License-Identifier: Apache-2.0 */
#include "data/ends/split_isa.h"

const struct split_kernel *const split_table[] = {
    &split_kernel_plain,
    NULL,
};
