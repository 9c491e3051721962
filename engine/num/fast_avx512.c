/* SPDX-License-Identifier: Apache-2.0 */
#define LANES 16
#define FAST  num_fast_avx512
#include "num/fast_kernel.h"
