/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "num/backend.h"

#define X(name) MUST_CHECK int num_open_##name(struct num_backend *be, struct err *err);
NUM_BACKENDS(X)
#undef X

/* The host's memory. */
void num_host_memory(struct num_backend *be);
/* Its rounding, and a product with `rounds` by be's own of what was rounded. */
void num_host_round(const struct num_backend *be, const struct num_round *op);
void num_gemm_rounded(const struct num_backend *be, const struct num_gemm *op);
