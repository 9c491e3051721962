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
