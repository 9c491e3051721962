/* SPDX-License-Identifier: Apache-2.0
 *
 * Shrinks storages to the range of elements that the output's tensors use. Tensors that shared a
 * storage still do. This is done after the output's graph is made, because only tensors in the
 * output count.
 */
#include "base/parse.h"
#include "base/xalloc.h"
#include "tensor/torch/torch_normalise.h"

enum {
    ELEMENT_BYTES_MAX = 16 /* the largest element size, a multiple of all others */
};

/* The range of a storage's bytes that tensors use. */
struct span {
    uint64_t begin, end;
    bool is_shown;  /* a tensor of the output uses it */
    bool is_whole;  /* something other than a tensor refers to the storage */
    bool is_mixed;  /* a tensor has elements of another size than the storage */
    pickle_id kept; /* the new storage in the new graph; 0: it stays as it is */
};

struct view {
    uint32_t part;
    pickle_id id;
};

struct compaction {
    struct merge_state *merge;
    struct span **spans; /* by part, then by storage */
    struct view *views;
    size_t n_views, cap_views;
    uint64_t n_storages, n_bytes; /* storages that became smaller, and by how many bytes */
};

static uint64_t storage_bytes(const struct pickle_storage *storage)
{
    return storage->n_elements * storage->element_bytes;
}

static void view_note(struct compaction *c, uint32_t part, pickle_id id,
                      const struct pickle_view *view)
{
    struct span *span = &c->spans[part][view->storage];
    const struct pickle *graph = torch_merge_graph(c->merge, part);
    span->is_shown = true;
    span->is_mixed |= view->element_bytes != graph->storages[view->storage].element_bytes;
    if (view->begin < view->end) {
        span->begin = MIN(span->begin, view->begin * view->element_bytes);
        span->end = MAX(span->end, view->end * view->element_bytes);
    }
    if (c->n_views == c->cap_views) {
        c->cap_views = MAX(c->cap_views * 2, (size_t)64);
        c->views = xrealloc(c->views, c->cap_views * sizeof(*c->views));
    }
    c->views[c->n_views++] = (struct view){part, id};
}

/* Is the current storage the first argument of a tensor's call? */
static bool is_of_tensor(const struct merge_walk *walk)
{
    if (walk->n_frames < 3)
        return false;
    const struct walk_frame *args = &walk->frames[walk->n_frames - 2], *call = args - 1;
    const struct pickle *graph = torch_merge_graph(walk->merge, call->graph);
    return args->index == 1 && is_tensor(graph, call->id) &&
           pickle_node(graph, call->id)->call.args == args->id;
}

static void views_find(struct compaction *c, pickle_id root)
{
    const struct walk_frame *frame;
    struct merge_walk walk;
    walk_begin(&walk, c->merge, root);
    while ((frame = walk_next(&walk)) != NULL) {
        const struct pickle *graph = torch_merge_graph(c->merge, frame->graph);
        const struct pickle_node *node = pickle_node(graph, frame->id);
        struct pickle_view view;
        if (frame->graph == c->merge->n_parts)
            continue; /* made by cat0, so it has no unused elements */
        if (node->kind == PICKLE_STORAGE && !is_of_tensor(&walk))
            c->spans[frame->graph][node->storage].is_whole = true;
        else if (pickle_view_take(graph, node, &view))
            view_note(c, frame->graph, frame->id, &view);
    }
    walk_end(&walk);
}

static void storage_compact(struct compaction *c, uint32_t part, uint32_t index)
{
    const struct pickle_storage *storage = &torch_merge_graph(c->merge, part)->storages[index];
    struct span *span = &c->spans[part][index];
    uint64_t has = storage_bytes(storage);
    if (span->begin > span->end)
        span->begin = span->end = 0; /* used by empty tensors only */
    if (span->is_mixed) {
        span->begin -= span->begin % ELEMENT_BYTES_MAX;
        span->end +=
            (storage->element_bytes - span->end % storage->element_bytes) % storage->element_bytes;
    }
    if (!span->is_shown || span->is_whole || span->end - span->begin >= has)
        return;
    torch_merge_segment(c->merge, (struct torch_segment){.part = part,
                                                         .storage = index,
                                                         .offset = span->begin,
                                                         .bytes = span->end - span->begin});
    uint32_t made =
        torch_merge_storage(c->merge, storage, (span->end - span->begin) / storage->element_bytes);
    span->kept =
        pickle_add(&c->merge->made, (struct pickle_node){.kind = PICKLE_STORAGE, .storage = made});
    c->n_storages++;
    c->n_bytes += has - (span->end - span->begin);
}

/* Gives the tensor's call the new storage and an offset within it. The tuple of arguments is not
 * changed in place, because other calls may share it. */
static void view_move(struct compaction *c, struct view at)
{
    struct pickle *graph = &c->merge->parts[at.part].file.pickle;
    struct pickle_view view;
    if (!pickle_view_take(graph, pickle_node(graph, at.id), &view))
        return;
    const struct span *span = &c->spans[at.part][view.storage];
    if (span->kept == 0)
        return;
    uint64_t begin = view.begin * view.element_bytes;
    uint64_t offset = view.begin == view.end ? 0 : (begin - span->begin) / view.element_bytes;
    struct pickle_walk walk =
        pickle_items(pickle_node(graph, pickle_node(graph, at.id)->call.args));
    pickle_id tuple = pickle_add(graph, (struct pickle_node){.kind = PICKLE_TUPLE});
    pickle_id args[2] = {
        pickle_add(graph, (struct pickle_node){.kind = PICKLE_OF,
                                               .of = {(uint32_t)c->merge->n_parts, span->kept}}),
        pickle_add(graph, (struct pickle_node){.kind = PICKLE_INT, .integer = (int64_t)offset}),
    };
    pickle_add_items(graph, tuple, args, countof(args));
    pickle_id id = pickle_next(graph, &walk);
    id = pickle_next(graph, &walk);
    while ((id = pickle_next(graph, &walk)) != 0)
        pickle_add_items(graph, tuple, &id, 1);
    graph->nodes[at.id].call.args = tuple;
}

int compact_make(struct merge_state *merge, pickle_id root)
{
    struct compaction c = {.merge = merge};
    c.spans = xcalloc(merge->n_parts, sizeof(*c.spans));
    for (size_t i = 0; i < merge->n_parts; i++) {
        size_t n_storages = torch_merge_graph(merge, i)->n_storages;
        c.spans[i] = xcalloc(n_storages, sizeof(**c.spans));
        for (size_t k = 0; k < n_storages; k++)
            c.spans[i][k].begin = UINT64_MAX;
    }
    views_find(&c, root);
    for (size_t i = 0; i < merge->n_parts; i++)
        for (size_t k = 0; k < torch_merge_graph(merge, i)->n_storages; k++)
            storage_compact(&c, (uint32_t)i, (uint32_t)k);
    for (size_t i = 0; i < c.n_views; i++)
        view_move(&c, c.views[i]);
    char size[16];
    size_format(size, c.n_bytes);
    torch_merge_note(merge, "--compact: %lu storage%s became smaller, by %s in all", c.n_storages,
                     plural(c.n_storages), size);
    for (size_t i = 0; i < merge->n_parts; i++)
        free(c.spans[i]);
    free(c.spans);
    free(c.views);
    return 0;
}
