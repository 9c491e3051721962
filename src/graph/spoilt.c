/* SPDX-License-Identifier: Apache-2.0
 *
 * Spoilt files: outputs that another job or another program changed after their job had ended. Jobs that need such a job
 * are not started. The job itself runs again in the next session, since its row does not describe its files any more.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

enum {
    SPOILT_SHOWN = 10 /* lines on the console; further ones are in the log alone */
};

static void state_note(struct graph *graph, const struct graph_job *job, enum job_state state)
{
    record_state(graph, job->plan->name, state);
}

void spoilt_note(struct graph *graph, uint32_t number, const char *path)
{
    struct graph_job *job = &graph->jobs[number];
    if (job->spoilt)
        return;
    job->spoilt = xstrdup(path);
    state_note(graph, job, JOB_AGAIN);
    cleanup_free char *text = xasprintf(
        "%s: %s, which it left, was changed after it had ended, by another job or somebody else; "
        "the job runs again next time, and all that needs it",
        job->plan->name, path);
    if (graph->n_spoilt++ < SPOILT_SHOWN)
        log_add(shell_log(graph->shell), LOG_ERROR, "graph", "%s", text);
    else
        log_keep(shell_log(graph->shell), LOG_ERROR, "graph", "%s", text);
}

void spoilt_forget(struct graph *graph, uint32_t number)
{
    struct graph_job *job = &graph->jobs[number];
    free(steal_ptr(&job->spoilt));
    state_note(graph, job, JOB_DONE);
    graph->n_spoilt--;
}

static bool is_changed(const struct file_mark *before, const char *path)
{
    struct file_mark now;
    return mark_compare(before, path, NULL, &now) == MARK_CHANGED;
}

/* The first output of the job for which is_one() is true, a new string; NULL: none. */
static char *left_find_new(const struct graph *graph, const struct graph_job *job,
                           bool (*is_one)(const struct file_mark *before, const char *path))
{
    const struct plan_job *plan = job->plan;
    for (uint32_t out = 0; job->left && out < plan->n_outs; out++) {
        cleanup_free char *path = job_out_path_new(graph, plan, out);
        if (is_one(&job->left[out], path))
            return steal_ptr(&path);
    }
    return NULL;
}

void spoilt_find(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        struct graph_job *job = &graph->jobs[i];
        bool is_done = dag_job_view(graph->dag, i).state == DAG_DONE;
        if (!is_done || (job->n_attempts == 0 && !job->spoilt))
            continue;
        cleanup_free char *path = left_find_new(graph, job, is_changed);
        if (path)
            spoilt_note(graph, i, path);
        else if (job->spoilt)
            spoilt_forget(graph, i);
    }
}

char *spoilt_message_new(const struct graph *graph)
{
    if (graph->n_spoilt == 0)
        return NULL;
    return xasprintf("%u job%s done, but with files that were changed since; muster why says which",
                     graph->n_spoilt, graph->n_spoilt == 1 ? " is" : "s are");
}

void spoilt_explain(const struct graph *graph, uint32_t number, struct buf *out)
{
    const struct graph_job *job = &graph->jobs[number];
    cleanup_free char *touched =
        job->spoilt || graph->is_over ? NULL : left_find_new(graph, job, mark_is_touched);
    if (job->spoilt)
        buf_addf(out,
                 ", but %s, which it left, was changed after it had ended, by another job or "
                 "somebody else; it runs again when the graph goes on, and so does what needs it",
                 job->spoilt);
    if (touched)
        buf_addf(out, "; %s, which it left, was written or touched since", touched);
}
