/* SPDX-License-Identifier: Apache-2.0 */
#define LANES       16
#define CONV_KERNEL conv_fast_avx512
#include "num/conv_kernel.h"
