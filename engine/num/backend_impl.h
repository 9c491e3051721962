/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "num/backend.h"

#define X(name) MUST_CHECK int num_open_##name(struct num_backend *be, struct err *err);
NUM_BACKENDS(X)
#undef X

/* Sets the functions for memory of a host backend. */
void num_host_memory(struct num_backend *be);
/*
 * num_round on the host; and a product with `rounds`, which rounds copies and multiplies them by
 * be->gemm.
 */
void num_host_round(const struct num_backend *be, const struct num_round *op);
void num_gemm_rounded(const struct num_backend *be, const struct num_gemm *op);
