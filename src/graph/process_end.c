/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a job's process: what it means, the proof of what it made, and what is told of it.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "graph/end_words.h"
#include "graph/graph_impl.h"
#include "graph/list/joblog.h"
#include "graph/plan_outs.h"

enum {
    TAIL_BYTES = 4096,
    STATUS_NO_PROGRAM = 126,           /* of a shell: the program cannot be executed */
    STATUS_REFUSED = 127,              /* of a shell: there is no such command */
    CLOCK_SLACK_NS = 20 * 1000 * 1000, /* the file system's clock may be behind by a tick */
    FAR_PATIENCE_MS = 5000, /* until this machine sees files that were written on another one */
    PREEMPTED_PAUSE_MS = 1000
};
#define SHARED_NOTE " here; its folder may not be on a file system that the two share"

static void process_forget(struct process *process)
{
    struct process **at = &process->graph->processes;
    while (*at != process)
        at = &(*at)->next;
    *at = process->next;
    process_job(process)->process = NULL;
    process->graph->n_processes--;
}

void process_free(struct process *process)
{
    logfile_close(process->out);
    logfile_close(process->errors);
    job_proof_release(&process->proof);
    output_claim_release(&process->proving.claim);
    free(process->proving.inputs_before);
    free(process->proving.outs_before);
    free(process->command);
    preparation_free(process->preparation);
    free(process);
}

/* Does the job run again, in this session or in the next one? */
static bool runs_again(const struct graph *graph, uint32_t job)
{
    enum dag_state state = dag_job_view(graph->dag, job).state;
    return state == DAG_WAITS || state == DAG_READY || state == DAG_RUNS;
}

/* What ran out of memory is tried again with half its batch, in the next session too, if that is the one that has the time. */
static void halvings_note(struct graph *graph, uint32_t number)
{
    struct graph_job *job = &graph->jobs[number];
    struct dag_job_view view = dag_job_view(graph->dag, number);
    if (view.n_halvings == job->n_halvings || view.state == DAG_FAILED)
        return;
    job->n_halvings = view.n_halvings;
    record_job(graph, number, job->is_held ? JOB_HELD : JOB_NONE, NULL);
}

/* The end is known, and another job may have the devices: tells the dag. */
void process_settle(struct process *process)
{
    struct graph *graph = process->graph;
    const struct printed printed = process->printed;
    struct dag_event event = {.kind = DEV_ENDED,
                              .job = process->job,
                              .end = process->end,
                              .device =
                                  UINT32_MAX, /* any of its devices may be the one that is ill */
                              .mem_bytes = process->mem_peak_bytes};
    process_forget(process);
    process_free(process);
    graph_tell(graph, event);
    if (event.end == DEND_OOM)
        halvings_note(graph, event.job);
    if (printed.is_due && !runs_again(graph, event.job))
        print_add(graph, printed);
}

/* The errno for which the log files lack some of the output; 0: they have all of it. */
static int unwritten_errno(const struct process *process)
{
    int sys = process->out ? logfile_error(process->out) : 0;
    return sys || !process->errors ? sys : logfile_error(process->errors);
}

/*
 * Prints the job's output as one piece, so that lines of several jobs do not mix. Only the last attempt is printed:
 * it is the job's result.
 */
static void output_print(struct process *process)
{
    struct printed *printed = &process->printed;
    bool is_result = process->end == DEND_WELL;
    printed->job = process->job;
    printed->has[0] = process->out != NULL;
    printed->has[1] = process->errors != NULL;
    logfile_close(steal_ptr(&process->out));
    logfile_close(steal_ptr(&process->errors));
    if (is_result)
        print_add(process->graph, *printed);
    printed->is_due = !is_result; /* unless the job is tried again */
}

static void joblog_note(const struct process *process)
{
    const struct graph *graph = process->graph;
    struct err err = {0};
    if (!graph->request->joblog)
        return;
    int signal = process->status > 128 ? process->status - 128 : 0;
    int rc = joblog_add(
        graph->request->joblog,
        &(struct joblog_row){.seq = process->job + 1,
                             .host = process->seat.host > 0 ? host_label(graph, process->seat.host)
                                                            : NULL,
                             .start_ms = process->started_wall_ms,
                             .runtime_ms = shell_last_now(graph->shell) - process->started_ms,
                             .received_bytes = process->out ? logfile_bytes(process->out) : 0,
                             .exit_status = signal ? 0 : process->status,
                             .signal = signal,
                             .command = process->command},
        &err);
    if (rc)
        log_add(shell_log(graph->shell), LOG_WARN, "graph", "%s", err.text);
}

/*
 * A digest of the outs and of the start: when a job ran again, the jobs that need it must run again, even if it left
 * the same files, or none.
 */
static uint64_t outs_digest(const struct process *process)
{
    const char *name = process_name(process);
    const uint64_t facts[] = {job_proof_digest(&process->proof), process->attempt,
                              (uint64_t)process->started_wall_ms};
    return XXH3_64bits_withSeed(name, strlen(name), XXH3_64bits(facts, sizeof(facts)));
}

void process_judge(struct process *process, enum dag_end end, const char *text)
{
    struct graph *graph = process->graph;
    struct graph_job *job = process_job(process);
    process->end = end;
    snprintf(process->end_text, sizeof(process->end_text), "%s", text ? text : "");
    free(job->end);
    job->end = text ? xstrdup(text) : NULL;
    job->was_cut = end == DEND_ENDED;
    process->is_gone = process->is_settled = true;
    if (end == DEND_WELL) {
        job->outs_digest = outs_digest(process);
        graph->fleet.hosts[process->seat.host].n_done++;
        job->begun_wall_ms = 0;
        record_job(graph, process->job, JOB_DONE, process);
        free(job->left);
        job->left = job_proof_steal(&process->proof);
        learned_add(process);
    } else if (end != DEND_ENDED) {
        log_add(shell_log(graph->shell), LOG_INFO, "graph", "%s: attempt %u ended: %s",
                job->plan->name, process->attempt, text ? text : "");
    }
    record_attempt(graph, process);
    joblog_note(process);
    if (graph->request->prints)
        output_print(process);
    else if (unwritten_errno(process))
        log_add(shell_log(graph->shell), LOG_WARN, "graph", "%s: its log is not complete: %s",
                job->plan->name, errno_text(unwritten_errno(process)));
    process_seat_ended(process);
    if (process_may_settle(process))
        process_settle(process);
}

/*
 * An input that changed while the job ran gets a mark that fits no file, so that the job is stale at the next look.
 * An input that the job leaves as well, such as a checkpoint, keeps its mark.
 */
static void inputs_compare(struct process *process)
{
    const struct plan_job *plan = process_job(process)->plan;
    for (size_t i = 0; i < process->proof.n_inputs; i++) {
        struct file_mark *mark = &process->proof.inputs[i];
        const struct stat *before = &process->proving.inputs_before[i];
        struct stat now = {0};
        if (stat(mark->path, &now) == 0 && now.st_size == before->st_size &&
            now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
            now.st_mtim.tv_nsec == before->st_mtim.tv_nsec)
            continue;
        if (plan_job_goes_on(plan, mark->path, process->graph->cwd))
            continue;
        log_add(shell_log(process->graph->shell), LOG_WARN, "graph",
                "%s: %s changed while the job ran, so the job will run again next time",
                process_name(process), mark->path);
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
    shell_now(process->graph->shell);
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
    const struct graph_job *job = process_job(process);
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
    background_open(&process->proving.background, shell_uv_loop(graph->shell), process);
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

/* Does the status of one of muster's own verbs say that the command line is wrong? Then it is wrong on every host. */
static bool is_usage(const struct process *process)
{
    return process_job(process)->plan->kind != PLAN_RUN &&
           process->status == err_exit_status(ERR_USAGE);
}

/*
 * Did somebody else end it by SIGTERM, as a cluster does that takes a machine back? The process died of the signal,
 * or exited with its status.
 */
static bool is_preempted(const struct process *process, enum death death)
{
    return (death == DEATH_CRASHED || death == DEATH_FAILED) && !process->is_late &&
           process->status == 128 + SIGTERM;
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
    bool is_refused = process->status == STATUS_NO_PROGRAM || process->status == STATUS_REFUSED;
    if (death == DEATH_FAILED && (is_refused || is_usage(process)))
        return DEND_FATAL;
    return is_preempted(process, death) ? DEND_LOST : ends[death];
}

/* Is the job's folder missing? Its guard enters the folder before it looks for the program. */
static bool is_folder_missing(const struct process *process)
{
    const char *cwd = process_job(process)->plan->cwd;
    struct stat st;
    return process->seat.host == 0 && cwd &&
           (stat(cwd, &st) != 0 || !S_ISDIR(st.st_mode) || access(cwd, X_OK) != 0);
}

/* Adds the program. argv is a template, whose braces are doubled. */
static void program_add(const struct plan_job *plan, struct buf *out)
{
    for (const char *at = plan->argv[0]; *at; at++) {
        buf_add_char(out, *at);
        at += (*at == '{' || *at == '}') && at[1] == at[0];
    }
}

static void not_started_describe(const struct process *process, int exec_errno, struct buf *out)
{
    const struct plan_job *plan = process_job(process)->plan;
    if (is_folder_missing(process))
        buf_addf(out, "its folder %s: ", plan->cwd);
    else {
        program_add(plan, out);
        buf_add_text(out, " could not be executed");
        if (process->seat.host > 0) /* the folder may be what is missing there */
            buf_addf(out, " on %s in %s", host_label(process->graph, process->seat.host),
                     plan->cwd ? plan->cwd : process->graph->cwd);
        buf_add_text(out, ": ");
    }
    buf_add_text(out, errno_text(exec_errno));
}

static void death_describe(const struct process *process, enum death death,
                           const struct worker_exit *exit, struct str tail, struct buf *out)
{
    char end[24];
    exit_format(end, exit->exit_code, exit->exit_signal);
    if (process->is_late)
        buf_addf(out, "it took longer than its timeout");
    else if (death == DEATH_NOT_STARTED)
        not_started_describe(process, exit->exec_errno, out);
    else if (is_preempted(process, death))
        buf_addf(out, "%s, as of a job that is preempted", end);
    else if (death == DEATH_FAILED || death == DEATH_CRASHED || death == DEATH_ENDED_BY_US)
        buf_addf(out, "%s", end);
    else
        buf_addf(out, "%s, %s", end, death_text(death));
    if (death != DEATH_ENDED_BY_US)
        end_words_add(tail, process_job(process)->plan->kind, out);
}

/* Why a process was lost, whose exit is not known. */
static const char *lost_text(struct process *process)
{
    if (host_is_up(process->graph, process->seat.host))
        return "its guard was killed";
    process->not_before_ms = host_empty_ms(process->graph);
    return "its host was lost";
}

/*
 * Printed output is the job's result, and must be complete. A full disk ends the run, which can go on when there is
 * room.
 */
static bool is_output_lost(struct process *process)
{
    struct graph *graph = process->graph;
    struct err err = process->unopened;
    errno = unwritten_errno(process);
    if (!graph->request->prints || (!err.code && errno == 0))
        return false;
    int rc = err.code ? err.code : fail_errno(&err, "write");
    wrap(&err, rc, "what %s printed could not be kept", process_name(process));
    if (rc == ERR_STOPPED && shell_end(graph->shell)->err.code == 0)
        shell_abort(graph->shell, &err);
    process_judge(process, rc == ERR_STOPPED ? DEND_ENDED : DEND_FAILED, err.text);
    return true;
}

void process_gone(void *context, const struct worker_exit *exit)
{
    struct process *process = context;
    struct graph *graph = process->graph;
    cleanup_buf struct buf tail = BUF_INIT, how = BUF_INIT;
    shell_now(graph->shell);
    /* Neither an exit nor a refusal: its guard was killed, and the job with it. */
    bool was_lost = !exit->has_exited && !exit->was_refused;
    process->is_gone = true;
    process->status = worker_exit_status(exit);
    process->rss_peak_bytes = exit->rss_peak_bytes;
    console_end(shell_console(graph->shell), process->job * 2, shell_last_now(graph->shell));
    console_end(shell_console(graph->shell), process->job * 2 + 1, shell_last_now(graph->shell));
    enum death death = verdict(process, exit, &tail);
    if (death == DEATH_HOST_OOM && exit->exit_signal == SIGKILL)
        node_oom_explained(process->worker);
    node_release(steal_ptr(&process->worker));
    if (exit->stuck_pid)
        log_add(shell_log(graph->shell), LOG_ERROR, "graph", "%s: process %d does not die",
                process_name(process), (int)exit->stuck_pid);
    enum dag_end end = was_lost && !process->was_ended ? DEND_LOST : end_of(process, death);
    death_describe(process, death, exit, buf_str(&tail), &how);
    if (is_preempted(process, death))
        process->not_before_ms = shell_last_now(graph->shell) + PREEMPTED_PAUSE_MS;
    if (end == DEND_WELL && is_output_lost(process))
        return;
    bool is_same_anywhere = exit->exec_errno == E2BIG || is_usage(process);
    if (end == DEND_FATAL && !is_same_anywhere)
        end = absent_note(graph, process->job, process->seat.host, buf_text(&how));
    if (end == DEND_WELL)
        proof_begin(process);
    else
        process_judge(process, end, was_lost ? lost_text(process) : buf_text(&how));
}
