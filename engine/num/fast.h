/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations in float32 by vectors: one table for each instruction set. Tests compare them with
 * ref.
 */
#pragma once

#include "base/attr.h"
#include "num/backend.h"

/* Limits of the convolution, whose work space is on the stack; ref computes larger ones. */
enum {
    CONV_FAST_IMAGE_MAX = 2048,
    CONV_FAST_KERNEL_MAX = 49,
    CONV_FAST_FILTERS_MAX = 128
};

struct num_fast {
    void (*conv)(const struct num_conv *op);
    void (*conv_back)(const struct num_conv_back *op);
    void (*bce)(const struct num_bce *op);
    void (*adam)(const struct num_adam *op);
    void (*norm)(const struct num_norm *op);
    void (*norm_stats)(const struct num_norm_stats *op);
    void (*norm_back)(const struct num_norm_back *op);
};

extern const struct num_fast num_fast_any, num_fast_avx2, num_fast_avx512;

/* Returns the table for the best instruction set of this processor. */
const struct num_fast *num_fast_choose(void);
