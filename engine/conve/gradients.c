/* SPDX-License-Identifier: Apache-2.0 */
#include "conve/gradients.h"

#include <stdlib.h>

#include "base/xalloc.h"

void conve_gradients_init(struct conve_gradients *gradients, const struct conve_shape *shape,
                          enum num_dtype dtype)
{
    *gradients = (struct conve_gradients){.dtype = dtype};
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
        size_t n = conve_param_dims(shape, (enum conve_param)param).n_elements;
        if (n)
            gradients->at[param] = xcalloc(n, num_bytes(dtype));
    }
}

void conve_gradients_release(struct conve_gradients *gradients)
{
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
        free(gradients->at[param]);
    *gradients = (struct conve_gradients){0};
}

int conve_gradients_open(struct conve_gradients *gradients, const struct num_backend *be,
                         const struct conve_shape *shape, enum num_dtype dtype, struct err *err)
{
    int rc = 0;
    *gradients = (struct conve_gradients){.dtype = dtype};
    for (unsigned param = 0; rc == 0 && param < PARAM_N_TRAINED; param++) {
        size_t bytes =
            conve_param_dims(shape, (enum conve_param)param).n_elements * num_bytes(dtype);
        if (bytes == 0)
            continue;
        rc = be->allocate(be, bytes, &gradients->at[param], err);
        if (rc == 0)
            be->fill_zero(be, gradients->at[param], bytes);
    }
    return rc;
}

void conve_gradients_close(struct conve_gradients *gradients, const struct num_backend *be)
{
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
        be->release(be, gradients->at[param]);
    *gradients = (struct conve_gradients){0};
}
