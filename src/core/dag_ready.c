/* SPDX-License-Identifier: Apache-2.0
 *
 * The ready jobs in order of urgency. The ready jobs of one lane of a shape form a pairing heap, whose links are in
 * the jobs; the shapes that have ready jobs form a binary heap by their tops. During a step, jobs that were tried and
 * cannot start are skipped.
 *
 * Pairing heaps: Fredman, Sedgewick, Sleator, Tarjan, Algorithmica 1 (1986).
 */
#include <string.h>

#include "base/rng.h"
#include "core/dag_impl.h"

/* ---- shapes ---- */

static uint64_t shape_hash(const struct dag_want *w)
{
    uint64_t h = mix64((uint64_t)w->n_devices_min << 32 | w->n_devices_max);
    h = mix64(h ^ ((uint64_t)w->share << 32 | w->n_cpus));
    h = mix64(h ^ w->place);
    return mix64(h ^ w->mem_bytes);
}

static bool is_same(const struct dag_want *v, const struct dag_want *w)
{
    return v->n_devices_min == w->n_devices_min && v->n_devices_max == w->n_devices_max &&
           v->share == w->share && v->mem_bytes == w->mem_bytes && v->n_cpus == w->n_cpus &&
           v->place == w->place;
}

/* Where the shape is in the table, or would be. */
static uint32_t *table_find(const struct dag *dag, const struct dag_want *want)
{
    uint32_t mask = dag->shapes.table_cap - 1, at = (uint32_t)shape_hash(want) & mask;
    while (dag->shapes.table[at] != NONE &&
           !is_same(&dag->shapes.at[dag->shapes.table[at]].want, want))
        at = (at + 1) & mask;
    return &dag->shapes.table[at];
}

static void table_fill(struct dag *dag)
{
    dag->shapes.table_cap = 2 * dag->shapes.cap;
    memset(dag->shapes.table, 0xff, dag->shapes.table_cap * sizeof(*dag->shapes.table));
    for (uint32_t i = 1; i < dag->shapes.len; i++)
        *table_find(dag, &dag->shapes.at[i].want) = i;
}

uint32_t dag_shape_find(struct dag *dag, const struct dag_want *want)
{
    if (!dag_shapes_grow(dag))
        return NONE;
    if (dag->shapes.table_cap == 0)
        table_fill(dag);
    uint32_t *at = table_find(dag, want), fresh = dag->shapes.len;
    if (*at != NONE)
        return *at;
    dag->shapes.at[fresh] = (struct shape){.want = *want, .top = NONE, .at_hot = NONE};
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

/* The first lanes are for jobs of up to one second, and of up to two. */
static uint32_t lane_of(const struct job *j)
{
    enum {
        LOG_SHORT = 10
    };
    if (j->expected_ms == 0)
        return 0;
    uint32_t log_ms = 63 - (uint32_t)__builtin_clzll(j->expected_ms);
    return log_ms < LOG_SHORT ? 1 : MIN(log_ms - LOG_SHORT + 2, LANES - 1u);
}

/* ---- order ---- */

/* Of equally urgent jobs the large ones come first; small ones fit into what is left. */
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

static uint32_t top_find(const struct dag *dag, const struct shape *s)
{
    uint32_t top = NONE;
    for (uint32_t open = s->used & ~s->skipped; open != 0; open &= open - 1) {
        uint32_t other = s->tops[__builtin_ctz(open)];
        if (top == NONE || comes_before(dag, other, top))
            top = other;
    }
    return top;
}

/* A lane of the shape has another top now, or none. */
static void top_refresh(struct dag *dag, struct shape *s)
{
    uint32_t shape = (uint32_t)(s - dag->shapes.at), top = top_find(dag, s);
    if (top == s->top)
        return;
    if (s->at_hot != NONE)
        hot_remove(dag, shape);
    s->top = top;
    if (top != NONE)
        hot_insert(dag, shape);
}

static void lane_set(struct dag *dag, struct shape *s, uint32_t lane, uint32_t top)
{
    s->tops[lane] = top;
    s->used = (uint16_t)(top != NONE ? s->used | 1u << lane : s->used & ~(1u << lane));
    top_refresh(dag, s);
}

/* ---- ready jobs ---- */

static int64_t urgency_of(const struct dag *dag, const struct job *j)
{
    return (int64_t)j->priority * (int64_t)dag->config.age_ms + (int64_t)j->path_ms -
           (int64_t)j->ready_ms;
}

static void heap_add(struct dag *dag, uint32_t job)
{
    struct shape *s = heap_of(dag, job);
    struct job *j = &dag->jobs.at[job];
    uint32_t lane = lane_of(j), top = s->used >> lane & 1 ? s->tops[lane] : NONE;
    j->child = j->next = j->prev = NONE;
    lane_set(dag, s, lane, meld(dag, top, job));
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
    uint32_t lane = lane_of(&dag->jobs.at[job]);
    uint32_t below = siblings_meld(dag, dag->jobs.at[job].child);
    dag->jobs.at[job].child = NONE;
    if (s->tops[lane] != job) {
        detach(dag, job);
        below = meld(dag, s->tops[lane], below);
    }
    lane_set(dag, s, lane, below);
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

static void job_skip(struct dag *dag, uint32_t job)
{
    heap_take(dag, job);
    dag->jobs.at[job].next = dag->shapes.skipped_jobs;
    dag->shapes.skipped_jobs = job;
}

void dag_ready_skip(struct dag *dag, uint32_t job, bool fits)
{
    struct shape *s = heap_of(dag, job);
    uint32_t shape = (uint32_t)(s - dag->shapes.at);
    if (shape == SHAPE_SPECIAL) {
        job_skip(dag, job);
        return;
    }
    if (s->skipped == 0)
        dag->shapes.skipped[dag->shapes.n_skipped++] = shape;
    s->skipped |= fits ? (uint16_t)(1u << lane_of(&dag->jobs.at[job])) : UINT16_MAX;
    top_refresh(dag, s);
}

void dag_ready_restore(struct dag *dag)
{
    while (dag->shapes.n_skipped > 0) {
        struct shape *s = &dag->shapes.at[dag->shapes.skipped[--dag->shapes.n_skipped]];
        s->skipped = 0;
        top_refresh(dag, s);
    }
    while (dag->shapes.skipped_jobs != NONE) {
        uint32_t job = dag->shapes.skipped_jobs;
        dag->shapes.skipped_jobs = dag->jobs.at[job].next;
        heap_add(dag, job);
    }
}

uint32_t dag_ready_before(const struct dag *dag, uint32_t job)
{
    ASSERT(job < dag->jobs.len && dag->jobs.at[job].state == DAG_READY);
    uint32_t n = 0;
    for (uint32_t i = 0; i < dag->jobs.len; i++) {
        const struct job *j = &dag->jobs.at[i];
        n += i != job && j->state == DAG_READY && !j->is_held && comes_before(dag, i, job);
    }
    return n;
}
