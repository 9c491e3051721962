/* SPDX-License-Identifier: Apache-2.0
 *
 * What a waiting job waits for in the end: the jobs at the beginning of its chains of needs, and the earliest time at
 * which it can begin.
 */
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

enum {
    /* Jobs that are looked at. With more of them no time is given, so that an answer is quick. */
    LOOKED_AT_MAX = 1024,
    STANDS_SHOWN = 3
};

/* When a job will be done, as far as the times of such jobs are known. */
struct done_by {
    bool is_known;
    uint64_t in_ms;
};

/* The jobs that have to be done before another one, without those that are done. */
struct chain {
    const struct graph *graph;
    uint32_t job; /* whose chain it is */
    uint32_t jobs[LOOKED_AT_MAX];
    struct done_by done_by[LOOKED_AT_MAX]; /* of jobs[i] */
    size_t n_jobs;
    uint16_t *places; /* [graph->n_jobs] where a job is in jobs, + 1; 0: nowhere */
    bool is_cut;      /* more jobs than LOOKED_AT_MAX: no time is known */
    uint32_t stands[STANDS_SHOWN], n_stands;
};

/* ---- which jobs ---- */

static void needs_add(struct chain *chain, uint32_t job)
{
    const struct plan_job *plan = chain->graph->jobs[job].plan;
    for (uint32_t i = 0; i < plan->n_needs && !chain->is_cut; i++) {
        uint32_t need = plan->needs[i];
        if (chain->places[need] > 0 || dag_job_view(chain->graph->dag, need).state == DAG_DONE)
            continue;
        chain->is_cut = chain->n_jobs == LOOKED_AT_MAX;
        if (chain->is_cut)
            return;
        chain->jobs[chain->n_jobs++] = need;
        chain->places[need] = 1;
    }
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the jobs by number: a job has a greater number than those that it needs. */
static void jobs_collect(struct chain *chain)
{
    needs_add(chain, chain->job);
    for (size_t i = 0; i < chain->n_jobs && !chain->is_cut; i++)
        if (dag_job_view(chain->graph->dag, chain->jobs[i]).state == DAG_WAITS)
            needs_add(chain, chain->jobs[i]);
    qsort(chain->jobs, chain->n_jobs, sizeof(*chain->jobs), by_number);
    for (size_t i = 0; i < chain->n_jobs; i++)
        chain->places[chain->jobs[i]] = (uint16_t)(i + 1);
}

/* ---- when ---- */

static bool is_needed_by(const struct plan_job *plan, uint32_t job)
{
    for (uint32_t i = 0; i < plan->n_needs; i++)
        if (plan->needs[i] == job)
            return true;
    return false;
}

/* Notes a job that waits for no other, or is held. A job that is needed directly is named in the sentence already. */
static void stand_note(struct chain *chain, uint32_t job)
{
    if (is_needed_by(chain->graph->jobs[chain->job].plan, job))
        return;
    if (chain->n_stands < STANDS_SHOWN)
        chain->stands[chain->n_stands] = job;
    chain->n_stands++;
}

/* When a job that waits for no other will be done: when it can begin, and how long it takes. */
static struct done_by stand_done_by(const struct chain *chain, uint32_t job,
                                    const struct dag_job_view *view)
{
    const struct graph_job *of = &chain->graph->jobs[job];
    const uint64_t now_ms = shell_last_now(chain->graph->shell), takes_ms = of->expected_ms;
    uint64_t ran_ms = of->process ? now_ms - of->process->started_ms : 0;
    uint64_t begins_in_ms = view->start_by_ms > now_ms ? view->start_by_ms - now_ms : 0;
    return (struct done_by){.is_known = takes_ms > ran_ms && !view->is_held,
                            .in_ms = begins_in_ms + takes_ms - MIN(ran_ms, takes_ms)};
}

/* When the last of the jobs that `job` needs is done: then it can begin. */
static struct done_by needs_done_by(const struct chain *chain, uint32_t job)
{
    const struct plan_job *plan = chain->graph->jobs[job].plan;
    struct done_by all = {.is_known = !chain->is_cut};
    for (uint32_t i = 0; i < plan->n_needs; i++) {
        uint16_t place = chain->places[plan->needs[i]];
        if (place == 0) /* done, or not looked at */
            continue;
        all.is_known = all.is_known && chain->done_by[place - 1].is_known;
        all.in_ms = MAX(all.in_ms, chain->done_by[place - 1].in_ms);
    }
    return all;
}

static struct done_by job_done_by(struct chain *chain, uint32_t job)
{
    const struct dag_job_view view = dag_job_view(chain->graph->dag, job);
    if (view.state != DAG_WAITS || view.is_held)
        stand_note(chain, job);
    if (view.state != DAG_WAITS)
        return stand_done_by(chain, job, &view);
    struct done_by needs = needs_done_by(chain, job);
    uint64_t takes_ms = chain->graph->jobs[job].expected_ms;
    needs.is_known = needs.is_known && takes_ms > 0 && !view.is_held;
    needs.in_ms += takes_ms;
    return needs;
}

/* ---- in words ---- */

static const char *stands_how(const struct graph *graph, uint32_t job)
{
    const struct dag_job_view view = dag_job_view(graph->dag, job);
    return view.is_held ? "it is held" : view.state == DAG_READY ? "it is ready" : "it runs";
}

void chain_explain(const struct graph *graph, uint32_t job, struct buf *out)
{
    cleanup_free uint16_t *places = xcalloc(graph->n_jobs, sizeof(*places));
    struct chain chain = {.graph = graph, .job = job, .places = places};
    char in[24];
    jobs_collect(&chain);
    for (size_t i = 0; i < chain.n_jobs; i++)
        chain.done_by[i] = job_done_by(&chain, chain.jobs[i]);
    struct done_by needs = needs_done_by(&chain, job);
    for (uint32_t i = 0; i < MIN(chain.n_stands, (uint32_t)STANDS_SHOWN); i++)
        buf_addf(out, "%s%s (%s)", i == 0 ? "; first for " : ", ",
                 graph->jobs[chain.stands[i]].plan->name, stands_how(graph, chain.stands[i]));
    if (chain.n_stands > STANDS_SHOWN || (chain.is_cut && chain.n_stands > 0))
        buf_add_text(out, " and others");
    if (!needs.is_known || needs.in_ms == 0)
        return;
    duration_format(in, needs.in_ms);
    buf_addf(out, "; begins in about %s at the earliest", in);
}
