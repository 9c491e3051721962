/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the elements of a view in row-major order, however they are laid out in the storage:
 * transposed, strided, expanded. The elements are passed on in pieces, with memory that does not
 * depend on the size of the view.
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

/* `read` reads bytes at an offset of the storage. */
struct gather_source {
    int (*read)(void *context, uint64_t offset, char *out, size_t len, struct err *err);
    void *context;
    uint64_t at; /* offset of the view's first element in the storage */
};

typedef int gather_sink(void *context, struct str bytes, struct err *err);

/*
 * A new view without dimensions of size 1; adjacent dimensions are joined where there is no gap
 * between them. The caller calls free().
 */
struct torch_view *torch_view_new(const uint64_t *sizes, const uint64_t *strides, uint32_t n_dims,
                                  uint64_t element_bytes);
/* The bytes that the view spans in the storage, from its first byte to behind its last one. */
uint64_t torch_view_extent(const struct torch_view *view);
bool torch_views_equal(const struct torch_view *a, const struct torch_view *b);
/* Precondition: the view has elements, and is within its storage. */
MUST_CHECK int torch_gather(const struct torch_view *view, const struct gather_source *source,
                            gather_sink *sink, void *context, struct err *err);
