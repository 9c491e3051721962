/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts become events for the feeder; its actions are carried out.
 */
#include "map/session_impl.h"

#include <errno.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "data/inputs.h"
#include "map/work.h"
#include "proc/guard.h"
#include "shell/hosts.h"

/* ---- actions ---- */

static const char *const cause_texts[] = {
    [CAUSE_NONE] = "",
    [CAUSE_FAILED] = "failed",
    [CAUSE_CRASH] = "killed its worker",
    [CAUSE_OOM] = "does not fit into memory even alone",
    [CAUSE_TIMEOUT] = "took longer than the limit for one item",
    [CAUSE_START] = "the worker was not ready in time",
    [CAUSE_PROTOCOL] = "answers do not match the items",
    [CAUSE_UNFIT] = "malformed",
    [CAUSE_LOST] = "the device is gone",
    [CAUSE_RESTARTS] = "workers die there again and again without a result",
    [CAUSE_LOSER] = "its items were answered elsewhere",
    [CAUSE_LINGERS] = "",
    [CAUSE_STOP] = "stopped",
};

void session_record(struct session *s, const char *kind, uint32_t seat, const char *text)
{
    cleanup_buf struct buf json = BUF_INIT;
    buf_add_char(&json, '{');
    if (seat < s->n_seats) {
        buf_add_text(&json, "\"worker\":");
        buf_add_json(&json, str_of(s->seats[seat].seat.label));
        buf_add_char(&json, ',');
    }
    buf_add_text(&json, "\"text\":");
    buf_add_json(&json, str_of(text));
    buf_add_char(&json, '}');
    session_record_json(s, kind, buf_text(&json));
}

void session_record_json(struct session *s, const char *kind, const char *json)
{
    ledger_event(s->ledger, kind, json);
}

static void do_spawn(struct session *s, const struct feed_action *a)
{
    s->request->work->worker->spawn(s, a->worker, a->count);
}

static void do_send(struct session *s, const struct feed_action *a)
{
    struct worker *worker = worker_at(s, a->worker);
    if (!worker)
        return;
    if (s->request->work->keeps_workers)
        log_add(shell_log(s->shell), LOG_DEBUG, "map", "%s is given items %lu to %lu, attempt %u",
                worker_label(worker), a->item, a->item + a->count - 1, a->detail);
    s->request->work->worker->send(worker, a);
}

static void do_end(struct session *s, const struct feed_action *a)
{
    if (worker_at(s, a->worker))
        s->request->work->worker->retire(worker_at(s, a->worker));
}

static void do_terminate(struct session *s, const struct feed_action *a)
{
    if (worker_at(s, a->worker))
        worker_terminate(worker_at(s, a->worker), a->detail);
}

static void do_batch(struct session *s, const struct feed_action *a)
{
    char limit[64];
    if (worker_at(s, a->worker))
        s->request->work->worker->batch(worker_at(s, a->worker), a->count);
    snprintf(limit, sizeof(limit), "at most %lu item%s at once", a->count, plural(a->count));
    log_add(shell_log(s->shell), LOG_WARN, "map", "%s: out of memory; %s from now on",
            s->seats[a->worker].seat.label, limit);
    session_record(s, "oom", a->worker, limit);
}

static void settled_event(struct session *s, uint64_t item, uint64_t count)
{
    /*
     * For the feeder, a result that the ledger has is committed: the ledger commits in order or ends
     * the run, and a resume runs again what a crash left uncommitted. So the feeder need not wait for
     * the disk.
     */
    session_event(s, (struct feed_event){.kind = EV_COMMITTED, .item = item, .count = count});
}

static void do_commit(struct session *s, const struct feed_action *a)
{
    struct worker *worker = worker_at(s, a->worker);
    ASSERT(worker);
    bool was_noted =
        worker->is_channel ? s->request->schedule.fixed_batches : !worker->filter.key_index;
    if (was_noted)
        answers_commit(worker, a->item, a->count);
    else
        channel_commit(worker, a->item);
    worker->items_done += a->count;
    settled_event(s, a->item, a->count);
}

static void do_revoke(struct session *s, const struct feed_action *a)
{
    if (worker_at(s, a->worker))
        answers_forget(worker_at(s, a->worker));
}

/* Adds why an item is given up: the reason that its worker gave, the flaw of its record, or how its worker died. */
static void reason_add(struct session *s, const struct feed_action *a, struct str position,
                       struct buf *reason)
{
    const char *label = a->worker < s->n_seats ? s->seats[a->worker].seat.label : "no worker";
    if (a->detail == CAUSE_UNFIT) {
        record_flaw_add(s, a->item, position, reason);
        return;
    }
    const struct work *work = s->request->work;
    bool is_said = a->detail == CAUSE_FAILED || a->detail == CAUSE_PROTOCOL ||
                   (!work->keeps_workers && a->detail == CAUSE_CRASH);
    if (is_said && s->step.error)
        buf_addf(reason, "%s%s", a->detail == CAUSE_PROTOCOL ? "its worker was " : "",
                 s->step.error);
    else if (work->cause_text && work->cause_text(a->detail))
        buf_add_text(reason, work->cause_text(a->detail));
    else
        buf_add_text(reason, cause_texts[a->detail]);
    if (s->step.error && !is_said)
        buf_addf(reason, " (%s)", s->step.error);
    buf_addf(reason, " on %s", label);
}

static void do_set_aside(struct session *s, const struct feed_action *a)
{
    const struct work *work = s->request->work;
    cleanup_buf struct buf position = BUF_INIT, reason = BUF_INIT;
    work->position_add(s, a->item, &position);
    reason_add(s, a, buf_str(&position), &reason);
    if (work->given_up)
        work->given_up(s, a->item);
    ledger_failed_item(s->ledger, &(struct failed_item_row){.item = a->item,
                                                            .attempts = (uint32_t)a->count,
                                                            .reason = buf_text(&reason),
                                                            .stderr_tail = s->step.stderr_tail,
                                                            .position = buf_text(&position)});
    if (s->failed.n_noted++ < 10)
        log_add(shell_log(s->shell), LOG_WARN, "map", "set aside: %s: %s", buf_text(&position),
                buf_text(&reason));
    settled_event(s, a->item, 1);
}

static void do_bench(struct session *s, const struct feed_action *a)
{
    device_set_benched(s, a->worker, cause_texts[a->detail]);
    if (a->detail == CAUSE_LOST)
        device_watch_miss(s->devices, a->worker);
}

static void do_return(struct session *s, const struct feed_action *a)
{
    device_set_returned(s, a->worker);
}

static void do_vacated(struct session *s, const struct feed_action *a)
{
    device_set_vacated(s, a->worker);
}

static void do_note(struct session *s, const struct feed_action *a)
{
    const char *label = a->worker < s->n_seats ? s->seats[a->worker].seat.label : "";
    struct worker *worker = worker_at(s, a->worker);
    char age[24];
    switch ((enum feed_note)a->detail) {
    case NOTE_SILENT:
        if (!s->request->work->keeps_workers) /* such a worker gives no answer before its end */
            return;
        duration_format(age, a->count);
        log_add(shell_log(s->shell), LOG_WARN, "map", "%s: %lu item%s sent, %s, no answer%s", label,
                a->item, a->item == 1 ? "" : "s", age,
                worker && !worker->is_channel ? ": does the worker flush its output?" : "");
        return;
    case NOTE_REISSUED:
        log_add(shell_log(s->shell), LOG_DEBUG, "map", "item %lu given to %s as well", a->item,
                label);
        session_record(s, "reissue", a->worker, "a straggler was given to it as well");
        return;
    case NOTE_FOREIGN:
        if (worker)
            channel_foreign(worker, a->item);
        return;
    case NOTE_HALVED:
        log_add(shell_log(s->shell), LOG_INFO, "map",
                "%lu items were in a worker that died; they are halved to find the culprit",
                a->count);
        return;
    case NOTE_NONE:
        return;
    }
}

static void do_complete(struct session *s, const struct feed_action *a)
{
    (void)a;
    s->outcome.is_complete = true;
    s->outcome.complete_us = clock_now_ns() / 1000;
}

static void do_halt(struct session *s, const struct feed_action *a)
{
    s->outcome.was_halted = true;
    s->outcome.halt = a->detail;
    if (s->outcome.halt == HALT_UNFIT)
        shell_end_with(s->shell, err_exit_status(ERR_RECORD));
    if (s->outcome.halt == HALT_DRAINED)
        shell_end_with(s->shell, err_exit_status(ERR_STOPPED));
    log_add(shell_log(s->shell), LOG_INFO, "map", "ending early");
    session_record(s, "halt", UINT32_MAX, a->detail == HALT_STOPPED ? "stopped" : "given up");
}

static void do_over(struct session *s, const struct feed_action *a)
{
    (void)a;
    s->outcome.is_over = true;
}

static void do_nothing(struct session *s, const struct feed_action *a)
{
    (void)s, (void)a;
}

static void (*const action_handlers[])(struct session *s, const struct feed_action *a) = {
    [ACT_SPAWN] = do_spawn,         [ACT_SEND] = do_send,     [ACT_END] = do_end,
    [ACT_TERMINATE] = do_terminate, [ACT_BATCH] = do_batch,   [ACT_COMMIT] = do_commit,
    [ACT_DROP] = do_nothing,        [ACT_REVOKE] = do_revoke, [ACT_SET_ASIDE] = do_set_aside,
    [ACT_BENCH] = do_bench,         [ACT_NOTE] = do_note,     [ACT_COMPLETE] = do_complete,
    [ACT_HALT] = do_halt,           [ACT_OVER] = do_over,     [ACT_RETURN] = do_return,
    [ACT_VACATED] = do_vacated,
};

static void on_feed_timer(uv_timer_t *timer)
{
    session_event(timer->data, (struct feed_event){.kind = EV_TICK});
}

static void feed_timer_set(struct session *s)
{
    uint64_t next_ms = feed_next_ms(s->feed);
    bool is_needed = next_ms != UINT64_MAX || s->look_ms != UINT64_MAX;
    if (!is_needed || s->backpressure.is_held ||
        s->outcome.is_over) { /* the feeder has finished and needs no timer */
        uv_timer_stop(&s->feed_timer);
        return;
    }
    uv_update_time(shell_uv_loop(s->shell));
    uint64_t at_ms =
        MIN(next_ms == UINT64_MAX ? next_ms : next_ms + s->backpressure.total_ms, s->look_ms);
    uint64_t delay_ms = at_ms > shell_last_now(s->shell) ? at_ms - shell_last_now(s->shell) : 0;
    uv_timer_start(&s->feed_timer, on_feed_timer, delay_ms, 0);
}

static void step(struct session *s, struct feed_event *event)
{
    const struct feed_action *actions;
    struct worker *worker = event->kind == EV_ROOM ? worker_at(s, event->worker) : NULL;
    if (worker && !worker_room_is_there(worker))
        return;
    event->now_ms = feed_now(s);
    size_t n_actions = feed_step(s->feed, event, &actions);
    for (size_t i = 0; i < n_actions; i++)
        action_handlers[actions[i].kind](s, &actions[i]);
}

static void event_put(struct session *s, struct feed_event event, const char *error)
{
    if (s->queue.len == s->queue.cap) {
        s->queue.cap = s->queue.cap ? s->queue.cap * 2 : 64;
        s->queue.at = xrealloc(s->queue.at, s->queue.cap * sizeof(*s->queue.at));
    }
    s->queue.at[s->queue.len++] = (struct queued_event){event, error};
}

static void queue_drain(struct session *s)
{
    for (size_t i = 0; i < s->queue.len;) {
        struct queued_event next = s->queue.at[i++];
        /* If it is empty, begin again at the front, so that a chain of events does not grow the queue. */
        if (i == s->queue.len)
            i = s->queue.len = 0;
        /* A step's context belongs to its event alone. */
        s->step = (struct step_context){.error = next.error};
        step(s, &next.event);
    }
    s->step = (struct step_context){0};
}

void session_event(struct session *s, struct feed_event event)
{
    if (s->queue.is_drained) { /* an action's event is handled after the action */
        event_put(s, event, NULL);
        return;
    }
    s->queue.is_drained = true;
    step(s, &event);
    queue_drain(s);
    s->queue.is_drained = false;
}

void session_event_later(struct session *s, struct feed_event event, const char *error)
{
    event_put(s, event, error);
    if (s->queue.is_drained)
        return;
    s->queue.is_drained = true;
    queue_drain(s);
    s->queue.is_drained = false;
}

/* ---- time ---- */

static void on_stop(void *context, enum shell_stop how)
{
    struct session *s = context;
    if (how != STOP_KILL)
        session_event(s, (struct feed_event){.kind = EV_STOP, .flag = how == STOP_WORKERS});
    for (uint32_t p = 0; how == STOP_KILL && p < s->n_seats; p++)
        if (s->seats[p].worker && s->seats[p].worker->process)
            node_end(s->seats[p].worker->process, END_AT_ONCE);
}

static void input_changed(struct session *s, const struct err *why)
{
    s->input_is_changed = true;
    shell_abort(s->shell, why);
}

/* A changed input is reported while the run lasts, not only at its end. */
static void inputs_watch(struct session *s)
{
    struct err err = {0};
    if (shell_end(s->shell)->err.code == 0 && inputs_check_next(s->inputs, &err) != 0)
        input_changed(s, &err);
}

void session_input_copied(struct session *s)
{
    struct err err = {0};
    if (inputs_copied(s->inputs, &err) != 0)
        input_changed(s, &err);
}

static void on_tick(void *context)
{
    struct session *s = context;
    for (uint32_t p = 0; p < s->n_seats; p++)
        if (s->seats[p].worker && !s->backpressure.is_held)
            worker_tick(s->seats[p].worker);
    device_watch_check(s->devices);
    if (!shell_is_settled(s->shell)) /* after that, changes of the input do not matter */
        inputs_watch(s);
    session_progress(s, false);
}

static void on_second(void *context)
{
    struct session *s = context;
    device_watch_renew(s->devices);
}

static void on_before_sleep(void *context)
{
    struct session *s = context;
    for (uint32_t p = 0; p < s->n_seats; p++)
        if (s->seats[p].worker)
            worker_input_ask(s->seats[p].worker);
    s->look_ms = node_look(shell_node(s->shell));
    for (uint32_t p = 0; p < s->n_seats; p++) {
        struct worker *worker = s->seats[p].worker;
        if (worker && worker->credits_held > 0)
            channel_flush(worker);
        else if (worker && worker->to_worker.len > 0)
            worker_flush(worker);
    }
    feed_timer_set(s);
}

const struct shell_verb map_shell = {.name = "map",
                                     .stop = on_stop,
                                     .tick = on_tick,
                                     .each_second = on_second,
                                     .before_sleep = on_before_sleep,
                                     .takes_seats = true,
                                     .finishes_items = true,
                                     .finish_ms = devices_finish_ms};

int session_loop(struct session *s, struct err *err)
{
    int rc = shell_loop_begin(s->shell, err);
    if (rc)
        return rc;
    uv_timer_init(shell_uv_loop(s->shell), &s->feed_timer);
    s->feed_timer.data = s;
    shell_verb_return(s->shell);
    device_watch_log(s->devices);
    device_watch_begin(s->devices);
    if (shell_hosts(s->shell))
        hosts_losses_tell(shell_hosts(s->shell));
    s->request->work->input_begin(s);
    while (!s->outcome.is_over && !s->outcome.is_complete)
        shell_turn(s->shell);
    return 0;
}

void session_loop_end(struct session *s)
{
    while (!s->outcome.is_over)
        shell_turn(s->shell);
    console_flush(shell_console(s->shell), shell_now(s->shell), true);
}

void session_release(struct session *s)
{
    device_watch_end(s->devices);
    ledger_free(s->ledger);
    shell_close(s->shell);
    feed_free(s->feed);
    shell_display_close(s->shell);
    free(s->order);
    free(s->queue.at);
    session_plan_release(s);
}
