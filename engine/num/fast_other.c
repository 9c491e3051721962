/* SPDX-License-Identifier: Apache-2.0 */
#include "num/fast.h"

const struct num_fast *num_fast_choose(void)
{
    return &num_fast_any;
}
