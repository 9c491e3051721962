/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders to a graph that runs: muster why, retry, hold, release and cancel; muster add is in added.c.
 */
#include <fnmatch.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "shell/hosts.h"

enum {
    WHY_BYTES_MAX = 32 << 10, /* of one answer */
    SUGGESTED_MAX = 10000     /* names that are compared with a misspelt one */
};

/* ---- jobs by name ---- */

int job_unknown(const struct graph *graph, const char *name, struct err *err)
{
    uint32_t n = MIN(graph->n_jobs, (uint32_t)SUGGESTED_MAX);
    cleanup_free const char **names = xcalloc(n + 1, sizeof(*names));
    for (uint32_t i = 0; i < n; i++)
        names[i] = graph->jobs[i].plan->name;
    const char *near = suggest(name, names, n);
    return fail(err, ERR_USAGE, "there is no job '%s'%s%s%s", name, near ? "; did you mean '" : "",
                near ? near : "", near ? "'?" : "");
}

/* The job has ended well, and its row says so, even if its devices are not free yet. */
static bool has_ended_well(const struct graph *graph, uint32_t job)
{
    const struct process *process = graph->jobs[job].process;
    return dag_job_view(graph->dag, job).state == DAG_DONE ||
           (process && process->is_settled && process->end == DEND_WELL);
}

static void row_note(struct graph *graph, uint32_t job, enum job_state state)
{
    if (!has_ended_well(graph, job))
        record_job(graph, job, state, NULL);
}

/* Counting them takes a look at all jobs, so it is done for one job of an answer. */
static void jobs_before_add(const struct graph *graph, uint32_t job, struct buf *told)
{
    struct dag_job_view view = dag_job_view(graph->dag, job);
    uint32_t n = view.state == DAG_READY && !view.is_held ? dag_ready_before(graph->dag, job) : 0;
    if (n > 0)
        buf_addf(told, "; %u job%s before it", n, n == 1 ? " is" : "s are");
}

/* An answer about many jobs is cut: the asking command would not read a longer one. */
static int why_do(struct graph *graph, uint32_t job, struct buf *told)
{
    static const char more[] = "\n and more";
    bool is_first = told->len == 0;
    if (told->len > WHY_BYTES_MAX) {
        if (!str_ends_with(buf_str(told), STR(more)))
            buf_add_text(told, more);
        return 1;
    }
    if (told->len > 0)
        buf_add_char(told, '\n');
    buf_addf(told, "%s%s: ", told->len > 0 ? " " : "", graph->jobs[job].plan->name);
    job_explain(graph, job, told);
    if (is_first)
        jobs_before_add(graph, job, told);
    return 1;
}

static int retry_do(struct graph *graph, uint32_t job, struct buf *told)
{
    enum dag_state state = dag_job_view(graph->dag, job).state;
    bool is_leaving = state == DAG_ENDS && graph->jobs[job].is_cancelled;
    (void)told;
    if (state != DAG_FAILED && state != DAG_CANCELLED && state != DAG_UNFIT && !is_leaving)
        return 0;
    graph->jobs[job].is_cancelled = false;
    graph->jobs[job].n_halvings = 0; /* the dag begins with the whole batch as well */
    row_note(graph, job, JOB_NONE);
    absent_forget(graph, job);
    graph_tell(graph, (struct dag_event){.kind = DEV_RETRY, .job = job});
    return 1;
}

static int hold_do(struct graph *graph, uint32_t job, struct buf *told)
{
    struct dag_job_view view = dag_job_view(graph->dag, job);
    (void)told;
    if (view.is_held || (view.state != DAG_READY && view.state != DAG_WAITS))
        return 0;
    graph->jobs[job].is_held = true;
    row_note(graph, job, JOB_HELD);
    graph_tell(graph, (struct dag_event){.kind = DEV_HOLD, .job = job});
    return 1;
}

/* --only does not exclude it any more. */
static void unexclude(struct graph *graph, struct graph_job *job)
{
    if (!job->is_wanted)
        buf_addf(&graph->released, "%s\n", job->plan->name);
    job->is_wanted = true;
}

static int release_do(struct graph *graph, uint32_t job, struct buf *told)
{
    (void)told;
    if (!dag_job_view(graph->dag, job).is_held)
        return 0;
    graph->jobs[job].is_held = false;
    unexclude(graph, &graph->jobs[job]);
    row_note(graph, job, JOB_NONE);
    graph_tell(graph, (struct dag_event){.kind = DEV_RELEASE, .job = job});
    return 1;
}

static int cancel_do(struct graph *graph, uint32_t job, struct buf *told)
{
    enum dag_state state = dag_job_view(graph->dag, job).state;
    (void)told;
    if (has_ended_well(graph, job) || state == DAG_CANCELLED)
        return 0;
    graph->jobs[job].is_cancelled = true;
    row_note(graph, job, JOB_CANCELLED); /* at once: a session that is killed must not undo it */
    graph_tell(graph, (struct dag_event){.kind = DEV_CANCEL, .job = job});
    return 1;
}

static const struct job_order {
    const char *word;
    /* Returns 1 if the order concerned the job, else 0. */
    int (*act)(struct graph *graph, uint32_t job, struct buf *told);
    const char *done, *undone;
} job_orders[] = {
    {"why", why_do, NULL, NULL},
    {"retry", retry_do, "tried again", "neither failed nor cancelled"},
    {"hold", hold_do, "held", "neither waiting nor ready"},
    {"release", release_do, "released", "not held"},
    {"cancel", cancel_do, "cancelled", "done, or cancelled before"},
};

/*
 * Notes released jobs for a resume, which repeats --only. Once for all jobs of an order, since the whole list is
 * written.
 */
static void released_keep(const struct graph *graph, size_t n_noted_bytes)
{
    struct err err = {0};
    if (graph->released.len > n_noted_bytes && released_note(graph, &err) != 0)
        log_add(shell_log(graph->shell), LOG_WARN, "graph", "%s", err.text);
}

static int job_order_do(struct graph *graph, const struct job_order *order, const char *pattern,
                        struct buf *told, struct err *err)
{
    const struct texts patterns = {&pattern, 1};
    const size_t n_noted_bytes = graph->released.len;
    uint32_t exact = graph_find(graph, pattern), n_matched = 0, n_done = 0;
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        bool is_one = exact != UINT32_MAX
                          ? i == exact
                          : graph_selected(&patterns, graph->plan, graph->jobs[i].plan);
        n_matched += is_one;
        n_done += is_one ? (uint32_t)order->act(graph, i, told) : 0;
    }
    released_keep(graph, n_noted_bytes);
    if (n_matched == 0)
        return job_unknown(graph, pattern, err);
    if (n_done == 0)
        return fail(err, ERR_UNAVAILABLE, "%s: %s %s", pattern,
                    n_matched == 1 ? "it is" : "all are", order->undone);
    if (order->done)
        buf_addf(told, "%s%u job%s %s", told->len > 0 ? "; " : "", n_done, plural(n_done),
                 order->done);
    return 0;
}

/* "add LIST" is about hosts; "add {…}" is about a job. */
static bool is_about_hosts(struct str word, struct str rest)
{
    bool adds_hosts = str_equal(word, STR("add")) && !str_starts_with(rest, STR("{"));
    return adds_hosts || str_equal(word, STR("drop")) || str_equal(word, STR("drop-now"));
}

int graph_order(void *context, struct str line, struct buf *told, struct err *err)
{
    struct graph *graph = context;
    struct str word, rest = line;
    shell_now(graph->shell);
    if (!str_next(&rest, ' ', &word) || rest.len == 0)
        return fail(err, ERR_DATA, "an order that cannot be understood");
    if (is_about_hosts(word, rest))
        return hosts_order(shell_hosts(graph->shell), line, err);
    if (str_equal(word, STR("add")))
        return added_take(graph, rest, told, err);
    cleanup_free char *pattern = xstrndup(rest.at, rest.len);
    for (size_t i = 0; i < countof(job_orders); i++)
        if (str_equal(word, str_of(job_orders[i].word)))
            return job_order_do(graph, &job_orders[i], pattern, told, err);
    return fail(err, ERR_DATA, "an order that cannot be understood");
}
