/* SPDX-License-Identifier: Apache-2.0
 *
 * Edges. Each job counts how many of its needs are not done, and how many never will be; when the state of a job
 * changes, the counts of its followers change. No recursion, since a chain may have a million jobs.
 */
#include "core/dag_impl.h"

void dag_edges_add(struct dag *dag, uint32_t job, const uint32_t *needs, uint32_t n_needs)
{
    struct job *j = &dag->jobs.at[job];
    j->first_edge = dag->edges.len;
    for (uint32_t i = 0; i < n_needs; i++) {
        ASSERT(needs[i] < job);
        struct job *need = &dag->jobs.at[needs[i]];
        dag->edges.at[dag->edges.len] = (struct edge){needs[i], job, need->followers};
        need->followers = dag->edges.len++;
        j->n_left += need->state != DAG_DONE;
        j->n_bad += dag_is_bad(need->state);
    }
}

/* ---- followers ---- */

/*
 * The followers of each job as a list, which is faster than following links through memory. It is made for
 * dag_followers() and for paths; first[jobs.cap + 1] has the number of jobs for which it was made.
 */
static bool is_listed(const struct dag *dag)
{
    return dag->edges.first[dag->jobs.cap + 1] == dag->jobs.len;
}

static void followers_list(const struct dag *dag)
{
    if (is_listed(dag))
        return;
    uint32_t n_jobs = dag->jobs.len, n_edges = dag->edges.len, *first = dag->edges.first, n = 0;
    for (uint32_t job = 0; job < n_jobs; job++)
        first[job] = 0;
    for (uint32_t e = 0; e < n_edges; e++)
        first[dag->edges.at[e].need]++;
    for (uint32_t job = 0; job < n_jobs; job++)
        first[job] = n += first[job];
    first[n_jobs] = n;
    for (uint32_t e = n_edges; e-- > 0;)
        dag->edges.list[--first[dag->edges.at[e].need]] = dag->edges.at[e].follower;
    first[dag->jobs.cap + 1] = n_jobs;
}

const uint32_t *dag_followers(const struct dag *dag, uint32_t job, uint32_t *n_out)
{
    ASSERT(job < dag->jobs.len);
    const uint32_t *first = dag->edges.first;
    followers_list(dag);
    *n_out = first[job + 1] - first[job];
    return dag->edges.list + first[job];
}

/* A walk over followers, by the list if it is up to date. */
struct walk {
    const uint32_t *at, *end;
    uint32_t edge;
};

static struct walk walk_begin(const struct dag *dag, uint32_t job)
{
    if (!is_listed(dag))
        return (struct walk){.edge = dag->jobs.at[job].followers};
    const uint32_t *first = dag->edges.first, *list = dag->edges.list;
    return (struct walk){list + first[job], list + first[job + 1], NONE};
}

/* The next follower; NONE: there is no more. */
static uint32_t walk_next(const struct dag *dag, struct walk *walk)
{
    if (walk->at < walk->end)
        return *walk->at++;
    if (walk->edge == NONE)
        return NONE;
    const struct edge *edge = &dag->edges.at[walk->edge];
    walk->edge = edge->next;
    return edge->follower;
}

/* ---- what becomes of jobs ---- */

bool dag_is_bad(enum dag_state state)
{
    return state == DAG_FAILED || state == DAG_BLOCKED || state == DAG_CANCELLED ||
           state == DAG_UNFIT;
}

/* Changes the follower's count. True: the follower itself has become bad, or has ceased to be. */
static bool follower_tell(struct dag *dag, uint32_t follower, bool is_bad)
{
    struct job *f = &dag->jobs.at[follower];
    f->n_bad += is_bad ? 1 : UINT32_MAX;
    if (is_bad && f->state == DAG_WAITS) {
        dag_state_set(dag, follower, DAG_BLOCKED);
        return true;
    }
    if (!is_bad && f->n_bad == 0 && f->state == DAG_BLOCKED) {
        dag_open(dag, follower);
        return !dag_is_bad(f->state);
    }
    return false;
}

/*
 * Jobs that have changed and whose followers are not told yet form a list by `next`, which is free because none of
 * them is ready.
 */
void dag_bad_spread(struct dag *dag, uint32_t job, bool is_bad)
{
    for (uint32_t list = NONE; job != NONE;) {
        struct walk walk = walk_begin(dag, job);
        for (uint32_t follower; (follower = walk_next(dag, &walk)) != NONE;) {
            if (!follower_tell(dag, follower, is_bad))
                continue;
            dag->jobs.at[follower].next = list;
            list = follower;
        }
        job = list;
        if (list != NONE)
            list = dag->jobs.at[list].next;
    }
}

void dag_done_spread(struct dag *dag, uint32_t job)
{
    struct walk walk = walk_begin(dag, job);
    for (uint32_t follower; (follower = walk_next(dag, &walk)) != NONE;) {
        struct job *f = &dag->jobs.at[follower];
        if (--f->n_left == 0 && f->state == DAG_WAITS)
            dag_open(dag, follower);
    }
}

/* ---- paths ---- */

uint64_t dag_duration_ms(const struct dag *dag, uint32_t job)
{
    const struct job *j = &dag->jobs.at[job];
    if (j->expected_ms > 0)
        return j->expected_ms;
    return dag->paths.n_known > 0 ? dag->paths.known_ms / dag->paths.n_known
                                  : (uint64_t)DAG_UNKNOWN_MS;
}

/* path_ms is the longest path behind the job: adds the job itself. */
static void path_end(struct dag *dag, uint32_t job, uint64_t path_ms)
{
    struct job *j = &dag->jobs.at[job];
    path_ms = MIN(path_ms + dag_duration_ms(dag, job), PATH_MAX_MS);
    if (path_ms == j->path_ms || !j->is_queued) {
        j->path_ms = path_ms;
        return;
    }
    dag_ready_remove(dag, job);
    j->path_ms = path_ms;
    dag_ready_push(dag, job);
}

/*
 * A job needs jobs with smaller numbers, so going backwards all followers of a job come before it. Jobs that are done
 * do not count.
 */
static void paths_find(struct dag *dag)
{
    for (uint32_t job = dag->jobs.len; job-- > 0;) {
        uint64_t path_ms = 0;
        struct walk walk = walk_begin(dag, job);
        for (uint32_t follower; (follower = walk_next(dag, &walk)) != NONE;) {
            const struct job *f = &dag->jobs.at[follower];
            path_ms = f->state == DAG_DONE ? path_ms : MAX(path_ms, f->path_ms);
        }
        path_end(dag, job, path_ms);
    }
}

/* Not at each step of a large graph: that would take longer than the jobs. */
void dag_paths_refresh(struct dag *dag)
{
    enum {
        PER_MS = 2000
    };
    uint64_t pause_ms = ((uint64_t)dag->jobs.len + dag->edges.len) / PER_MS;
    bool is_first = dag->paths.done_ms == 0;
    if (dag->jobs.len == 0 || !dag->paths.is_due ||
        (!is_first && dag->now_ms - dag->paths.done_ms < pause_ms))
        return;
    followers_list(dag);
    paths_find(dag);
    dag->paths.is_due = false;
    dag->paths.done_ms = dag->now_ms;
}
