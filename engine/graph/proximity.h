/* SPDX-License-Identifier: Apache-2.0
 *
 * Which training triples are near a test triple: only those are then scored. Their influence is the same as
 * without the filter.
 *
 * Let H and T be the entities within n_hops of the test triple's head and of its tail. Entities in both are kept,
 * and so are the two ends. Candidates are the edges between two entities of H and those between two of T. A
 * candidate between kept entities is kept if it touches an end of the test triple (unless no_preserve), or if one
 * of its entities has at least min_degree candidates; with on_paths only if also, from one of its entities to the
 * other, the distance from the head does not shrink and that to the tail does not grow, both known. All triples
 * of a kept edge are kept.
 *
 * This is the definition of TiePin's filter with PyTorch Geometric.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/adjacency.h"

struct proximity_opts {
    uint32_t n_hops, min_degree;
    bool no_preserve;
    bool on_paths;
    uint32_t path_length_max; /* with on_paths: distance from head and distance to tail; 0: any */
};

struct proximity;

/* The adjacency is borrowed. */
struct proximity *proximity_new(const struct adjacency *adjacency,
                                const struct proximity_opts *opts);
void proximity_free(struct proximity *proximity);
/* The kept training triples, ascending; a new array, NULL if there are none. */
uint32_t *proximity_filter(struct proximity *proximity, struct triple test, size_t *n_kept);
