/* SPDX-License-Identifier: Apache-2.0
 *
 * The convolution by vectors: a table of two, one for each instruction set that there may be.
 */
#pragma once

#include "base/attr.h"
#include "num/backend.h"

/* Work space is on the stack; what is larger goes to ref. */
enum {
    CONV_FAST_IMAGE_MAX = 2048,
    CONV_FAST_KERNEL_MAX = 49,
    CONV_FAST_FILTERS_MAX = 128
};

struct conv_fast {
    void (*conv)(const struct num_conv *op);
    void (*conv_back)(const struct num_conv_back *op);
};

extern const struct conv_fast conv_fast_any, conv_fast_avx2, conv_fast_avx512;

/* The best that this processor has. */
const struct conv_fast *conv_fast_choose(void);
