/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that say nothing: does a filter wait for more input before it flushes, did it lose its
 * input, does it not end though it was told to?
 */
#include "base/parse.h"
#include "run/session.h"

enum {
    FIRST_LOOKS_MS = 200, /* so long are a filter's first answers looked for */
    ENDING_MIN_MS = 1000,
    SILENT_BYTES_MAX = 4 << 20
};

uint64_t life_ending_limit_ms(const struct life *life)
{
    return MAX(life->session->request->grace_ms, (uint64_t)ENDING_MIN_MS);
}

/* It was told that nothing more comes, and has its time to end behind it. */
static void overdue_end(struct life *life)
{
    char limit[24];
    duration_format(limit, life_ending_limit_ms(life));
    log_add(life->session->shell.log, LOG_WARN, "worker",
            "%s has not ended %s after its last result (--grace); ending it", life_label(life),
            limit);
    life_terminate(life, CAUSE_NONE);
}

static void overdue_check(struct life *life)
{
    struct session *s = life->session;
    if (s->shell.now_ms < life->deadline_ms || life->was_ended)
        return;
    bool has_nothing = !life_is_busy(life) || s->is_complete;
    if (!life->input_must_close)
        session_event(s, (struct feed_event){.kind = EV_STRAY, .worker = life->seat});
    else if (has_nothing)
        overdue_end(life);
}

void life_tick(struct life *life)
{
    if (life->shard || !life->process) /* a shard reads nothing */
        return;
    bool lost_input = !node_is_open(life->process, life->is_channel ? STREAM_CHANNEL : STREAM_IN);
    bool is_ending = life->input_must_close || lost_input;
    if (is_ending && node_pid(life->process) > 0 && life->deadline_ms > 0)
        overdue_check(life);
    if (life->process)
        node_ask_wait(life->process, !is_ending && !life->is_channel && life_is_busy(life));
}

static void has_read(struct life *life)
{
    struct session *s = life->session;
    if (life->has_read)
        return;
    life->has_read = true;
    s->places[life->seat].reads_after_ms = MAX(s->shell.now_ms - life->started_ms, (uint64_t)1);
    session_event(s, (struct feed_event){.kind = EV_READS, .worker = life->seat});
}

/*
 * A drained filter's answers are believed as soon as it is seen to wait for input. A filter that waits for
 * input before it has answered anything buffers; this is found here without waiting for its silence.
 */
static uint64_t rest_looks_ms(const struct life *life)
{
    struct feed_worker_view view;
    feed_worker(life->session->feed, life->seat, &view);
    bool is_first = life->has_read && life->n_items_answered == 0 && life_is_busy(life);
    if (view.is_settling)
        return UINT64_MAX;
    return is_first && !life->input_must_close ? FIRST_LOOKS_MS : 0;
}

void life_input_ask(struct life *life)
{
    if (life->shard || life->is_channel || !life->process)
        return;
    bool is_open = node_is_open(life->process, STREAM_IN) && life->n_items_sent > 0;
    if (is_open && !life->has_read && life->n_items_answered > 0)
        has_read(life);
    node_ask_read(life->process, is_open && !life->has_read);
    node_ask_rest(life->process, rest_looks_ms(life));
}

/* It is silent, and has read all that it was given. */
static void waits_seen(struct life *life, bool is_certain)
{
    bool is_full = life->bytes_in_flight > SILENT_BYTES_MAX;
    session_event(life->session, (struct feed_event){.kind = is_full ? EV_FULL : EV_HUNGRY,
                                                     .worker = life->seat,
                                                     .flag = is_certain});
}

static void rest_seen(struct life *life)
{
    struct feed_worker_view view;
    feed_worker(life->session->feed, life->seat, &view);
    enum feed_event_kind kind = view.is_settling ? EV_RESTS : EV_HUNGRY;
    session_event(life->session,
                  (struct feed_event){.kind = kind, .worker = life->seat, .flag = true});
}

/* Only the answers of a filter that was let run dry are about to be believed. */
static void work_seen(struct life *life)
{
    struct feed_worker_view view;
    feed_worker(life->session->feed, life->seat, &view);
    if (view.is_settling)
        session_event(life->session, (struct feed_event){.kind = EV_WORKS, .worker = life->seat});
}

void life_input_seen(void *context, enum input_fact fact)
{
    struct life *life = context;
    shell_now(&life->session->shell);
    if (life->is_channel)
        return;
    switch (fact) {
    case INPUT_READ:
        has_read(life);
        return;
    case INPUT_RESTS:
        rest_seen(life);
        return;
    case INPUT_WORKS:
        work_seen(life);
        return;
    case INPUT_WAITS:
    case INPUT_WAITS_PERHAPS:
        waits_seen(life, fact == INPUT_WAITS);
        return;
    }
}
