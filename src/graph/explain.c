/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job waits for, or how it ended, with numbers.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

enum {
    DEVICES_SHOWN = 8,
    NEEDS_SHOWN = 3
};

static const char *name_at(const struct graph *graph, uint32_t job)
{
    return graph->jobs[job].plan->name;
}

/* "8 CPUs and 2 devices of *H200* with 40 GiB free on a host of node*" */
static void want_add(const struct graph *graph, const struct graph_job *of, struct buf *out)
{
    const struct plan_job *job = of->plan;
    const struct plan_devices *devices = &job->devices;
    char memory[16];
    uint32_t n_cpus = plan_job_cpus(job);
    uint64_t mem_bytes = graph->has_memory ? job_memory_wanted(graph, of) : 0;
    if (n_cpus > 0)
        buf_addf(out, "%u CPU%s%s", n_cpus, plural(n_cpus), devices->n_max > 0 ? " and " : "");
    if (devices->n_min != devices->n_max)
        buf_addf(out, "%u to %u devices", devices->n_min, devices->n_max);
    else if (devices->n_max > 0)
        buf_addf(out, "%u device%s", devices->n_min, plural(devices->n_min));
    if (devices->n_max > 0 && job->device_names)
        buf_addf(out, " of %s", job->device_names);
    if (devices->share > 0)
        buf_addf(out, " to %u %%", devices->share / 10);
    if (mem_bytes > 0) {
        size_format(memory, mem_bytes);
        buf_addf(out, " with %s free", memory);
    }
    if (job->hosts)
        buf_addf(out, " on a host of %s", job->hosts);
}

static void device_add(const struct graph *graph, uint32_t chosen, struct buf *out)
{
    struct dag_device_view view = dag_device_view(graph->dag, chosen);
    char left[16];
    allocation_label_add(&graph->allocation, chosen, out);
    if (!view.is_up || view.is_benched)
        buf_add_text(out, view.is_benched ? " is not used any more" : " is lost");
    else if (view.n_jobs == 0)
        buf_add_text(out, " is free");
    else if (view.mem_bytes > 0 && view.mem_reserved_bytes > 0) {
        size_format(left, view.mem_bytes - MIN(view.mem_reserved_bytes, view.mem_bytes));
        buf_addf(out, " has %s", left);
    } else
        buf_addf(out, " has %u job%s", view.n_jobs, plural(view.n_jobs));
}

/* "3 of 16 CPUs are free", of each host; without is_free, how many CPUs there are. */
static void host_cpus_add(const struct graph *graph, uint32_t host, bool is_free, struct buf *out)
{
    struct dag_host_view view = dag_host_view(graph->dag, host);
    if (graph->fleet.n_hosts > 1)
        buf_addf(out, "%s: ", host_label(graph, host));
    if (!view.is_up)
        buf_add_text(out, "lost");
    else if (is_free)
        buf_addf(out, "%u of %u CPU%s free", view.n_cpus - MIN(view.n_cpus_used, view.n_cpus),
                 view.n_cpus, plural(view.n_cpus));
    else
        buf_addf(out, "%u CPU%s", view.n_cpus, plural(view.n_cpus));
}

/* The CPUs of the hosts that the job may use; is_free as above. */
static void cpus_add(const struct graph *graph, const struct graph_job *job, bool is_free,
                     struct buf *out)
{
    uint32_t n_shown = 0;
    for (uint32_t host = 0; host < graph->fleet.n_hosts; host++) {
        if (!graph->fleet.hosts[host].is_known || dag_host_view(graph->dag, host).n_cpus == 0 ||
            (is_free && !place_has_host(graph, job->place, host)))
            continue;
        if (n_shown++ >= DEVICES_SHOWN)
            continue;
        buf_add_text(out, n_shown > 1 ? ", " : "");
        host_cpus_add(graph, host, is_free, out);
    }
    if (n_shown > DEVICES_SHOWN)
        buf_addf(out, " and %u more", n_shown - DEVICES_SHOWN);
}

static void devices_add(const struct graph *graph, const struct graph_job *job, struct buf *out)
{
    uint32_t n_shown = 0;
    for (uint32_t i = 0; i < graph->fleet.n_devices; i++) {
        if (!place_has_device(graph, job->place, i) || n_shown++ >= DEVICES_SHOWN)
            continue;
        buf_add_text(out, n_shown > 1 ? ", " : "");
        device_add(graph, i, out);
    }
    if (n_shown > DEVICES_SHOWN)
        buf_addf(out, " and %u more", n_shown - DEVICES_SHOWN);
}

/* What is free of the CPUs and devices that the job wants. */
static void offers_add(const struct graph *graph, const struct graph_job *job, struct buf *out)
{
    bool wants_devices = job->plan->devices.n_max > 0;
    if (plan_job_cpus(job->plan) > 0)
        cpus_add(graph, job, true, out);
    buf_add_text(out, wants_devices && plan_job_cpus(job->plan) > 0 ? "; " : "");
    if (wants_devices)
        devices_add(graph, job, out);
}

static uint32_t devices_of_host(const struct graph *graph, uint32_t host)
{
    const struct allocation *a = &graph->allocation;
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->fleet.n_devices; i++)
        n +=
            a->hosts[allocation_host_of(a, i)].node == host && dag_device_view(graph->dag, i).is_up;
    return n;
}

/* "2 devices with at most 141 GiB", of several hosts "node1: 2 devices, node2: 4 devices". */
static void device_counts_add(const struct graph *graph, const struct plan_job *job,
                              struct buf *out)
{
    uint32_t n_shown = 0;
    char most[16];
    for (uint32_t host = 0; host < graph->fleet.n_hosts; host++) {
        uint32_t n = devices_of_host(graph, host);
        bool is_one_of_many = graph->fleet.n_hosts > 1;
        if ((is_one_of_many && n == 0) || n_shown++ >= DEVICES_SHOWN)
            continue;
        buf_addf(out, "%s%s%s%u device%s", n_shown > 1 ? ", " : "",
                 is_one_of_many ? host_label(graph, host) : "", is_one_of_many ? ": " : "", n,
                 plural(n));
    }
    buf_add_text(out, n_shown == 0 ? "0 devices" : "");
    if (n_shown > DEVICES_SHOWN)
        buf_addf(out, " and %u host%s more", n_shown - DEVICES_SHOWN,
                 plural(n_shown - DEVICES_SHOWN));
    if (job->devices.mem_bytes == 0 || graph_memory_max(graph) == 0)
        return;
    size_format(most, graph_memory_max(graph));
    buf_addf(out, " with at most %s", most);
}

static void hosts_add(const struct graph *graph, struct buf *out)
{
    uint32_t n_shown = 0;
    buf_add_text(out, "; the run has ");
    for (uint32_t host = 0; host < graph->fleet.n_hosts; host++) {
        if (!graph->fleet.hosts[host].is_known || n_shown++ >= DEVICES_SHOWN)
            continue;
        buf_addf(out, "%s%s", n_shown > 1 ? ", " : "", host_label(graph, host));
    }
    if (n_shown > DEVICES_SHOWN)
        buf_addf(out, " and %u more", n_shown - DEVICES_SHOWN);
}

static void unfit_add(const struct graph *graph, const struct graph_job *of, struct buf *out)
{
    const struct plan_job *job = of->plan;
    bool counts_cpus = plan_job_cpus(job) > 1, wants_devices = job->devices.n_max > 0;
    buf_add_text(out, "cannot run here: it needs ");
    want_add(graph, of, out);
    buf_add_text(out, counts_cpus || wants_devices ? "; the run has " : "");
    if (counts_cpus)
        cpus_add(graph, of, false, out);
    buf_add_text(out, counts_cpus && wants_devices ? " and " : "");
    if (wants_devices)
        device_counts_add(graph, job, out);
    if (!counts_cpus && !wants_devices && job->hosts)
        hosts_add(graph, out);
}

static void again_add(const char *verb, const char *job, bool has_ended, struct buf *out)
{
    buf_addf(out, "; muster %s %s%s lets it run", verb, job,
             has_ended ? ", then the same command," : "");
}

void held_explain(const char *job, bool has_ended, struct buf *out)
{
    buf_add_text(out, "held");
    again_add("release", job, has_ended, out);
}

void cancelled_explain(const char *job, bool has_ended, struct buf *out)
{
    buf_add_text(out, "cancelled");
    again_add("retry", job, has_ended, out);
}

static void start_add(const struct graph *graph, const struct dag_job_view *view, struct buf *out)
{
    char left[24];
    uint64_t now_ms = shell_last_now(graph->shell);
    if (view->start_by_ms == 0)
        return;
    duration_format(left, view->start_by_ms > now_ms ? view->start_by_ms - now_ms : 0);
    buf_addf(out, "; next in about %s", left);
}

/* Does the job wait because of -j? How long that lasts is not known. */
static bool limit_add(const struct graph *graph, struct buf *out)
{
    struct dag_view view = dag_view(graph->dag);
    uint64_t max = graph->request->n_running_max, n = view.n_of[DAG_RUNS] + view.n_of[DAG_ENDS];
    if (max == 0 || n < max)
        return false;
    buf_addf(out, "; %lu job%s, and -j allows no more", n, n == 1 ? " runs" : "s run");
    return true;
}

/* The run was stopped, or ended with the first failure: a job does not wait for lack of devices. */
static bool is_called_off(const struct graph *graph)
{
    struct dag_view view = dag_view(graph->dag);
    bool is_halted = graph->request->halts && view.n_of[DAG_FAILED] > 0;
    return graph->is_over && (view.is_stopped || is_halted);
}

static void ready_add(const struct graph *graph, uint32_t job, const struct dag_job_view *view,
                      struct buf *out)
{
    if (view->is_held) {
        held_explain(name_at(graph, job), graph->is_over, out);
        return;
    }
    if (graph->is_over && graph->jobs[job].was_cut) {
        buf_add_text(out, "ended with the run while it ran; it runs again when the graph goes on");
        return;
    }
    if (is_called_off(graph)) {
        buf_add_text(out, "ready; it runs when the graph goes on");
        return;
    }
    buf_add_text(out, "ready; needs ");
    want_add(graph, &graph->jobs[job], out);
    buf_add_text(out, ": ");
    offers_add(graph, &graph->jobs[job], out);
    if (limit_add(graph, out))
        return;
    buf_add_text(out, view->is_head ? "; devices are kept free for it" : "");
    start_add(graph, view, out);
}

static bool is_open(enum dag_state state)
{
    return state != DAG_DONE;
}

static void waits_add(const struct graph *graph, uint32_t job, const struct dag_job_view *view,
                      struct buf *out)
{
    const struct plan_job *plan = graph->jobs[job].plan;
    uint32_t n_shown = 0;
    buf_add_text(out, "waits for ");
    for (uint32_t i = 0; i < plan->n_needs && n_shown < NEEDS_SHOWN; i++) {
        struct dag_job_view needed = dag_job_view(graph->dag, plan->needs[i]);
        if (is_open(needed.state))
            buf_addf(out, "%s%s%s", n_shown++ > 0 ? ", " : "", name_at(graph, plan->needs[i]),
                     needed.state == DAG_RUNS ? " (it runs)"
                     : needed.is_held         ? " (it is held)"
                                              : "");
    }
    if (view->n_needs_left > n_shown)
        buf_addf(out, " and %u more", view->n_needs_left - n_shown);
    if (view->is_held)
        buf_add_text(out, "; and is held");
    else if (!graph->is_over)
        chain_explain(graph, job, out);
}

static void log_add_line(const struct graph *graph, uint32_t job, struct buf *out)
{
    cleanup_free char *name = job_log_name_new(name_at(graph, job));
    cleanup_free char *path = xasprintf("%s/logs/%s_stderr.log", shell_run_dir(graph->shell), name);
    buf_add_text(out, "\n   ");
    if (path_exists(path)) /* no file: it printed nothing, or never began */
        buf_addf(out, "log: %s   ", path);
    buf_add_text(out, "again: ");
    if (graph->is_over)
        buf_add_text(out, "the same command");
    else
        buf_addf(out, "muster retry %s", name_at(graph, job));
}

static void failed_add(const struct graph *graph, uint32_t job, const struct dag_job_view *view,
                       struct buf *out)
{
    const struct graph_job *of = &graph->jobs[job];
    buf_addf(out, "failed %u of %u", view->n_failures, MAX(view->n_attempts, view->n_failures));
    if (of->end)
        buf_addf(out, ", %s", of->end);
    if (of->plan->batch > 0 && of->plan->batch != PLAN_BATCH_AUTO)
        buf_addf(out, ", at batch %lu", MAX(of->plan->batch >> view->n_halvings, 1ul));
    log_add_line(graph, job, out);
}

/* The job because of which this one cannot run: the last one of the chain of needs. */
static void blocked_add(const struct graph *graph, uint32_t job, struct buf *out)
{
    uint32_t culprit = job;
    struct dag_job_view view = dag_job_view(graph->dag, job);
    while (view.state == DAG_BLOCKED && view.first_culprit != DAG_NO_JOB) {
        culprit = view.first_culprit;
        view = dag_job_view(graph->dag, culprit);
    }
    buf_addf(out, "waits for %s: ", name_at(graph, culprit));
    if (view.state == DAG_FAILED)
        failed_add(graph, culprit, &view, out);
    else if (view.state == DAG_CANCELLED)
        cancelled_explain(name_at(graph, culprit), graph->is_over, out);
    else
        unfit_add(graph, &graph->jobs[culprit], out);
}

static void runs_add(const struct graph *graph, uint32_t job, struct buf *out)
{
    const struct graph_job *of = &graph->jobs[job];
    const struct process *process = of->process;
    char since[24];
    if (!process)
        return;
    duration_format(since, shell_last_now(graph->shell) - process->started_ms);
    buf_addf(out, "runs since %s", since);
    if (process->seat.n_devices > 0) {
        buf_add_text(out, " on ");
        process_devices_add(process, out);
    }
    buf_addf(out, ", attempt %u", process->attempt);
    if (process->preparation)
        buf_add_text(out, "; files that it needs are looked at first");
    if (process->is_late)
        buf_add_text(out, "; its time is over, and it is being ended");
    else if (process->was_ended)
        buf_add_text(out, of->is_cancelled ? "; cancelled, and it is being ended"
                                           : "; it is being ended");
}

void job_explain(const struct graph *graph, uint32_t job, struct buf *out)
{
    struct dag_job_view view = dag_job_view(graph->dag, job);
    switch (view.state) {
    case DAG_WAITS:
        waits_add(graph, job, &view, out);
        break;
    case DAG_READY:
        ready_add(graph, job, &view, out);
        break;
    case DAG_RUNS:
    case DAG_ENDS:
        runs_add(graph, job, out);
        break;
    case DAG_FAILED:
        failed_add(graph, job, &view, out);
        break;
    case DAG_BLOCKED:
        blocked_add(graph, job, out);
        break;
    case DAG_UNFIT:
        unfit_add(graph, &graph->jobs[job], out);
        break;
    case DAG_CANCELLED:
        cancelled_explain(name_at(graph, job), graph->is_over, out);
        break;
    case DAG_DONE:
    case DAG_STATES:
        buf_add_text(out, "done");
        spoilt_explain(graph, job, out);
        break;
    }
}
