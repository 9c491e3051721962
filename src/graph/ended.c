/* SPDX-License-Identifier: Apache-2.0
 *
 * muster retry, hold, release and cancel of a run that has ended. They change its rows in run.db, which the next
 * session reads, and the files that the run has left for questions about its jobs. The same files say which jobs
 * there are.
 */
#include <jansson.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/ended_jobs.h"
#include "graph/graph_impl.h"
#include "store/runs.h"

enum {
    JOBS_BYTES_MAX = 16 << 20 /* of jobs.json */
};

#define BIT(state) (1u << (state))

static const struct ended_order {
    const char *word;
    unsigned from; /* bits of enum job_state */
    enum job_state to;
    const char *done, *undone;
} ended_orders[] = {
    {"retry", BIT(JOB_FAILED) | BIT(JOB_CANCELLED), JOB_NONE, "tried again",
     "neither failed nor cancelled"},
    {"hold", BIT(JOB_NONE) | BIT(JOB_FAILED) | BIT(JOB_AGAIN), JOB_HELD, "held",
     "done, held or cancelled"},
    {"release", BIT(JOB_HELD), JOB_NONE, "released", "not held"},
    {"cancel", BIT(JOB_NONE) | BIT(JOB_FAILED) | BIT(JOB_HELD) | BIT(JOB_AGAIN), JOB_CANCELLED,
     "cancelled", "done, or cancelled before"},
};

/* ---- an order ---- */

static bool is_changed(const struct ended_jobs *jobs, size_t i)
{
    return jobs->at[i].state != jobs->at[i].before;
}

static int unknown_fail(const struct ended_jobs *jobs, const char *pattern, struct err *err)
{
    if (jobs->has_open)
        return ended_job_unknown(jobs, pattern, err);
    return fail(err, ERR_UNAVAILABLE,
                "run %s was killed and has no record of a job '%s'; continue the run first",
                path_basename(jobs->dir), pattern);
}

static int order_do(struct ended_jobs *jobs, const struct ended_order *order, const char *pattern,
                    struct buf *told, struct err *err)
{
    size_t exact = name_index_find(&jobs->names, str_of(pattern)), n_meant = 0, n_done = 0;
    size_t n_before = 0; /* by another word of this order */
    for (size_t i = 0; i < jobs->names.len; i++) {
        struct ended_job *job = &jobs->at[i];
        bool is_one = ended_job_is_meant(jobs, i, exact, pattern);
        n_meant += is_one;
        n_before += is_one && is_changed(jobs, i) && job->state == order->to;
        if (!is_one || !(order->from & BIT(job->state)))
            continue;
        n_done++;
        job->state = order->to;
    }
    if (n_meant == 0)
        return unknown_fail(jobs, pattern, err);
    if (n_done == 0 && n_before > 0)
        return 0;
    if (n_done == 0)
        return fail(err, ERR_UNAVAILABLE, "%s: %s %s", pattern, n_meant == 1 ? "it is" : "all are",
                    order->undone);
    buf_addf(told, "%s%zu job%s %s, when the run goes on", told->len > 0 ? "; " : "", n_done,
             plural(n_done), order->done);
    return 0;
}

/* ---- its records ---- */

/* A copy of the row with texts of its own. */
static void row_copy(const struct job_row *row, struct job_row *out)
{
    const char **const texts[] = {&out->name,   &out->definition, &out->proof,
                                  &out->inputs, &out->end,        &out->log};
    *out = *row;
    for (size_t i = 0; i < countof(texts); i++)
        *texts[i] = *texts[i] ? xstrdup(*texts[i]) : NULL;
}

static void row_free(struct job_row *row)
{
    const char *const texts[] = {row->name,   row->definition, row->proof,
                                 row->inputs, row->end,        row->log};
    for (size_t i = 0; i < countof(texts); i++)
        free((void *)(uintptr_t)texts[i]);
}

/*
 * Fills the rows of changed jobs; rows: [names.len]. A job that was done gets the present time as its start: only
 * what it leaves from now on proves it.
 */
static int rows_fill(const struct ended_jobs *jobs, struct store *store, struct job_row *rows,
                     struct err *err)
{
    struct row_reader *reader = NULL;
    struct job_row row;
    int rc = job_reader_open(&reader, store, err);
    while (rc == 0 && (rc = job_reader_next(reader, &row, err)) == 1) {
        size_t i = row.name ? name_index_find(&jobs->names, str_of(row.name)) : NAME_NONE;
        rc = 0;
        if (i == NAME_NONE || !is_changed(jobs, i))
            continue;
        row_copy(&row, &rows[i]);
        if (jobs->at[i].state == JOB_NONE && jobs->at[i].before != JOB_HELD)
            rows[i].n_halvings = 0; /* a retry begins with the whole batch */
        if (jobs->at[i].before == JOB_AGAIN)
            rows[i].started_wall_ms = clock_wall_ms();
    }
    row_reader_close(reader);
    return rc;
}

static char *event_new(struct str job)
{
    json_t *root = json_pack("{s:s%}", "job", job.at, job.len);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text ? text : xstrdup("{}");
}

static int rows_commit(const struct ended_jobs *jobs, const char *word, struct store *store,
                       struct err *err)
{
    size_t n = jobs->names.len, n_changed = 0;
    cleanup_free struct job_row *rows = xcalloc(n + 1, sizeof(*rows));
    cleanup_free struct event_row *events = xcalloc(n + 1, sizeof(*events));
    int rc = rows_fill(jobs, store, rows, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct str name = name_index_get(&jobs->names, i);
        if (!is_changed(jobs, i))
            continue;
        struct job_row row = rows[i];
        rows[i] = (struct job_row){0};
        row.state = jobs->at[i].state;
        row.name = row.name ? row.name : xstrndup(name.at, name.len);
        events[n_changed] =
            (struct event_row){.wall_ms = clock_wall_ms(), .kind = word, .json = event_new(name)};
        rows[n_changed++] = row;
    }
    const struct job_batch batch = {
        .jobs = rows, .n_jobs = n_changed, .events = events, .n_events = n_changed};
    rc = rc ? rc : store_jobs_begin(store, err);
    rc = rc ? rc : store_jobs_commit(store, &batch, err);
    rc = rc ? rc : store_sync(store, err);
    for (size_t i = 0; i < n; i++) {
        row_free(&rows[i]);
        free((void *)(uintptr_t)events[i].json);
    }
    return rc;
}

static void why_add(const struct ended_job *job, const char *name, struct buf *out)
{
    if (job->state == JOB_HELD)
        held_explain(name, true, out);
    else if (job->state == JOB_CANCELLED)
        cancelled_explain(name, true, out);
    else
        buf_add_text(out, "it runs when the graph goes on");
}

/* "waits for a, b (it runs) and 2 more", "waits for a: cancelled; …": a changed one of those that it names. */
static size_t changed_need(const struct ended_jobs *jobs, const char *why)
{
    static const struct str begin = {"waits for ", 10};
    struct str rest = str_of(why);
    if (!str_starts_with(rest, begin))
        return NAME_NONE;
    rest = (struct str){rest.at + begin.len, rest.len - begin.len};
    for (bool is_last = false; !is_last;) {
        struct str name = {rest.at, strcspn(rest.at, " ")};
        is_last = name.len == rest.len || name.at[name.len - 1] == ':';
        if (name.len > 0 && strchr(":,", name.at[name.len - 1]))
            name.len--;
        size_t i = name_index_find(&jobs->names, name);
        if (i != NAME_NONE && is_changed(jobs, i))
            return i;
        rest.at += MIN(strcspn(rest.at, " ") + 1, rest.len);
        rest.len = strlen(rest.at);
    }
    return NAME_NONE;
}

/* Adds what the run said of a job, unless it named a job that is changed now. */
static void follower_why_add(const struct ended_jobs *jobs, const char *why, struct buf *out)
{
    size_t i = changed_need(jobs, why);
    if (i == NAME_NONE) {
        buf_add_text(out, why);
        return;
    }
    cleanup_free char *name = ended_job_name_new(jobs, i);
    buf_addf(out, "waits for %s: ", name);
    why_add(&jobs->at[i], name, out);
}

static int open_rewrite(const struct ended_jobs *jobs, struct err *err)
{
    cleanup_free char *path = open_jobs_path_new(jobs->dir);
    cleanup_buf struct buf text = BUF_INIT;
    for (size_t i = 0; i < jobs->names.len; i++) {
        const struct ended_job *job = &jobs->at[i];
        cleanup_free char *whole = ended_job_name_new(jobs, i);
        cleanup_buf struct buf why = BUF_INIT;
        if (is_changed(jobs, i))
            why_add(job, whole, &why);
        else if (job->why)
            follower_why_add(jobs, job->why, &why);
        if (why.len > 0)
            open_job_format(&(struct open_job){whole, job->stage, buf_text(&why)}, &text);
    }
    return file_replace_fast(path, buf_str(&text), err);
}

/* ---- jobs.json ---- */

static void count_change(json_t *stage, const char *key, int by)
{
    json_int_t n = MAX(json_integer_value(json_object_get(stage, key)) + by, (json_int_t)0);
    json_object_set_new(stage, key, json_integer(n));
}

/* A held job is counted as waiting or ready as well. */
static void state_count(json_t *stage, enum job_state state, int by)
{
    bool any_waits = json_integer_value(json_object_get(stage, "waiting")) > 0;
    if (state == JOB_FAILED || state == JOB_CANCELLED)
        count_change(stage, job_state_name(state), by);
    else
        count_change(stage, by > 0 || any_waits ? "waiting" : "ready", by);
    if (state == JOB_HELD)
        count_change(stage, "held", by);
}

static void stages_change(const struct ended_jobs *jobs, json_t *stages)
{
    for (size_t i = 0; i < jobs->names.len; i++)
        for (size_t k = 0; is_changed(jobs, i) && k < json_array_size(stages); k++) {
            json_t *stage = json_array_get(stages, k);
            const char *name = json_string_value(json_object_get(stage, "stage"));
            if (!name || strcmp(name, jobs->at[i].stage) != 0)
                continue;
            state_count(stage, jobs->at[i].before, -1);
            state_count(stage, jobs->at[i].state, 1);
        }
}

static void waiting_change(const struct ended_jobs *jobs, json_t *waiting)
{
    for (size_t k = json_array_size(waiting); k-- > 0;) {
        const char *name = json_string_value(json_object_get(json_array_get(waiting, k), "job"));
        size_t i = name ? name_index_find(&jobs->names, str_of(name)) : NAME_NONE;
        if (i != NAME_NONE && is_changed(jobs, i))
            json_array_remove(waiting, k);
    }
}

/* jobs.json is only shown. A malformed one stays as it is: the next session writes it anew. */
static int counts_rewrite(const struct ended_jobs *jobs, struct err *err)
{
    cleanup_free char *path = path_join(jobs->dir, "jobs.json");
    cleanup_buf struct buf text = BUF_INIT;
    if (plain_file_read(path, JOBS_BYTES_MAX, &text, NULL) != 0)
        return 0;
    json_t *root = json_loadb(buf_text(&text), text.len, 0, NULL);
    stages_change(jobs, json_object_get(root, "stages"));
    waiting_change(jobs, json_object_get(root, "waiting"));
    char *changed = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    int rc = changed ? file_replace_fast(path, str_of(changed), err) : 0;
    free(changed);
    return rc;
}

/* ---- */

static int graph_only(const char *dir, struct err *err)
{
    int rc = run_check_ours(dir, err);
    return rc ? rc : ended_jobs_check(dir, err);
}

static int orders_do(struct ended_jobs *jobs, const struct ended_order *order,
                     const struct texts *patterns, struct buf *told, struct err *err)
{
    struct store *store = NULL;
    int rc = graph_only(jobs->dir, err);
    rc = rc ? rc : store_open(&store, jobs->dir, STORE_RESUME, err);
    rc = rc ? rc : ended_jobs_read(jobs, store, err);
    for (size_t i = 0; rc == 0 && i < patterns->len; i++)
        rc = order_do(jobs, order, patterns->at[i], told, err);
    rc = rc ? rc : rows_commit(jobs, order->word, store, err);
    if (rc == 0 && jobs->has_open)
        rc = open_rewrite(jobs, err);
    rc = rc ? rc : counts_rewrite(jobs, err);
    store_close(store);
    return rc;
}

int graph_order_ended(const char *dir, const char *word, const struct texts *patterns,
                      struct buf *told, struct err *err)
{
    struct ended_jobs jobs = {.dir = dir};
    cleanup_buf struct buf done = BUF_INIT;
    int rc = ERR_DATA;
    for (size_t i = 0; i < countof(ended_orders); i++)
        if (strcmp(word, ended_orders[i].word) == 0)
            rc = orders_do(&jobs, &ended_orders[i], patterns, &done, err);
    if (rc == 0)
        buf_add_text(told, buf_text(&done));
    ended_jobs_release(&jobs);
    return rc;
}
