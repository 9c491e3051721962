/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of run.db. They are collected while the loop handles events, and committed together before it sleeps, so that
 * they outlive this process; when jobs end in quick succession, once in a few milliseconds. They are synced a tenth
 * of a second later: jobs whose rows a power cut takes run again.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

enum {
    TOGETHER_MS = 5
};

/* The rows own their texts, except for the kinds of events. */
struct record {
    struct job_row *jobs;
    size_t n_jobs, jobs_cap;
    struct job_attempt_row *attempts;
    size_t n_attempts, attempts_cap;
    struct event_row *events;
    size_t n_events, events_cap;
    struct sample_row *samples; /* committed with other rows, or by record_flush() */
    size_t n_samples, samples_cap;
    bool is_unsynced; /* something was committed since the last sync */
    uint64_t committed_ms;
    uv_timer_t due; /* of rows that wait for more rows */
    bool has_due;   /* the timer was made */
};

void record_open(struct graph *graph)
{
    graph->record = xcalloc(1, sizeof(*graph->record));
}

/* Room for one more. */
#define GROW(rows, n, cap)                                      \
    do {                                                        \
        if ((n) == (cap)) {                                     \
            (cap) = MAX(2 * (cap), (size_t)64);                 \
            (rows) = xrealloc((rows), (cap) * sizeof(*(rows))); \
        }                                                       \
    } while (0)

static char *marks_new(const struct file_mark *marks, size_t n_marks)
{
    struct buf text = BUF_INIT;
    if (n_marks == 0)
        return NULL;
    marks_format(marks, n_marks, &text);
    return buf_steal(&text);
}

/*
 * An adopted job has no start. It gets the present time, so that the files at the places of its outs count as its
 * own.
 */
static int64_t begun_wall_ms(const struct graph_job *job)
{
    bool is_adopted = job->was_done && job->attempts_before + job->n_attempts == 0;
    return is_adopted ? clock_wall_ms() : job->begun_wall_ms;
}

static uint64_t batch_of(const struct graph_job *job)
{
    uint64_t batch = job->plan->batch;
    if (batch == 0 || batch == PLAN_BATCH_AUTO)
        return 0;
    return MAX(batch_halved(batch, job->n_halvings), 1ul);
}

void record_job(struct graph *graph, uint32_t number, enum job_state state,
                const struct process *process)
{
    const struct graph_job *job = &graph->jobs[number];
    struct record *rows = graph->record;
    GROW(rows->jobs, rows->n_jobs, rows->jobs_cap);
    struct job_row *row = &rows->jobs[rows->n_jobs++];
    *row = (struct job_row){.name = xstrdup(job->plan->name),
                            .state = state,
                            .attempts = job->attempts_before + job->n_attempts,
                            .definition = definition_new(graph, job->plan),
                            .outs_digest = job->outs_digest,
                            .needs_digest = job->needs_digest,
                            .started_wall_ms = begun_wall_ms(job),
                            .ended_wall_ms = state == JOB_NONE ? 0 : clock_wall_ms(),
                            .end = job->end ? xstrdup(job->end) : NULL,
                            .log = job_log_name_new(job->plan->name),
                            .batch = batch_of(job),
                            .mem_peak_bytes = job->mem_peak_bytes,
                            .n_halvings = job->n_halvings};
    if (!process)
        return;
    row->attempts = process->attempt;
    row->proof = marks_new(process->proof.outs, process->proof.n_outs);
    row->inputs = marks_new(process->proof.inputs, process->proof.n_inputs);
    row->started_wall_ms = job->begun_wall_ms ? job->begun_wall_ms : process->started_wall_ms;
    row->batch = process->batch;
    row->mem_peak_bytes = MAX(process->mem_peak_bytes, job->mem_peak_bytes);
    row->rss_peak_bytes = process->rss_peak_bytes;
}

void record_state(struct graph *graph, const char *name, enum job_state state)
{
    struct record *rows = graph->record;
    GROW(rows->jobs, rows->n_jobs, rows->jobs_cap);
    rows->jobs[rows->n_jobs++] =
        (struct job_row){.name = xstrdup(name), .state = state, .has_state_alone = true};
}

/*
 * A job is noted when it begins, so that a session after a kill knows that it had begun. For a job that leaves files
 * the row is committed before the start: otherwise, after a kill, the next session would take its files for those of
 * somebody else. Before a job that needs others begins, their ends are committed: otherwise, after a kill, they would
 * run again although a job that needs them had begun.
 */
int record_begun(struct graph *graph, const struct process *process, struct err *err)
{
    const struct plan_job *plan = graph->jobs[process->job].plan;
    record_job(graph, process->job, JOB_NONE, process);
    if (plan->n_outs == 0 && plan->n_needs == 0)
        return 0;
    record_flush(graph);
    return shell_is_to_end(graph->shell) ? fail(err, ERR_STOPPED, "the run is ending") : 0;
}

void record_attempt(struct graph *graph, const struct process *process)
{
    struct record *rows = graph->record;
    struct buf devices = BUF_INIT;
    GROW(rows->attempts, rows->n_attempts, rows->attempts_cap);
    process_devices_add(process, &devices);
    rows->attempts[rows->n_attempts++] =
        (struct job_attempt_row){.name = xstrdup(graph->jobs[process->job].plan->name),
                                 .attempt = process->attempt,
                                 .devices = devices.len > 0 ? buf_steal(&devices) : NULL,
                                 .started_wall_ms = process->started_wall_ms,
                                 .ended_wall_ms = clock_wall_ms(),
                                 .end = process->end_text[0] ? xstrdup(process->end_text) : NULL,
                                 .is_well = process->end == DEND_WELL,
                                 .batch = process->batch,
                                 .mem_peak_bytes = process->mem_peak_bytes,
                                 .rss_peak_bytes = process->rss_peak_bytes};
    buf_release(&devices);
}

void record_event(struct graph *graph, const char *kind, const char *of, const char *name,
                  const char *text)
{
    struct record *rows = graph->record;
    struct buf json = BUF_INIT;
    buf_addf(&json, "{\"%s\":", of);
    buf_add_json(&json, str_of(name));
    if (text) {
        buf_add_text(&json, ",\"text\":");
        buf_add_json(&json, str_of(text));
    }
    buf_add_char(&json, '}');
    GROW(rows->events, rows->n_events, rows->events_cap);
    rows->events[rows->n_events++] =
        (struct event_row){.wall_ms = clock_wall_ms(), .kind = kind, .json = buf_steal(&json)};
}

void record_device_event(struct graph *graph, const char *kind, uint32_t chosen)
{
    cleanup_buf struct buf label = BUF_INIT;
    allocation_label_add(&graph->allocation, chosen, &label);
    record_event(graph, kind, "device", buf_text(&label), NULL);
}

void record_sample(struct graph *graph, const struct device_sample *sample)
{
    struct record *rows = graph->record;
    GROW(rows->samples, rows->n_samples, rows->samples_cap);
    rows->samples[rows->n_samples++] = (struct sample_row){.wall_ms = clock_wall_ms(),
                                                           .device = (uint32_t)sample->device,
                                                           .mem_used_bytes = sample->mem_used_bytes,
                                                           .busy_percent = sample->busy_percent,
                                                           .temperature_c = sample->temperature_c,
                                                           .power_w = sample->power_w};
}

static void failed(struct graph *graph, int rc, struct err *err)
{
    if (errno_means_full(err->sys))
        fail(err, ERR_STOPPED, "the run's record in %s: %s", shell_run_dir(graph->shell),
             errno_room(err->sys));
    if (rc == ERR_STOPPED)
        shell_end_with(graph->shell, err_exit_status(ERR_STOPPED));
    shell_abort(graph->shell, err);
}

static void text_free(const char *text)
{
    free((void *)(uintptr_t)text);
}

static void rows_forget(struct record *rows)
{
    for (size_t i = 0; i < rows->n_jobs; i++) {
        const struct job_row *row = &rows->jobs[i];
        text_free(row->name);
        text_free(row->definition);
        text_free(row->proof);
        text_free(row->inputs);
        text_free(row->end);
        text_free(row->log);
    }
    for (size_t i = 0; i < rows->n_attempts; i++) {
        text_free(rows->attempts[i].name);
        text_free(rows->attempts[i].devices);
        text_free(rows->attempts[i].end);
    }
    for (size_t i = 0; i < rows->n_events; i++)
        text_free(rows->events[i].json);
    rows->n_jobs = rows->n_attempts = rows->n_events = rows->n_samples = 0;
}

/* Rows that are committed before the loop sleeps. */
static bool has_rows(const struct record *rows)
{
    return rows && rows->n_jobs + rows->n_attempts + rows->n_events > 0;
}

void record_flush(struct graph *graph)
{
    struct record *rows = graph->record;
    struct err err = {0};
    if (!rows || (!has_rows(rows) && rows->n_samples == 0) || !shell_store(graph->shell))
        return;
    const struct job_batch batch = {rows->jobs,   rows->n_jobs,   rows->attempts, rows->n_attempts,
                                    rows->events, rows->n_events, rows->samples,  rows->n_samples};
    rows->is_unsynced = rows->is_unsynced || has_rows(rows);
    int rc = store_jobs_commit(shell_store(graph->shell), &batch, &err);
    rows_forget(rows);
    rows->committed_ms = shell_last_now(graph->shell);
    if (rc)
        failed(graph, rc, &err);
}

static void on_due(uv_timer_t *due)
{
    shell_now(((struct graph *)due->data)->shell);
    record_flush(due->data);
}

void record_rest(struct graph *graph)
{
    struct record *rows = graph->record;
    if (!has_rows(rows))
        return;
    uint64_t due_ms = rows->committed_ms + TOGETHER_MS, now_ms = shell_now(graph->shell);
    if (now_ms >= due_ms) {
        record_flush(graph);
        return;
    }
    if (!rows->has_due)
        uv_timer_init(shell_uv_loop(graph->shell), &rows->due);
    rows->has_due = true;
    rows->due.data = graph;
    if (!uv_is_active((uv_handle_t *)&rows->due))
        uv_timer_start(&rows->due, on_due, due_ms - now_ms, 0);
}

void record_sync(struct graph *graph)
{
    struct err err = {0};
    int rc = graph->record->is_unsynced ? store_sync(shell_store(graph->shell), &err) : 0;
    graph->record->is_unsynced = false;
    if (rc)
        failed(graph, rc, &err);
}

void record_close(struct graph *graph)
{
    if (!graph->record)
        return;
    rows_forget(graph->record);
    free(graph->record->jobs);
    free(graph->record->attempts);
    free(graph->record->events);
    free(graph->record->samples);
    free(steal_ptr(&graph->record));
}
