/* SPDX-License-Identifier: Apache-2.0 */
#define LANES 4
#define FAST  num_fast_any
#include "num/fast_kernel.h"
