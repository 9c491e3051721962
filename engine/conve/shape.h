/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of a ConvE model, and what follows from them. Source: Dettmers, Minervini, Stenetorp,
 * Riedel, "Convolutional 2D Knowledge Graph Embeddings", AAAI 2018, arXiv 1707.01476.
 *
 * An embedding of dim = height x width numbers is an image, row-major. The images of head and
 * relation are put side by side (LAYOUT_WIDTH: height x 2 width) or one below the other
 * (LAYOUT_HEIGHT: 2 height x width, as in the paper and in PyKEEN); then
 *
 *   bn0, conv (n_filters, kernel_height x kernel_width, stride 1, no padding), bn1, ReLU,
 *   fc (n_features -> dim), bn2, ReLU = x;  score(t) = x . E[t] (+ b[t])
 *
 * PyKEEN can leave all norms out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum conve_layout {
    LAYOUT_AUTO, /* only in requests: the layout that fits */
    LAYOUT_WIDTH,
    LAYOUT_HEIGHT
};

struct conve_shape {
    size_t n_entities, n_relations; /* rows of the tables */
    size_t height, width;           /* of the image of one embedding; dim = height x width */
    size_t n_filters, kernel_height, kernel_width;
    enum conve_layout layout;
    bool has_entity_bias;
    double bn_eps;
    bool lacks_norms; /* norms change nothing, and have no parameters */
};

static inline size_t conve_dim(const struct conve_shape *shape)
{
    return shape->height * shape->width;
}

static inline size_t conve_image_height(const struct conve_shape *shape)
{
    return shape->layout == LAYOUT_HEIGHT ? 2 * shape->height : shape->height;
}

static inline size_t conve_image_width(const struct conve_shape *shape)
{
    return shape->layout == LAYOUT_HEIGHT ? shape->width : 2 * shape->width;
}

static inline size_t conve_image_size(const struct conve_shape *shape)
{
    return 2 * shape->height * shape->width;
}

/* The height and width of one filter's map. */
static inline size_t conve_map_height(const struct conve_shape *shape)
{
    return conve_image_height(shape) - shape->kernel_height + 1;
}

static inline size_t conve_map_width(const struct conve_shape *shape)
{
    return conve_image_width(shape) - shape->kernel_width + 1;
}

static inline size_t conve_n_features(const struct conve_shape *shape)
{
    return shape->n_filters * conve_map_height(shape) * conve_map_width(shape);
}

static inline size_t conve_kernel_size(const struct conve_shape *shape)
{
    return shape->kernel_height * shape->kernel_width;
}

/* Returns "width" or "height"; NULL for LAYOUT_AUTO. */
const char *conve_layout_name(enum conve_layout layout);
/* ERR_DATA: a size is zero, a kernel is larger than the image, or a product does not fit. */
MUST_CHECK int conve_shape_check(const struct conve_shape *shape, struct err *err);
