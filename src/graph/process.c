/* SPDX-License-Identifier: Apache-2.0
 *
 * A job as a process: its start, its output, and what its end means.
 */
#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/rng.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "graph/joblog.h"
#include "graph/list.h"

enum {
    TAIL_BYTES = 4096,
    COPY_BYTES = 64 * 1024,
    STATUS_REFUSED = 127,             /* of a shell that finds no such command */
    CLOCK_SLACK_NS = 20 * 1000 * 1000 /* the file system's clock may be behind by a tick */
};

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
    struct err err = {0};
    if (*file)
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
    if (logfile_open(file, &opts, &err) != 0)
        log_add(process->graph->shell.log, LOG_WARN, "graph", "%s: its output is not kept: %s",
                name_of(process), err.text);
    return *file;
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

static char *number_new(uint64_t value)
{
    return xasprintf("%lu", value);
}

/* "--gpus" of muster's own verbs: those of the job, which is all that they see. */
static void devices_spec_add(const struct process *process, struct env_list *words)
{
    const struct graph *graph = process->graph;
    size_t n = process->seat.n_devices;
    const struct device *first =
        n > 0 ? &graph->allocation.devices.at[process->seat.devices[0]] : NULL;
    char *spec = !first                      ? xstrdup("cpu:1")
                 : first->kind == DEVICE_CPU ? xasprintf("cpu:%zu", n)
                                             : xstrdup("all");
    env_list_add(words, xstrdup("--gpus"));
    env_list_add(words, spec);
}

struct values {
    char *batch, *seed, *attempt, *slot, *gpu, *gpus, *gpu_uuid;
};

/* It stays when other jobs are added to the file. */
static uint64_t job_seed(const struct process *process)
{
    const char *name = name_of(process);
    return item_seed(process->graph->base_seed, XXH3_64bits(name, strlen(name)));
}

static void values_make(const struct process *process, struct values *out)
{
    const struct graph *graph = process->graph;
    cleanup_buf struct buf gpus = BUF_INIT;
    const struct device *first = NULL;
    for (size_t i = 0; i < process->seat.n_devices; i++) {
        const struct device *device = &graph->allocation.devices.at[process->seat.devices[i]];
        first = first ? first : device;
        buf_addf(&gpus, "%s%d", i > 0 ? "," : "", device->index);
    }
    *out = (struct values){.batch = number_new(process->batch),
                           .seed = number_new(job_seed(process)),
                           .attempt = number_new(process->attempt),
                           .slot = number_new(process->seat.n_devices > 0 ? process->devices[0] + 1u
                                                                          : graph->n_processes),
                           .gpu = first ? xasprintf("%d", first->index) : xstrdup(""),
                           .gpus = xstrdup(buf_text(&gpus)),
                           .gpu_uuid = xstrdup(first ? first->uuid : "")};
}

static void values_release(struct values *values)
{
    free(values->batch);
    free(values->seed);
    free(values->attempt);
    free(values->slot);
    free(values->gpu);
    free(values->gpus);
    free(values->gpu_uuid);
}

static int words_fill(const struct process *process, const char *const *templates,
                      const struct values *values, struct env_list *out, struct err *err)
{
    const struct fill fills[] = {{"batch", values->batch},
                                 {"seed", values->seed},
                                 {"attempt", values->attempt},
                                 {"slot", values->slot},
                                 {"gpu", values->gpu},
                                 {"gpus", values->gpus},
                                 {"gpu_uuid", values->gpu_uuid},
                                 {"job", name_of(process)},
                                 {"run_dir", process->graph->shell.run_dir},
                                 {"muster", process->graph->shell.self_path}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && templates && templates[i]; i++) {
        struct buf word = BUF_INIT;
        rc = placeholders_fill(templates[i], fills, countof(fills), &word, err);
        env_list_add(out, xstrdup(buf_text(&word)));
        buf_release(&word);
    }
    return rc;
}

/* A muster that is the job takes the devices that this one has locked. */
static void locks_hand_down(const struct process *process, struct env_list *env)
{
    struct buf entry = BUF_INIT;
    buf_add_text(&entry, LOCK_HANDED_DOWN "=");
    for (size_t i = 0; i < process->seat.n_devices; i++)
        buf_addf(&entry, "%s%s", i > 0 ? "," : "",
                 process->graph->allocation.devices.at[process->seat.devices[i]].uuid);
    env_set(env, buf_steal(&entry));
}

static void environment_make(const struct process *process, const struct values *values,
                             const struct env_list *of_job, struct env_list *env)
{
    const struct graph *graph = process->graph;
    static const char *const of_workers[] = {"MUSTER_CHANNEL", "MUSTER_WORKER", "MUSTER_WORKERS"};
    env_inherit(env);
    for (size_t i = 0; i < countof(of_workers); i++) /* of a muster which started this one */
        env_unset(env, of_workers[i]);
    seat_devices_add(&graph->allocation, &process->seat, env);
    if (!env_get(env, "PYTHONUNBUFFERED"))
        env_set(env, xstrdup("PYTHONUNBUFFERED=1"));
    environment_wish_apply(&graph->request->environment, env);
    if (job_of(process)->plan->kind != PLAN_RUN)
        locks_hand_down(process, env);
    env_set(env, xasprintf("MUSTER_RUN_ID=%s", graph->shell.run_id));
    env_set(env, xasprintf("MUSTER_RUN_DIR=%s", graph->shell.run_dir));
    env_set(env, xasprintf("MUSTER_JOB=%s", name_of(process)));
    env_set(env, xasprintf("MUSTER_SEED=%s", values->seed));
    env_set(env, xasprintf("MUSTER_ATTEMPT=%u", process->attempt));
    env_set(env, xasprintf("MUSTER_BATCH=%lu", process->batch));
    for (size_t i = 0; i < of_job->len; i++) {
        const char *entry = of_job->at[i];
        if (strchr(entry, '='))
            env_set(env, xstrdup(entry));
        else
            env_unset(env, entry);
    }
    env_end(env);
}

static void on_gone(void *context, const struct worker_exit *exit);

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

static int worker_spawn(struct process *process, const struct env_list *words,
                        const struct env_list *env, struct err *err)
{
    static const struct worker_handlers handlers = {
        .output = on_output, .gone = on_gone, .warned = on_warned, .failed = on_failed};
    struct graph *graph = process->graph;
    struct env_list command = {0};
    int held[LOCK_FDS_MAX];
    environment_command(&graph->request->environment, (const char *const *)words->at, &command);
    const struct spawn_request request = {
        .argv = (const char *const *)command.at,
        .envp = (const char *const *)env->at,
        .cwd = job_of(process)->plan->cwd,
        .seat = &process->seat,
        .grace_ms = graph->request->grace_ms,
        .held_fds = held,
        .n_held_fds = device_locks_fds(&graph->allocation.locks, process->seat.devices,
                                       process->seat.n_devices, held),
        .handlers = &handlers,
        .context = process};
    int rc = node_spawn(graph->shell.node, &request, &process->worker, err);
    env_list_release(&command);
    return rc;
}

static void command_keep(struct process *process, const struct env_list *words)
{
    struct buf text = BUF_INIT;
    joblog_command_add(&text, (const char *const *)words->at);
    process->command = buf_steal(&text);
}

static int command_start(struct process *process, struct err *err)
{
    const struct plan_job *plan = job_of(process)->plan;
    struct env_list filled = {0}, words = {0}, of_job = {0}, env = {0};
    struct values values;
    values_make(process, &values);
    int rc = words_fill(process, plan->argv, &values, &filled, err);
    rc = rc ? rc : words_fill(process, plan->env, &values, &of_job, err);
    if (rc == 0) {
        bool takes_devices = plan->kind == PLAN_MAP || plan->kind == PLAN_LAUNCH;
        for (size_t i = 0; i < filled.len; i++) {
            env_list_add(&words, xstrdup(filled.at[i]));
            if (takes_devices && i == 1) /* "muster map" */
                devices_spec_add(process, &words);
        }
        env_end(&words);
        if (process->graph->request->joblog)
            command_keep(process, &words);
        environment_make(process, &values, &of_job, &env);
        rc = worker_spawn(process, &words, &env, err);
    }
    values_release(&values);
    env_list_release(&filled);
    env_list_release(&words);
    env_list_release(&of_job);
    env_list_release(&env);
    return rc;
}

static char *input_path_new(const struct plan_job *plan, const char *path)
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
        cleanup_free char *path = input_path_new(plan, plan->inputs[i]);
        if (stat(path, &process->proving.inputs_before[i]) != 0)
            process->proving.inputs_before[i] = (struct stat){0};
    }
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

void process_start(struct graph *graph, uint32_t number)
{
    struct graph_job *job = &graph->jobs[number];
    struct dag_placement placement = dag_placement(graph->dag, number);
    struct process *process = xcalloc(1, sizeof(*process));
    struct err err = {0};
    cleanup_buf struct buf where = BUF_INIT;
    *process = (struct process){.graph = graph,
                                .job = number,
                                .next = graph->processes,
                                .attempt = job->attempts_before + placement.attempt,
                                .batch = MAX(job->plan->batch >> placement.n_halvings, 1u),
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
    rc = rc ? rc : results_begin(process, &err);
    rc = rc ? rc : command_start(process, &err);
    log_add(graph->shell.log, LOG_INFO, "graph", "%s: attempt %u starts%s%s%s", job->plan->name,
            process->attempt, where.len > 0 ? " on " : "", buf_text(&where),
            placement.oom_step == OOM_STEP_BATCH ? ", with a smaller batch"
            : placement.oom_step > OOM_STEP_NONE ? ", alone on its devices"
                                                 : "");
    if (rc == ERR_STOPPED) /* the machine lacks descriptors or processes */
        process_judge(process, DEND_LOST, err.text);
    else if (rc)
        process_judge(process, DEND_FATAL, err.text);
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

static void log_copy(const struct process *process, const char *which, uint64_t skipped, int to)
{
    cleanup_free char *path = log_path_new(process, which), *piece = xmalloc(COPY_BYTES);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 0;
    for (off_t at = (off_t)skipped; fd >= 0 && (got = pread(fd, piece, COPY_BYTES, at)) > 0;
         at += got)
        if (write_all(to, piece, (size_t)got, NULL) != 0)
            return; /* nobody reads it; the file has it */
}

/* Job by job, so that lines of several do not mix. */
static void output_print(struct process *process)
{
    if (!process->graph->request->prints)
        return;
    bool has_out = process->out, has_errors = process->errors;
    logfile_close(steal_ptr(&process->out));
    logfile_close(steal_ptr(&process->errors));
    if (has_out)
        log_copy(process, "stdout", process->out_before, STDOUT_FILENO);
    if (has_errors)
        log_copy(process, "stderr", process->errors_before, STDERR_FILENO);
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
        job->begun_wall_ms = 0;
        record_job(graph, process->job, JOB_DONE, process);
    } else if (end != DEND_ENDED) {
        log_add(graph->shell.log, LOG_INFO, "graph", "%s: attempt %u ended: %s", job->plan->name,
                process->attempt, text ? text : "");
    }
    record_attempt(graph, process);
    joblog_note(process);
    output_print(process);
    process_seat_ended(process);
    if (process_memory_is_back(process))
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
        snprintf(text, sizeof(text), "it ended with status 0, but %.300s", why->text);
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
                           .is_given_up = &process->proving.is_given_up};
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
    exit_format(end, exit->exit_code, exit->exit_signal);
    if (process->is_late)
        buf_addf(out, "it took longer than its timeout");
    else if (death == DEATH_NOT_STARTED)
        buf_addf(out, "it could not be executed: %s", errno_text(exit->exec_errno));
    else if (death == DEATH_FAILED || death == DEATH_CRASHED || death == DEATH_ENDED_BY_US)
        buf_addf(out, "%s", end);
    else
        buf_addf(out, "%s, %s", end, death_text(death));
    if (death != DEATH_ENDED_BY_US)
        last_line_add(tail, out);
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
    if (end == DEND_WELL)
        proof_begin(process);
    else
        process_judge(process, end, was_lost ? "its guard was killed" : buf_text(&how));
}

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
        if (process->is_settled && process_memory_is_back(process))
            process_settle(process);
    }
}
