/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the output in blocks. A block is a box of the view's indices. Its elements are read in
 * windows, which are boxes of the dimensions with the smallest strides, and copied to their places
 * in the block.
 */
#include "tensor/torch/torch_gather.h"

#include "base/xalloc.h"

enum {
    BLOCK_BYTES = 8 << 20,
    WINDOW_BYTES = 256 * 1024,
    GAP_BYTES = 4096 /* over a larger gap another read is cheaper than reading the gap */
};

/*
 * One side of a box: n indices, and the distance in bytes from one index to the next, in the
 * storage (`from`) and in the block (`to`).
 */
struct side {
    uint64_t n, from, to;
};

struct box {
    struct side *sides; /* sorted by `from` */
    uint64_t *index;
    uint32_t n_sides;
};

struct gathering {
    const struct torch_view *view;
    const struct gather_source *source;
    char *block, *window;
    struct box box;
};

struct torch_view *torch_view_new(const uint64_t *sizes, const uint64_t *strides, uint32_t n_dims,
                                  uint64_t element_bytes)
{
    struct torch_view *view = xmalloc(sizeof(*view) + (n_dims + 1) * sizeof(view->dims[0]));
    *view = (struct torch_view){.element_bytes = element_bytes};
    for (uint32_t i = 0; i < n_dims; i++) {
        struct torch_dim *last = view->n_dims > 0 ? &view->dims[view->n_dims - 1] : NULL;
        if (sizes[i] == 1)
            continue;
        if (last && last->stride == sizes[i] * strides[i])
            *last = (struct torch_dim){last->size * sizes[i], strides[i]};
        else
            view->dims[view->n_dims++] = (struct torch_dim){sizes[i], strides[i]};
    }
    if (view->n_dims == 0)
        view->dims[view->n_dims++] = (struct torch_dim){1, 1};
    return view;
}

uint64_t torch_view_extent(const struct torch_view *view)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < view->n_dims; i++)
        last += (view->dims[i].size - 1) * view->dims[i].stride;
    return (last + 1) * view->element_bytes;
}

bool torch_views_equal(const struct torch_view *a, const struct torch_view *b)
{
    if (!a || !b)
        return a == b;
    return a->element_bytes == b->element_bytes && a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, a->n_dims * sizeof(a->dims[0])) == 0;
}

/*
 * Moves to the next index of these sides; the first side varies fastest. False behind the last
 * index.
 */
static bool index_next(struct box *box, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        if (++box->index[i] < box->sides[i].n)
            return true;
        box->index[i] = 0;
    }
    return false;
}

static void elements_copy(char *to, const char *from, const struct side *side, uint64_t n,
                          uint64_t bytes)
{
    if (side->from == bytes && side->to == bytes) {
        memcpy(to, from, n * bytes);
        return;
    }
#define COPY(size)                                                  \
    case size:                                                      \
        for (uint64_t i = 0; i < n; i++)                            \
            memcpy(to + i * side->to, from + i * side->from, size); \
        return
    switch (bytes) {
        COPY(1);
        COPY(2);
        COPY(4);
        COPY(8);
        COPY(16);
    default:
        BUG("an element of %lu bytes", bytes);
    }
#undef COPY
}

/*
 * Copies a window into the block: all indices of the sides 0 … n_whole-1, and `n_more` indices of
 * the next side.
 */
static void window_put(struct gathering *g, uint32_t n_whole, uint64_t n_more, char *to)
{
    struct box *box = &g->box;
    uint64_t bytes = g->view->element_bytes;
    uint32_t first = n_whole > 0 ? 1 : 0;
    for (uint64_t i = 0; i < n_more; i++) {
        const struct side *outer = n_whole < box->n_sides ? &box->sides[n_whole] : NULL;
        uint64_t from_0 = outer ? i * outer->from : 0, to_0 = outer ? i * outer->to : 0;
        if (n_whole == 0) {
            elements_copy(to + to_0, g->window + from_0, outer, 1, bytes);
            continue;
        }
        do {
            uint64_t from = from_0, at = to_0;
            for (uint32_t k = first; k < n_whole; k++) {
                from += box->index[k] * box->sides[k].from;
                at += box->index[k] * box->sides[k].to;
            }
            elements_copy(to + at, g->window + from, &box->sides[0], box->sides[0].n, bytes);
        } while (index_next(box, first, n_whole));
    }
}

/*
 * The number of whole sides that fit into a window; *span: the bytes of the storage that they span.
 */
static uint32_t sides_whole(const struct gathering *g, uint64_t *span)
{
    const struct box *box = &g->box;
    uint32_t n = 0;
    *span = g->view->element_bytes;
    for (; n < box->n_sides; n++) {
        const struct side *side = &box->sides[n];
        bool is_far = side->from > *span + GAP_BYTES;
        if (is_far || (side->from > 0 && side->n - 1 > (WINDOW_BYTES - *span) / side->from))
            break;
        *span += (side->n - 1) * side->from;
    }
    return n;
}

/* Fills the block with the box whose first element is at `at`. */
static int box_read(struct gathering *g, uint64_t at, struct err *err)
{
    struct box *box = &g->box;
    uint64_t span;
    uint32_t n_whole = sides_whole(g, &span), begin = MIN(n_whole + 1, box->n_sides);
    const struct side *part = n_whole < box->n_sides ? &box->sides[n_whole] : NULL;
    bool is_dense = part && part->from <= span + GAP_BYTES;
    uint64_t n_all = part ? part->n : 1;
    uint64_t n_step = is_dense ? 1 + (WINDOW_BYTES - span) / part->from : 1;
    int rc = 0;
    do {
        uint64_t from = at, to = 0;
        for (uint32_t k = begin; k < box->n_sides; k++) {
            from += box->index[k] * box->sides[k].from;
            to += box->index[k] * box->sides[k].to;
        }
        for (uint64_t i = 0; i < n_all && rc == 0; i += n_step) {
            uint64_t n = MIN(n_step, n_all - i);
            uint64_t skip = part ? i * part->from : 0,
                     len = span + (part ? (n - 1) * part->from : 0);
            rc = g->source->read(g->source->context, from + skip, g->window, len, err);
            if (rc == 0)
                window_put(g, n_whole, n, g->block + to + (part ? i * part->to : 0));
        }
    } while (rc == 0 && index_next(box, begin, box->n_sides));
    return rc;
}

static int side_order(const void *a, const void *b)
{
    const struct side *left = a, *right = b;
    return (left->from > right->from) - (left->from < right->from);
}

/* Makes the box of dimension `dim`, with `n` of its indices, and of all dimensions behind it.
 * Returns its bytes. */
static uint64_t box_make(struct gathering *g, uint32_t dim, uint64_t n)
{
    const struct torch_view *view = g->view;
    uint64_t bytes = view->element_bytes;
    g->box.n_sides = view->n_dims - dim;
    for (uint32_t i = view->n_dims; i > dim; i--) {
        uint64_t size = i - 1 == dim ? n : view->dims[i - 1].size;
        g->box.sides[i - 1 - dim] =
            (struct side){size, view->dims[i - 1].stride * view->element_bytes, bytes};
        bytes *= size;
    }
    qsort(g->box.sides, g->box.n_sides, sizeof(*g->box.sides), side_order);
    memset(g->box.index, 0, view->n_dims * sizeof(*g->box.index));
    return bytes;
}

/* The outermost dimension of which one index fits into a block; *bytes: the bytes of one index. */
static uint32_t dim_cut(const struct torch_view *view, uint64_t *bytes)
{
    uint32_t dim = view->n_dims - 1;
    *bytes = view->element_bytes;
    while (dim > 0 && view->dims[dim].size <= BLOCK_BYTES / *bytes)
        *bytes *= view->dims[dim--].size;
    return dim;
}

static int blocks_gather(struct gathering *g, uint64_t *outer, gather_sink *sink, void *context,
                         struct err *err)
{
    const struct torch_view *view = g->view;
    uint64_t one_bytes;
    uint32_t dim = dim_cut(view, &one_bytes), k;
    uint64_t n_all = view->dims[dim].size, n_step = BLOCK_BYTES / one_bytes;
    int rc = 0;
    do {
        uint64_t at = g->source->at;
        for (k = 0; k < dim; k++)
            at += outer[k] * view->dims[k].stride * view->element_bytes;
        for (uint64_t i = 0; i < n_all && rc == 0; i += n_step) {
            uint64_t bytes = box_make(g, dim, MIN(n_step, n_all - i));
            rc = box_read(g, at + i * view->dims[dim].stride * view->element_bytes, err);
            if (rc == 0)
                rc = sink(context, (struct str){g->block, bytes}, err);
        }
        for (k = dim; k > 0 && ++outer[k - 1] == view->dims[k - 1].size; k--)
            outer[k - 1] = 0;
    } while (rc == 0 && k > 0);
    return rc;
}

int torch_gather(const struct torch_view *view, const struct gather_source *source,
                 gather_sink *sink, void *context, struct err *err)
{
    struct gathering g = {.view = view, .source = source};
    uint64_t *outer = xcalloc(view->n_dims, sizeof(*outer));
    g.block = xmalloc(BLOCK_BYTES);
    g.window = xmalloc(WINDOW_BYTES);
    g.box.sides = xcalloc(view->n_dims, sizeof(*g.box.sides));
    g.box.index = xcalloc(view->n_dims, sizeof(*g.box.index));
    int rc = blocks_gather(&g, outer, sink, context, err);
    free(g.box.sides);
    free(g.box.index);
    free(g.window);
    free(g.block);
    free(outer);
    return rc;
}
