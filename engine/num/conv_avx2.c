/* SPDX-License-Identifier: Apache-2.0 */
#define LANES       8
#define CONV_KERNEL conv_fast_avx2
#include "num/conv_kernel.h"
