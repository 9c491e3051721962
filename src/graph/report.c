/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user sees of the run: progress on the terminal, status.json and jobs.json for other programs, the summary.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "shell/hosts.h"
#include "store/runs.h"
#include "store/status.h"
#include "ui/progress.h"

enum {
    ROWS_SHOWN = 16,
    WAITING_SHOWN = 20, /* jobs whose waiting is explained */
    FAILED_SHOWN = 10,
    HELD_SHOWN = 5,
    DEVICES_SHOWN = 16
};

static uint32_t count_of(const struct dag_view *view, enum dag_state a, enum dag_state b)
{
    return view->n_of[a] + view->n_of[b];
}

/* Jobs that failed or cannot run; without those that only wait for such jobs. */
static uint32_t n_bad(const struct dag_view *view)
{
    return count_of(view, DAG_FAILED, DAG_UNFIT);
}

/* ---- on the terminal ---- */

void report_progress(struct graph *graph, bool is_last)
{
    struct dag_view view = dag_view(graph->dag);
    struct progress_worker rows[ROWS_SHOWN];
    struct buf labels[ROWS_SHOWN] = {0};
    size_t n_rows = 0;
    uint64_t now_ms = shell_last_now(graph->shell), begin_ms = shell_begin_ms(graph->shell);
    if (!shell_progress(graph->shell))
        return;
    if (graph->rate.n_steps == 0)
        rate_begin(&graph->rate, view.n_of[DAG_DONE] + n_bad(&view), begin_ms);
    rate_note(&graph->rate, view.n_of[DAG_DONE] + n_bad(&view), now_ms);
    for (struct process *p = graph->processes; p && n_rows < ROWS_SHOWN; p = p->next) {
        struct buf *label = &labels[n_rows];
        process_devices_add(p, label);
        if (label->len == 0)
            buf_add_text(label, "cpu");
        rows[n_rows++] = (struct progress_worker){.label = buf_text(label),
                                                  .state = "works",
                                                  .in_flight = 1,
                                                  .last_word = graph->jobs[p->job].plan->name};
    }
    progress_show(shell_progress(graph->shell),
                  &(struct progress_total){.done = view.n_of[DAG_DONE],
                                           .aside = n_bad(&view),
                                           .known = view.n_jobs,
                                           .input_is_final = true,
                                           .in_flight = count_of(&view, DAG_RUNS, DAG_ENDS),
                                           .elapsed_ms = now_ms - begin_ms,
                                           .items_per_s = rate_per_s(&graph->rate, now_ms),
                                           .n_workers = n_rows,
                                           .workers = rows},
                  now_ms, is_last);
    for (size_t i = 0; i < n_rows; i++)
        buf_release(&labels[i]);
}

/* ---- files ---- */

struct stage_counts {
    uint32_t n_of[DAG_STATES], n_held, n_spoilt;
};

static struct stage_counts *stages_count(const struct graph *graph)
{
    struct stage_counts *counts = xcalloc(graph->plan->n_stages + 1, sizeof(*counts));
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        struct dag_job_view view = dag_job_view(graph->dag, i);
        struct stage_counts *of = &counts[graph->jobs[i].plan->stage];
        of->n_of[view.state]++;
        of->n_held += view.is_held && graph->jobs[i].is_wanted;
        of->n_spoilt += graph->jobs[i].spoilt != NULL;
    }
    return counts;
}

static const char *const state_names[DAG_STATES] = {
    [DAG_DONE] = "done",       [DAG_RUNS] = "running",        [DAG_ENDS] = "ending",
    [DAG_READY] = "ready",     [DAG_WAITS] = "waiting",       [DAG_FAILED] = "failed",
    [DAG_BLOCKED] = "blocked", [DAG_CANCELLED] = "cancelled", [DAG_UNFIT] = "unfit",
};

static void stage_format(const struct graph *graph, uint32_t stage,
                         const struct stage_counts *counts, struct buf *out)
{
    buf_add_text(out, "{\"stage\":");
    buf_add_json(out, str_of(stage_name(graph->plan, stage)));
    for (size_t i = 0; i < countof(state_names); i++)
        buf_addf(out, ",\"%s\":%u", state_names[i], counts->n_of[i]);
    buf_addf(out, ",\"held\":%u,\"spoilt\":%u}", counts->n_held, counts->n_spoilt);
}

static bool is_pending(const struct graph_job *job, enum dag_state state, bool goes_on)
{
    return (state == DAG_READY && goes_on) || state == DAG_FAILED || state == DAG_UNFIT ||
           job->spoilt;
}

/* A run that has ended does not say when a job would start. */
static void waiting_format(const struct graph *graph, bool goes_on, struct buf *out)
{
    uint32_t n_shown = 0;
    for (uint32_t i = 0; i < graph->n_jobs && n_shown < WAITING_SHOWN; i++) {
        cleanup_buf struct buf text = BUF_INIT;
        enum dag_state state = dag_job_view(graph->dag, i).state;
        if (!graph->jobs[i].is_wanted || !is_pending(&graph->jobs[i], state, goes_on))
            continue;
        job_explain(graph, i, &text);
        buf_add_text(out, n_shown++ > 0 ? ",{\"job\":" : "{\"job\":");
        buf_add_json(out, str_of(graph->jobs[i].plan->name));
        buf_addf(out, ",\"state\":\"%s\",\"why\":", state_names[state]);
        buf_add_json(out, buf_str(&text));
        buf_add_char(out, '}');
    }
}

/* jobs.json: the stages, and what some jobs wait for. */
static void jobs_write(const struct graph *graph, bool goes_on)
{
    cleanup_free char *path = path_join(shell_run_dir(graph->shell), "jobs.json");
    cleanup_free struct stage_counts *counts = stages_count(graph);
    cleanup_buf struct buf text = BUF_INIT;
    bool has_added = graph->n_jobs > graph->plan->n_jobs;
    uint32_t n_stages = graph->plan->n_stages + has_added;
    buf_add_text(&text, "{\"stages\":[");
    for (uint32_t i = 0; i < n_stages; i++) {
        buf_add_text(&text, i > 0 ? "," : "");
        stage_format(graph, i, &counts[i], &text);
    }
    buf_add_text(&text, "],\"waiting\":[");
    waiting_format(graph, goes_on, &text);
    buf_add_text(&text, "]}\n");
    if (file_replace_fast(path, buf_str(&text), NULL) != 0)
        log_keep(shell_log(graph->shell), LOG_WARN, "graph", "%s cannot be written", path);
}

/* Each host of --hosts; free() it. */
static struct host_status *hosts_new(const struct graph *graph, size_t *n_hosts)
{
    const struct hosts *hosts = shell_hosts(graph->shell);
    *n_hosts = hosts_count(hosts);
    struct host_status *out = xcalloc(*n_hosts + 1, sizeof(*out));
    for (size_t i = 0; i < *n_hosts; i++) {
        struct host_view view = hosts_view(hosts, i);
        bool is_known = view.node < graph->fleet.n_hosts;
        out[i] = (struct host_status){.name = view.name,
                                      .state = view.state,
                                      .done = is_known ? graph->fleet.hosts[view.node].n_done : 0,
                                      .away_ms = view.away_ms,
                                      .lost_ms = view.lost_ms,
                                      .round_trip_ms = view.round_trip_ms,
                                      .sent_bytes = view.n_bytes.sent,
                                      .received_bytes = view.n_bytes.received,
                                      .n_devices = view.n_devices,
                                      .n_workers = view.n_seats,
                                      .why = view.why};
    }
    return out;
}

void report_status(struct graph *graph, const char *state)
{
    struct dag_view view = dag_view(graph->dag);
    size_t n_hosts;
    cleanup_free struct host_status *hosts = hosts_new(graph, &n_hosts);
    cleanup_free struct worker_status *rows = xcalloc(graph->n_processes + 1, sizeof(*rows));
    cleanup_free struct buf *labels = xcalloc(graph->n_processes + 1, sizeof(*labels));
    char host[HOST_NAME_BYTES];
    struct err err = {0};
    size_t n_rows = 0;
    host_name(host);
    cleanup_free char *message = spoilt_message_new(graph);
    int64_t started_wall_ms =
        clock_wall_ms() - (int64_t)(shell_last_now(graph->shell) - shell_begin_ms(graph->shell));
    for (struct process *p = graph->processes; p; p = p->next) {
        process_devices_add(p, &labels[n_rows]);
        rows[n_rows] = (struct worker_status){
            .label = labels[n_rows].len > 0 ? buf_text(&labels[n_rows]) : "cpu",
            .state = "works",
            .mem_bytes = p->mem_peak_bytes,
            .last_word = graph->jobs[p->job].plan->name};
        n_rows++;
    }
    int rc = status_write(shell_run_dir(graph->shell),
                          &(struct run_status){.verb = "graph",
                                               .state = state ? state : "running",
                                               .host = host,
                                               .message = message,
                                               .pid = getpid(),
                                               .items_total = graph->n_jobs,
                                               .is_total_known = true,
                                               .done = view.n_of[DAG_DONE],
                                               .aside = n_bad(&view),
                                               .running = count_of(&view, DAG_RUNS, DAG_ENDS),
                                               .eta_ms = -1,
                                               .started_wall_ms = started_wall_ms,
                                               .updated_wall_ms = clock_wall_ms(),
                                               .workers = rows,
                                               .n_workers = n_rows,
                                               .hosts = hosts,
                                               .n_hosts = n_hosts},
                          &err);
    if (rc)
        log_keep(shell_log(graph->shell), LOG_WARN, "graph", "%s", err.text);
    for (size_t i = 0; i < n_rows; i++)
        buf_release(&labels[i]);
    jobs_write(graph, state == NULL);
}

/* ---- the end ---- */

static void failures_add(const struct graph *graph, struct buf *out)
{
    uint32_t n_shown = 0, n_failed = 0;
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        enum dag_state state = dag_job_view(graph->dag, i).state;
        if (!graph->jobs[i].is_wanted || (state != DAG_FAILED && state != DAG_UNFIT))
            continue;
        if (n_failed++ >= FAILED_SHOWN)
            continue;
        n_shown++;
        buf_addf(out, "  failed     %s: ", graph->jobs[i].plan->name);
        job_explain(graph, i, out);
        buf_add_char(out, '\n');
    }
    if (n_failed > n_shown)
        buf_addf(out, "  failed     and %u more\n", n_failed - n_shown);
}

/* The share of the time in which samples were taken: a device may have come late, or be away. */
static double busy_percent(const struct graph_device *device)
{
    return device->busy_percent_ms / (double)MAX(device->seen_ms, (uint64_t)1);
}

static void use_add(double percent, double joules, struct buf *out)
{
    buf_addf(out, "busy %.1f %% of the time", percent);
    if (joules > 0)
        buf_addf(out, ", %.1f kJ", joules / 1000);
    buf_add_char(out, '\n');
}

static void devices_lines(const struct graph *graph, struct buf *out)
{
    double percent_ms = 0, joules = 0;
    uint64_t seen_ms = 0;
    size_t n = graph->allocation.n_chosen;
    for (size_t i = 0; i < n; i++) {
        percent_ms += graph->devices[i].busy_percent_ms;
        joules += graph->devices[i].joules;
        seen_ms += graph->devices[i].seen_ms;
    }
    if (seen_ms == 0)
        return;
    buf_addf(out, "  devices    %zu, ", n);
    use_add(percent_ms / (double)seen_ms, joules, out);
    for (uint32_t i = 0; n > 1 && i < MIN(n, (size_t)DEVICES_SHOWN); i++) {
        buf_add_text(out, "             ");
        allocation_label_add(&graph->allocation, i, out);
        buf_add_text(out, ": ");
        use_add(busy_percent(&graph->devices[i]), graph->devices[i].joules, out);
    }
    if (n > DEVICES_SHOWN)
        buf_addf(out, "             and %zu more; run.db has them\n", n - DEVICES_SHOWN);
}

static void memory_line(const struct graph *graph, uint32_t chosen, const char *title,
                        struct buf *out)
{
    const struct graph_device *device = &graph->devices[chosen];
    char begun[16], peak[16], used[16], total[16];
    size_format(begun, device->begun_bytes);
    size_format(peak, MAX(device->mem_peak_bytes, MAX(device->begun_bytes, device->used_bytes)));
    size_format(used, device->used_bytes);
    size_format(total, device->total_bytes);
    buf_addf(out, "  %-10s ", title);
    allocation_label_add(&graph->allocation, chosen, out);
    buf_addf(out, ": %s in use at the start, %s at most, %s at the end, of %s\n", begun, peak, used,
             total);
}

/* In use by whoever it was, on devices that were looked at. */
static void memory_lines(const struct graph *graph, struct buf *out)
{
    uint32_t n_shown = 0, n_left = 0;
    for (uint32_t i = 0; graph->has_memory && i < graph->allocation.n_chosen; i++) {
        if (graph->devices[i].total_bytes == 0 || graph->devices[i].seen_ms == 0)
            continue;
        if (n_shown == DEVICES_SHOWN)
            n_left++;
        else
            memory_line(graph, i, n_shown++ == 0 ? "memory" : "", out);
    }
    if (n_left > 0)
        buf_addf(out, "             and %u more; orchestrator.log has them\n", n_left);
}

/* An array of those that were looked at. */
static void devices_json(const struct graph *graph, struct buf *out)
{
    const char *before = "";
    buf_add_char(out, '[');
    for (uint32_t i = 0; i < graph->allocation.n_chosen; i++) {
        const struct graph_device *device = &graph->devices[i];
        cleanup_buf struct buf label = BUF_INIT;
        if (device->seen_ms == 0)
            continue;
        allocation_label_add(&graph->allocation, i, &label);
        buf_addf(out, "%s{\"device\":", before);
        buf_add_json(out, buf_str(&label));
        buf_addf(out,
                 ",\"busy_percent\":%.1f,\"joules\":%.1f,\"mem_peak_bytes\":%lu,"
                 "\"seen_ms\":%lu}",
                 busy_percent(device), device->joules, device->mem_peak_bytes, device->seen_ms);
        before = ",";
    }
    buf_add_char(out, ']');
}

/* Keeps the figures of devices in run.db, for commands that look at the run later. */
static void devices_keep(struct graph *graph)
{
    cleanup_buf struct buf json = BUF_INIT;
    struct err err = {0};
    devices_json(graph, &json);
    if (json.len > 2 && store_set(shell_store(graph->shell), "devices", buf_text(&json), &err) != 0)
        log_keep(shell_log(graph->shell), LOG_WARN, "graph", "%s", err.text);
}

static void hosts_lines(const struct graph *graph, struct buf *out)
{
    size_t n_hosts;
    cleanup_free struct host_status *hosts = hosts_new(graph, &n_hosts);
    for (size_t i = 0; i < n_hosts; i++)
        buf_addf(out, "  host       %s: %lu job%s done%s%s\n", hosts[i].name, hosts[i].done,
                 plural(hosts[i].done), strcmp(hosts[i].state, "up") == 0 ? "" : "; ",
                 strcmp(hosts[i].state, "up") == 0 ? "" : hosts[i].state);
}

static bool is_held(const struct graph *graph, uint32_t job)
{
    struct dag_job_view view = dag_job_view(graph->dag, job);
    bool is_open = view.state == DAG_READY || view.state == DAG_WAITS;
    return graph->jobs[job].is_held && is_open && graph->jobs[job].is_wanted;
}

static uint32_t held_count(const struct graph *graph)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_jobs; i++)
        n += is_held(graph, i);
    return n;
}

/* The same command starts no held job, and nothing else says so. */
static void held_lines(const struct graph *graph, struct buf *out)
{
    uint32_t n_held = 0;
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        if (!is_held(graph, i) || n_held++ >= HELD_SHOWN)
            continue;
        buf_addf(out, "  held       %s: muster release %s lets it run, with the next line\n",
                 graph->jobs[i].plan->name, graph->jobs[i].plan->name);
    }
    if (n_held > HELD_SHOWN)
        buf_addf(out, "  held       and %u more\n", n_held - HELD_SHOWN);
}

static char *folder_lost_new(const struct graph *graph)
{
    bool is_removed;
    cleanup_free char *root = runs_root(NULL);
    const char *usual = graph->request->resume.root;
    return shell_folder_lost_new(graph->shell, usual ? usual : root, &is_removed);
}

static void next_line(const struct graph *graph, int status, const char *lost, struct buf *out)
{
    cleanup_free char *root = runs_root(NULL);
    const char *usual = graph->request->resume.root;
    cleanup_free char *run = run_typed_new(shell_run_dir(graph->shell), usual ? usual : root);
    if (lost)
        buf_addf(out, "  next       %s\n", lost);
    else if (status != 0)
        buf_addf(out, "  next       muster resume %s; muster logs %s has what was printed\n", run,
                 run);
}

static void count_add(struct buf *out, uint32_t count, const char *what)
{
    if (count > 0)
        buf_addf(out, "; %u %s", count, what);
}

/* What --on-finish reads. */
static void summary_json(struct graph *graph, int status, struct buf *out)
{
    struct dag_view view = dag_view(graph->dag);
    buf_add_text(out, "{\"run\":");
    buf_add_json(out, str_of(shell_run_dir(graph->shell)));
    buf_addf(out,
             ",\"status\":%d,\"jobs\":%u,\"done\":%u,\"failed\":%u,\"blocked\":%u,"
             "\"cancelled\":%u,\"not_run\":%u,\"wall_ms\":%lu,\"devices\":",
             status, view.n_jobs, view.n_of[DAG_DONE], count_of(&view, DAG_FAILED, DAG_UNFIT),
             view.n_of[DAG_BLOCKED], view.n_of[DAG_CANCELLED],
             count_of(&view, DAG_WAITS, DAG_READY),
             shell_now(graph->shell) - shell_begin_ms(graph->shell));
    devices_json(graph, out);
    buf_add_text(out, "}\n");
}

void report_summary(struct graph *graph, int status)
{
    struct dag_view view = dag_view(graph->dag);
    cleanup_free char *lost = folder_lost_new(graph);
    cleanup_buf struct buf out = BUF_INIT, shown = BUF_INIT;
    char wall[24];
    duration_format(wall, shell_now(graph->shell) - shell_begin_ms(graph->shell));
    buf_addf(&out, "%u of %u job%s done (%u of them now) in %s", view.n_of[DAG_DONE], view.n_jobs,
             view.n_jobs == 1 ? " is" : "s are", graph->n_done_here, wall);
    count_add(&out, view.n_of[DAG_FAILED] + view.n_of[DAG_UNFIT], "failed");
    count_add(&out, view.n_of[DAG_BLOCKED], "wait for those");
    count_add(&out, view.n_of[DAG_CANCELLED], "cancelled");
    count_add(&out, view.n_of[DAG_WAITS] + view.n_of[DAG_READY], "not run");
    if (held_count(graph) > 0)
        buf_addf(&out, ", %u of them held", held_count(graph));
    count_add(&out, graph->n_spoilt, "done, but with files that were changed since");
    buf_addf(&out, "\n  run        %s\n", shell_run_dir(graph->shell));
    failures_add(graph, &out);
    devices_lines(graph, &out);
    memory_lines(graph, &out);
    hosts_lines(graph, &out);
    held_lines(graph, &out);
    next_line(graph, status, lost, &out);
    log_keep(shell_log(graph->shell), LOG_INFO, "graph", "%s", buf_text(&out));
    devices_keep(graph);
    if (shell_hook_input(graph->shell))
        summary_json(graph, status, shell_hook_input(graph->shell));
    const struct err *why = &shell_end(graph->shell)->err;
    if (why->code)
        talk("%s%s%s", why->text, lost ? "; " : "", lost ? lost : "");
    else if (lost && shell_is_quiet(graph->shell))
        talk("%s", lost);
    if (shell_is_quiet(graph->shell))
        return;
    console_lines_add(&shown, buf_str(&out));
    if (log_say(shell_log(graph->shell), buf_str(&shown)) < 0)
        shell_hush(graph->shell); /* the summary is not read on stderr; the log has it */
}

/* By the latest samples, of each device as a whole: this process itself holds no memory there. */
void report_memory(const struct graph *graph, const char *when)
{
    for (uint32_t i = 0; graph->has_memory && i < graph->allocation.n_chosen; i++) {
        const struct graph_device *device = &graph->devices[i];
        char used[16], total[16];
        cleanup_buf struct buf label = BUF_INIT;
        allocation_label_add(&graph->allocation, i, &label);
        size_format(used, device->used_bytes);
        size_format(total, device->total_bytes);
        log_add(shell_log(graph->shell), LOG_INFO, "graph", "GPU memory %s: %s: %s used of %s",
                when, buf_text(&label), used, total);
    }
}
