/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's parameters in the type of the computation, and the factors of its batch norms.
 */
#pragma once

#include "conve/model.h"
#include "num/backend.h"

enum conve_norm {
    NORM_BN0,
    NORM_BN1,
    NORM_BN2,
    NORM_N
};

struct conve_weights {
    struct conve_shape shape;
    enum num_dtype dtype;
    const void *at[PARAM_N]; /* on the host in float32 this is the model's own array, borrowed */
    void *inv_std[NORM_N];   /* 1 / sqrt(running variance + eps) */
    void *owned[PARAM_N];
};

/* The parameters of a norm: weight, bias, mean, var. */
struct conve_norm_params {
    enum conve_param weight, bias, mean, var;
    size_t channels, places; /* numbers of one sample */
};
struct conve_norm_params conve_norm_params(const struct conve_shape *shape, enum conve_norm norm);

/* Keeps the weights in memory of the host. */
void conve_weights_init(struct conve_weights *weights, const struct conve *model,
                        enum num_dtype dtype);
void conve_weights_release(struct conve_weights *weights);
/*
 * Keeps the weights in memory of a backend; does the same as conve_weights_init() for a host
 * backend. ERR_UNAVAILABLE: the backend has no room.
 */
MUST_CHECK int conve_weights_open(struct conve_weights *weights, const struct conve *model,
                                  enum num_dtype dtype, const struct num_backend *be,
                                  struct err *err);
void conve_weights_close(struct conve_weights *weights, const struct num_backend *be);
