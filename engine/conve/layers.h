/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers of ConvE as operations of a backend, forward and back, on rows of n samples: what a
 * pass, training and influences have in common. Where gradients of weights go, each of them wants
 * it differently: those operations come back without it.
 */
#pragma once

#include "conve/weights.h"
#include "graph/triple.h"

/*
 * The images of heads and relations of triples, n x image; and from gradients of such to rows of
 * dim numbers.
 */
void conve_image_gather(const struct num_backend *be, const struct conve_weights *weights,
                        const struct triple *triples, size_t n, void *image);
enum conve_half {
    HALF_HEAD,
    HALF_RELATION
};
/* With ids (TRIPLE_IDS apart) added to those rows of `to`, else row i is set. */
void conve_image_half(const struct num_backend *be, const struct conve_weights *weights,
                      enum conve_half half, const void *image, size_t n, const uint32_t *ids,
                      void *to);

/*
 * dtype, alpha, and leading dimensions that are 0 are filled in: those of packed arrays. With a
 * format it rounds.
 */
void layer_product(const struct num_backend *be, const struct conve_weights *weights,
                   struct num_gemm op);

/* What a norm goes by: the running statistics, or a batch's own. */
struct norm_stats {
    const void *mean, *inv_std;
};
struct norm_stats conve_running(const struct conve_weights *weights, enum conve_norm norm);

void layer_norm(const struct num_backend *be, const struct conve_weights *weights,
                enum conve_norm norm, struct norm_stats stats, size_t n, const void *x, bool relu,
                void *y);
/* y: what came out of a ReLU behind the norm, or NULL. Lacks d_weight, d_bias and dx. */
struct num_norm_back layer_norm_back(const struct conve_weights *weights, enum conve_norm norm,
                                     struct norm_stats stats, size_t n, const void *x,
                                     const void *y, const void *dy);
/* Without a norm or a ReLU behind it. */
struct num_conv layer_conv(const struct conve_weights *weights, size_t n, const void *x, void *y);
/* Lacks d_weight, d_sum and dx. */
struct num_conv_back layer_conv_back(const struct conve_weights *weights, size_t n, const void *x,
                                     const void *dy);
/* u = features W^T + bias */
void layer_fc(const struct num_backend *be, const struct conve_weights *weights, size_t n,
              const void *features, void *u);
void layer_fc_back(const struct num_backend *be, const struct conve_weights *weights, size_t n,
                   const void *du, void *d_features);

/* The score of each triple's own tail, and from its slope the gradient of x. */
void layer_tails(const struct num_backend *be, const struct conve_weights *weights,
                 const struct triple *triples, size_t n, const void *x, void *scores);
void layer_tails_back(const struct num_backend *be, const struct conve_weights *weights,
                      const struct triple *triples, size_t n, const void *slopes, void *dx);
/*
 * Those of entities [begin, begin + count) as tails, n x count; dx = what they pass back + beta dx.
 * What is multiplied is rounded to the format.
 */
struct tail_range {
    size_t begin, count;
    enum num_format format;
};
void layer_all_tails(const struct num_backend *be, const struct conve_weights *weights,
                     struct tail_range tails, size_t n, const void *x, void *scores);
void layer_all_tails_back(const struct num_backend *be, const struct conve_weights *weights,
                          struct tail_range tails, size_t n, const void *slopes, double beta,
                          void *dx);
