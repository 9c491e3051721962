/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements of a view in row-major order, wherever in its storage they lie: transposed, strided,
 * expanded. In pieces, with bounded memory, whatever the size of the view.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct torch_dim {
    uint64_t size, stride; /* in elements */
};

struct torch_view {
    uint64_t element_bytes; /* 1, 2, 4, 8, 16 */
    uint32_t n_dims;
    struct torch_dim dims[];
};

/* `read` takes bytes from any place of the storage. */
struct gather_source {
    int (*read)(void *context, uint64_t offset, char *out, size_t len, struct err *err);
    void *context;
    uint64_t at; /* of the view's first element */
};

typedef int gather_sink(void *context, struct str bytes, struct err *err);

/* Without dimensions of size 1, and with those that follow one another without a gap made one. free() it. */
struct torch_view *torch_view_new(const uint64_t *sizes, const uint64_t *strides, uint32_t n_dims,
                                  uint64_t element_bytes);
/* From its first byte to behind its last one, in the storage. */
uint64_t torch_view_extent(const struct torch_view *view);
bool torch_views_equal(const struct torch_view *a, const struct torch_view *b);
/* The view has elements, and lies within its storage. */
MUST_CHECK int torch_gather(const struct torch_view *view, const struct gather_source *source,
                            gather_sink *sink, void *context, struct err *err);
