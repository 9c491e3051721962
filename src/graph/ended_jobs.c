/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ended_jobs.h"

#include <fnmatch.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/suggest.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "store/runs.h"

enum {
    SUGGESTED_MAX = 10000
};

/* The job with this name, which is added if it is not there (*is_new). */
static struct ended_job *job_of(struct ended_jobs *jobs, struct str name, bool *is_new)
{
    size_t n_before = jobs->names.len, i = name_index_number(&jobs->names, name);
    *is_new = jobs->names.len > n_before;
    if (!*is_new)
        return &jobs->at[i];
    if (i == jobs->cap) {
        jobs->cap = MAX(2 * jobs->cap, (size_t)64);
        jobs->at = xrealloc(jobs->at, jobs->cap * sizeof(*jobs->at));
    }
    jobs->at[i] = (struct ended_job){0};
    return &jobs->at[i];
}

/* The stage of a job about which the run said nothing: the beginning of its name. */
static char *stage_of_new(const char *name)
{
    const char *slash = strchr(name, '/');
    return xstrndup(name, slash ? (size_t)(slash - name) : strlen(name));
}

static void open_take(void *context, const struct open_job *open)
{
    bool is_new;
    struct ended_job *job = job_of(context, str_of(open->name), &is_new);
    if (!is_new)
        return;
    job->stage = open->stage ? xstrdup(open->stage) : stage_of_new(open->name);
    job->why = xstrdup(open->why);
}

static int rows_take(struct ended_jobs *jobs, struct store *store, struct err *err)
{
    struct row_reader *reader = NULL;
    struct job_row row;
    int rc = job_reader_open(&reader, store, err);
    while (rc == 0 && (rc = job_reader_next(reader, &row, err)) == 1) {
        bool is_new;
        rc = 0;
        if (!row.name)
            continue;
        struct ended_job *job = job_of(jobs, str_of(row.name), &is_new);
        /* A job of open_jobs.jsonl was to run again. Older versions left JOB_DONE in its row. */
        bool is_open_again = !is_new && row.state == JOB_DONE;
        job->state = job->before = is_open_again ? JOB_AGAIN : row.state;
        job->stage = job->stage ? job->stage : stage_of_new(row.name);
    }
    row_reader_close(reader);
    return rc;
}

int ended_jobs_check(const char *dir, struct err *err)
{
    struct run_summary summary = {0};
    int rc = run_inspect(dir, &summary, err);
    if (rc == 0 && !run_is_graph(&summary))
        rc = fail(err, ERR_USAGE, "run %s is no graph, and has no jobs", path_basename(dir));
    run_summary_release(&summary);
    return rc;
}

int ended_jobs_read(struct ended_jobs *jobs, struct store *store, struct err *err)
{
    jobs->has_open = open_jobs_each(jobs->dir, open_take, jobs);
    return rows_take(jobs, store, err);
}

void ended_jobs_release(struct ended_jobs *jobs)
{
    for (size_t i = 0; i < jobs->names.len; i++) {
        free(jobs->at[i].stage);
        free(jobs->at[i].why);
    }
    free(jobs->at);
    name_index_release(&jobs->names);
}

char *ended_job_name_new(const struct ended_jobs *jobs, size_t i)
{
    struct str name = name_index_get(&jobs->names, i);
    return xstrndup(name.at, name.len);
}

bool ended_job_is_meant(const struct ended_jobs *jobs, size_t i, size_t exact, const char *pattern)
{
    if (exact != NAME_NONE)
        return i == exact;
    cleanup_free char *name = ended_job_name_new(jobs, i);
    return fnmatch(pattern, jobs->at[i].stage, 0) == 0 || fnmatch(pattern, name, 0) == 0;
}

int ended_job_unknown(const struct ended_jobs *jobs, const char *pattern, struct err *err)
{
    size_t n = MIN(jobs->names.len, (size_t)SUGGESTED_MAX);
    cleanup_free char **names = xcalloc(n + 1, sizeof(*names));
    for (size_t i = 0; i < n; i++)
        names[i] = ended_job_name_new(jobs, i);
    const char *near = suggest(pattern, (const char *const *)names, n);
    int rc = fail(err, ERR_USAGE, "there is no job '%s'%s%s%s", pattern,
                  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    return rc;
}
