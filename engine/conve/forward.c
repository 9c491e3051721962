/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "conve/pass.h"

/* ---- room ---- */

void conve_pass_init(struct conve_pass *pass, const struct num_backend *be,
                     const struct conve_weights *weights, size_t n_max)
{
    const struct conve_shape *shape = &weights->shape;
    size_t bytes = n_max * num_bytes(weights->dtype);
    *pass = (struct conve_pass){.be = be, .weights = weights, .n_max = n_max};
    const struct {
        void **at;
        size_t size;
    } arrays[] = {
        {&pass->image, conve_image_size(shape)},
        {&pass->normed, conve_image_size(shape)},
        {&pass->maps, conve_n_features(shape)},
        {&pass->features, conve_n_features(shape)},
        {&pass->fc, conve_dim(shape)},
        {&pass->x, conve_dim(shape)},
        {&pass->ones, 1},
    };
    for (size_t i = 0; i < countof(arrays); i++)
        *arrays[i].at = xcalloc(arrays[i].size, bytes);
    for (size_t i = 0; i < n_max; i++)
        if (weights->dtype == NUM_F64)
            ((double *)pass->ones)[i] = 1;
        else
            ((float *)pass->ones)[i] = 1;
}

void conve_pass_release(struct conve_pass *pass)
{
    void *arrays[] = {pass->image, pass->normed, pass->maps, pass->features,
                      pass->fc,    pass->x,      pass->ones};
    for (size_t i = 0; i < countof(arrays); i++)
        free(arrays[i]);
    *pass = (struct conve_pass){0};
}

/* ---- forward ---- */

static void norm(const struct conve_pass *pass, enum conve_norm which, const void *x, bool relu,
                 void *y)
{
    layer_norm(pass->be, pass->weights, which, conve_running(pass->weights, which), pass->n, x,
               relu, y);
}

void conve_forward(struct conve_pass *pass, const struct triple *triples, size_t n)
{
    const struct conve_weights *weights = pass->weights;
    ASSERT(n <= pass->n_max);
    pass->triples = triples;
    pass->n = n;
    conve_image_gather(pass->be, weights, triples, n, pass->image);
    norm(pass, NORM_BN0, pass->image, false, pass->normed);
    struct num_conv conv = layer_conv(weights, n, pass->normed, pass->maps);
    pass->be->conv(pass->be, &conv);
    norm(pass, NORM_BN1, pass->maps, true, pass->features);
    layer_fc(pass->be, weights, n, pass->features, pass->fc);
    norm(pass, NORM_BN2, pass->fc, true, pass->x);
}

void conve_scores(const struct conve_pass *pass, bool is_all, void *out)
{
    const struct tail_range all = {0, pass->weights->shape.n_entities};
    if (is_all)
        layer_all_tails(pass->be, pass->weights, all, pass->n, pass->x, out);
    else
        layer_tails(pass->be, pass->weights, pass->triples, pass->n, pass->x, out);
}
