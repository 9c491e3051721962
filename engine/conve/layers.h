/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers of ConvE as operations of a backend, forward and backward, on rows of n samples,
 * shared by the pass, training and influences. These put gradients of weights into different
 * places: so a function for an operation that has such gradients returns the operation's
 * descriptor, in which the caller fills in the places.
 */
#pragma once

#include "conve/weights.h"
#include "graph/triple.h"

/*
 * conve_image_gather: gathers the images of heads and relations of triples, n x image.
 * conve_image_half: copies one half of n images, or of gradients at them, as rows of dim numbers.
 */
void conve_image_gather(const struct num_backend *be, const struct conve_weights *weights,
                        const struct triple *triples, size_t n, void *image);
enum conve_half {
    HALF_HEAD,
    HALF_RELATION
};
/* With ids (TRIPLE_IDS apart) sample i is added to row ids[i] of `to`, else it becomes row i. */
void conve_image_half(const struct num_backend *be, const struct conve_weights *weights,
                      enum conve_half half, const void *image, size_t n, const uint32_t *ids,
                      void *to);

/*
 * Runs op with the dtype of the weights, alpha 1, and the leading dimensions of packed arrays where
 * op has 0. With a format, the factors are rounded (num_gemm's `rounds`).
 */
void layer_product(const struct num_backend *be, const struct conve_weights *weights,
                   struct num_gemm op);

/* The statistics that a norm uses: the running ones, or a batch's own. */
struct norm_stats {
    const void *mean, *inv_std;
};
struct norm_stats conve_running(const struct conve_weights *weights, enum conve_norm norm);

void layer_norm(const struct num_backend *be, const struct conve_weights *weights,
                enum conve_norm norm, struct norm_stats stats, size_t n, const void *x, bool relu,
                void *y);
/*
 * y: the output of the ReLU after the norm; NULL: there is no ReLU. The caller fills in d_weight,
 * d_bias and dx.
 */
struct num_norm_back layer_norm_back(const struct conve_weights *weights, enum conve_norm norm,
                                     struct norm_stats stats, size_t n, const void *x,
                                     const void *y, const void *dy);
/* The convolution alone, without the norm and the ReLU after it. */
struct num_conv layer_conv(const struct conve_weights *weights, size_t n, const void *x, void *y);
/* The caller fills in d_weight, d_sum and dx. */
struct num_conv_back layer_conv_back(const struct conve_weights *weights, size_t n, const void *x,
                                     const void *dy);
/* u = features W^T + bias */
void layer_fc(const struct num_backend *be, const struct conve_weights *weights, size_t n,
              const void *features, void *u);
void layer_fc_back(const struct num_backend *be, const struct conve_weights *weights, size_t n,
                   const void *du, void *d_features);

/*
 * The first computes the score of each triple's own tail; the second the gradient of x from the
 * slopes of these scores.
 */
void layer_tails(const struct num_backend *be, const struct conve_weights *weights,
                 const struct triple *triples, size_t n, const void *x, void *scores);
void layer_tails_back(const struct num_backend *be, const struct conve_weights *weights,
                      const struct triple *triples, size_t n, const void *slopes, void *dx);
/*
 * The scores of entities [begin, begin + count) as tails, n x count; and the gradient of x from
 * their slopes, as dx = gradient + beta dx. The factors of the products are rounded to the format.
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
