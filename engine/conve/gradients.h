/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense gradients of all trained parameters.
 */
#pragma once

#include "conve/params.h"
#include "num/backend.h"

/* The arrays by parameter; NULL for a parameter that the model does not have. */
struct conve_gradients {
    enum num_dtype dtype;
    void *at[PARAM_N_TRAINED];
};

/* Allocates in memory of the host. All gradients are zeros at first. */
void conve_gradients_init(struct conve_gradients *gradients, const struct conve_shape *shape,
                          enum num_dtype dtype);
void conve_gradients_release(struct conve_gradients *gradients);
/* Allocates in memory of a backend. ERR_UNAVAILABLE: the backend has no room for them. */
MUST_CHECK int conve_gradients_open(struct conve_gradients *gradients, const struct num_backend *be,
                                    const struct conve_shape *shape, enum num_dtype dtype,
                                    struct err *err);
void conve_gradients_close(struct conve_gradients *gradients, const struct num_backend *be);
