/* SPDX-License-Identifier: Apache-2.0
 *
 * A job as a process: its start, its output, and what its end means.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "graph/list/joblog.h"
#include "graph/list/list.h"

enum {
    TAIL_BYTES = 4096,
    STATUS_REFUSED = 127,              /* of a shell that finds no such command */
    CLOCK_SLACK_NS = 20 * 1000 * 1000, /* the file system's clock may be behind by a tick */
    FAR_PATIENCE_MS = 5000 /* until this machine sees files that were written on another one */
};
#define SHARED_NOTE " here; its folder may not be on a file system that the two share"

static struct graph_job *job_of(const struct process *process)
{
    return &process->graph->jobs[process->job];
}

static const char *name_of(const struct process *process)
{
    return job_of(process)->plan->name;
}

/* ---- output ---- */

/* A stage and its coordinates are no folders. */
char *job_log_name_new(const char *job)
{
    char *name = xstrdup(job);
    for (char *at = name; *at; at++)
        *at = *at == '/' ? '+' : *at;
    return name;
}

static char *log_path_new(const struct process *process, const char *which)
{
    const struct graph *graph = process->graph;
    cleanup_free char *name = job_log_name_new(name_of(process));
    if (!graph->request->results)
        return xasprintf("%s/logs/%s_%s.log", graph->shell.run_dir, name, which);
    cleanup_free char *dir =
        results_dir_new(graph->request->list, graph->request->results, process->job);
    return path_join(dir, which);
}

/* Made when there is something to write: many jobs print nothing. */
static struct logfile *log_of(struct process *process, enum worker_stream stream)
{
    struct logfile **file = stream == STREAM_ERR ? &process->errors : &process->out;
    char headline[PLAN_NAME_BYTES_MAX + 40];
    struct err *err = &process->unopened;
    if (*file || err->code)
        return *file;
    cleanup_free char *path = log_path_new(process, stream == STREAM_ERR ? "stderr" : "stdout");
    snprintf(headline, sizeof(headline), "attempt %u of %s", process->attempt, name_of(process));
    struct logfile_opts opts = {
        .path = path, .cap_bytes = process->graph->request->log_cap_bytes, .headline = headline};
    if (process->graph->request->prints) { /* from this file: it is all of it, and nothing else */
        opts.cap_bytes = UINT64_MAX;
        opts.headline = NULL;
    }
    struct stat before = {0};
    if (stat(path, &before) == 0)
        *(stream == STREAM_ERR ? &process->errors_before : &process->out_before) =
            (uint64_t)before.st_size;
    if (logfile_open(file, &opts, err) != 0)
        log_add(process->graph->shell.log, LOG_WARN, "graph", "%s: its output is not kept: %s",
                name_of(process), err->text);
    return *file;
}

/* Why what was written to its files is not all of its output; 0: it is. */
static int unwritten_errno(const struct process *process)
{
    int sys = process->out ? logfile_error(process->out) : 0;
    return sys || !process->errors ? sys : logfile_error(process->errors);
}

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct process *process = context;
    struct graph *graph = process->graph;
    cleanup_free char *prefix = xasprintf("[%s] ", name_of(process));
    struct logfile *file = log_of(process, stream);
    if (file)
        logfile_add(file, bytes);
    if (!graph->request->prints)
        console_add(graph->shell.display.console, process->job * 2 + (stream == STREAM_ERR), prefix,
                    bytes, graph->shell.now_ms);
}

/* ---- start ---- */

static char *path_in_cwd_new(const struct plan_job *plan, const char *path)
{
    return plan->cwd ? path_join(plan->cwd, path) : xstrdup(path);
}

/* A change of an input while the job runs must make it stale afterwards; that of an out is its work. */
static void files_look(struct process *process)
{
    const struct plan_job *plan = job_of(process)->plan;
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

/* A job finds the folders that its outputs are in. */
static int outs_begin(const struct plan_job *plan, struct err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < plan->n_outs && rc == 0; i++) {
        cleanup_free char *path = path_in_cwd_new(plan, plan->outs[i].path);
        char *end = path + strlen(path);
        while (end > path && end[-1] == '/') /* the folder that it leaves is its own to make */
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

/* --results: the folder of the job. */
static int results_begin(const struct process *process, struct err *err)
{
    const struct graph_request *request = process->graph->request;
    if (!request->results)
        return 0;
    cleanup_free char *dir = results_dir_new(request->list, request->results, process->job);
    return results_dir_make(dir, process->job, err);
}

static void process_judge(struct process *process, enum dag_end end, const char *text);

/* The machine lacks descriptors or processes; or the connection to another one broke. */
static enum dag_end end_of_refused(const struct process *process, int rc)
{
    bool is_away = rc == ERR_UNAVAILABLE && process->seat.host > 0;
    return rc == ERR_STOPPED || is_away ? DEND_LOST : DEND_FATAL;
}

void process_start(struct graph *graph, uint32_t number)
{
    struct graph_job *job = &graph->jobs[number];
    struct dag_placement placement = dag_placement(graph->dag, number);
    struct process *process = xcalloc(1, sizeof(*process));
    struct err err = {0};
    cleanup_buf struct buf where = BUF_INIT;
    *process =
        (struct process){.graph = graph,
                         .job = number,
                         .next = graph->processes,
                         .attempt = job->attempts_before + placement.attempt,
                         .batch = MAX(batch_halved(job->plan->batch, placement.n_halvings), 1ul),
                         .n_halvings = placement.n_halvings,
                         .started_ms = shell_now(&graph->shell),
                         .started_wall_ms = clock_wall_ms()};
    graph->processes = job->process = process;
    graph->n_processes++;
    job->n_attempts = placement.attempt;
    if (job->begun_wall_ms == 0)
        job->begun_wall_ms = process->started_wall_ms;
    process_seat_take(process, &placement);
    process_devices_add(process, &where);
    job->needs_digest = needs_digest(graph, job);
    files_look(process);
    int rc = record_begun(graph, process, &err);
    rc = rc ? rc : outs_begin(job->plan, &err);
    rc = rc ? rc : results_begin(process, &err);
    rc = rc ? rc : process_command_start(process, &err);
    log_add(graph->shell.log, LOG_INFO, "graph", "%s: attempt %u starts%s%s%s", job->plan->name,
            process->attempt, where.len > 0 ? " on " : "", buf_text(&where),
            placement.oom_step == OOM_STEP_BATCH ? ", with a smaller batch"
            : placement.oom_step > OOM_STEP_NONE ? ", alone on its devices"
                                                 : "");
    if (rc)
        process_judge(process, end_of_refused(process, rc), err.text);
}

/* ---- end ---- */

static void process_forget(struct process *process)
{
    struct process **at = &process->graph->processes;
    while (*at != process)
        at = &(*at)->next;
    *at = process->next;
    job_of(process)->process = NULL;
    process->graph->n_processes--;
}

void process_free(struct process *process)
{
    logfile_close(process->out);
    logfile_close(process->errors);
    job_proof_release(&process->proof);
    free(process->proving.inputs_before);
    free(process->proving.outs_before);
    free(process->command);
    free(process);
}

/* The end is known, and another job may have the devices: tells the dag. */
static void process_settle(struct process *process)
{
    struct graph *graph = process->graph;
    struct dag_event event = {.kind = DEV_ENDED,
                              .job = process->job,
                              .end = process->end,
                              .device =
                                  UINT32_MAX, /* any of its devices may be the one that is ill */
                              .mem_bytes = process->mem_peak_bytes};
    process_forget(process);
    process_free(process);
    graph_tell(graph, event);
}

/* A reader may let us wait without end, and the loop does not turn meanwhile: then a signal ends the run at once. */
static void reader_await(const struct process *process, int to)
{
    struct sigaction before[END_SIGNALS];
    struct pollfd end = {.fd = to, .events = POLLOUT};
    if (poll(&end, 1, 0) != 0)
        return;
    record_flush(process->graph);
    shell_signals_end(&process->graph->shell, before);
    while (poll(&end, 1, -1) < 0 && errno == EINTR)
        ;
    shell_signals_restore(&process->graph->shell, before);
}

/* Its reader has gone, or its terminal: the file has it. */
static bool is_unread(int to, int sys)
{
    struct stat st;
    return sys == EPIPE || (sys == EIO && fstat(to, &st) == 0 && !S_ISREG(st.st_mode));
}

static int log_copy(const struct process *process, const char *which, uint64_t skipped, int to,
                    struct err *err)
{
    char piece[PIPE_BUF]; /* a pipe that is ready takes so much */
    cleanup_free char *path = log_path_new(process, which);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 0;
    if (fd < 0)
        return fail_errno(err, "open %s", path);
    for (off_t at = (off_t)skipped; (got = pread(fd, piece, sizeof(piece), at)) > 0; at += got) {
        reader_await(process, to);
        int rc = write_all(to, piece, (size_t)got, err);
        if (rc)
            return is_unread(to, err->sys) ? 0
                                           : wrap(err, rc, "std%s, which was to have %s",
                                                  to == STDOUT_FILENO ? "out" : "err", path);
    }
    return got < 0 ? fail_errno(err, "read %s", path) : 0;
}

/* Job by job, so that lines of several do not mix. */
static void output_print(struct process *process)
{
    bool has_out = process->out, has_errors = process->errors;
    struct err err = {0};
    logfile_close(steal_ptr(&process->out));
    logfile_close(steal_ptr(&process->errors));
    int rc = has_out ? log_copy(process, "stdout", process->out_before, STDOUT_FILENO, &err) : 0;
    if (rc == 0 && has_errors)
        rc = log_copy(process, "stderr", process->errors_before, STDERR_FILENO, &err);
    if (rc && process->graph->shell.end.err.code == 0)
        shell_abort(&process->graph->shell, &err);
}

static void joblog_note(const struct process *process)
{
    const struct graph *graph = process->graph;
    struct err err = {0};
    if (!graph->request->joblog)
        return;
    int signal = process->status > 128 ? process->status - 128 : 0;
    int rc =
        joblog_add(graph->request->joblog,
                   &(struct joblog_row){.seq = process->job + 1,
                                        .start_ms = process->started_wall_ms,
                                        .runtime_ms = graph->shell.now_ms - process->started_ms,
                                        .exit_status = signal ? 0 : process->status,
                                        .signal = signal,
                                        .command = process->command},
                   &err);
    if (rc)
        log_add(graph->shell.log, LOG_WARN, "graph", "%s", err.text);
}

/* Of a job that leaves no files it is that of its start: when it ran again, so must what needs it. */
static uint64_t outs_digest(const struct process *process)
{
    const uint64_t start[] = {process->attempt, (uint64_t)process->started_wall_ms};
    return process->proof.n_outs > 0 ? job_proof_digest(&process->proof)
                                     : XXH3_64bits(start, sizeof(start));
}

/* How it ended is known. `text` NULL: well. */
static void process_judge(struct process *process, enum dag_end end, const char *text)
{
    struct graph *graph = process->graph;
    struct graph_job *job = job_of(process);
    process->end = end;
    snprintf(process->end_text, sizeof(process->end_text), "%s", text ? text : "");
    free(job->end);
    job->end = text ? xstrdup(text) : NULL;
    process->is_gone = process->is_settled = true;
    if (end == DEND_WELL) {
        job->outs_digest = outs_digest(process);
        graph->fleet.hosts[process->seat.host].n_done++;
        job->begun_wall_ms = 0;
        record_job(graph, process->job, JOB_DONE, process);
        learned_take(process);
    } else if (end != DEND_ENDED) {
        log_add(graph->shell.log, LOG_INFO, "graph", "%s: attempt %u ended: %s", job->plan->name,
                process->attempt, text ? text : "");
    }
    record_attempt(graph, process);
    joblog_note(process);
    if (graph->request->prints)
        output_print(process);
    else if (unwritten_errno(process))
        log_add(graph->shell.log, LOG_WARN, "graph", "%s: its log is not complete: %s",
                job->plan->name, errno_text(unwritten_errno(process)));
    process_seat_ended(process);
    if (process_may_settle(process))
        process_settle(process);
}

/* An input that changed while the job ran has no mark, so that the job is stale at the next look. */
static void inputs_compare(struct process *process)
{
    for (size_t i = 0; i < process->proof.n_inputs; i++) {
        struct file_mark *mark = &process->proof.inputs[i];
        const struct stat *before = &process->proving.inputs_before[i];
        struct stat now = {0};
        if (stat(mark->path, &now) == 0 && now.st_size == before->st_size &&
            now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
            now.st_mtim.tv_nsec == before->st_mtim.tv_nsec)
            continue;
        log_add(process->graph->shell.log, LOG_WARN, "graph",
                "%s: %s changed while the job ran, so the job will run again next time",
                name_of(process), mark->path);
        mark->hash = 0;
        mark->mtime_ns = 0;
    }
}

static void proof_work(void *context)
{
    struct process *process = context;
    job_proof_take(&process->proving.ask, &process->proof);
}

static void on_proof(void *context)
{
    struct process *process = context;
    const struct err *why = &process->proof.why;
    char text[END_TEXT_BYTES];
    shell_now(&process->graph->shell);
    if (why->code && atomic_load(&process->proving.is_given_up)) {
        process_judge(process, DEND_ENDED, "the proof of its files was given up");
        return;
    }
    if (why->code) {
        const char *host = host_label(process->graph, process->seat.host);
        bool is_missing = why->sys == ENOENT && process->seat.host > 0;
        snprintf(text, sizeof(text), "it ended with status 0%s%.64s, but %.200s%s",
                 process->seat.host > 0 ? " on " : "", process->seat.host > 0 ? host : "",
                 why->text, is_missing ? SHARED_NOTE : "");
        process_judge(process, DEND_FAILED, text);
        return;
    }
    inputs_compare(process);
    process_judge(process, DEND_WELL, NULL);
}

static void on_background_closed(uv_handle_t *handle)
{
    on_proof(handle->data);
}

static void on_proof_made(void *context)
{
    struct process *process = context;
    background_close(&process->proving.background, on_background_closed);
}

static void proof_begin(struct process *process)
{
    struct graph *graph = process->graph;
    const struct graph_job *job = job_of(process);
    const struct plan_job *plan = job->plan;
    if (plan->n_outs == 0 && !plan->inputs) {
        process_judge(process, DEND_WELL, NULL);
        return;
    }
    process->proving.ask =
        (struct proof_ask){.job = plan,
                           .cwd = plan->cwd ? plan->cwd : graph->cwd,
                           .since_ns = job->begun_wall_ms * 1000000 - CLOCK_SLACK_NS,
                           .outs_before = process->proving.outs_before,
                           .is_given_up = &process->proving.is_given_up,
                           .patience_ms = process->seat.host > 0 ? FAR_PATIENCE_MS : 0};
    background_open(&process->proving.background, &graph->shell.loop, process);
    background_start(&process->proving.background, proof_work, on_proof_made);
}

static enum death verdict(const struct process *process, const struct worker_exit *exit,
                          struct buf *tail)
{
    cleanup_buf struct buf out_tail = BUF_INIT;
    const struct oom_counts *kills = &exit->oom_kills;
    bool is_lost = false;
    if (process->errors)
        logfile_tail(process->errors, TAIL_BYTES, tail);
    if (process->out)
        logfile_tail(process->out, TAIL_BYTES, &out_tail);
    for (size_t i = 0; i < process->seat.n_devices; i++)
        is_lost = is_lost ||
                  device_watch_sample(process->graph->watch, process->seat.devices[i])->is_lost;
    return verdict_of(&(struct death_facts){
        .exit_code = exit->exit_code,
        .exit_signal = exit->exit_signal,
        .exec_failed = exit->was_refused,
        .we_ended_it = process->was_ended,
        .oom_kills_near = kills->knows_own ? kills->own : kills->host,
        .oom_kills_host = MAX(kills->host, kills->own),
        .rss_peak_bytes = exit->rss_peak_bytes,
        .memory_bytes = exit->memory_bytes,
        .device_lost = is_lost,
        .stderr_tail = buf_str(tail),
        .stdout_tail = buf_str(&out_tail),
    });
}

/* The last line that it printed on stderr, cut. */
static void last_line_add(struct str tail, struct buf *out)
{
    struct str last = str_trim(tail);
    const char *line = last.len > 0 ? memrchr(last.at, '\n', last.len) : NULL;
    line = line ? line + 1 : last.at;
    size_t len = last.len > 0 ? (size_t)(last.at + last.len - line) : 0;
    if (len > 0)
        buf_addf(out, ": %.*s", (int)MIN(len, (size_t)160), line);
}

static enum dag_end end_of(const struct process *process, enum death death)
{
    static const enum dag_end ends[] = {
        [DEATH_CLEAN] = DEND_WELL,        [DEATH_FAILED] = DEND_FAILED,
        [DEATH_CRASHED] = DEND_FAILED,    [DEATH_OOM] = DEND_OOM,
        [DEATH_HOST_OOM] = DEND_FAILED,   [DEATH_KILLED] = DEND_FAILED,
        [DEATH_DEVICE_LOST] = DEND_ILL,   [DEATH_NOT_STARTED] = DEND_FATAL,
        [DEATH_ENDED_BY_US] = DEND_ENDED,
    };
    if (process->is_late)
        return DEND_FAILED;
    if (death == DEATH_FAILED && process->status == STATUS_REFUSED)
        return DEND_FATAL;
    return ends[death];
}

static void death_describe(const struct process *process, enum death death,
                           const struct worker_exit *exit, struct str tail, struct buf *out)
{
    char end[24];
    bool is_far = process->seat.host > 0;
    exit_format(end, exit->exit_code, exit->exit_signal);
    if (process->is_late)
        buf_addf(out, "it took longer than its timeout");
    else if (death == DEATH_NOT_STARTED)
        buf_addf(out, "%s could not be executed%s%s: %s", job_of(process)->plan->argv[0],
                 is_far ? " on " : "", is_far ? host_label(process->graph, process->seat.host) : "",
                 errno_text(exit->exec_errno));
    else if (death == DEATH_FAILED || death == DEATH_CRASHED || death == DEATH_ENDED_BY_US)
        buf_addf(out, "%s", end);
    else
        buf_addf(out, "%s, %s", end, death_text(death));
    if (death != DEATH_ENDED_BY_US)
        last_line_add(tail, out);
}

/* Why, without a word of its end. */
static const char *lost_text(struct process *process)
{
    if (host_is_up(process->graph, process->seat.host))
        return "its guard was killed";
    process->not_before_ms = host_empty_ms(process->graph);
    return "its host was lost";
}

/* What it printed is its result, and must be whole. A full disk ends the run, which can go on when there is room. */
static bool is_output_lost(struct process *process)
{
    struct graph *graph = process->graph;
    struct err err = process->unopened;
    errno = unwritten_errno(process);
    if (!graph->request->prints || (!err.code && errno == 0))
        return false;
    int rc = err.code ? err.code : fail_errno(&err, "write");
    wrap(&err, rc, "what %s printed could not be kept", name_of(process));
    if (rc == ERR_STOPPED && graph->shell.end.err.code == 0)
        shell_abort(&graph->shell, &err);
    process_judge(process, rc == ERR_STOPPED ? DEND_ENDED : DEND_FAILED, err.text);
    return true;
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct process *process = context;
    struct graph *graph = process->graph;
    cleanup_buf struct buf tail = BUF_INIT, how = BUF_INIT;
    shell_now(&graph->shell);
    /* Neither: its guard was killed, and the job with it. */
    bool was_lost = !exit->has_exited && !exit->was_refused;
    process->is_gone = true;
    process->status = worker_exit_status(exit);
    process->rss_peak_bytes = exit->rss_peak_bytes;
    console_end(graph->shell.display.console, process->job * 2, graph->shell.now_ms);
    console_end(graph->shell.display.console, process->job * 2 + 1, graph->shell.now_ms);
    enum death death = verdict(process, exit, &tail);
    if (death == DEATH_HOST_OOM && exit->exit_signal == SIGKILL)
        node_oom_explained(process->worker);
    node_release(steal_ptr(&process->worker));
    if (exit->stuck_pid)
        log_add(graph->shell.log, LOG_ERROR, "graph", "%s: process %d does not die",
                name_of(process), (int)exit->stuck_pid);
    enum dag_end end = was_lost && !process->was_ended ? DEND_LOST : end_of(process, death);
    death_describe(process, death, exit, buf_str(&tail), &how);
    if (end == DEND_WELL && is_output_lost(process))
        return;
    if (end == DEND_FATAL && exit->exec_errno != E2BIG) /* which no host can take */
        end = absent_note(graph, process->job, process->seat.host, buf_text(&how));
    if (end == DEND_WELL)
        proof_begin(process);
    else
        process_judge(process, end, was_lost ? lost_text(process) : buf_text(&how));
}

static void on_warned(void *context, const char *text)
{
    const struct process *process = context;
    log_add(process->graph->shell.log, LOG_WARN, "graph", "%s: %s", name_of(process), text);
}

static void on_failed(void *context, const struct err *why)
{
    struct process *process = context;
    shell_abort(&process->graph->shell, why);
}

const struct worker_handlers process_handlers = {
    .output = on_output, .gone = on_gone, .warned = on_warned, .failed = on_failed};

/* ---- time ---- */

static void timeout_check(struct process *process, uint64_t now_ms)
{
    uint64_t limit_ms = job_of(process)->plan->timeout_ms;
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
        timeout_check(process, graph->shell.now_ms);
        /* To settle one may start another, which becomes the first of the list. */
        if (process->is_settled && process_may_settle(process))
            process_settle(process);
    }
}
