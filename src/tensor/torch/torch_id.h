/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids that were found in the output, for those who compare and who change them.
 */
#pragma once

#include "rule/path_pattern.h"
#include "tensor/torch/torch_normalise.h"

/* A value at the path: where it is, and where what holds it says so. */
struct id {
    uint64_t hash, ordinal; /* in the order of the output */
    uint32_t graph, holder; /* graphs */
    pickle_id value;
    uint32_t slot; /* of the holder's items */
};

struct ids {
    struct merge_state *merge;
    const char *option; /* that asks for them, for messages */
    struct path_pattern pattern;
    size_t root_graph;
    bool are_references; /* what has no such key, and None, refers to nothing */
    struct id *at;
    size_t len, cap;
    struct buf here; /* keys and indices of the value at hand, in its own file */
    uint64_t n_visits, max_visits;
    uint64_t wanted; /* the ordinal whose place is asked for */
    struct buf *wanted_place;
    uint32_t last_graph; /* of the value that was met last */
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

/* All values that the pattern matches below the root, into ids->at. ERR_DATA where one is
 * missing, or cannot be an id. */
int ids_find(struct ids *ids, pickle_id root);
/* Each item is visited once at each level of the pattern, unless an object is in several places. */
uint64_t ids_visits_max(const struct ids *ids);
void ids_release(struct ids *ids);
/* Where the id of this number is, in its own file. */
void ids_place(const struct ids *ids, pickle_id root, uint64_t ordinal, struct buf *out);
/*
 * All of them in the order of the output, from the first one's number on; what is before the number stays.
 * ERR_DATA where there is none.
 */
int ids_renumber(struct ids *ids, pickle_id root, uint64_t n_twice);
