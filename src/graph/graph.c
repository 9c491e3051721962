/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster graph`: from the request to the exit status.
 */
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "graph/list/list.h"
#include "shell/hosts.h"
#include "store/lock.h"
#include "store/manifest.h"
#include "store/runs.h"
#include "version.h"

enum {
    CLAIMS_CHECKED = 1000 /* jobs whose outputs are looked at before a run begins */
};

/* ---- the shell's verb ---- */

/* No job starts any more. So none has to wait until the jobs on lost hosts have ended there. */
static void lost_let_go(struct graph *graph)
{
    for (struct process *process = graph->processes; process; process = process->next)
        process->not_before_ms = 0;
}

static void on_stop(void *context, enum shell_stop how)
{
    struct graph *graph = context;
    if (how == STOP_KILL) {
        graph_end_all(graph, END_AT_ONCE);
        return;
    }
    lost_let_go(graph);
    if (graph->dag)
        graph_tell(graph, (struct dag_event){.kind = DEV_STOP, .flag = how == STOP_WORKERS});
    else
        graph->is_over = true;
}

static void on_tick(void *context)
{
    struct graph *graph = context;
    if (!graph->dag) /* the run still waits for its hosts */
        return;
    device_watch_check(graph->watch);
    processes_tick(graph);
    graph_hosts_tick(graph);
    record_sync(graph);
    if (dag_wake_ms(graph->dag) <= shell_last_now(graph->shell))
        graph_tell(graph, (struct dag_event){.kind = DEV_TICK});
    report_progress(graph, false);
}

static void on_second(void *context)
{
    struct graph *graph = context;
    if (!graph->dag)
        return;
    for (const struct process *p = graph->processes; p; p = p->next)
        output_claim_answer(&p->proving.claim);
    device_watch_renew(graph->watch);
    record_flush(graph); /* samples, if nothing else */
    report_status(graph, NULL);
}

static void on_before_sleep(void *context)
{
    record_rest(context);
}

static const struct shell_verb graph_shell = {.name = "graph",
                                              .stop = on_stop,
                                              .tick = on_tick,
                                              .each_second = on_second,
                                              .before_sleep = on_before_sleep,
                                              .takes_seats = true,
                                              .takes_hosts = true,
                                              .finish_ms = graph_finish_ms,
                                              .order = graph_order};

/* ---- the folder ---- */

static void begin_note(const struct graph *graph, struct manifest *out)
{
    struct manifest before;
    out->started_wall_ms = clock_wall_ms();
    if (!graph->is_resumed || manifest_read(shell_run_dir(graph->shell), &before, NULL) != 0)
        return;
    out->started_wall_ms = before.started_wall_ms;
    out->order_wall_ms = before.order_wall_ms;
    manifest_release(&before);
}

/* The manifest has the last command, which a resume repeats. A resume also needs the standard input of that command. */
static int manifest_make(const struct graph *graph, struct err *err)
{
    const struct graph_request *request = graph->request;
    const char *const inputs[] = {request->file, NULL};
    cleanup_free char *input = path_join(shell_run_dir(graph->shell), GRAPH_INPUT);
    int rc = request->list && request->list->input.len > 0
                 ? file_replace(input, request->list->input, err)
                 : 0;
    struct manifest manifest = {.verb = "graph",
                                .argv = request->words,
                                .cwd = graph->cwd,
                                .inputs = inputs,
                                .version = MUSTER_VERSION,
                                .options_json = request->identity};
    begin_note(graph, &manifest);
    return rc ? rc : shell_manifest_write(graph->shell, &manifest, &graph->allocation, err);
}

static int unlocked_check(const char *dir, struct err *err)
{
    cleanup_free char *root = runs_root(NULL), *typed = run_typed_new(dir, root);
    if (!run_is_locked(dir, NULL))
        return 0;
    return fail(err, ERR_UNAVAILABLE,
                "this graph is going on as run %s: muster status %s shows it, muster add adds a "
                "job, muster stop %s ends it",
                path_basename(dir), typed, typed);
}

int graph_earlier_find(const struct graph_request *request, char **earlier, struct err *err)
{
    int rc = graph_run_find(request, earlier, err);
    return rc || !*earlier ? rc : unlocked_check(*earlier, err);
}

/* Locks and opens the run to go on with, or makes a new one with a manifest, by which other processes find it. */
static int folder_open(struct graph *graph, struct err *err)
{
    struct shell *shell = graph->shell;
    cleanup_free char *earlier = NULL;
    cleanup_fd int begin_fd = graph_begin_lock(graph->request);
    (void)begin_fd; /* held to the end of this function */
    int rc = graph_earlier_find(graph->request, &earlier, err);
    if (rc)
        return rc;
    const struct folder_wish wish = {earlier, graph->request->run_dir, graph->request->runs_dir};
    graph->is_resumed = earlier != NULL;
    rc = shell_folder_take(shell, &wish, err);
    if (rc == 0)
        rc = shell_store_open(shell, earlier ? STORE_RESUME : STORE_CREATE, err);
    if (rc)
        return rc;
    /* Drops orders to the earlier session, at once: new orders may come as soon as this session has the lock. */
    return earlier ? run_orders_drop(shell_run_dir(shell), err) : manifest_make(graph, err);
}

static int running_note(const struct graph *graph, struct err *err)
{
    int rc = store_set(shell_store(graph->shell), "state", "running", err);
    if (rc == 0)
        open_jobs_drop(graph);
    return rc;
}

static int folder_take(struct graph *graph, struct err *err)
{
    struct shell *shell = graph->shell;
    int rc = folder_open(graph, err);
    if (rc)
        return rc;
    device_locks_sign(&graph->allocation.locks, shell_run_id(shell));
    if (!graph->request->run_dir && run_mark_latest(shell_run_dir(shell), err) != 0)
        log_add(shell_log(shell), LOG_WARN, "graph", "%s", err->text);
    *err = (struct err){0};
    cleanup_free char *log_path = path_join(shell_run_dir(shell), "orchestrator.log");
    if (graph->is_resumed)
        rc = shell_orphans_await(shell, err);
    rc = rc ? rc : log_open(shell_log(shell), log_path, err);
    rc = rc ? rc : store_jobs_begin(shell_store(shell), err);
    return rc || graph->is_resumed ? rc : running_note(graph, err);
}

int graph_facts_set(const struct graph *graph, struct err *err)
{
    struct store *store = shell_store(graph->shell);
    cleanup_free char *n_jobs = xasprintf("%u", graph->n_jobs);
    return store_set(store, "items", n_jobs, err);
}

/* ---- the run ---- */

/* Reading the files of jobs may take long. No job runs yet, so a signal simply ends this process; at the end of the
 * run it does so too. */
static int past_read(struct graph *graph, struct err *err)
{
    struct sigaction before[END_SIGNALS];
    shell_signals_end(graph->shell, before);
    int rc = past_take(graph, err);
    shell_signals_restore(graph->shell, before);
    return rc;
}

/*
 * Notes that an earlier run goes on, in three steps: the run is not finished any more; the rows of jobs that run
 * again are committed; the manifest gets the new command. The rows come before the manifest, because a resume does
 * not repeat --redo. A wrong command has left the run as it was.
 */
static int session_note(struct graph *graph, struct err *err)
{
    int rc = running_note(graph, err);
    rc = rc ? rc : released_note(graph, err);
    if (rc)
        return rc;
    record_flush(graph);
    return shell_is_to_end(graph->shell) ? 0 : manifest_make(graph, err);
}

static int jobs_make(struct graph *graph, struct err *err)
{
    graph->n_jobs = graph->jobs_cap = graph->plan->n_jobs;
    graph->jobs = xcalloc(graph->n_jobs + 1, sizeof(*graph->jobs));
    for (uint32_t i = 0; i < graph->n_jobs; i++)
        graph->jobs[i].plan = &graph->plan->jobs[i];
    record_open(graph);
    int rc = graph->is_resumed ? added_read(graph, err) : 0;
    rc = rc ? rc : past_read(graph, err);
    rc = rc ? rc : graph_dag_make(graph, err);
    for (uint32_t i = 0; rc == 0 && i < graph->n_jobs; i++)
        rc = graph_dag_add(graph, i, err);
    rc = rc ? rc : graph_facts_set(graph, err);
    return rc || !graph->is_resumed ? rc : session_note(graph, err);
}

static int seats_take(struct graph *graph, struct err *err)
{
    struct allocation_wish wish = graph->request->allocation;
    wish.gpus_per_worker = wish.workers_per_gpu = 1;
    wish.sent = &graph->request->environment.env;
    wish.without_devices = wish.gpus && strcmp(wish.gpus, WISH_NO_DEVICES) == 0;
    int rc = shell_begin(graph->shell, &wish, &graph->allocation, err);
    if (rc == 0)
        graph_devices_watch(graph);
    return rc;
}

/*
 * Starts the keeper before the jobs are made: it is a fork of this process, and writing to memory that both share
 * takes time.
 */
static void keeper_begin(struct graph *graph)
{
    cleanup_free char *entry = xasprintf("MUSTER_RUN_DIR=%s", shell_run_dir(graph->shell));
    shell_keeper_start(graph->shell, &graph->allocation, entry, graph->request->grace_ms);
}

/*
 * Refuses to begin if another command is at work on the outs of the first CLAIMS_CHECKED jobs. Later jobs are checked
 * when they start.
 */
static int outs_check(const struct graph *graph, struct err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < MIN(graph->plan->n_jobs, (uint32_t)CLAIMS_CHECKED) && rc == 0; i++) {
        struct output_claim claim = OUTPUT_CLAIM_INIT;
        rc = job_outs_claim(&graph->plan->jobs[i], &claim, err);
        output_claim_release(&claim);
    }
    return rc;
}

static void run_begin(struct graph *graph)
{
    shell_display_open(graph->shell);
    device_watch_log(graph->watch);
    device_watch_begin(graph->watch);
    graph_hosts_hold(graph);
    hosts_losses_tell(shell_hosts(graph->shell));
    hosts_arrivals_tell(shell_hosts(graph->shell));
    report_memory(graph, "at the start");
    for (uint32_t i = 0; i < graph->n_jobs; i++)
        if (graph->jobs[i].is_cancelled)
            graph_tell_again(graph, (struct dag_event){.kind = DEV_CANCEL, .job = i});
    report_status(graph, NULL); /* replaces the state that the session before left */
    graph_tell(graph, (struct dag_event){.kind = DEV_TICK});
}

/* A job that one order added and another order cancelled: nothing is missing. */
static bool is_withdrawn(const struct graph *graph, uint32_t job, enum dag_state state)
{
    return job >= graph->plan->n_jobs && state == DAG_CANCELLED;
}

static bool any_left(const struct graph *graph, enum dag_state state)
{
    for (uint32_t i = 0; i < graph->n_jobs; i++)
        if (graph->jobs[i].is_wanted && dag_job_view(graph->dag, i).state == state &&
            !is_withdrawn(graph, i, state))
            return true;
    return false;
}

static int outcome(const struct graph *graph)
{
    const struct shell_end *end = shell_end(graph->shell);
    static const enum dag_state bad[] = {DAG_FAILED, DAG_BLOCKED, DAG_UNFIT, DAG_CANCELLED};
    if (end->signal)
        return 128 + end->signal;
    if (end->err.code)
        return end->status ? end->status : err_exit_status(end->err.code);
    for (size_t i = 0; i < countof(bad); i++)
        if (any_left(graph, bad[i]))
            return end->status ? end->status : 1;
    if (any_left(graph, DAG_READY) || any_left(graph, DAG_WAITS))
        return err_exit_status(ERR_STOPPED);
    return 0;
}

static const char *state_of(int status)
{
    return status == 0 ? "finished" : status == 1 ? "failed" : "stopped";
}

static void rows_keep(struct graph *graph)
{
    record_flush(graph);
    record_sync(graph);
}

static void files_look(struct graph *graph)
{
    struct sigaction before[END_SIGNALS];
    shell_signals_end(graph->shell, before);
    spoilt_find(graph);
    shell_signals_restore(graph->shell, before);
    rows_keep(graph);
}

static int run_end(struct graph *graph)
{
    char text[24];
    struct err err = {0};
    rows_keep(graph); /* before files_look(), which a signal may end */
    remembered_keep(graph);
    if (outcome(graph) <= 1) /* else the run is to be resumed, and begins with such a look */
        files_look(graph);
    int status = outcome(graph); /* a row that could not be written may have changed it */
    if (status <= 1 && graph->n_spoilt > 0)
        status = 1;
    report_memory(graph, "at the end");
    console_flush(shell_console(graph->shell), shell_now(graph->shell), true);
    shell_progress_end(graph->shell);
    shell_reap(graph->shell);
    snprintf(text, sizeof(text), "%d", status);
    open_jobs_write(graph);
    report_status(graph, state_of(status));
    /* The state comes last: whoever sees that the run has ended finds all of the above. */
    if (store_set(shell_store(graph->shell), "state", state_of(status), &err) != 0 ||
        store_set(shell_store(graph->shell), "exit", text, &err) != 0)
        log_add(shell_log(graph->shell), LOG_WARN, "graph", "the end could not be recorded: %s",
                err.text);
    report_summary(graph, status);
    return status;
}

static int run_all(struct graph *graph, int ready_fd, struct err *err)
{
    int rc = seats_take(graph, err);
    rc = rc ? rc : folder_take(graph, err);
    if (rc == 0)
        keeper_begin(graph);
    rc = rc ? rc : jobs_make(graph, err);
    bool has_begun = rc == 0;
    if (has_begun) {
        if (ready_fd >= 0)
            shell_detach_end(graph->shell, ready_fd, false);
        run_begin(graph);
        while (!graph->is_over || graph->n_processes > 0 || graph_awaits_hosts(graph) ||
               print_is_due(graph))
            shell_turn(graph->shell);
        rc = run_end(graph);
    }
    device_watch_end(graph->watch);
    shell_close(graph->shell);
    shell_display_close(graph->shell);
    log_close(shell_log(graph->shell));
    if (!has_begun)
        shell_folder_unmake(graph->shell);
    return rc;
}

void graph_release(struct graph *graph)
{
    device_watch_free(graph->watch);
    record_close(graph);
    print_free(graph);
    learned_close(graph);
    dag_free(graph->dag);
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        free(graph->jobs[i].end);
        free(graph->jobs[i].left);
        free(graph->jobs[i].spoilt);
    }
    free(graph->jobs);
    free(graph->devices);
    graph_hosts_release(graph);
    free(graph->events.at);
    buf_release(&graph->stale);
    buf_release(&graph->released);
    plan_release(&graph->added);
    allocation_release(&graph->allocation);
    shell_free(graph->shell);
    free(graph->cwd);
}

int graph_run(struct log *log, const char *self_path, const struct graph_request *request,
              struct plan *plan, struct err *err)
{
    cleanup_free char *earlier = NULL;
    int ready_fd = -1;
    log->console_quiet = request->is_quiet;
    struct graph graph = {.request = request, .plan = plan, .cwd = path_cwd()};
    graph.shell = shell_new(&(struct shell_setup){.verb = &graph_shell,
                                                  .context = &graph,
                                                  .log = log,
                                                  .self_path = self_path,
                                                  .is_quiet = request->is_quiet,
                                                  .has_color = request->has_color,
                                                  .on_finish = request->on_finish,
                                                  .limit_ms = request->limit_ms});
    int rc = shell_files_check(err);
    rc = rc ? rc : graph_earlier_find(request, &earlier, err); /* before the devices are taken */
    rc = rc ? rc : outs_check(&graph, err);
    if (rc == 0 && request->detach)
        rc = shell_detach(graph.shell, &ready_fd, err);
    if (rc == 0)
        rc = run_all(&graph, ready_fd, err);
    if (rc >= 0)
        shell_hook_run(graph.shell);
    graph_release(&graph);
    return rc;
}
