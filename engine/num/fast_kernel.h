/* SPDX-License-Identifier: Apache-2.0
 *
 * All vector code, built once for each instruction set: the file that includes this one defines
 * LANES, and FAST, the name of the table.
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
