/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run that has ended says of a job: by its row in run.db, and for a job that is not done by open_jobs.jsonl, which
 * the run wrote at its end.
 */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/xalloc.h"
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
        if (dag_job_view(graph->dag, i).state == DAG_DONE)
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

struct open_search {
    const char *name;
    struct buf *out;
    bool is_found;
};

static void open_compare(void *context, const struct open_job *job)
{
    struct open_search *search = context;
    if (search->is_found || strcmp(job->name, search->name) != 0)
        return;
    search->is_found = true;
    buf_addf(search->out, "%s: %s", job->name, job->why);
}

/* True: the run said something of the job. */
static bool open_look(const char *dir, const char *job, struct buf *out)
{
    struct open_search search = {job, out, false};
    return open_jobs_each(dir, open_compare, &search) && search.is_found;
}

static void row_tell(const struct job_row *row, struct buf *out)
{
    char ran[24];
    duration_format(ran, (uint64_t)MAX(row->ended_wall_ms - row->started_wall_ms, (int64_t)0));
    buf_addf(out, "%s: ", row->name);
    if (row->state == JOB_DONE && row->started_wall_ms == 0)
        buf_add_text(out, "done by files that were there, which --adopt took");
    else if (row->state == JOB_DONE)
        buf_addf(out, "done, in %s, attempt %u", ran, row->attempts);
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

static int row_look(const char *dir, const char *job, bool *is_found, struct buf *out,
                    struct err *err)
{
    struct store *store = NULL;
    struct row_reader *reader = NULL;
    struct job_row row;
    int rc = store_open(&store, dir, STORE_PEEK, err);
    rc = rc ? rc : job_reader_open(&reader, store, err);
    while (rc == 0 && !*is_found && (rc = job_reader_next(reader, &row, err)) == 1) {
        rc = 0;
        *is_found = row.name && strcmp(row.name, job) == 0;
        if (*is_found)
            row_tell(&row, out);
    }
    row_reader_close(reader);
    store_close(store);
    return rc;
}

int graph_why(const char *dir, const char *job, struct buf *out, struct err *err)
{
    bool is_found = false;
    if (out->len > 0)
        buf_add_text(out, "\n ");
    if (open_look(dir, job, out))
        return 0;
    int rc = row_look(dir, job, &is_found, out, err);
    if (rc == 0 && !is_found)
        rc = fail(err, ERR_USAGE,
                  "run %s has left no word about a job '%s': it did not begin, or there is none",
                  path_basename(dir), job);
    return rc;
}
