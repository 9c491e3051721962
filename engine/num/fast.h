/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations in float32 by vectors: a table of them for each instruction set that there may be.
 * What they are compared with is ref.
 */
#pragma once

#include "base/attr.h"
#include "num/backend.h"

/* Work space of the convolution is on the stack; what is larger goes to ref. */
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

/* The best that this processor has. */
const struct num_fast *num_fast_choose(void);
