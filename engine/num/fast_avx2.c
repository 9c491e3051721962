/* SPDX-License-Identifier: Apache-2.0 */
#define LANES 8
#define FAST  num_fast_avx2
#include "num/fast_kernel.h"
