/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU that is played by the host: the kernels of cuda.cu and the code that launches them, run
 * block by block and thread by thread.
 */
#pragma once

#include "num/backend.h"

enum emulated_order {
    EMULATED_FORWARDS,
    EMULATED_BACKWARDS,
    EMULATED_MIXED
};

/* By the order of threads within a phase. num_close() closes it. */
void emulated_open(struct num_backend *be, enum emulated_order order);
