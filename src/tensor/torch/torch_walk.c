/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over all nodes of the output, through all graphs that the output consists of.
 */
#include "base/xalloc.h"
#include "tensor/torch/torch_normalise.h"

enum call_stage {
    STAGE_OWN, /* items of a container, arguments of a call */
    STAGE_ITEMS,
    STAGE_PAIRS,
    STAGE_STATES,
    STAGE_END
};

static bool is_call(const struct pickle_node *node)
{
    return node->kind == PICKLE_CALL || node->kind == PICKLE_NEW;
}

static bool is_container(const struct pickle_node *node)
{
    return node->kind >= PICKLE_TUPLE && node->kind <= PICKLE_FROZENSET;
}

const struct pickle_node *torch_merge_resolve(const struct merge_state *merge, uint32_t *graph,
                                              pickle_id *id)
{
    const struct pickle_node *node = pickle_node(torch_merge_graph(merge, *graph), *id);
    while (node->kind == PICKLE_OF) {
        *graph = node->of.graph;
        *id = node->of.id;
        node = pickle_node(torch_merge_graph(merge, *graph), *id);
    }
    return node;
}

static void frame_push(struct merge_walk *walk, uint32_t graph, pickle_id id)
{
    const struct pickle_node *node = torch_merge_resolve(walk->merge, &graph, &id);
    if (walk->n_frames == walk->cap_frames) {
        walk->cap_frames = MAX(walk->cap_frames * 2, (size_t)64);
        walk->frames = xrealloc(walk->frames, walk->cap_frames * sizeof(*walk->frames));
    }
    walk->frames[walk->n_frames++] = (struct walk_frame){
        .graph = graph,
        .id = id,
        .stage = is_container(node) || is_call(node) ? STAGE_OWN : STAGE_END,
        .walk = is_container(node) ? pickle_items(node) : (struct pickle_walk){0}};
}

void walk_begin(struct merge_walk *walk, const struct merge_state *merge, pickle_id root)
{
    *walk = (struct merge_walk){.merge = merge};
    walk->met = xcalloc(merge->n_parts + 1, sizeof(*walk->met));
    for (size_t i = 0; i <= merge->n_parts; i++)
        walk->met[i] = xcalloc(torch_merge_graph(merge, i)->n_nodes, 1);
    frame_push(walk, (uint32_t)merge->n_parts, root);
}

void walk_end(struct merge_walk *walk)
{
    for (size_t i = 0; i <= walk->merge->n_parts; i++)
        free(walk->met[i]);
    free(walk->met);
    free(walk->frames);
}

static bool has_pairs(const struct pickle_node *node, const struct walk_frame *frame)
{
    return node->kind == PICKLE_DICT || frame->stage == STAGE_PAIRS;
}

static void stage_next(const struct pickle *graph, const struct pickle_node *node,
                       struct walk_frame *frame)
{
    frame->stage++;
    frame->index = 0;
    if (!is_call(node) || frame->stage == STAGE_END) {
        frame->stage = STAGE_END;
        return;
    }
    const struct pickle_later *later = pickle_later(graph, node);
    const struct pickle_node *const of[] = {[STAGE_ITEMS] = &later->items,
                                            [STAGE_PAIRS] = &later->pairs,
                                            [STAGE_STATES] = &later->states};
    frame->walk = pickle_items(of[frame->stage]);
}

/* The next child of a node; 0 if there are no more. */
static pickle_id child_next(const struct pickle *graph, struct walk_frame *frame)
{
    const struct pickle_node *node = pickle_node(graph, frame->id);
    while (frame->stage < STAGE_END) {
        bool is_arguments = is_call(node) && frame->stage == STAGE_OWN;
        pickle_id child = is_arguments && frame->index == 0 ? node->call.args
                          : is_arguments                    ? 0
                                                            : pickle_next(graph, &frame->walk);
        if (child) {
            frame->index++;
            if (has_pairs(node, frame) && frame->index % 2 == 1)
                frame->key = child;
            return child;
        }
        stage_next(graph, node, frame);
    }
    return 0;
}

/*
 * Is the walk to visit the node? A storage is visited each time, because the place that refers to
 * it matters.
 */
static bool is_new(struct merge_walk *walk, uint32_t graph, pickle_id id)
{
    uint8_t *met = &walk->met[graph][id];
    bool was_met = *met;
    *met = 1;
    return !was_met ||
           pickle_node(torch_merge_graph(walk->merge, graph), id)->kind == PICKLE_STORAGE;
}

const struct walk_frame *walk_next(struct merge_walk *walk)
{
    if (!walk->has_begun) {
        walk->has_begun = true;
        return &walk->frames[0];
    }
    while (walk->n_frames > 0) {
        struct walk_frame *frame = &walk->frames[walk->n_frames - 1];
        uint32_t graph = frame->graph;
        pickle_id id = child_next(torch_merge_graph(walk->merge, graph), frame);
        if (id == 0) {
            walk->n_frames--;
            continue;
        }
        (void)torch_merge_resolve(walk->merge, &graph, &id);
        if (is_new(walk, graph, id)) {
            frame_push(walk, graph, id);
            return &walk->frames[walk->n_frames - 1];
        }
    }
    return NULL;
}

void torch_merge_key_add(const struct merge_state *merge, uint32_t graph, pickle_id key,
                         struct buf *out)
{
    const struct pickle_node *node = torch_merge_resolve(merge, &graph, &key);
    if (node->kind == PICKLE_TEXT)
        buf_add_str(out, pickle_bytes(torch_merge_graph(merge, graph), node));
    else if (node->kind == PICKLE_INT)
        buf_addf(out, "%ld", node->integer);
    else
        buf_add_text(out, "(key)");
}

static void step_add(const struct merge_state *merge, const struct walk_frame *frame,
                     struct buf *out)
{
    const struct pickle *graph = torch_merge_graph(merge, frame->graph);
    const struct pickle_node *node = pickle_node(graph, frame->id);
    if (is_call(node) && frame->stage != STAGE_PAIRS)
        return; /* the arguments of a call have no name in a path */
    buf_add_text(out, out->len > 0 ? "." : "");
    if (has_pairs(node, frame))
        torch_merge_key_add(merge, frame->graph, frame->key, out);
    else
        buf_addf(out, "%u", frame->index - 1);
}

void walk_path(const struct merge_walk *walk, struct buf *out)
{
    buf_reset(out);
    for (size_t i = 0; i + 1 < walk->n_frames; i++)
        step_add(walk->merge, &walk->frames[i], out);
    if (out->len == 0)
        buf_add_char(out, '.');
}
