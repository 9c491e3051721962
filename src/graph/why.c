/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run that has ended says of a job. A job that is not done is explained in open_jobs.jsonl, which the run
 * wrote at its end; any other job, by its row in run.db.
 */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/ended_jobs.h"
#include "graph/graph_impl.h"

enum {
    OPEN_BYTES_MAX = 1 << 30
};

char *open_jobs_path_new(const char *dir)
{
    return path_join(dir, "open_jobs.jsonl");
}

void open_job_format(const struct open_job *job, struct buf *out)
{
    buf_add_text(out, "{\"job\":");
    buf_add_json(out, str_of(job->name));
    buf_add_text(out, ",\"stage\":");
    buf_add_json(out, str_of(job->stage));
    buf_add_text(out, ",\"why\":");
    buf_add_json(out, str_of(job->why));
    buf_add_text(out, "}\n");
}

void open_jobs_write(const struct graph *graph)
{
    cleanup_free char *path = open_jobs_path_new(shell_run_dir(graph->shell));
    cleanup_buf struct buf text = BUF_INIT;
    struct err err = {0};
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        cleanup_buf struct buf why = BUF_INIT;
        if (dag_job_view(graph->dag, i).state == DAG_DONE && !graph->jobs[i].spoilt)
            continue;
        if (graph->jobs[i].is_wanted)
            job_explain(graph, i, &why);
        else
            buf_add_text(&why, "not among those of --only");
        open_job_format(&(struct open_job){graph->jobs[i].plan->name,
                                           stage_name(graph->plan, graph->jobs[i].plan->stage),
                                           buf_text(&why)},
                        &text);
    }
    if (file_replace_fast(path, buf_str(&text), &err) != 0)
        log_add(shell_log(graph->shell), LOG_WARN, "graph", "%s", err.text);
}

void open_jobs_drop(const struct graph *graph)
{
    cleanup_free char *path = open_jobs_path_new(shell_run_dir(graph->shell));
    if (unlink(path) != 0 && errno != ENOENT)
        log_add(shell_log(graph->shell), LOG_WARN, "graph", "remove %s: %s", path,
                errno_text(errno));
}

bool open_jobs_each(const char *dir, void (*take)(void *context, const struct open_job *job),
                    void *context)
{
    cleanup_free char *path = open_jobs_path_new(dir);
    cleanup_buf struct buf text = BUF_INIT;
    struct str rest, line;
    if (plain_file_read(path, OPEN_BYTES_MAX, &text, NULL) != 0)
        return false;
    rest = buf_str(&text);
    while (rest.len > 0 && str_next(&rest, '\n', &line)) {
        cleanup_free char *name = json_text_new(line, "job", PLAN_NAME_BYTES_MAX * 4ul);
        cleanup_free char *stage = json_text_new(line, "stage", PLAN_NAME_BYTES_MAX * 4ul);
        cleanup_free char *why = json_text_new(line, "why", END_TEXT_BYTES * 16ul);
        if (name && why)
            take(context, &(struct open_job){name, stage, why});
    }
    return true;
}

static void row_tell(const struct job_row *row, struct buf *out)
{
    char ran[24];
    duration_format(ran, (uint64_t)MAX(row->ended_wall_ms - row->started_wall_ms, (int64_t)0));
    if (row->state == JOB_DONE && row->started_wall_ms == 0)
        buf_add_text(out, "done by files that were there, which --adopt took");
    else if (row->state == JOB_DONE)
        buf_addf(out, "done, in %s, attempt %u", ran, row->attempts);
    else if (row->state == JOB_AGAIN)
        buf_add_text(out, "it was done, and runs again when the graph goes on");
    else if (row->state == JOB_DROPPED)
        buf_add_text(out, "it was done, and the graph has it no more");
    else if (row->state == JOB_NONE && row->ended_wall_ms > 0 && row->end)
        buf_addf(out, "it had failed, %s; it runs again when the graph goes on", row->end);
    else if (row->state == JOB_NONE && row->started_wall_ms > 0 && row->attempts > 0)
        buf_addf(out,
                 "begun, attempt %u, and not done when the run was interrupted; it runs again when "
                 "the graph goes on",
                 row->attempts);
    else if (row->state == JOB_NONE)
        buf_add_text(out, "the run was interrupted before it was done");
    else if (row->state == JOB_CANCELLED)
        cancelled_explain(row->name, true, out);
    else if (row->state == JOB_HELD)
        held_explain(row->name, true, out);
    else
        buf_addf(out, "%s%s%s", job_state_name(row->state), row->end ? ", " : "",
                 row->end ? row->end : "");
}

/* For the jobs that are meant and that open_jobs.jsonl does not explain: what their rows say. */
static int rows_tell(struct ended_jobs *jobs, const bool *is_meant, struct store *store,
                     struct err *err)
{
    struct row_reader *reader = NULL;
    struct job_row row;
    int rc = job_reader_open(&reader, store, err);
    while (rc == 0 && (rc = job_reader_next(reader, &row, err)) == 1) {
        size_t i = row.name ? name_index_find(&jobs->names, str_of(row.name)) : NAME_NONE;
        rc = 0;
        if (i == NAME_NONE || !is_meant[i] || jobs->at[i].why)
            continue;
        struct buf why = BUF_INIT;
        row_tell(&row, &why);
        jobs->at[i].why = buf_steal(&why);
    }
    row_reader_close(reader);
    return rc;
}

static int unknown_fail(const struct ended_jobs *jobs, const char *pattern, struct err *err)
{
    if (jobs->has_open)
        return ended_job_unknown(jobs, pattern, err);
    int rc = ended_jobs_check(jobs->dir, err);
    return rc ? rc
              : fail(err, ERR_USAGE,
                     "run %s has left no word about a job '%s': it did not begin, or there is none",
                     path_basename(jobs->dir), pattern);
}

/* Marks the jobs of a pattern in is_meant. */
static int pattern_find(const struct ended_jobs *jobs, const char *pattern, bool *is_meant,
                        struct err *err)
{
    size_t exact = name_index_find(&jobs->names, str_of(pattern)), n_meant = 0;
    for (size_t i = 0; i < jobs->names.len; i++)
        if (ended_job_is_meant(jobs, i, exact, pattern)) {
            is_meant[i] = true;
            n_meant++;
        }
    return n_meant > 0 ? 0 : unknown_fail(jobs, pattern, err);
}

static void pattern_tell(const struct ended_jobs *jobs, const char *pattern, struct buf *out)
{
    size_t exact = name_index_find(&jobs->names, str_of(pattern));
    for (size_t i = 0; i < jobs->names.len; i++) {
        if (!jobs->at[i].why || !ended_job_is_meant(jobs, i, exact, pattern))
            continue;
        struct str name = name_index_get(&jobs->names, i);
        buf_addf(out, "%s%.*s: %s", out->len > 0 ? "\n " : "", (int)name.len, name.at,
                 jobs->at[i].why);
    }
}

static int jobs_tell(struct ended_jobs *jobs, const struct texts *patterns, struct buf *out,
                     struct err *err)
{
    struct store *store = NULL;
    int rc = store_open(&store, jobs->dir, STORE_PEEK, err);
    rc = rc ? rc : ended_jobs_read(jobs, store, err);
    cleanup_free bool *is_meant = xcalloc(jobs->names.len + 1, sizeof(*is_meant));
    for (size_t i = 0; rc == 0 && i < patterns->len; i++)
        rc = pattern_find(jobs, patterns->at[i], is_meant, err);
    rc = rc ? rc : rows_tell(jobs, is_meant, store, err);
    for (size_t i = 0; rc == 0 && i < patterns->len; i++)
        pattern_tell(jobs, patterns->at[i], out);
    store_close(store);
    return rc;
}

int graph_why(const char *dir, const struct texts *patterns, struct buf *out, struct err *err)
{
    struct ended_jobs jobs = {.dir = dir};
    int rc = jobs_tell(&jobs, patterns, out, err);
    ended_jobs_release(&jobs);
    return rc;
}
