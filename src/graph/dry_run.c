/* SPDX-License-Identifier: Apache-2.0
 *
 * --dry-run: the scheduler plays the jobs in virtual time, with the times that earlier runs took. The schedule is
 * printed, and drawn if that is asked for. Nothing is started, and no file is made but the drawing.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "graph/plan_outs.h"
#include "sim/dag_play.h"
#include "store/lock.h"
#include "ui/timeline.h"

enum {
    ROWS_PRINTED = 1000,
    UNKNOWN_MS = DAG_UNKNOWN_MS
};

struct dry_run {
    struct graph *graph;
    struct buf out;
    struct left_paths left;
    uint32_t n_shown, n_run, n_unknown, n_failed;
    const char *missing;       /* an input that the starting job lacks; NULL: none */
    uint64_t *started_ms;      /* [n_jobs] */
    struct timeline *timeline; /* NULL: nothing is drawn */
    uint32_t **devices;        /* [n_jobs]: those of a job that runs, if it is drawn */
};

static uint64_t time_of(const struct graph_job *job)
{
    return job->expected_ms > 0 ? job->expected_ms : UNKNOWN_MS;
}

static struct dag_play_end draw(void *context, uint32_t job, const struct dag_placement *placement)
{
    const struct dry_run *dry = context;
    (void)placement;
    if (dry->missing)
        return (struct dag_play_end){.end = DEND_FATAL};
    return (struct dag_play_end){.run_ms = time_of(&dry->graph->jobs[job]), .end = DEND_WELL};
}

/* A file that the job reads, and that is not there, nor left by any job; NULL: none. */
static const char *missing_input(struct dry_run *dry, const struct plan_job *job)
{
    const struct graph *graph = dry->graph;
    for (size_t i = 0; job->inputs && job->inputs[i]; i++) {
        cleanup_free char *path = path_join(job->cwd ? job->cwd : graph->cwd, job->inputs[i]);
        if (!path_exists(path) && !left_paths_have(&dry->left, job, job->inputs[i]))
            return job->inputs[i];
    }
    return NULL;
}

static void count(struct dry_run *dry, uint32_t job)
{
    const struct graph_job *of = &dry->graph->jobs[job];
    dry->missing = missing_input(dry, of->plan);
    dry->n_failed += dry->missing != NULL;
    dry->n_run += !dry->missing;
    dry->n_unknown += !dry->missing && of->expected_ms == 0;
}

/* An array: the number of devices, then each device. */
static uint32_t *devices_new(const struct dag_placement *placement)
{
    uint32_t *devices = xcalloc(placement->n_devices + 1, sizeof(*devices));
    devices[0] = placement->n_devices;
    for (uint32_t i = 0; i < placement->n_devices; i++)
        devices[i + 1] = placement->devices[i];
    return devices;
}

static void started(void *context, uint32_t job, const struct dag_placement *placement,
                    uint64_t now_ms)
{
    struct dry_run *dry = context;
    const struct graph *graph = dry->graph;
    char at[24], takes[24] = "-";
    cleanup_buf struct buf where = BUF_INIT;
    count(dry, job);
    dry->started_ms[job] = now_ms;
    if (dry->timeline)
        dry->devices[job] = devices_new(placement);
    if (dry->n_shown++ >= ROWS_PRINTED)
        return;
    for (uint32_t i = 0; i < placement->n_devices; i++) {
        buf_add_text(&where, i > 0 ? ", " : "");
        allocation_label_add(&graph->allocation, placement->devices[i], &where);
    }
    duration_format(at, now_ms);
    if (!dry->missing)
        duration_format(takes, time_of(&graph->jobs[job]));
    buf_addf(&dry->out, "%12s  %12s  %-16s  %s", at, takes, where.len > 0 ? buf_text(&where) : "-",
             graph->jobs[job].plan->name);
    if (dry->missing)
        buf_addf(&dry->out, " fails: it reads %s, which is not there, and no job leaves it",
                 dry->missing);
    buf_add_char(&dry->out, '\n');
}

static void ended(void *context, uint32_t job, enum dag_end end, uint64_t now_ms)
{
    struct dry_run *dry = context;
    (void)end;
    if (!dry->timeline)
        return;
    cleanup_free uint32_t *devices = steal_ptr(&dry->devices[job]);
    for (uint32_t i = 0; i < devices[0]; i++)
        timeline_add(dry->timeline, TIMELINE_ITEM, devices[i + 1], dry->started_ms[job] * 1000,
                     now_ms * 1000);
}

/* What earlier runs did, read without changing anything. */
static int past_open(struct graph *graph, char **earlier, struct err *err)
{
    int rc = graph_run_find(graph->request, earlier, err);
    if (rc || !*earlier)
        return rc;
    graph->is_resumed = true;
    shell_folder_name(graph->shell, xstrdup(*earlier));
    return shell_store_open(graph->shell, run_is_locked(*earlier, NULL) ? STORE_READ : STORE_PEEK,
                            err);
}

static void jobs_number(struct graph *graph)
{
    graph->n_jobs = graph->jobs_cap = graph->plan->n_jobs;
    graph->jobs = xcalloc(graph->n_jobs + 1, sizeof(*graph->jobs));
    for (uint32_t i = 0; i < graph->n_jobs; i++)
        graph->jobs[i].plan = &graph->plan->jobs[i];
}

static int jobs_make(struct graph *graph, struct err *err)
{
    cleanup_free char *earlier = NULL;
    jobs_number(graph);
    record_open(graph);
    int rc = past_open(graph, &earlier, err);
    rc = rc || !graph->is_resumed ? rc : added_read(graph, err);
    rc = rc ? rc : past_take(graph, err);
    rc = rc ? rc : graph_dag_make(graph, err);
    for (uint32_t i = 0; rc == 0 && i < graph->n_jobs; i++) {
        graph->jobs[i].is_held = graph->jobs[i].is_held || graph->jobs[i].is_cancelled;
        rc = graph_dag_add(graph, i, err);
    }
    return rc;
}

static void unfit_rows_add(struct dry_run *dry)
{
    for (uint32_t i = 0; i < dry->graph->n_jobs; i++) {
        cleanup_buf struct buf why = BUF_INIT;
        if (dag_job_view(dry->graph->dag, i).state != DAG_UNFIT || dry->n_shown++ >= ROWS_PRINTED)
            continue;
        job_explain(dry->graph, i, &why);
        buf_addf(&dry->out, "%12s  %12s  %-16s  %s %s\n", "-", "-", "-",
                 dry->graph->jobs[i].plan->name, buf_text(&why));
    }
}

static void totals_add(struct dry_run *dry, uint64_t end_ms)
{
    struct dag_view view = dag_view(dry->graph->dag);
    uint32_t n_stopped = 0;
    for (uint32_t i = 0; i < dry->graph->n_jobs; i++)
        n_stopped += dry->graph->jobs[i].is_held;
    char wall[24], unknown[24];
    duration_format(wall, end_ms);
    duration_format(unknown, UNKNOWN_MS);
    if (dry->n_shown > ROWS_PRINTED)
        buf_addf(&dry->out, "and %u more\n", dry->n_shown - ROWS_PRINTED);
    buf_addf(&dry->out, "%u of %u job%s would run, in %s", dry->n_run, view.n_jobs,
             plural(view.n_jobs), wall);
    if (dry->n_unknown > 0)
        buf_addf(&dry->out, "; the time of %u is not known, and taken for %s", dry->n_unknown,
                 unknown);
    if (dry->n_failed > 0)
        buf_addf(&dry->out, "; %u would fail", dry->n_failed);
    if (view.n_of[DAG_BLOCKED] > 0)
        buf_addf(&dry->out, "; %u need%s one that would not run", view.n_of[DAG_BLOCKED],
                 view.n_of[DAG_BLOCKED] == 1 ? "s" : "");
    if (view.n_of[DAG_UNFIT] > 0)
        buf_addf(&dry->out, "; %u cannot run on these devices", view.n_of[DAG_UNFIT]);
    if (n_stopped > 0)
        buf_addf(&dry->out, "; %u %s held or cancelled", n_stopped, n_stopped == 1 ? "is" : "are");
    buf_add_char(&dry->out, '\n');
}

static int plot_write(const struct dry_run *dry, const char *path, struct err *err)
{
    static const char title[] = "muster graph --dry-run";
    cleanup_buf struct buf page = BUF_INIT;
    if (strcasecmp(path_extension(path), ".svg") == 0)
        timeline_picture(dry->timeline, title, &page);
    else
        timeline_page(dry->timeline, title, buf_text(&dry->out), &page);
    return outfile_put(path, buf_str(&page), err);
}

static struct timeline *timeline_of(const struct allocation *allocation)
{
    struct timeline *timeline = timeline_new((uint32_t)allocation->n_chosen);
    for (uint32_t i = 0; i < allocation->n_chosen; i++) {
        cleanup_buf struct buf label = BUF_INIT;
        allocation_label_add(allocation, i, &label);
        timeline_name(timeline, i, buf_text(&label));
    }
    return timeline;
}

static int schedule_print(struct graph *graph, const char *plot, struct err *err)
{
    struct dry_run dry = {.graph = graph,
                          .left.real.cwd = graph->cwd,
                          .started_ms = xcalloc(graph->n_jobs + 1, sizeof(*dry.started_ms)),
                          .devices = xcalloc(graph->n_jobs + 1, sizeof(*dry.devices)),
                          .timeline = plot ? timeline_of(&graph->allocation) : NULL};
    for (uint32_t i = 0; i < graph->n_jobs; i++)
        left_paths_add(&dry.left, graph->jobs[i].plan);
    buf_addf(&dry.out, "%12s  %12s  %-16s  %s\n", "START", "TAKES", "DEVICES", "JOB");
    uint64_t end_ms = dag_play(&(struct dag_play){
        .dag = graph->dag, .context = &dry, .draw = draw, .started = started, .ended = ended});
    int rc = end_ms == UINT64_MAX ? fail(err, ERR_STOPPED, "out of memory") : 0;
    if (rc == 0) {
        unfit_rows_add(&dry);
        totals_add(&dry, end_ms);
        rc = write_all(STDOUT_FILENO, dry.out.at, dry.out.len, err);
    }
    if (rc == 0 && plot)
        rc = plot_write(&dry, plot, err);
    left_paths_release(&dry.left);
    timeline_free(dry.timeline);
    buf_release(&dry.out);
    free(dry.started_ms);
    free(dry.devices);
    return rc;
}

/* A seat for each device, as in a run. Which devices are near each other is not known. */
static int host_add(struct graph *graph, const struct planned_host *host, uint32_t node,
                    struct err *err)
{
    const struct seat_opts one = {1, 1};
    size_t all[DEVICES_MAX], n_seats = 0;
    cleanup_free struct seat *seats = NULL;
    for (size_t i = 0; i < host->devices.len; i++)
        all[i] = i;
    int rc = host->devices.len > 0
                 ? seats_make(&host->devices, all, host->devices.len, &one, &seats, &n_seats, err)
                 : 0;
    if (rc == 0)
        allocation_add_host(&graph->allocation, &(struct allocation_part){.name = host->name,
                                                                          .node = node,
                                                                          .devices = &host->devices,
                                                                          .seats = seats,
                                                                          .n_seats = n_seats});
    return rc;
}

static int hosts_take(struct graph *graph, const struct planned_hosts *hosts,
                      const struct allocation_wish *wish, struct err *err)
{
    uint32_t n_far = 0;
    int rc = 0;
    graph->fleet.planned = hosts;
    allocation_begin(&graph->allocation, wish, shell_self_path(graph->shell));
    for (size_t i = 0; i < hosts->len && rc == 0; i++) {
        n_far += !hosts->at[i].is_local;
        rc = host_add(graph, &hosts->at[i], hosts->at[i].is_local ? 0 : n_far, err);
    }
    return rc;
}

int graph_dry_run(struct log *log, const char *self_path, const struct graph_request *request,
                  struct plan *plan, const struct planned_hosts *hosts, const char *plot,
                  struct err *err)
{
    struct graph graph = {.request = request,
                          .plan = plan,
                          .cwd = path_cwd(),
                          .shell =
                              shell_new(&(struct shell_setup){.log = log, .self_path = self_path})};
    struct allocation_wish wish = request->allocation;
    wish.gpus_per_worker = wish.workers_per_gpu = 1;
    wish.without_devices = wish.gpus && strcmp(wish.gpus, WISH_NO_DEVICES) == 0;
    wish.is_plan = true;
    const struct allocation_holder holder = {.self_path = self_path, .log = log};
    cleanup_free char *earlier = NULL;
    int rc = graph_earlier_find(request, &earlier, err);
    if (rc == 0)
        rc = hosts ? hosts_take(&graph, hosts, &wish, err)
                   : allocation_take(&graph.allocation, &wish, &holder, err);
    rc = rc ? rc : jobs_make(&graph, err);
    rc = rc ? rc : schedule_print(&graph, plot, err);
    shell_store_close(graph.shell);
    graph_release(&graph);
    return rc;
}

int graph_check(const struct graph_request *request, struct plan *plan, char **earlier,
                struct err *err)
{
    struct graph graph = {.request = request,
                          .plan = plan,
                          .cwd = path_cwd(),
                          .shell = shell_new(&(struct shell_setup){0})};
    *earlier = NULL;
    jobs_number(&graph);
    record_open(&graph);
    int rc = past_open(&graph, earlier, err);
    rc = rc ? rc : past_check(&graph, err);
    shell_store_close(graph.shell);
    graph_release(&graph);
    return rc;
}
