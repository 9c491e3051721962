/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's numbers in the type that is computed in, with what batch norm divides by.
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
    const void *at[PARAM_N]; /* float32: the model's own, which must live */
    void *inv_std[NORM_N];   /* of the running statistics */
    void *owned[PARAM_N];
};

/* The parameters of a norm: weight, bias, mean, var. */
struct conve_norm_params {
    enum conve_param weight, bias, mean, var;
    size_t channels, places; /* of one sample */
};
struct conve_norm_params conve_norm_params(const struct conve_shape *shape, enum conve_norm norm);

/* The host's. */
void conve_weights_init(struct conve_weights *weights, const struct conve *model,
                        enum num_dtype dtype);
void conve_weights_release(struct conve_weights *weights);
/* In the memory of a backend; the host's are as above. ERR_UNAVAILABLE: there is no room. */
MUST_CHECK int conve_weights_open(struct conve_weights *weights, const struct conve *model,
                                  enum num_dtype dtype, const struct num_backend *be,
                                  struct err *err);
void conve_weights_close(struct conve_weights *weights, const struct num_backend *be);
