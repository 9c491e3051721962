/* SPDX-License-Identifier: Apache-2.0
 *
 * A job as a process: its start, its output, and its time limit. Its end is in process_end.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "graph/list/list.h"
#include "graph/plan_outs.h"

/* ---- output ---- */

/* Slashes of a job's name are replaced, so that the name of its log has no folders. */
char *job_log_name_new(const char *job)
{
    char *name = xstrdup(job);
    for (char *at = name; *at; at++)
        *at = *at == '/' ? '+' : *at;
    return name;
}

char *job_log_path_new(const struct graph *graph, uint32_t job, const char *which)
{
    cleanup_free char *name = job_log_name_new(graph->jobs[job].plan->name);
    if (!graph->request->results)
        return xasprintf("%s/logs/%s_%s.log", shell_run_dir(graph->shell), name, which);
    cleanup_free char *dir = results_dir_new(graph->request->list, graph->request->results, job);
    return path_join(dir, which);
}

/* The log is made when there is something to write: many jobs print nothing. */
static struct logfile *log_of(struct process *process, enum worker_stream stream)
{
    struct logfile **file = stream == STREAM_ERR ? &process->errors : &process->out;
    char headline[PLAN_NAME_BYTES_MAX + 40];
    struct err *err = &process->unopened;
    if (*file || err->code)
        return *file;
    cleanup_free char *path =
        job_log_path_new(process->graph, process->job, stream == STREAM_ERR ? "stderr" : "stdout");
    snprintf(headline, sizeof(headline), "attempt %u of %s", process->attempt,
             process_name(process));
    struct logfile_opts opts = {
        .path = path, .cap_bytes = process->graph->request->log_cap_bytes, .headline = headline};
    struct stat before = {0};
    bool is_first = stat(path, &before) != 0 || before.st_size == 0;
    if (process->graph->request->prints) { /* this file is printed: it has all output */
        opts.cap_bytes = UINT64_MAX;
        opts.headline = is_first ? NULL : headline;
    }
    int rc = logfile_open(file, &opts, err);
    if (rc == 0 && stat(path, &before) == 0)
        process->printed.from[stream == STREAM_ERR] = (uint64_t)before.st_size;
    if (rc)
        log_add(shell_log(process->graph->shell), LOG_WARN, "graph",
                "%s: its output is not kept: %s", process_name(process), err->text);
    return *file;
}

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct process *process = context;
    struct graph *graph = process->graph;
    cleanup_free char *prefix = xasprintf("[%s] ", process_name(process));
    struct logfile *file = log_of(process, stream);
    if (file)
        logfile_add(file, bytes);
    if (!graph->request->prints)
        console_add(shell_console(graph->shell), process->job * 2 + (stream == STREAM_ERR), prefix,
                    bytes, shell_last_now(graph->shell));
}

/* ---- start ---- */

static char *path_in_cwd_new(const struct plan_job *plan, const char *path)
{
    return plan->cwd ? path_join(plan->cwd, path) : xstrdup(path);
}

/*
 * Looks at inputs and outs before the start. An input that changes while the job runs makes the job stale; an out
 * that changes is its work.
 */
static void files_look(struct process *process)
{
    const struct plan_job *plan = process_job(process)->plan;
    const char *cwd = plan->cwd ? plan->cwd : process->graph->cwd;
    size_t n = 0;
    process->proving.outs_before = xcalloc(plan->n_outs + 1, sizeof(*process->proving.outs_before));
    outs_look(&(struct proof_ask){.job = plan, .cwd = cwd}, process->proving.outs_before);
    while (plan->inputs && plan->inputs[n])
        n++;
    process->proving.inputs_before = xcalloc(n + 1, sizeof(*process->proving.inputs_before));
    for (size_t i = 0; i < n; i++) {
        cleanup_free char *path = path_in_cwd_new(plan, plan->inputs[i]);
        if (stat(path, &process->proving.inputs_before[i]) != 0)
            process->proving.inputs_before[i] = (struct stat){0};
    }
}

static const struct graph_job *leaver_of(const struct graph *graph, const struct plan_job *reader,
                                         const char *path)
{
    cleanup_real_paths struct real_paths real = {.cwd = graph->cwd,
                                                 .has_links = graph->plan->has_links};
    for (uint32_t i = 0; i < graph->n_jobs; i++)
        if (plan_job_leaves(graph->jobs[i].plan, reader, path, &real))
            return &graph->jobs[i];
    return NULL;
}

/*
 * The file is missing. That is no error if a job that is done leaves it, since it may be on its way from another
 * machine, or if the job itself makes it.
 */
static int missing_check(const struct graph *graph, const struct plan_job *plan, const char *path,
                         struct err *err)
{
    const struct graph_job *leaver = leaver_of(graph, plan, path);
    if (!leaver)
        return fail(err, ERR_DATA,
                    "it reads %s, which is not there, and no job leaves it (a file that the job "
                    "itself makes belongs in its `out`)",
                    path);
    if (leaver->plan == plan ||
        dag_job_view(graph->dag, (uint32_t)(leaver - graph->jobs)).state == DAG_DONE)
        return 0;
    return fail(err, ERR_DATA,
                "it reads %s, which is not there: %s leaves it and is not done; name that under "
                "`needs`",
                path, leaver->plan->name);
}

/* Checks what the job reads, before hours are spent on the job. */
static int inputs_check(const struct graph *graph, const struct plan_job *plan, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; plan->inputs && plan->inputs[i] && rc == 0; i++) {
        cleanup_free char *path = path_in_cwd_new(plan, plan->inputs[i]);
        struct stat st;
        if (stat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR))
            rc = missing_check(graph, plan, plan->inputs[i], err);
    }
    return rc;
}

/* Makes the folders that the job's outs are in. */
static int outs_begin(const struct plan_job *plan, struct err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < plan->n_outs && rc == 0; i++) {
        cleanup_free char *path = path_in_cwd_new(plan, plan->outs[i].path);
        char *end = path + strlen(path);
        while (end > path && end[-1] == '/') /* the job makes a folder that it leaves */
            end--;
        while (end > path && end[-1] != '/')
            end--;
        if (end == path)
            continue;
        *end = '\0';
        rc = path_exists(path) ? 0 : mkdir_parents(path, 0777, err);
    }
    return rc;
}

int job_outs_claim(const struct plan_job *plan, struct output_claim *claim, struct err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < plan->n_outs && rc == 0; i++) {
        cleanup_free char *path = path_in_cwd_new(plan, plan->outs[i].path);
        for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
            path[len - 1] = '\0';
        rc = output_claim_add(claim, path, err);
    }
    return rc;
}

/* --results: the folder of the job, with two empty files. What an earlier attempt printed there is removed. */
static int results_begin(const struct process *process, struct err *err)
{
    static const char *const names[] = {"stdout", "stderr"};
    const struct graph_request *request = process->graph->request;
    if (!request->results)
        return 0;
    cleanup_free char *dir = results_dir_new(request->list, request->results, process->job);
    int rc = results_dir_make(dir, process->job, err);
    for (size_t i = 0; i < countof(names) && rc == 0; i++) {
        cleanup_free char *path = path_join(dir, names[i]);
        /* A folder there is an error only when output is written. */
        if (unlink(path) != 0 && errno != ENOENT && errno != EISDIR)
            rc = fail_errno(err, "remove %s", path);
        fd_close(&(int){open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)});
    }
    return rc;
}

/* Who reads what jobs print must know that it begins anew. */
static void start_log(const struct process *process)
{
    const struct graph_job *job = process_job(process);
    const struct dag_placement placement = dag_placement(process->graph->dag, process->job);
    bool is_again = placement.attempt > 1;
    cleanup_buf struct buf where = BUF_INIT;
    process_devices_add(process, &where);
    log_add(shell_log(process->graph->shell), is_again ? LOG_WARN : LOG_INFO, "graph",
            "%s: attempt %u starts%s%s%s%s%s", job->plan->name, process->attempt,
            where.len > 0 ? " on " : "", buf_text(&where),
            placement.oom_step == OOM_STEP_BATCH ? ", with a smaller batch"
            : placement.oom_step > OOM_STEP_NONE ? ", alone on its devices"
                                                 : "",
            is_again && job->end ? "; the one before ended: " : "",
            is_again && job->end ? job->end : "");
}

/*
 * The job was lost, and is tried again, if this machine lacks descriptors or processes, or if the connection to
 * another machine broke after all was ready here.
 */
static enum dag_end end_of_refused(const struct process *process, int rc, bool was_ready)
{
    bool is_away = was_ready && rc == ERR_UNAVAILABLE && process->seat.host > 0;
    return rc == ERR_STOPPED || is_away ? DEND_LOST : DEND_FATAL;
}

void process_start(struct graph *graph, uint32_t number)
{
    struct graph_job *job = &graph->jobs[number];
    struct dag_placement placement = dag_placement(graph->dag, number);
    struct process *process = xcalloc(1, sizeof(*process));
    struct err err = {0};
    *process =
        (struct process){.graph = graph,
                         .job = number,
                         .next = graph->processes,
                         .attempt = job->attempts_before + placement.attempt,
                         .batch = MAX(batch_halved(job->plan->batch, placement.n_halvings), 1ul),
                         .n_halvings = placement.n_halvings,
                         .started_ms = shell_now(graph->shell),
                         .started_wall_ms = clock_wall_ms()};
    graph->processes = job->process = process;
    graph->n_processes++;
    job->n_attempts = placement.attempt;
    job->n_halvings = placement.n_halvings;
    if (job->begun_wall_ms == 0)
        job->begun_wall_ms = process->started_wall_ms;
    process_seat_take(process, &placement);
    job->needs_digest = needs_digest(graph, job);
    files_look(process);
    int rc = inputs_check(graph, job->plan, &err);
    rc = rc ? rc : record_begun(graph, process, &err);
    rc = rc ? rc : outs_begin(job->plan, &err);
    rc = rc ? rc : job_outs_claim(job->plan, &process->proving.claim, &err);
    rc = rc ? rc : results_begin(process, &err);
    if (rc == 0) {
        process_prepare(process);
        return;
    }
    start_log(process);
    process_judge(process, end_of_refused(process, rc, false), err.text);
}

void process_launch(struct process *process)
{
    struct err err = {0};
    process->started_ms = shell_now(process->graph->shell);
    int rc = process_command_start(process, &err);
    preparation_free(steal_ptr(&process->preparation));
    start_log(process);
    if (rc)
        process_judge(process, end_of_refused(process, rc, true), err.text);
}

void process_end(struct process *process, enum worker_end how)
{
    process->was_ended = true;
    if (process->worker)
        node_end(process->worker, how);
    if (process->preparation || how == END_AT_ONCE)
        atomic_store(&process->proving.is_given_up, true);
}

static void on_warned(void *context, const char *text)
{
    const struct process *process = context;
    log_add(shell_log(process->graph->shell), LOG_WARN, "graph", "%s: %s", process_name(process),
            text);
}

static void on_failed(void *context, const struct err *why)
{
    struct process *process = context;
    shell_abort(process->graph->shell, why);
}

const struct worker_handlers process_handlers = {
    .output = on_output, .gone = process_gone, .warned = on_warned, .failed = on_failed};

/* ---- time ---- */

static void timeout_check(struct process *process, uint64_t now_ms)
{
    uint64_t limit_ms = process_job(process)->plan->timeout_ms;
    if (limit_ms == 0 || process->is_late || !process->worker ||
        now_ms - process->started_ms < limit_ms)
        return;
    process->is_late = true;
    node_end(process->worker, END_POLITELY);
}

void processes_tick(struct graph *graph)
{
    struct process *next;
    for (struct process *process = graph->processes; process; process = next) {
        next = process->next;
        timeout_check(process, shell_last_now(graph->shell));
        /* process_settle() may start another process, which becomes the first of the list. */
        if (process->is_settled && process_may_settle(process))
            process_settle(process);
    }
}
