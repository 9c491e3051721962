/* SPDX-License-Identifier: Apache-2.0
 *
 * The ready jobs in order of urgency. Those of one shape are a pairing heap, whose links are in the jobs; the shapes that
 * have any are a binary heap by their tops. During a step, shapes that were tried and do not fit are set aside.
 *
 * Pairing heaps: Fredman, Sedgewick, Sleator, Tarjan, Algorithmica 1 (1986).
 */
#include <string.h>

#include "base/rng.h"
#include "core/dag_impl.h"

/* ---- shapes ---- */

static uint64_t shape_hash(const struct dag_want *w, uint32_t log_ms)
{
    uint64_t h = mix64((uint64_t)w->n_devices_min << 32 | w->n_devices_max);
    h = mix64(h ^ ((uint64_t)w->share << 32 | w->n_cpus));
    h = mix64(h ^ ((uint64_t)w->place << 32 | log_ms));
    return mix64(h ^ w->mem_bytes);
}

static bool is_same_shape(const struct shape *s, const struct dag_want *w, uint32_t log_ms)
{
    const struct dag_want *v = &s->want;
    return v->n_devices_min == w->n_devices_min && v->n_devices_max == w->n_devices_max &&
           v->share == w->share && v->mem_bytes == w->mem_bytes && v->n_cpus == w->n_cpus &&
           v->place == w->place && s->log_ms == log_ms;
}

/* Where the shape is in the table, or would be. */
static uint32_t *table_find(const struct dag *dag, const struct dag_want *want, uint32_t log_ms)
{
    uint32_t mask = dag->shapes.table_cap - 1, at = (uint32_t)shape_hash(want, log_ms) & mask;
    while (dag->shapes.table[at] != NONE &&
           !is_same_shape(&dag->shapes.at[dag->shapes.table[at]], want, log_ms))
        at = (at + 1) & mask;
    return &dag->shapes.table[at];
}

static void table_fill(struct dag *dag)
{
    dag->shapes.table_cap = 2 * dag->shapes.cap;
    memset(dag->shapes.table, 0xff, dag->shapes.table_cap * sizeof(*dag->shapes.table));
    for (uint32_t i = 1; i < dag->shapes.len; i++) {
        const struct shape *s = &dag->shapes.at[i];
        *table_find(dag, &s->want, s->log_ms) = i;
    }
}

static uint32_t log_of(uint64_t ms)
{
    return ms > 0 ? 64 - (uint32_t)__builtin_clzll(ms) : 0;
}

uint32_t dag_shape_find(struct dag *dag, const struct dag_want *want, uint64_t expected_ms)
{
    uint32_t log_ms = log_of(expected_ms);
    if (!dag_shapes_grow(dag))
        return NONE;
    if (dag->shapes.table_cap == 0)
        table_fill(dag);
    uint32_t *at = table_find(dag, want, log_ms), fresh = dag->shapes.len;
    if (*at != NONE)
        return *at;
    dag->shapes.at[fresh] =
        (struct shape){.want = *want, .log_ms = log_ms, .top = NONE, .at_hot = NONE};
    if (fresh != SHAPE_SPECIAL)
        *at = fresh;
    dag->shapes.is_check_due = true;
    return dag->shapes.len++;
}

bool dag_is_special(const struct job *job)
{
    return job->oom_step != OOM_STEP_NONE || job->has_ill;
}

static struct shape *heap_of(const struct dag *dag, uint32_t job)
{
    const struct job *j = &dag->jobs.at[job];
    return &dag->shapes.at[dag_is_special(j) ? (uint32_t)SHAPE_SPECIAL : j->shape];
}

/* ---- order ---- */

/* Of equally urgent jobs the large ones come first: what is left over is for the small ones. */
static bool comes_before(const struct dag *dag, uint32_t a, uint32_t b)
{
    const struct job *x = &dag->jobs.at[a], *y = &dag->jobs.at[b];
    if (x->urgency != y->urgency)
        return x->urgency > y->urgency;
    const struct dag_want *v = &dag->shapes.at[x->shape].want, *w = &dag->shapes.at[y->shape].want;
    if (v->n_devices_min != w->n_devices_min)
        return v->n_devices_min > w->n_devices_min;
    bool v_is_whole = dag_is_whole(v), w_is_whole = dag_is_whole(w);
    if (v_is_whole != w_is_whole)
        return v_is_whole;
    if (v->mem_bytes != w->mem_bytes)
        return v->mem_bytes > w->mem_bytes;
    if (v->share != w->share)
        return v->share > w->share;
    return a < b;
}

/* ---- one shape's heap ---- */

/* Both are roots; either may be NONE. */
static uint32_t meld(struct dag *dag, uint32_t a, uint32_t b)
{
    if (a == NONE || b == NONE)
        return a == NONE ? b : a;
    uint32_t top = comes_before(dag, a, b) ? a : b, below = top == a ? b : a;
    struct job *t = &dag->jobs.at[top], *j = &dag->jobs.at[below];
    j->prev = top; /* of a first child: the parent */
    j->next = t->child;
    if (t->child != NONE)
        dag->jobs.at[t->child].prev = below;
    t->child = below;
    return top;
}

/* The siblings become one heap: in pairs, and then the pairs from the last to the first. */
static uint32_t siblings_meld(struct dag *dag, uint32_t first)
{
    uint32_t pairs = NONE; /* a list by next, the last pair first */
    while (first != NONE) {
        uint32_t second = dag->jobs.at[first].next;
        uint32_t rest = second == NONE ? NONE : dag->jobs.at[second].next;
        dag->jobs.at[first].next = NONE;
        if (second != NONE)
            dag->jobs.at[second].next = NONE;
        uint32_t pair = meld(dag, first, second);
        dag->jobs.at[pair].next = pairs;
        pairs = pair;
        first = rest;
    }
    uint32_t top = NONE;
    while (pairs != NONE) {
        uint32_t rest = dag->jobs.at[pairs].next;
        dag->jobs.at[pairs].next = NONE;
        top = meld(dag, top, pairs);
        pairs = rest;
    }
    if (top != NONE)
        dag->jobs.at[top].prev = NONE;
    return top;
}

static void detach(struct dag *dag, uint32_t job)
{
    struct job *j = &dag->jobs.at[job], *before = &dag->jobs.at[j->prev];
    if (before->child == job)
        before->child = j->next;
    else
        before->next = j->next;
    if (j->next != NONE)
        dag->jobs.at[j->next].prev = j->prev;
}

/* ---- the heap of shapes ---- */

static void hot_set(struct dag *dag, uint32_t at, uint32_t shape)
{
    dag->shapes.hot[at] = shape;
    dag->shapes.at[shape].at_hot = at;
}

static bool shape_comes_before(const struct dag *dag, uint32_t a, uint32_t b)
{
    return comes_before(dag, dag->shapes.at[a].top, dag->shapes.at[b].top);
}

static void hot_rise(struct dag *dag, uint32_t at, uint32_t shape)
{
    for (; at > 0 && shape_comes_before(dag, shape, dag->shapes.hot[(at - 1) / 2]);
         at = (at - 1) / 2)
        hot_set(dag, at, dag->shapes.hot[(at - 1) / 2]);
    hot_set(dag, at, shape);
}

static void hot_sink(struct dag *dag, uint32_t at, uint32_t shape)
{
    for (uint32_t child; (child = 2 * at + 1) < dag->shapes.n_hot; at = child) {
        const uint32_t *hot = dag->shapes.hot;
        if (child + 1 < dag->shapes.n_hot && shape_comes_before(dag, hot[child + 1], hot[child]))
            child++;
        if (!shape_comes_before(dag, hot[child], shape))
            break;
        hot_set(dag, at, hot[child]);
    }
    hot_set(dag, at, shape);
}

static void hot_remove(struct dag *dag, uint32_t shape)
{
    uint32_t at = dag->shapes.at[shape].at_hot, last = dag->shapes.hot[--dag->shapes.n_hot];
    dag->shapes.at[shape].at_hot = NONE;
    if (last == shape)
        return;
    hot_sink(dag, at, last);
    hot_rise(dag, dag->shapes.at[last].at_hot, last);
}

static void hot_insert(struct dag *dag, uint32_t shape)
{
    hot_rise(dag, dag->shapes.n_hot++, shape);
}

/* The shape has another top now, or none. */
static void top_set(struct dag *dag, struct shape *s, uint32_t top)
{
    uint32_t shape = (uint32_t)(s - dag->shapes.at);
    if (s->at_hot != NONE)
        hot_remove(dag, shape);
    s->top = top;
    if (top != NONE)
        hot_insert(dag, shape);
}

/* ---- ready jobs ---- */

static int64_t urgency_of(const struct dag *dag, const struct job *j)
{
    return (int64_t)j->priority * (int64_t)dag->config.age_ms + (int64_t)j->path_ms -
           (int64_t)MIN(j->ready_ms, PATH_MAX_MS);
}

static void heap_add(struct dag *dag, uint32_t job)
{
    struct shape *s = heap_of(dag, job);
    dag->jobs.at[job].child = dag->jobs.at[job].next = dag->jobs.at[job].prev = NONE;
    uint32_t top = meld(dag, s->top, job);
    if (top != s->top)
        top_set(dag, s, top);
}

void dag_ready_push(struct dag *dag, uint32_t job)
{
    struct job *j = &dag->jobs.at[job];
    j->urgency = urgency_of(dag, j);
    j->is_queued = true;
    heap_add(dag, job);
}

static void heap_take(struct dag *dag, uint32_t job)
{
    struct shape *s = heap_of(dag, job);
    uint32_t below = siblings_meld(dag, dag->jobs.at[job].child);
    dag->jobs.at[job].child = NONE;
    if (s->top == job) {
        top_set(dag, s, below);
        return;
    }
    detach(dag, job);
    uint32_t top = meld(dag, s->top, below);
    ASSERT(top == s->top);
}

void dag_ready_remove(struct dag *dag, uint32_t job)
{
    dag->jobs.at[job].is_queued = false;
    heap_take(dag, job);
}

uint32_t dag_ready_top(const struct dag *dag)
{
    return dag->shapes.n_hot > 0 ? dag->shapes.at[dag->shapes.hot[0]].top : NONE;
}

void dag_ready_set_aside(struct dag *dag, uint32_t job)
{
    uint32_t shape = (uint32_t)(heap_of(dag, job) - dag->shapes.at);
    if (shape != SHAPE_SPECIAL) {
        hot_remove(dag, shape);
        dag->shapes.aside[dag->shapes.n_aside++] = shape;
        return;
    }
    heap_take(dag, job);
    dag->jobs.at[job].next = dag->shapes.jobs_aside;
    dag->shapes.jobs_aside = job;
}

void dag_ready_restore(struct dag *dag)
{
    while (dag->shapes.n_aside > 0)
        hot_insert(dag, dag->shapes.aside[--dag->shapes.n_aside]);
    while (dag->shapes.jobs_aside != NONE) {
        uint32_t job = dag->shapes.jobs_aside;
        dag->shapes.jobs_aside = dag->jobs.at[job].next;
        heap_add(dag, job);
    }
}
