/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids that were found in the output, for the functions that compare them and those that change
 * them.
 */
#pragma once

#include "rule/path_pattern.h"
#include "tensor/torch/torch_normalise.h"

/* A value at the path of ids: the value, and the slot of its holder that refers to it. */
struct id {
    uint64_t hash, ordinal; /* ordinal: its position in the output */
    uint32_t graph, holder; /* the graphs of the value and of its holder */
    pickle_id value;
    uint32_t slot; /* index into the holder's chunks */
};

struct ids {
    struct merge_state *merge;
    const char *option; /* the command-line option that needs them, for messages */
    struct path_pattern pattern;
    size_t root_graph;
    bool are_references; /* a missing key and None are no error: they refer to nothing */
    struct id *at;
    size_t len, cap;
    struct buf here; /* keys and indices of the current value, in its own file */
    uint64_t n_visits, max_visits;
    uint64_t wanted; /* the ordinal whose place goes into wanted_place */
    struct buf *wanted_place;
    uint32_t last_graph; /* of the value that was looked at last */
};

static inline const struct pickle_node *id_node(const struct ids *ids, const struct id *id)
{
    return pickle_node(torch_merge_graph(ids->merge, id->graph), id->value);
}

static inline struct str id_bytes(const struct ids *ids, const struct id *id)
{
    const struct pickle *graph = torch_merge_graph(ids->merge, id->graph);
    return pickle_bytes(graph, pickle_node(graph, id->value));
}

/*
 * Collects all values that the pattern matches below the root in ids->at. ERR_DATA if a value is
 * missing, or cannot be an id.
 */
int ids_find(struct ids *ids, pickle_id root);
/* The limit on visits: each item is visited once at each level of the pattern, unless an object is
 * in several places. */
uint64_t ids_visits_max(const struct ids *ids);
void ids_release(struct ids *ids);
/* Adds where the id with this ordinal is, in its own file. */
void ids_place(const struct ids *ids, pickle_id root, uint64_t ordinal, struct buf *out);
/*
 * Numbers all ids in the order of the output, from the first id's number on; the text before the
 * number stays. ERR_DATA for an id without a number.
 */
int ids_renumber(struct ids *ids, pickle_id root, uint64_t n_twice);
