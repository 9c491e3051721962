/* SPDX-License-Identifier: Apache-2.0
 *
 * What the progress display and status.json show, taken from the session.
 */
#include "ui/progress.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "map/progress.h"
#include "map/session_impl.h"
#include "map/work.h"
#include "shell/hosts.h"
#include "store/status.h"

enum {
    STATUS_EVERY_MS = 1000,
    PROGRESS_EVERY_MS = 100
};

static const char *const state_names[] = {
    [WORKER_ABSENT] = "off",      [WORKER_STARTING] = "starts", [WORKER_LOADING] = "loading",
    [WORKER_LIVE] = "works",      [WORKER_ENDING] = "ending",   [WORKER_COOLING] = "pauses",
    [WORKER_BENCHED] = "benched", [WORKER_GONE] = "gone",
};

static void worker_take(struct session *s, uint32_t p, struct snapshot *out)
{
    struct feed_worker_view view;
    const struct seat_state *seat_state = &s->seats[p];
    struct seat_memory memory = device_watch_memory(s->devices, p);
    feed_worker(s->feed, p, &view);
    snprintf(out->labels[p], sizeof(out->labels[p]), "%s", seat_state->seat.label);
    for (char *c = out->labels[p]; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    bool waits = view.state == WORKER_LIVE && view.in_flight == 0;
    /* The worker's input has ended, and it works on its last items. */
    bool works_off = view.state == WORKER_ENDING && view.in_flight > 0;
    out->workers[p] = (struct progress_worker){
        .label = out->labels[p],
        .state = waits       ? "waits"
                 : works_off ? state_names[WORKER_LIVE]
                             : state_names[view.state],
        .done = view.items_done,
        .in_flight = view.in_flight,
        .mem_used_bytes = memory.used_bytes,
        .mem_total_bytes = memory.total_bytes,
        .last_word = console_last(shell_console(s->shell), p * 2),
    };
    uint64_t age_ms = seat_state->worker && view.in_flight > 0
                          ? shell_last_now(s->shell) -
                                MIN(shell_last_now(s->shell), seat_state->worker->last_output_ms)
                          : 0;
    out->total.oldest_ms = MAX(out->total.oldest_ms, age_ms);
}

static void metrics_take(struct session *s, struct progress_total *total)
{
    double correct, seen;
    if (metrics_judged(ledger_metrics(s->ledger), &correct, &seen)) {
        total->correct += correct;
        total->seen += seen;
    }
}

/* The rate counts from the moment at which the seat's first worker was ready; later loads of a model lower it. */
static void rate_take(struct session *s, uint32_t p, struct snapshot *out)
{
    struct seat_state *seat = &s->seats[p];
    struct progress_worker *w = &out->workers[p];
    uint64_t now_ms = shell_last_now(s->shell);
    if (seat->ready_us == 0)
        return;
    if (seat->rate_ready_us != seat->ready_us)
        rate_begin(&seat->rate, 0, seat->ready_us / 1000);
    seat->rate_ready_us = seat->ready_us;
    rate_note(&seat->rate, w->done, now_ms);
    w->items_per_s = rate_per_s(&seat->rate, now_ms);
    out->total.items_per_s += w->in_flight > 0 ? w->items_per_s : 0;
}

void snapshot_take(struct session *s, struct snapshot *out)
{
    struct feed_counts counts;
    feed_counts(s->feed, &counts);
    out->workers = xcalloc(s->n_seats, sizeof(*out->workers));
    out->labels = xcalloc(s->n_seats, sizeof(*out->labels));
    out->words = xcalloc(s->n_seats, sizeof(*out->words));
    out->total =
        (struct progress_total){.done = counts.done + counts.answered,
                                .answered = counts.answered,
                                .aside = counts.aside,
                                .known = counts.known,
                                .input_is_final = counts.input_is_final,
                                .in_flight = counts.in_flight,
                                .retries = counts.retries,
                                .elapsed_ms = shell_last_now(s->shell) - shell_begin_ms(s->shell),
                                .n_workers = s->n_seats,
                                .workers = out->workers};
    for (uint32_t p = 0; p < s->n_seats; p++)
        worker_take(s, p, out);
    metrics_take(s, &out->total);
    if (s->request->work->progress_take)
        s->request->work->progress_take(s, out);
    for (uint32_t p = 0; p < s->n_seats; p++)
        rate_take(s, p, out);
}

void snapshot_release(struct snapshot *shot)
{
    free(shot->workers);
    free(shot->labels);
    free(shot->words);
}

/* Adds up the figures of the host's workers. */
static void host_workers_add(const struct session *s, const struct snapshot *shot, uint32_t node,
                             struct host_status *out)
{
    for (uint32_t p = 0; p < s->n_seats; p++) {
        const struct progress_worker *w = &shot->workers[p];
        if (s->seats[p].seat.host != node)
            continue;
        out->done += w->done;
        out->rate += w->in_flight > 0 ? w->items_per_s : 0;
    }
}

struct host_status *snapshot_hosts(const struct session *s, const struct snapshot *shot,
                                   size_t *n_hosts)
{
    const struct hosts *hosts = shell_hosts(s->shell);
    struct host_status *out = NULL;
    *n_hosts = hosts_count(hosts);
    if (*n_hosts > 0)
        out = xcalloc(*n_hosts, sizeof(*out));
    for (size_t i = 0; i < *n_hosts; i++) {
        struct host_view view = hosts_view(hosts, i);
        out[i] = (struct host_status){.name = view.name,
                                      .state = view.state,
                                      .away_ms = view.away_ms,
                                      .lost_ms = view.lost_ms,
                                      .round_trip_ms = view.round_trip_ms,
                                      .sent_bytes = view.n_bytes.sent,
                                      .received_bytes = view.n_bytes.received,
                                      .n_devices = view.n_devices,
                                      .n_workers = view.n_seats,
                                      .why = view.why};
        host_workers_add(s, shot, view.node, &out[i]);
    }
    return out;
}

static void status_snapshot(struct session *s, const struct snapshot *shot)
{
    struct worker_status *workers = xcalloc(s->n_seats, sizeof(*workers));
    char host[HOST_NAME_BYTES];
    size_t n_hosts;
    struct host_status *hosts = snapshot_hosts(s, shot, &n_hosts);
    host_name(host);
    for (uint32_t p = 0; p < s->n_seats; p++) {
        const struct progress_worker *w = &shot->workers[p];
        workers[p] = (struct worker_status){w->label,       w->state,          w->done,
                                            w->items_per_s, w->mem_used_bytes, w->last_word};
    }
    uint64_t eta_ms = progress_eta_ms(&shot->total);
    struct run_status status = {.verb = "map",
                                .state = s->outcome.is_over || shell_is_settled(s->shell) ? "ended"
                                         : s->outcome.is_complete ? "merging"
                                                                  : "running",
                                .host = host,
                                .pid = getpid(),
                                .items_total = shot->total.known,
                                .is_total_known = shot->total.input_is_final,
                                .done = shot->total.done - shot->total.answered,
                                .answered = shot->total.answered,
                                .aside = shot->total.aside,
                                .running = shot->total.in_flight,
                                .rate = shot->total.items_per_s,
                                .eta_ms = eta_ms == UINT64_MAX ? -1 : (int64_t)eta_ms,
                                .started_wall_ms =
                                    clock_wall_ms() - (int64_t)shot->total.elapsed_ms,
                                .updated_wall_ms = clock_wall_ms(),
                                .workers = workers,
                                .n_workers = s->n_seats,
                                .hosts = hosts,
                                .n_hosts = n_hosts};
    struct err err = {0};
    if (status_write(shell_run_dir(s->shell), &status, &err) != 0)
        log_add(shell_log(s->shell), LOG_DEBUG, "map", "%s", err.text);
    free(workers);
    free(hosts);
}

void session_progress(struct session *s, bool last)
{
    /* The last status was written. A kill during another write would leave a temporary file. */
    if (shell_is_settled(s->shell) && !last)
        return;
    bool status_due = last || shell_last_now(s->shell) - s->shown.status_ms >= STATUS_EVERY_MS;
    bool drawn_due = last || shell_last_now(s->shell) - s->shown.progress_ms >= PROGRESS_EVERY_MS;
    if (!status_due && !drawn_due)
        return;
    struct snapshot shot = {0};
    snapshot_take(s, &shot);
    if (shell_progress(s->shell))
        progress_show(shell_progress(s->shell), &shot.total, shell_last_now(s->shell), last);
    if (status_due)
        status_snapshot(s, &shot);
    s->shown.progress_ms = shell_last_now(s->shell);
    if (status_due)
        s->shown.status_ms = shell_last_now(s->shell);
    snapshot_release(&shot);
}
