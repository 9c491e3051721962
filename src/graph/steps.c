/* SPDX-License-Identifier: Apache-2.0
 *
 * The dag's events and actions.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

enum {
    HALVINGS_MAX = 32
};

/* ---- jobs ---- */

uint64_t job_memory_wanted(const struct graph *graph, const struct graph_job *job)
{
    uint64_t wanted = job->plan->devices.mem_bytes;
    if (job->plan->devices.n_max == 0 ||
        (!graph->has_memory && !graph->request->allocation.hosts)) /* other hosts may have some */
        return 0;
    if (wanted != PLAN_MEMORY_AUTO)
        return wanted;
    /*
     * A margin over the peak that was seen: the next run may need a little more. But never more than the largest
     * device has: the peak may be of another machine, or of a device that it nearly filled.
     */
    wanted = job->expected_mem_bytes + job->expected_mem_bytes / 8;
    uint64_t largest = wanted > 0 ? graph_memory_max(graph) : 0;
    return largest > 0 ? MIN(wanted, largest) : wanted;
}

/*
 * How often the batch can be halved. PLAN_BATCH_AUTO becomes a number only when the job starts; if that cannot be
 * halved any more, the job fails then.
 */
static uint32_t halvings_of(const struct plan_job *plan)
{
    uint32_t n = 0;
    for (uint64_t batch = plan->batch; batch > 1 && n < HALVINGS_MAX; batch /= 2)
        n++;
    return n;
}

static struct dag_want want_of(const struct graph *graph, const struct graph_job *job,
                               uint32_t place)
{
    const struct plan_devices *devices = &job->plan->devices;
    return (struct dag_want){.n_devices_min = devices->n_min,
                             .n_devices_max = devices->n_max,
                             .share = devices->share,
                             .mem_bytes = job_memory_wanted(graph, job),
                             .place = place,
                             .n_cpus = plan_job_cpus(job->plan)};
}

int graph_dag_add(struct graph *graph, uint32_t i, struct err *err)
{
    struct graph_job *job = &graph->jobs[i];
    const struct plan_job *plan = job->plan;
    bool is_done = job->was_done && !job->is_stale;
    uint32_t place;
    int rc = !is_done && job->is_wanted ? job_devices_check(graph, plan, err) : 0;
    rc = rc ? rc : job_place(graph, plan, &place, err);
    if (rc)
        return rc;
    job->place = (uint16_t)place;
    const struct dag_job added = {.want = want_of(graph, job, place),
                                  .priority = plan->priority,
                                  .n_retries = plan->n_retries,
                                  .n_batch_steps = halvings_of(plan),
                                  .n_halvings = job->n_halvings,
                                  .expected_ms = job->expected_ms,
                                  .is_done = is_done,
                                  .is_held = !is_done && (!job->is_wanted || job->is_held),
                                  .needs = plan->needs,
                                  .n_needs = plan->n_needs};
    uint32_t number = dag_add(graph->dag, &added);
    if (number == DAG_NO_JOB)
        return fail(err, ERR_STOPPED, "out of memory for %u jobs", graph->n_jobs);
    ASSERT(number == i);
    return 0;
}

/* ---- what the dag wants ---- */

static void on_start(struct graph *graph, const struct dag_action *action)
{
    if (!absent_is_known(graph, action->job, dag_placement(graph->dag, action->job).host))
        process_start(graph, action->job);
}

static void on_end(struct graph *graph, const struct dag_action *action)
{
    struct process *process = graph->jobs[action->job].process;
    if (process && (process->worker || process->preparation))
        process_end(process, END_POLITELY);
}

static const char *settled_text(enum dag_state state)
{
    return state == DAG_FAILED      ? "failed for good"
           : state == DAG_CANCELLED ? "is cancelled"
           : state == DAG_UNFIT     ? "cannot run here: it needs more than there is"
                                    : "is done";
}

static void on_settled(struct graph *graph, const struct dag_action *action)
{
    static const enum job_state row_of[DAG_STATES] = {
        [DAG_DONE] = JOB_DONE, [DAG_FAILED] = JOB_FAILED, [DAG_CANCELLED] = JOB_CANCELLED};
    struct graph_job *job = &graph->jobs[action->job];
    enum dag_state state = dag_job_view(graph->dag, action->job).state;
    if (state == DAG_DONE) {
        graph->n_done_here++;
        return; /* the row was noted with its proof */
    }
    if (row_of[state] != JOB_NONE)
        record_job(graph, action->job, row_of[state], NULL);
    log_add(shell_log(graph->shell), state == DAG_CANCELLED ? LOG_WARN : LOG_ERROR, "graph",
            "%s %s%s%s", job->plan->name, settled_text(state), job->end ? ": " : "",
            job->end ? job->end : "");
}

static void on_bench(struct graph *graph, const struct dag_action *action)
{
    cleanup_buf struct buf label = BUF_INIT;
    allocation_label_add(&graph->allocation, action->device, &label);
    log_add(shell_log(graph->shell), LOG_WARN, "graph",
            "%s is not used any more: several jobs found it ill", buf_text(&label));
    record_device_event(graph, "bench", action->device);
}

static void (*const handlers[])(struct graph *graph, const struct dag_action *action) = {
    [DACT_START] = on_start,
    [DACT_END] = on_end,
    [DACT_SETTLED] = on_settled,
    [DACT_BENCH] = on_bench,
};

/* ---- events ---- */

static void event_keep(struct graph *graph, const struct dag_event *event)
{
    if (graph->events.len == graph->events.cap) {
        graph->events.cap = MAX(2 * graph->events.cap, (size_t)64);
        graph->events.at =
            xrealloc(graph->events.at, graph->events.cap * sizeof(*graph->events.at));
    }
    graph->events.at[graph->events.len++] = *event;
}

/* The name of an event in run.db; NULL for events that other tables have, such as starts and good ends. */
static const char *kind_of(const struct dag_event *event)
{
    static const char *const kinds[] = {[DEV_HOLD] = "hold",
                                        [DEV_RELEASE] = "release",
                                        [DEV_CANCEL] = "cancel",
                                        [DEV_RETRY] = "retry"};
    bool is_bad = event->end != DEND_WELL && event->end != DEND_ENDED;
    if (event->kind == DEV_ENDED)
        return event->end == DEND_OOM ? "oom" : is_bad ? "died" : NULL;
    return event->kind < countof(kinds) ? kinds[event->kind] : NULL;
}

void graph_tell(struct graph *graph, struct dag_event event)
{
    const char *kind = kind_of(&event);
    if (event.kind == DEV_STOP)
        record_event(graph, "halt", "run", shell_run_id(graph->shell),
                     event.flag ? "ended" : "stopped");
    if (kind)
        record_event(graph, kind, "job", graph->jobs[event.job].plan->name,
                     event.kind == DEV_ENDED ? graph->jobs[event.job].end : NULL);
    graph_tell_again(graph, event);
}

/* Carrying out an action may bring further events; they are kept until the action is done. */
void graph_tell_again(struct graph *graph, struct dag_event event)
{
    const struct dag_action *actions;
    if (shell_verb_is_away(graph->shell)) /* the run is over; its hosts are being left */
        return;
    event_keep(graph, &event);
    if (graph->events.is_handled)
        return;
    graph->events.is_handled = true;
    for (size_t at = 0; at < graph->events.len; at++) {
        graph->events.at[at].now_ms = shell_now(graph->shell);
        size_t n_actions = dag_step(graph->dag, &graph->events.at[at], &actions);
        graph->is_over = dag_view(graph->dag).is_over;
        for (size_t i = 0; i < n_actions; i++)
            if (actions[i].kind != DACT_OVER)
                handlers[actions[i].kind](graph, &actions[i]);
    }
    graph->events.len = 0;
    graph->events.is_handled = false;
}

void graph_end_all(struct graph *graph, enum worker_end how)
{
    for (struct process *process = graph->processes; process; process = process->next)
        process_end(process, how);
}
