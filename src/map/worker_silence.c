/* SPDX-License-Identifier: Apache-2.0
 *
 * Silent workers: finds out whether a filter waits for more input, and holds its answers back.
 */
#include "base/clock.h"
#include "map/session_impl.h"
#include "map/work.h"

enum {
    /* looks for a filter's first wait end when the pause between two looks has grown to this */
    FIRST_LOOKS_MS = 200,
    SILENT_BYTES_MAX = 4 << 20
};

void worker_tick(struct worker *worker)
{
    if (!worker->session->request->work->keeps_workers || !worker->process)
        return;
    bool lost_input =
        !node_is_open(worker->process, worker->is_channel ? STREAM_CHANNEL : STREAM_IN);
    bool is_ending = worker->input_must_close || lost_input;
    node_ask_wait(worker->process, !is_ending && !worker->is_channel && busy_is(&worker->busy));
}

static void has_read(struct worker *worker)
{
    struct session *s = worker->session;
    if (worker->filter.has_read)
        return;
    worker->filter.has_read = true;
    uint64_t age_ms = (clock_now_ns() / 1000 - worker->busy.started_us) / 1000;
    s->seats[worker->seat].reads_after_ms = MAX(age_ms, (uint64_t)1);
    session_event(s, (struct feed_event){.kind = EV_READS, .worker = worker->seat});
}

/*
 * The longest pause between the node's looks at whether the filter waits for input (node_ask_rest); 0: no looks are
 * needed. The answers of a drained filter are final as soon as it is seen to wait. A filter that waits before it has
 * answered anything buffers its output; looks find that sooner than its silence would.
 */
static uint64_t rest_looks_ms(const struct worker *worker)
{
    struct feed_worker_view view;
    feed_worker(worker->session->feed, worker->seat, &view);
    bool is_first =
        worker->filter.has_read && worker->busy.n_answered == 0 && busy_is(&worker->busy);
    if (view.is_settling)
        return UINT64_MAX;
    return is_first && !worker->input_must_close ? FIRST_LOOKS_MS : 0;
}

void worker_input_ask(struct worker *worker)
{
    if (worker->is_channel || !worker->process)
        return;
    bool is_open = node_is_open(worker->process, STREAM_IN) && worker->busy.n_sent > 0;
    if (is_open && !worker->filter.has_read && worker->busy.n_answered > 0)
        has_read(worker);
    node_ask_read(worker->process, is_open && !worker->filter.has_read);
    node_ask_rest(worker->process, rest_looks_ms(worker));
}

/* The worker is silent, and has read all its input. */
static void waits_seen(struct worker *worker, bool is_certain)
{
    bool is_full = worker->filter.bytes_in_flight > SILENT_BYTES_MAX;
    session_event(worker->session, (struct feed_event){.kind = is_full ? EV_FULL : EV_IDLE,
                                                       .worker = worker->seat,
                                                       .flag = is_certain});
}

static void rest_seen(struct worker *worker)
{
    struct feed_worker_view view;
    feed_worker(worker->session->feed, worker->seat, &view);
    enum feed_event_kind kind = view.is_settling ? EV_RESTS : EV_IDLE;
    session_event(worker->session,
                  (struct feed_event){.kind = kind, .worker = worker->seat, .flag = true});
}

/* The worker works. That matters only for a drained filter, whose answers are about to become final. */
static void work_seen(struct worker *worker)
{
    struct feed_worker_view view;
    feed_worker(worker->session->feed, worker->seat, &view);
    if (view.is_settling)
        session_event(worker->session,
                      (struct feed_event){.kind = EV_WORKS, .worker = worker->seat});
}

void worker_input_seen(void *context, enum input_fact fact)
{
    struct worker *worker = context;
    shell_now(worker->session->shell);
    if (worker->is_channel)
        return;
    switch (fact) {
    case INPUT_READ:
        has_read(worker);
        return;
    case INPUT_RESTS:
        rest_seen(worker);
        return;
    case INPUT_WORKS:
        work_seen(worker);
        return;
    case INPUT_WAITS:
    case INPUT_WAITS_PERHAPS:
        waits_seen(worker, fact == INPUT_WAITS);
        return;
    }
}
