/* SPDX-License-Identifier: Apache-2.0 */
#define LANES       4
#define CONV_KERNEL conv_fast_any
#include "num/conv_kernel.h"
