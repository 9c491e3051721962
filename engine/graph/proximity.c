/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/proximity.h"

#include <string.h>

#include "base/xalloc.h"

#define UNREACHED UINT32_MAX

enum degree {
    DEGREE_UNKNOWN,
    DEGREE_LOW,
    DEGREE_ENOUGH
};

/* The entities within n_hops of one end, and their distances from it. */
struct ball {
    uint32_t *distances; /* the distances of all entities; UNREACHED outside the ball */
    uint32_t *entities;  /* in order of their distance */
    size_t n;
};

struct proximity {
    const struct adjacency *adjacency;
    struct proximity_opts opts;
    struct ball head, tail;
    uint8_t *degrees; /* by entity: an enum degree, for the current two balls */
    uint32_t *kept;
    size_t n_kept, cap;
};

static void ball_init(struct ball *ball, size_t n_entities)
{
    ball->distances = xmalloc(n_entities * sizeof(*ball->distances));
    memset(ball->distances, 0xff, n_entities * sizeof(*ball->distances));
    ball->entities = xmalloc(n_entities * sizeof(*ball->entities));
}

static void ball_add(struct ball *ball, uint32_t entity, uint32_t distance)
{
    ball->distances[entity] = distance;
    ball->entities[ball->n++] = entity;
}

static void ball_fill(struct ball *ball, const struct adjacency *graph, uint32_t centre,
                      uint32_t n_hops)
{
    ball_add(ball, centre, 0);
    for (size_t i = 0; i < ball->n; i++) {
        uint32_t entity = ball->entities[i], distance = ball->distances[entity];
        if (distance == n_hops)
            break;
        for (uint64_t k = graph->begins[entity]; k < graph->begins[entity + 1]; k++)
            if (ball->distances[graph->neighbours[k].entity] == UNREACHED)
                ball_add(ball, graph->neighbours[k].entity, distance + 1);
    }
}

/* This takes time in proportion to the ball, not to the graph. */
static void ball_empty(struct ball *ball, uint8_t *degrees)
{
    for (size_t i = 0; i < ball->n; i++) {
        ball->distances[ball->entities[i]] = UNREACHED;
        degrees[ball->entities[i]] = DEGREE_UNKNOWN;
    }
    ball->n = 0;
}

static void ball_release(struct ball *ball)
{
    free(ball->distances);
    free(ball->entities);
}

struct proximity *proximity_new(const struct adjacency *adjacency,
                                const struct proximity_opts *opts)
{
    struct proximity *proximity = xcalloc(1, sizeof(*proximity));
    proximity->adjacency = adjacency;
    proximity->opts = *opts;
    ball_init(&proximity->head, adjacency->n_entities);
    ball_init(&proximity->tail, adjacency->n_entities);
    proximity->degrees = xcalloc(adjacency->n_entities, sizeof(*proximity->degrees));
    return proximity;
}

void proximity_free(struct proximity *proximity)
{
    if (!proximity)
        return;
    ball_release(&proximity->head);
    ball_release(&proximity->tail);
    free(proximity->degrees);
    free(proximity->kept);
    free(proximity);
}

static bool is_within(const struct ball *ball, uint32_t entity)
{
    return ball->distances[entity] != UNREACHED;
}

static bool is_candidate(const struct proximity *p, uint32_t a, uint32_t b)
{
    return (is_within(&p->head, a) && is_within(&p->head, b)) ||
           (is_within(&p->tail, a) && is_within(&p->tail, b));
}

static bool is_end(struct triple test, uint32_t entity)
{
    return entity == test.head || entity == test.tail;
}

static bool is_kept_entity(const struct proximity *p, struct triple test, uint32_t entity)
{
    return is_end(test, entity) || (is_within(&p->head, entity) && is_within(&p->tail, entity));
}

static bool has_degree(struct proximity *p, uint32_t entity)
{
    const struct adjacency *graph = p->adjacency;
    uint32_t degree = 0;
    if (p->degrees[entity] != DEGREE_UNKNOWN)
        return p->degrees[entity] == DEGREE_ENOUGH;
    for (uint64_t k = graph->begins[entity];
         k < graph->begins[entity + 1] && degree < p->opts.min_degree; k++)
        degree += is_candidate(p, entity, graph->neighbours[k].entity);
    p->degrees[entity] = degree >= p->opts.min_degree ? DEGREE_ENOUGH : DEGREE_LOW;
    return degree >= p->opts.min_degree;
}

/* True if the step from `a` to `b` leads from the head towards the tail. */
static bool is_forward(const struct proximity *p, uint32_t a, uint32_t b)
{
    const uint32_t *from_head = p->head.distances, *to_tail = p->tail.distances;
    return from_head[a] <= from_head[b] && to_tail[b] <= to_tail[a] &&
           (p->opts.path_length_max == 0 || from_head[a] + to_tail[b] <= p->opts.path_length_max);
}

static bool is_on_path(const struct proximity *p, uint32_t a, uint32_t b)
{
    return is_within(&p->head, a) && is_within(&p->tail, a) && is_within(&p->head, b) &&
           is_within(&p->tail, b) && (is_forward(p, a, b) || is_forward(p, b, a));
}

static void edge_keep(struct proximity *p, uint32_t edge)
{
    const struct adjacency *graph = p->adjacency;
    for (uint32_t i = graph->edge_begins[edge]; i < graph->edge_begins[edge + 1]; i++) {
        if (p->n_kept == p->cap) {
            p->cap = p->cap > 0 ? p->cap * 2 : 256;
            p->kept = xrealloc(p->kept, p->cap * sizeof(*p->kept));
        }
        p->kept[p->n_kept++] = graph->triples[i];
    }
}

/*
 * Keeps the edges of a kept entity to entities that are not below it, so that each edge is seen
 * once.
 */
static void entity_edges(struct proximity *p, struct triple test, uint32_t entity)
{
    const struct adjacency *graph = p->adjacency;
    bool entity_has_degree = has_degree(p, entity);
    for (uint64_t k = graph->begins[entity]; k < graph->begins[entity + 1]; k++) {
        uint32_t other = graph->neighbours[k].entity;
        if (other < entity || !is_kept_entity(p, test, other) || !is_candidate(p, entity, other))
            continue;
        bool touches = !p->opts.no_preserve && (is_end(test, entity) || is_end(test, other));
        if ((touches || entity_has_degree || has_degree(p, other)) &&
            (!p->opts.on_paths || is_on_path(p, entity, other)))
            edge_keep(p, graph->neighbours[k].edge);
    }
}

static int by_index(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

uint32_t *proximity_filter(struct proximity *p, struct triple test, size_t *n_kept)
{
    ball_fill(&p->head, p->adjacency, test.head, p->opts.n_hops);
    ball_fill(&p->tail, p->adjacency, test.tail, p->opts.n_hops);
    p->n_kept = 0;
    for (size_t i = 0; i < p->head.n; i++)
        if (is_kept_entity(p, test, p->head.entities[i]))
            entity_edges(p, test, p->head.entities[i]);
    if (!is_within(&p->head, test.tail))
        entity_edges(p, test, test.tail);
    ball_empty(&p->head, p->degrees);
    ball_empty(&p->tail, p->degrees);
    *n_kept = p->n_kept;
    if (p->n_kept == 0)
        return NULL;
    qsort(p->kept, p->n_kept, sizeof(*p->kept), by_index);
    uint32_t *copy = xmalloc(p->n_kept * sizeof(*copy));
    memcpy(copy, p->kept, p->n_kept * sizeof(*copy));
    return copy;
}
