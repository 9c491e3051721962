/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/adjacency.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/xalloc.h"

/* A triple as an edge: the smaller end first. */
struct pair {
    uint32_t low, high, triple;
};

static int by_ends(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    return x->triple < y->triple ? -1 : x->triple > y->triple;
}

static struct pair *pairs_new(const struct triple *triples, size_t n)
{
    struct pair *pairs = xmalloc(MAX(n, 1u) * sizeof(*pairs));
    for (size_t i = 0; i < n; i++) {
        uint32_t head = triples[i].head, tail = triples[i].tail;
        pairs[i] = (struct pair){MIN(head, tail), MAX(head, tail), (uint32_t)i};
    }
    qsort(pairs, n, sizeof(*pairs), by_ends);
    return pairs;
}

static bool is_new_edge(const struct pair *pairs, size_t i)
{
    return i == 0 || pairs[i].low != pairs[i - 1].low || pairs[i].high != pairs[i - 1].high;
}

/* Collects the triples of each edge, and counts in begins[e + 1] the edges of entity e. */
static void edges_collect(struct adjacency *adjacency, const struct pair *pairs, size_t n_triples)
{
    for (size_t i = 0; i < n_triples; i++) {
        adjacency->triples[i] = pairs[i].triple;
        if (!is_new_edge(pairs, i))
            continue;
        adjacency->edge_begins[adjacency->n_edges++] = (uint32_t)i;
        adjacency->begins[pairs[i].low + 1]++;
        if (pairs[i].low != pairs[i].high)
            adjacency->begins[pairs[i].high + 1]++;
    }
    adjacency->edge_begins[adjacency->n_edges] = (uint32_t)n_triples;
}

/*
 * Puts the lower neighbours of all entities first and then the higher ones, each in the order of
 * the edges. The result is ascending, because the edges are in order of their lower end and then of
 * their higher one.
 */
static void neighbours_fill(struct adjacency *adjacency, const struct pair *pairs)
{
    cleanup_free uint64_t *next = xmalloc((adjacency->n_entities + 1) * sizeof(*next));
    memcpy(next, adjacency->begins, (adjacency->n_entities + 1) * sizeof(*next));
    for (int is_higher = 0; is_higher < 2; is_higher++) {
        for (size_t edge = 0; edge < adjacency->n_edges; edge++) {
            const struct pair *pair = &pairs[adjacency->edge_begins[edge]];
            if (!is_higher && pair->low == pair->high)
                continue;
            uint32_t from = is_higher ? pair->low : pair->high;
            uint32_t to = is_higher ? pair->high : pair->low;
            adjacency->neighbours[next[from]++] = (struct neighbour){to, (uint32_t)edge};
        }
    }
}

void adjacency_build(struct adjacency *adjacency, const struct triple *triples, size_t n_triples,
                     size_t n_entities)
{
    cleanup_free struct pair *pairs = pairs_new(triples, n_triples);
    *adjacency = (struct adjacency){
        .n_entities = n_entities,
        .begins = xcalloc(n_entities + 1, sizeof(*adjacency->begins)),
        .triples = xmalloc(MAX(n_triples, 1u) * sizeof(*adjacency->triples)),
        .edge_begins = xmalloc((n_triples + 1) * sizeof(*adjacency->edge_begins)),
    };
    edges_collect(adjacency, pairs, n_triples);
    for (size_t e = 0; e < n_entities; e++)
        adjacency->begins[e + 1] += adjacency->begins[e];
    adjacency->neighbours =
        xmalloc(MAX(adjacency->begins[n_entities], 1u) * sizeof(*adjacency->neighbours));
    neighbours_fill(adjacency, pairs);
}

void adjacency_release(struct adjacency *adjacency)
{
    free(adjacency->neighbours);
    free(adjacency->begins);
    free(adjacency->triples);
    free(adjacency->edge_begins);
    *adjacency = (struct adjacency){0};
}
