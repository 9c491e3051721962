/* SPDX-License-Identifier: Apache-2.0
 *
 * The training triples as an undirected graph without relations. Triples between the same two
 * entities, whatever their relation or direction, form one edge, which lists them. The graph is
 * built once, for all test triples.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <stdbool.h>

#include "base/attr.h"
#include "graph/triple.h"

/* An edge as one of its ends sees it. */
struct neighbour {
    uint32_t entity;
    uint32_t edge;
};

struct adjacency {
    size_t n_entities, n_edges;
    /*
     * The neighbours of entity e are at begins[e] to begins[e + 1], ascending; e itself is there
     * once if it has a loop.
     */
    struct neighbour *neighbours;
    uint64_t *begins;      /* n_entities + 1 */
    uint32_t *triples;     /* the triples of edge i are at edge_begins[i] to edge_begins[i + 1],
                            * ascending */
    uint32_t *edge_begins; /* n_edges + 1 */
};

/* Precondition: heads and tails are below n_entities, and there are fewer than 2^32 - 1 triples. */
void adjacency_build(struct adjacency *adjacency, const struct triple *triples, size_t n_triples,
                     size_t n_entities);
void adjacency_release(struct adjacency *adjacency);
