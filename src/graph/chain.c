/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands before a job that waits: the jobs at which its chains stand now, and when it can begin at the earliest.
 */
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

enum {
    /* Jobs; a larger past is not looked through, so that an answer takes no time. */
    LOOKED_AT_MAX = 1024,
    STANDS_SHOWN = 3
};

/* When a job will be done, as far as the times of such jobs are known. */
struct done_by {
    bool is_known;
    uint64_t in_ms;
};

struct chain {
    const struct graph *graph;
    uint32_t job; /* whose chain it is */
    struct done_by looked_at[LOOKED_AT_MAX];
    size_t n_looked_at;
    uint16_t *places; /* [n_jobs] where a job is in looked_at, + 1; 0: nowhere */
    bool is_cut;      /* there are more jobs than are looked at, and no time is known */
    uint32_t stands[STANDS_SHOWN], n_stands;
};

static bool is_needed_by(const struct plan_job *plan, uint32_t job)
{
    for (uint32_t i = 0; i < plan->n_needs; i++)
        if (plan->needs[i] == job)
            return true;
    return false;
}

/* A job that waits for no other, or is held. Of those that the asker needs itself the sentence tells already. */
static void stand_note(struct chain *chain, uint32_t job)
{
    if (is_needed_by(chain->graph->jobs[chain->job].plan, job))
        return;
    if (chain->n_stands < STANDS_SHOWN)
        chain->stands[chain->n_stands] = job;
    chain->n_stands++;
}

/* Of a job that needs nothing any more: when it can begin, and how long it takes. */
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

static struct done_by done_by(struct chain *chain, uint32_t job);

/* The latest of those that the job needs: when it can begin. */
static struct done_by needs_done_by(struct chain *chain, uint32_t job)
{
    const struct plan_job *plan = chain->graph->jobs[job].plan;
    struct done_by all = {.is_known = true};
    for (uint32_t i = 0; i < plan->n_needs && !chain->is_cut; i++) {
        struct done_by one = done_by(chain, plan->needs[i]);
        all.is_known = all.is_known && one.is_known;
        all.in_ms = MAX(all.in_ms, one.in_ms);
    }
    return all;
}

static struct done_by job_done_by(struct chain *chain, uint32_t job)
{
    const struct dag_job_view view = dag_job_view(chain->graph->dag, job);
    if (view.state == DAG_DONE)
        return (struct done_by){.is_known = true};
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

static struct done_by done_by(struct chain *chain, uint32_t job)
{
    if (chain->places[job] > 0)
        return chain->looked_at[chain->places[job] - 1];
    if (chain->n_looked_at == LOOKED_AT_MAX) {
        chain->is_cut = true;
        return (struct done_by){0};
    }
    size_t at = chain->n_looked_at++;
    chain->places[job] = (uint16_t)(at + 1);
    return chain->looked_at[at] = job_done_by(chain, job);
}

static const char *stands_how(const struct graph *graph, uint32_t job)
{
    const struct dag_job_view view = dag_job_view(graph->dag, job);
    return view.is_held ? "it is held" : view.state == DAG_READY ? "it is ready" : "it runs";
}

void chain_explain(const struct graph *graph, uint32_t job, struct buf *out)
{
    cleanup_free uint16_t *places = xcalloc(graph->n_jobs, sizeof(*places));
    struct chain chain = {.graph = graph, .job = job, .places = places};
    struct done_by needs = needs_done_by(&chain, job);
    char in[24];
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
