/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that say nothing: does a filter wait for more input before it flushes, did it lose its
 * input, does it not end though it was told to?
 */
#include <poll.h>
#include <sys/ioctl.h>

#include "base/parse.h"
#include "proc/waits.h"
#include "run/session.h"

enum {
    HUNGRY_FIRST_MS = 200,
    ENDING_MIN_MS = 1000,
    SILENT_BYTES_MAX = 4 << 20,
    SILENCE_PARTS = 8 /* of its silence: so much later is it known that it waits for input */
};

static bool has_read_its_input(const struct life *life)
{
    int unread = 0;
    if (life->to_worker.len > 0 || life->fds[STREAM_IN] < 0)
        return false;
    return ioctl(life->fds[STREAM_IN], FIONREAD, &unread) == 0 && unread == 0;
}

uint64_t life_ending_limit_ms(const struct life *life)
{
    return MAX(life->session->request->grace_ms, (uint64_t)ENDING_MIN_MS);
}

/* It was told that nothing more comes, and has its time to end behind it. */
static void overdue_end(struct life *life)
{
    char limit[24];
    duration_format(limit, life_ending_limit_ms(life));
    log_add(life->session->log, LOG_WARN, "worker",
            "%s has not ended %s after its last result (--grace); ending it", life_label(life),
            limit);
    life_terminate(life, CAUSE_NONE);
}

/* It waits for more input, and nothing that it printed is still to be read: looked at in this order. */
static bool rests(const struct life *life)
{
    int unread = 0;
    return has_read_its_input(life) && proc_rests(life->guard.worker_pid, life->fds[STREAM_IN]) &&
           life->fds[STREAM_OUT] >= 0 && ioctl(life->fds[STREAM_OUT], FIONREAD, &unread) == 0 &&
           unread == 0;
}

/*
 * A drained filter's answers are believed as soon as it is seen to wait for input. A filter that waits for
 * input before it has answered anything buffers; this is found here without waiting for its silence.
 */
void life_rest_check(struct life *life)
{
    struct session *s = life->session;
    struct feed_worker_view view;
    feed_worker(s->feed, life->seat, &view);
    bool is_first = life->has_read && life->n_items_answered == 0 && life_is_busy(life) &&
                    life->rest_pause_ms < HUNGRY_FIRST_MS;
    bool is_awaited = view.is_settling || (is_first && !life->input_must_close);
    if (!is_awaited || life->is_channel || s->is_held) {
        life->rest_pause_ms = life->n_items_answered > 0 ? 0 : life->rest_pause_ms;
        return;
    }
    if (life->rest_pause_ms == 0 || session_now(s) >= life->rest_look_ms) {
        life->rest_pause_ms = MAX(2 * life->rest_pause_ms, (uint64_t)1);
        life->rest_look_ms = s->now_ms + life->rest_pause_ms;
        if (rests(life)) {
            enum feed_event_kind kind = view.is_settling ? EV_RESTS : EV_HUNGRY;
            session_event(s, (struct feed_event){.kind = kind, .worker = life->seat, .flag = true});
            return;
        }
    }
    s->look_ms = MIN(s->look_ms, life->rest_look_ms);
}

/* When does it begin to read? What was loaded until then is loaded again at each start. */
void life_reads_check(struct life *life)
{
    struct session *s = life->session;
    int unread = 0;
    if (life->fds[STREAM_IN] < 0 || life->n_items_sent == 0 || life->is_channel || s->is_held)
        return;
    if (session_now(s) >= life->reads_look_ms) {
        bool is_seen = ioctl(life->fds[STREAM_IN], FIONREAD, &unread) == 0;
        life->has_read = is_seen && (uint64_t)unread + life->to_worker.len < life->bytes_in_flight;
        if (life->has_read || life->n_items_answered > 0) {
            life->has_read = true;
            s->places[life->seat].reads_after_ms = MAX(s->now_ms - life->started_ms, (uint64_t)1);
            session_event(s, (struct feed_event){.kind = EV_READS, .worker = life->seat});
            return;
        }
        uint64_t load_ms = s->now_ms - life->started_ms;
        life->reads_look_ms = s->now_ms + MAX(load_ms / 8, (uint64_t)1);
    }
    s->look_ms = MIN(s->look_ms, life->reads_look_ms);
}

static void overdue_check(struct life *life)
{
    struct session *s = life->session;
    if (s->now_ms < life->next_hungry_ms || life->was_ended)
        return;
    bool lost_input =
        !life->input_must_close && life->fds[life->is_channel ? STREAM_CHANNEL : STREAM_IN] < 0;
    bool has_nothing = !life_is_busy(life) || s->is_complete;
    if (lost_input)
        session_event(s, (struct feed_event){.kind = EV_STRAY, .worker = life->seat});
    else if (life->input_must_close && has_nothing)
        overdue_end(life);
}

/* A worker that closed its stdin and lives on shows only in that nobody is left to read the pipe. */
static bool has_reader(const struct life *life)
{
    struct pollfd end = {.fd = life->fds[STREAM_IN]};
    return poll(&end, 1, 0) <= 0 || !(end.revents & POLLERR);
}

void life_hungry_check(struct life *life)
{
    struct session *s = life->session;
    if (life->shard) /* it reads nothing */
        return;
    if (life->accept_waits && life->channel_is_listening)
        life_poll(life, STREAM_CHANNEL, UV_READABLE);
    if (!life->is_channel && life->fds[STREAM_IN] >= 0 && !has_reader(life))
        life_input_broken(life, STREAM_IN);
    bool lost_input = life->fds[life->is_channel ? STREAM_CHANNEL : STREAM_IN] < 0;
    if (life->input_must_close || lost_input) {
        if (life->guard.worker_pid > 0 && life->next_hungry_ms > 0)
            overdue_check(life);
        return;
    }
    if (life->is_channel || !life_is_busy(life) || s->now_ms < life->next_hungry_ms)
        return;
    uint64_t patience_ms = (uint64_t)HUNGRY_FIRST_MS;
    if (s->now_ms - life->last_output_ms < patience_ms || !has_read_its_input(life)) {
        life->hungry_count = 0;
        return;
    }
    int reading = proc_reads_stdin(life->guard.worker_pid);
    if (reading == 0) { /* it computes: the longer it does, the less often it is asked */
        life->next_hungry_ms = s->now_ms + (s->now_ms - life->last_output_ms) / SILENCE_PARTS;
        return;
    }
    /* Where the kernel does not say what it waits for, ask less and less often. */
    life->next_hungry_ms =
        s->now_ms + (reading > 0 ? 0 : patience_ms << MIN(life->hungry_count, (uint64_t)8));
    life->hungry_count++;
    enum feed_event_kind kind = life->bytes_in_flight > SILENT_BYTES_MAX ? EV_FULL : EV_HUNGRY;
    /* One that reads ahead of others that work, or load, is not held to buffer. */
    bool is_certain = reading > 0 && proc_is_idle(life->guard.worker_pid);
    session_event(s, (struct feed_event){.kind = kind, .worker = life->seat, .flag = is_certain});
}
