/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the training triples near a test triple, so that only these are scored. Their influences
 * are the same as without the filter.
 *
 * Let H and T be the entities within n_hops of the test triple's head and of its tail. Entities in
 * both are kept, and so are head and tail themselves, the two ends. Candidates are the edges
 * between two entities of H and those between two entities of T. A candidate between kept entities
 * is kept if it touches an end (unless no_preserve), or if one of its entities has at least
 * min_degree candidates. With on_paths, both its entities must also be in H and in T, and in one of
 * its two directions the distance from the head must not shrink and the distance to the tail must
 * not grow. All triples of a kept edge are kept.
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
    uint32_t path_length_max; /* with on_paths: most hops from head and to tail, summed; 0: any */
};

struct proximity;

/* The adjacency is borrowed. */
struct proximity *proximity_new(const struct adjacency *adjacency,
                                const struct proximity_opts *opts);
void proximity_free(struct proximity *proximity);
/*
 * Returns the indices of the kept training triples, ascending: a new array, or NULL if there are
 * none.
 */
uint32_t *proximity_filter(struct proximity *proximity, struct triple test, size_t *n_kept);
