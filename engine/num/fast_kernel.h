/* SPDX-License-Identifier: Apache-2.0
 *
 * All that goes by vectors, built once an instruction set: whoever includes this defines LANES, and
 * FAST, the name of the table.
 */
#include "num/conv_kernel.h"
#include "num/element_kernel.h"

const struct num_fast FAST = {
    .conv = conv,
    .conv_back = conv_back,
    .bce = bce,
    .adam = adam,
    .norm = norm,
    .norm_stats = norm_stats,
    .norm_back = norm_back,
};
