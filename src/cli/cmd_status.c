/* SPDX-License-Identifier: Apache-2.0
 *
 * muster status: the state of one run. The figures come from the run's ledger, or from status.json
 * if the ledger cannot be read. Whether it is running is known from its lock alone, so that a run
 * whose muster was killed is never shown as running.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/json_bytes.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/graph_status.h"
#include "cli/run_arg.h"
#include "store/runs.h"
#include "store/status.h"
#include "submit/look.h"

enum {
    WATCH_EVERY_MS = 1000,
    LAST_WORD_MAX = 50
};

struct status_request {
    const char *runs_dir;
    bool watch, json;
};

/* A run as it is shown: the summary has the counts, the snapshot the speed and the workers. */
struct view {
    struct run_summary run;
    struct run_status snapshot;
    struct submitted_look submitted;
};

static int view_read(struct view *view, const char *dir, struct err *err)
{
    int rc = run_inspect(dir, &view->run, err);
    if (rc)
        return rc;
    submitted_look(&view->run, &view->submitted);
    struct run_status *snapshot = &view->snapshot;
    if (status_read(dir, snapshot, NULL) != 0)
        *snapshot = (struct run_status){.eta_ms = -1};
    const struct run_summary *run = &view->run;
    bool is_running = run->state == RUN_RUNNING && run->holder.pid != 0;
    snapshot->verb = run->verb ? run->verb : snapshot->verb;
    snapshot->state = run_state_name(run->state);
    /* The snapshot is up to a second older than the count: answers that were committed since count once. */
    uint64_t known = snapshot->done + snapshot->answered;
    snapshot->answered = known > run->items_done ? known - run->items_done : 0;
    snapshot->done = run->items_done;
    snapshot->aside = run->items_failed;
    snapshot->items_total = run->items_total;
    snapshot->is_total_known = run->is_total_known;
    snapshot->message = run->message ? run->message : snapshot->message;
    if (run->started_wall_ms)
        snapshot->started_wall_ms = run->started_wall_ms;
    snapshot->updated_wall_ms = run->updated_wall_ms;
    if (is_running) {
        snapshot->pid = run->holder.pid;
        snapshot->host = run->holder.host;
        return 0;
    }
    snapshot->host = run->host ? run->host : snapshot->host;
    /* The last speed and items in flight of a dead muster are no longer true. */
    snapshot->pid = 0;
    snapshot->running = snapshot->answered = 0;
    snapshot->rate = 0;
    snapshot->eta_ms = -1;
    snapshot->n_workers = snapshot->n_hosts = 0;
    return 0;
}

static void view_release(struct view *view)
{
    status_release(&view->snapshot);
    submitted_look_release(&view->submitted);
    run_summary_release(&view->run);
}

static void progress_add(struct buf *out, const struct view *view)
{
    const struct run_status *status = &view->snapshot;
    bool are_jobs = run_is_graph(&view->run);
    const char *noun = are_jobs ? "job" : "item";
    char done[32], total[32];
    count_format(done, status->done);
    count_format(total, status->items_total);
    if (status->is_total_known && status->items_total)
        buf_addf(out, "%s of %s %s%s (%.1f %%)", done, total, noun, plural(status->items_total),
                 percent_of(status->done, status->items_total));
    else
        buf_addf(out, "%s %s%s", done, noun, plural(status->done));
    if (status->aside)
        buf_addf(out, ", %llu %s", (unsigned long long)status->aside,
                 are_jobs ? "failed" : "set aside");
    if (status->running)
        buf_addf(out, ", %llu %s", (unsigned long long)status->running,
                 are_jobs ? "running" : "in flight");
    count_format(done, status->answered);
    if (status->answered > 0)
        buf_addf(out, ", %s answered, not yet committed", done);
}

static void speed_add(struct buf *out, const struct run_status *status)
{
    if (status->rate <= 0)
        return;
    char rate[24];
    figures_format(rate, status->rate);
    buf_addf(out, "speed     %s items/s", rate);
    if (status->eta_ms >= 0) {
        char left[24];
        duration_format(left, (uint64_t)status->eta_ms);
        buf_addf(out, ", about %s left", left);
    }
    buf_add_char(out, '\n');
}

static void workers_add(struct buf *out, const struct run_status *status)
{
    if (status->n_workers == 0)
        return;
    buf_addf(out, "\n%-12s  %-10s  %10s  %10s  %10s  %s\n", "WORKER", "STATE", "DONE", "ITEMS/S",
             "MEMORY", "LAST WORD");
    for (size_t i = 0; i < status->n_workers; i++) {
        const struct worker_status *worker = &status->workers[i];
        char done[32], memory[16] = "-", rate[24];
        cleanup_free char *label = console_visible_new(worker->label ? worker->label : "-");
        cleanup_free char *state = console_visible_new(worker->state ? worker->state : "-");
        cleanup_free char *word = console_visible_new(worker->last_word ? worker->last_word : "");
        count_format(done, worker->done);
        if (worker->mem_bytes)
            size_format(memory, worker->mem_bytes);
        figures_format(rate, worker->rate);
        buf_addf(out, "%-12s  %-10s  %10s  %10s  %10s  %.*s\n", label, state, done, rate, memory,
                 (int)console_text_cut(str_of(word), LAST_WORD_MAX), word);
    }
}

static void host_add(struct buf *out, const struct host_status *host, size_t width)
{
    char done[32], sent[16], received[16], lost[24] = "-", away[24], trip[24], rate[24];
    cleanup_free char *name = console_visible_new(host->name ? host->name : "-");
    cleanup_free char *state = console_visible_new(host->state ? host->state : "-");
    cleanup_buf struct buf shown = BUF_INIT;
    count_format(done, host->done);
    size_format(sent, host->sent_bytes);
    size_format(received, host->received_bytes);
    duration_format(trip, host->round_trip_ms);
    duration_format(away, host->away_ms);
    if (host->lost_ms > 0)
        duration_format(lost, host->lost_ms);
    buf_addf(&shown, host->away_ms > 0 ? "%s for %s" : "%s", state, away);
    figures_format(rate, host->rate);
    console_padded_add(out, str_of(name), width);
    buf_addf(out, "  %-16s  %10s  %10s  %10s  %10s  %10s  %s\n", buf_text(&shown), done, rate, trip,
             sent, received, lost);
}

static void hosts_add(struct buf *out, const struct run_status *status)
{
    size_t width = 12;
    if (status->n_hosts == 0)
        return;
    for (size_t i = 0; i < status->n_hosts; i++)
        if (status->hosts[i].name)
            width = MAX(width, console_text_width(str_of(status->hosts[i].name)));
    width = MIN(width, (size_t)60);
    buf_addf(out, "\n%-*s  %-16s  %10s  %10s  %10s  %10s  %10s  %s\n", (int)width, "HOST", "STATE",
             "DONE", "ITEMS/S", "ROUND TRIP", "SENT", "RECEIVED", "LOST");
    for (size_t i = 0; i < status->n_hosts; i++)
        host_add(out, &status->hosts[i], width);
}

static void time_add(struct buf *out, const struct run_status *status)
{
    if (status->started_wall_ms == 0)
        return;
    char started[40], age[24];
    clock_rfc3339(started, status->started_wall_ms);
    duration_format(age, (uint64_t)MAX(clock_wall_ms() - status->started_wall_ms, 0));
    buf_addf(out, "started   %s (%s ago)\n", started, age);
}

/*
 * Names and texts from a run's folder may hold escape sequences, which are made harmless. NULL: no
 * line.
 */
static void line_add(struct buf *out, const char *what, const char *words)
{
    if (!words)
        return;
    buf_addf(out, "%-9s ", what);
    console_visible_add(out, str_of(words));
    buf_add_char(out, '\n');
}

static bool goes_on(const struct view *view)
{
    return view->run.state == RUN_RUNNING || view->run.state == RUN_QUEUED;
}

static void job_add(struct buf *out, const struct submitted_look *look)
{
    cleanup_buf struct buf words = BUF_INIT;
    if (look->job == 0)
        return;
    buf_addf(&words, "%llu %s", (unsigned long long)look->job, look->words);
    if (look->times)
        buf_addf(&words, "; %s", look->times);
    if (look->n_again > 0)
        buf_addf(&words, "; submitted again %llu time%s", (unsigned long long)look->n_again,
                 plural(look->n_again));
    line_add(out, "job", buf_text(&words));
    if (look->parts)
        line_add(out, "jobs", look->parts);
}

/*
 * True if the run counts items. A job whose verb has no items, or whose verb has not begun, does
 * not.
 */
static bool counts_items(const struct view *view)
{
    return view->submitted.job == 0 || view->snapshot.is_total_known || view->snapshot.done > 0;
}

/* Adds what the user can do about a run that does not go on by itself. */
static void next_add(struct buf *out, const struct view *view)
{
    const struct run_summary *run = &view->run;
    /* A run that cannot be read does not go on; the line above says what to repair. */
    if (goes_on(view) || run->state == RUN_FINISHED || run->oddity)
        return;
    /* Only failed items are left of such a run. */
    bool is_settled = run->state == RUN_FAILED && !run_is_graph(run) && run->is_total_known &&
                      run->items_done + run->items_failed >= run->items_total;
    if (is_settled && run->items_failed > 0 && run->items_malformed >= run->items_failed) {
        line_add(out, "next", "mend the malformed records, and run them as an input of their own");
        return;
    }
    if (run->is_input_changed) {
        line_add(out, "next", "start over, as the input was written to while the run read it");
        return;
    }
    cleanup_free char *root = runs_root(NULL), *typed = run_typed_new(run->dir, root);
    cleanup_free char *resume =
        run->go_on ? xstrdup(run->go_on)
                   : xasprintf("muster resume %s%s", typed, is_settled ? " --retry-failed" : "");
    line_add(out, "go on", resume);
}

static void text_format(struct buf *out, const struct view *view)
{
    const struct run_summary *run = &view->run;
    const struct run_status *status = &view->snapshot;
    line_add(out, "run", run->name);
    buf_addf(out, "state     %s", status->state);
    cleanup_free char *host = console_visible_new(status->host ? status->host : "");
    if (status->pid)
        buf_addf(out, " (pid %d on %s)", (int)status->pid, host);
    buf_add_char(out, '\n');
    job_add(out, &view->submitted);
    if (counts_items(view)) {
        buf_add_text(out, "progress  ");
        progress_add(out, view);
        buf_add_char(out, '\n');
    }
    speed_add(out, status);
    time_add(out, status);
    line_add(out, "output", run->output);
    line_add(out, "folder", run->dir);
    line_add(out, "message", status->message);
    line_add(out, "not read", run->oddity);
    next_add(out, view);
    if (run_is_graph(run))
        graph_jobs_add(out, run->dir, goes_on(view));
    hosts_add(out, status);
    workers_add(out, status);
}

static void line_format(struct buf *out, const struct view *view)
{
    console_visible_add(out, str_of(view->run.name));
    buf_addf(out, " %s: ", view->snapshot.state);
    progress_add(out, view);
    buf_add_char(out, '\n');
}

/*
 * Adds an object with the members of status.json, after the run that it belongs to, and before the
 * parts that could not be read.
 */
static void object_format(struct buf *out, const struct view *view)
{
    cleanup_buf struct buf object = BUF_INIT, status = BUF_INIT;
    status_format(&view->snapshot, &status);
    buf_add_char(&object, '{');
    run_names_add(&object, view->run.dir);
    buf_add_char(&object, ',');
    buf_add(&object, status.at + 1, status.len - 2);
    buf_add_text(&object, ",\"not_read\":");
    buf_add_json_bytes(&object, view->run.oddity);
    buf_add_char(&object, '}');
    console_visible_add(out, buf_str(&object));
    buf_add_char(out, '\n');
}

static size_t lines_in(const struct buf *text)
{
    size_t lines = 0;
    for (size_t i = 0; i < text->len; i++)
        lines += text->at[i] == '\n';
    return lines;
}

/* One frame of --watch: on a terminal a screen in place, else a line. */
static void frame_format(const struct status_request *ask, const struct view *view, bool is_screen,
                         struct buf *out)
{
    if (ask->json)
        object_format(out, view);
    else if (is_screen)
        text_format(out, view);
    else
        line_format(out, view);
}

static int watch(const struct status_request *ask, const char *dir, struct err *err)
{
    bool is_screen = !ask->json && isatty(STDOUT_FILENO), is_running = true;
    cleanup_buf struct buf frame = BUF_INIT, before = BUF_INIT, out = BUF_INIT;
    int rc = 0;
    while (rc == 0 && is_running) {
        struct view view = {0};
        rc = view_read(&view, dir, err);
        if (rc)
            return rc;
        buf_reset(&frame);
        buf_reset(&out);
        frame_format(ask, &view, is_screen, &frame);
        if (is_screen && before.len)
            buf_addf(&out, "\x1b[%zuA\x1b[J", lines_in(&before));
        if (is_screen || !str_equal(buf_str(&frame), buf_str(&before)))
            buf_add_str(&out, buf_str(&frame));
        is_running = goes_on(&view);
        view_release(&view);
        buf_reset(&before);
        buf_add_str(&before, buf_str(&frame));
        rc = stdout_put(buf_str(&out), err);
        is_running = rc == 0 && is_running && reader_pause_ms(WATCH_EVERY_MS);
    }
    return rc;
}

static int status_run(struct app *app, void *request, int argc, char **argv, char **command,
                      struct err *err)
{
    (void)app, (void)command;
    const struct status_request *ask = request;
    cleanup_free char *dir = NULL;
    int rc = run_arg_find(ask->runs_dir, argc, argv, &dir, err);
    if (rc || ask->watch)
        return rc ? rc : watch(ask, dir, err);
    struct view view = {0};
    cleanup_buf struct buf out = BUF_INIT;
    rc = view_read(&view, dir, err);
    if (rc)
        return rc;
    frame_format(ask, &view, true, &out);
    view_release(&view);
    return stdout_put(buf_str(&out), err);
}

static const struct opt status_opts[] = {
    {.kind = OPT_FLAG,
     .letter = 'w',
     .name = "watch",
     .help = "show the status again every second until the run has ended",
     .offset = offsetof(struct status_request, watch)},
    {.kind = OPT_FLAG,
     .name = "json",
     .help =
         "print one JSON object per line, as in the run's status.json, with the run's name and folder",
     .offset = offsetof(struct status_request, json)},
    RUNS_DIR_OPT(struct status_request),
    {.kind = OPT_END},
};

static const char *const status_examples[] = {
    "muster status",
    "how far the latest run is",
    "muster status --watch 20260131",
    "follow the only run of that day",
    NULL,
};

const struct cmd cmd_status = {
    .name = "status",
    .args = "[OPTION]... [RUN]",
    .summary = "show how far a run is",
    .details =
        "RUN is a path, a name, the beginning of a name, or latest (the default). A run whose muster "
        "died is shown as interrupted, with the command that goes on with it.",
    .opts = status_opts,
    .examples = status_examples,
    .request_size = sizeof(struct status_request),
    .run = status_run,
};
