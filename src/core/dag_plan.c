/* SPDX-License-Identifier: Apache-2.0
 *
 * Which jobs start now. Ready jobs are tried in order of urgency. The first that does not fit is the head: less
 * urgent jobs start only if they end before the head can start, or leave free what the head will get (backfill, as in
 * EASY: Lifka, "The ANL/IBM SP scheduling system", 1995). If the time at which the head can start is not known,
 * devices are kept free for it only after patience_ms of waiting. If the head has still not started long after its
 * time, no job starts any more where the head could.
 */
#include <string.h>

#include "core/dag_impl.h"

enum {
    /* Looks at jobs that do not fit, in one step while others run: there will be another step. */
    LOOKS_MAX = 256,
    GLANCES_MAX = 4096 /* the same for jobs that want more of something than is left anywhere */
};

/* ---- a forecast ---- */

/* When a running job is expected to end; one that is overdue is expected to end at once. */
static uint64_t end_of(const struct dag *dag, uint32_t job)
{
    const struct job *j = &dag->jobs.at[job];
    return j->expected_ms > 0 ? MAX(j->started_ms + j->expected_ms, dag->now_ms + 1) : NEVER;
}

static bool ends_before(const struct dag *dag, uint32_t a, uint32_t b)
{
    uint64_t x = end_of(dag, a), y = end_of(dag, b);
    if (x != y)
        return x < y;
    uint64_t from = dag->jobs.at[a].started_ms, to = dag->jobs.at[b].started_ms;
    return from != to ? from < to : a < b;
}

static void by_end_sink(const struct dag *dag, uint32_t at, uint32_t n)
{
    uint32_t *heap = dag->jobs.by_end, job = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && ends_before(dag, heap[child + 1], heap[child]))
            child++;
        if (!ends_before(dag, heap[child], job))
            break;
        heap[at] = heap[child];
    }
    heap[at] = job;
}

/* The running jobs that take room, as a heap by their expected ends. */
static uint32_t by_end_list(const struct dag *dag)
{
    uint32_t n = 0;
    for (uint32_t job = dag->running; job != NONE; job = dag->jobs.at[job].next) {
        const struct job *j = &dag->jobs.at[job];
        if (j->n_devices > 0 || dag->shapes.at[j->shape].want.n_cpus > 0)
            dag->jobs.by_end[n++] = job;
    }
    for (uint32_t at = n / 2; at-- > 0;)
        by_end_sink(dag, at, n);
    return n;
}

static void later_begin(const struct dag *dag)
{
    memcpy(dag->later.loads, dag->now.loads, dag->devices.len * sizeof(*dag->now.loads));
    memcpy(dag->later.cpus_used, dag->now.cpus_used, dag->hosts.len * sizeof(*dag->now.cpus_used));
}

bool dag_forecast(const struct dag *dag, const struct demand *demand, uint64_t *start_ms,
                  struct spot *spot)
{
    later_begin(dag);
    *start_ms = dag->now_ms;
    bool fits = dag_place(dag, demand, &dag->later, NULL, REACH_UP, spot);
    for (uint32_t n = fits ? 0 : by_end_list(dag); !fits && n > 0;) {
        uint32_t job = dag->jobs.by_end[0];
        dag->jobs.by_end[0] = dag->jobs.by_end[--n];
        if (n > 0)
            by_end_sink(dag, 0, n);
        dag_give(dag, &dag->later, job);
        *start_ms = end_of(dag, job);
        fits = dag_place(dag, demand, &dag->later, NULL, REACH_UP, spot);
    }
    return fits;
}

/* ---- the head ---- */

static bool is_patient(const struct dag *dag, uint32_t job)
{
    return dag->now_ms - dag->jobs.at[job].ready_ms >= dag->config.patience_ms;
}

/* Has the head been the head for long, and is it long after the time at which it should have started? */
static bool is_overdue(const struct dag *dag)
{
    uint64_t long_ms = DRAIN_PATIENCES * dag->config.patience_ms;
    uint64_t from_ms = MAX(dag->head.since_ms, dag->head.promised_ms);
    return dag->now_ms >= from_ms && dag->now_ms - from_ms >= long_ms;
}

static void head_note(struct dag *dag, uint32_t job, uint64_t start_ms)
{
    if (dag->head.job != job)
        dag->head = (struct head){.job = job, .since_ms = dag->now_ms};
    if (dag->head.promised_ms == 0 && start_ms != NEVER)
        dag->head.promised_ms = start_ms;
}

/*
 * Finds the head, before another job starts, and keeps free what the head will get: `later` has the head's share
 * taken already.
 */
static void hold_find(struct dag *dag)
{
    struct hold *hold = &dag->hold;
    hold->is_known = true;
    for (uint32_t i = 0; i < hold->n_waiting && !hold->is_there; i++) {
        uint32_t job = hold->waiting[i];
        struct demand demand = dag_demand(dag, job);
        struct spot spot;
        bool fits_empty = dag_forecast(dag, &demand, &hold->start_ms, &spot);
        ASSERT(fits_empty);
        if (hold->start_ms == NEVER && !is_patient(dag, job))
            continue;
        hold->is_there = true;
        head_note(dag, job, hold->start_ms);
        hold->drains = is_overdue(dag);
        if (hold->drains)
            dag_close(dag, &dag->later, &demand);
        else
            dag_take(dag, &dag->later, &demand, &spot);
    }
}

/* At the end of a step, notes the head. If no other job could start, it was not looked for yet. */
static void head_settle(struct dag *dag)
{
    const struct hold *hold = &dag->hold;
    bool is_first = !hold->is_known && hold->n_waiting > 0 &&
                    (dag->n_timeless == 0 || is_patient(dag, hold->waiting[0]));
    if (is_first)
        head_note(dag, hold->waiting[0], NEVER);
    else if (!hold->is_there)
        dag->head.job = NONE;
}

/* ---- starts ---- */

static bool ends_in_time(const struct dag *dag, uint32_t job)
{
    uint64_t expected_ms = dag->jobs.at[job].expected_ms;
    return !dag->hold.drains && expected_ms > 0 &&
           dag->now_ms + expected_ms <= dag->hold.start_ms && dag->hold.start_ms != NEVER;
}

static void start(struct dag *dag, uint32_t job, const struct demand *demand,
                  const struct spot *spot)
{
    struct job *j = &dag->jobs.at[job];
    dag_ready_remove(dag, job);
    j->host = (uint16_t)spot->host;
    j->n_devices = (uint8_t)spot->n_devices;
    j->at = spot->n_devices > 0 ? spot->devices[0] : 0;
    if (spot->n_devices > 1) {
        j->at = dag->places.free[--dag->places.n_free];
        memcpy(dag->places.at[j->at], spot->devices, spot->n_devices * sizeof(*spot->devices));
    }
    dag_take(dag, &dag->now, demand, spot);
    dag->hold.has_slack = false;
    j->started_ms = dag->now_ms;
    j->n_attempts++;
    j->prev = NONE;
    j->next = dag->running;
    if (j->next != NONE)
        dag->jobs.at[j->next].prev = job;
    dag->running = job;
    dag->n_timeless += j->expected_ms == 0;
    dag_state_set(dag, job, DAG_RUNS);
    dag_emit(dag, DACT_START, job, 0);
}

enum try_result {
    TRY_STARTED,
    TRY_NO_PLACE,
    TRY_HOPELESS,   /* a job that wants less found no place */
    TRY_BEFORE_HEAD /* it would fit, but the head would start later */
};

/* The head, if there is one, must not start later for this job. */
static enum try_result start_before_head(struct dag *dag, uint32_t job, const struct demand *demand,
                                         struct spot *spot)
{
    if (!dag->hold.is_known)
        hold_find(dag);
    bool is_free = !dag->hold.is_there || ends_in_time(dag, job);
    if (!is_free && !dag_place(dag, demand, &dag->now, &dag->later, REACH_UP, spot))
        return TRY_BEFORE_HEAD;
    if (!is_free)
        dag_take(dag, &dag->later, demand, spot);
    start(dag, job, demand, spot);
    return TRY_STARTED;
}

static void waiting_note(struct dag *dag, uint32_t job, const struct demand *demand)
{
    struct hold *hold = &dag->hold;
    if (hold->n_waiting < countof(hold->waiting) && !hold->is_known &&
        dag_place(dag, demand, &dag->empty, NULL, REACH_UP, NULL))
        hold->waiting[hold->n_waiting++] = job;
}

static bool fits(const struct dag *dag, const struct demand *demand, struct spot *spot)
{
    if (demand->want.n_devices_max > 1 && dag->places.n_free == 0)
        return false;
    return dag_place(dag, demand, &dag->now, NULL, REACH_UP, spot);
}

static enum try_result start_try(struct dag *dag, uint32_t job)
{
    struct demand demand = dag_demand(dag, job);
    struct spot spot;
    if (!dag->hold.has_slack)
        dag->hold.slack = dag_slack(dag);
    dag->hold.has_slack = true;
    bool is_glance = dag_is_hopeless(&dag->hold.slack, &demand);
    if (is_glance || !fits(dag, &demand, &spot)) {
        waiting_note(dag, job, &demand);
        return is_glance ? TRY_HOPELESS : TRY_NO_PLACE;
    }
    if (dag->hold.n_waiting > 0)
        return start_before_head(dag, job, &demand, &spot);
    start(dag, job, &demand, &spot);
    return TRY_STARTED;
}

static uint32_t running(const struct dag *dag)
{
    return dag->n_of[DAG_RUNS] + dag->n_of[DAG_ENDS];
}

static bool may_start(const struct dag *dag)
{
    bool is_halted = !dag->config.keeps_going && dag->n_of[DAG_FAILED] > 0;
    return !dag->is_stopped && !is_halted && running(dag) < dag->config.n_running_max;
}

static void wake_set(struct dag *dag)
{
    dag->wake_ms = NEVER;
    for (uint32_t i = 0; i < dag->hold.n_waiting; i++) {
        uint64_t at_ms = dag->jobs.at[dag->hold.waiting[i]].ready_ms + dag->config.patience_ms;
        if (at_ms > dag->now_ms)
            dag->wake_ms = MIN(dag->wake_ms, at_ms);
    }
}

void dag_plan(struct dag *dag)
{
    dag->hold.is_known = dag->hold.is_there = dag->hold.drains = false;
    dag->hold.n_waiting = 0;
    dag->hold.has_slack = false;
    dag->hold.start_ms = NEVER;
    uint32_t n_looks = 0, n_glances = 0, job;
    while (may_start(dag) &&
           (running(dag) == 0 || (n_looks < LOOKS_MAX && n_glances < GLANCES_MAX)) &&
           (job = dag_ready_top(dag)) != NONE) {
        enum try_result result = start_try(dag, job);
        if (result == TRY_STARTED)
            continue;
        dag_ready_skip(dag, job, result == TRY_BEFORE_HEAD);
        n_glances += result == TRY_HOPELESS;
        n_looks += result != TRY_HOPELESS;
    }
    dag_ready_restore(dag);
    head_settle(dag);
    wake_set(dag);
}
