/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a worker: the guard's report, the reason of the death, and output that is still to be read.
 */
#include <signal.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/parse.h"
#include "map/session_impl.h"
#include "map/work.h"
#include "shell/host_link.h"

enum {
    TAIL_BYTES = 4096,
    WORDS_MAX = 160, /* bytes */
};

static uint64_t now_us(void)
{
    return clock_now_ns() / 1000;
}

void worker_sent(struct worker *worker, uint64_t count)
{
    busy_sent(&worker->busy, count, now_us());
}

void worker_answered(struct worker *worker, uint64_t count)
{
    busy_answered(&worker->busy, count, now_us());
}

void worker_finish(struct worker *worker)
{
    worker->input_must_close = true;
    if (worker->is_channel)
        channel_stop(worker);
    worker_flush(worker);
}

static void stray_set(struct worker *worker, const char *why, struct str line)
{
    struct str first = line;
    const char *end = memchr(first.at, '\n', first.len);
    first.len = end ? (size_t)(end - first.at) : first.len;
    snprintf(worker->stray, sizeof(worker->stray), "%s%s%.*s%s%s", why, first.len > 0 ? ": " : "",
             (int)MIN(first.len, (size_t)120), first.at,
             worker->filter.first_line[0] ? "; its first line was: " : "",
             worker->filter.first_line);
}

static void stray_tell(const struct worker *worker)
{
    struct outcome *outcome = &worker->session->outcome;
    snprintf(outcome->last_stray, sizeof(outcome->last_stray), "%s", worker->stray);
    outcome->is_last_a_breach = worker->is_channel;
}

void worker_stray_note(struct worker *worker, const char *why, struct str line)
{
    stray_set(worker, why, line);
    stray_tell(worker);
}

void worker_closed_note(struct worker *worker)
{
    if (worker->is_channel)
        stray_set(worker, "it closed the channel, and did not end", STR(""));
    else
        worker_stray_note(worker, "it closed its input with items in hand", STR(""));
}

void worker_terminate(struct worker *worker, enum feed_cause cause)
{
    static const char *const why[] = {
        [CAUSE_TIMEOUT] = "an item took longer than its limit",
        [CAUSE_START] = "it was not ready within the time limit for starting",
        [CAUSE_PROTOCOL] = "its answers do not match the items it was given",
        [CAUSE_LOST] = "its device is gone",
        [CAUSE_LINGERS] = "it did not end within --grace after its last result",
    };
    struct session *s = worker->session;
    const char *reason = cause < countof(why) ? why[cause] : NULL;
    bool is_away = device_watch_seat_is_away(s->devices, worker->seat);
    if (cause == CAUSE_PROTOCOL && worker->is_channel)
        reason = "it breaks the protocol of the channel, see muster-worker(7)";
    if (reason && !is_away) /* the loss of its host was said */
        log_add(shell_log(s->shell), LOG_WARN, "worker", "%s is ended: %s%s%s",
                worker_label(worker), reason, worker->stray[0] ? "; " : "", worker->stray);
    worker->broke_its_rule = cause == CAUSE_PROTOCOL && worker->stray[0];
    if (worker->broke_its_rule)
        stray_tell(worker);
    worker->was_ended = true;
    if (worker->process)
        node_end(worker->process, END_POLITELY);
    if (!s->request->work->keeps_workers)
        s->request->work->worker->retire(worker);
}

static const enum feed_death death_of[] = {
    [DEATH_CLEAN] = GONE_CLEAN,
    [DEATH_FAILED] = GONE_CRASH,
    [DEATH_CRASHED] = GONE_CRASH,
    [DEATH_OOM] = GONE_OOM,
    [DEATH_HOST_OOM] = GONE_OOM,
    [DEATH_KILLED] = GONE_CRASH,
    [DEATH_DEVICE_LOST] = GONE_DEVICE_LOST,
    [DEATH_NOT_STARTED] = GONE_NOT_STARTED,
    [DEATH_ENDED_BY_US] = GONE_ENDED,
};

static enum death verdict(struct worker *worker, struct buf *tail)
{
    cleanup_buf struct buf out_tail = BUF_INIT;
    struct session *s = worker->session;
    if (worker->stderr_log)
        logfile_tail(worker->stderr_log, TAIL_BYTES, tail);
    if (worker->stdout_log)
        logfile_tail(worker->stdout_log, TAIL_BYTES, &out_tail);
    const struct worker_exit *exit = &worker->exit;
    const struct oom_counts *kills = &exit->oom_kills;
    return verdict_of(&(struct death_facts){
        .exit_code = exit->exit_code,
        .exit_signal = exit->exit_signal,
        .exec_failed = exit->was_refused,
        .we_ended_it = worker->was_ended,
        .oom_kills_near = kills->knows_own ? kills->own : kills->host,
        .oom_kills_host = MAX(kills->host, kills->own),
        .rss_peak_bytes = exit->rss_peak_bytes,
        .memory_bytes = exit->memory_bytes,
        .device_lost = device_watch_seat_has_lost(s->devices, worker->seat),
        .stderr_tail = buf_str(tail),
        .stdout_tail = buf_str(&out_tail),
    });
}

static void death_describe(struct worker *worker, enum death death, char out[END_TEXT_BYTES])
{
    char end[24];
    exit_format(end, worker->exit.exit_code, worker->exit.exit_signal);
    if (device_watch_seat_is_away(worker->session->devices, worker->seat))
        snprintf(out, END_TEXT_BYTES, "its host is gone");
    else if (worker->broke_its_rule)
        snprintf(out, END_TEXT_BYTES, "ended for %s", worker->stray);
    else if (death == DEATH_NOT_STARTED && worker->start_error[0])
        snprintf(out, END_TEXT_BYTES, "could not be started: %s", worker->start_error);
    else if (death == DEATH_NOT_STARTED)
        snprintf(out, END_TEXT_BYTES, "could not be executed: %s",
                 errno_text(worker->exit.exec_errno));
    else if (death == DEATH_FAILED || death == DEATH_CRASHED || death == DEATH_CLEAN ||
             death == DEATH_ENDED_BY_US)
        snprintf(out, END_TEXT_BYTES, "%s", end);
    else
        snprintf(out, END_TEXT_BYTES, "%s, %s", end, death_text(death));
}

static void attempt_record(struct worker *worker, const char *end)
{
    struct session *s = worker->session;
    bool is_over = end != NULL;
    if (worker->number == 0) /* the worker was never given an item */
        return;
    const struct busy *busy = &worker->busy;
    cleanup_buf struct buf times = BUF_INIT;
    hist_format(&busy->item_times, &times);
    ledger_attempt(s->ledger,
                   &(struct attempt_row){
                       .id = worker->number,
                       .seat = worker->seat,
                       .label = worker_label(worker),
                       .pid = node_pid(worker->process),
                       .started_wall_ms = worker->started_wall_ms,
                       .ended_wall_ms = is_over ? clock_wall_ms() : 0,
                       .end = end,
                       .items_done = worker->items_done,
                       .load_ms = busy->live_us ? (busy->live_us - busy->started_us) / 1000 : 0,
                       .busy_ms = busy->total_us / 1000,
                       .times = buf_text(&times),
                       .mem_peak_bytes = MAX(worker->mem_peak_bytes, worker->exit.rss_peak_bytes),
                   });
}

static void last_line_add(struct str tail, struct buf *out)
{
    struct str last = str_trim(tail);
    const char *line = last.len > 0 ? memrchr(last.at, '\n', last.len) : NULL;
    line = line ? line + 1 : last.at;
    size_t len = last.len > 0 ? (size_t)(last.at + last.len - line) : 0;
    console_words_add(out, (struct str){line, len}, WORDS_MAX);
}

void worker_died(struct worker *worker, const char *how)
{
    struct outcome *outcome = &worker->session->outcome;
    snprintf(outcome->last_words, sizeof(outcome->last_words), "%.*s",
             (int)sizeof(outcome->last_words) - 1, how);
    session_record(worker->session, "died", worker->seat, outcome->last_words);
}

/* A hint about the command of a worker that ended well without an answer. */
static void no_answer_note(struct worker *worker, const char *how)
{
    struct outcome *outcome = &worker->session->outcome;
    const char *question =
        worker->is_channel
            ? "it spoke over the channel, and must take its items there; a filter that imports "
              "muster calls muster.claim_stdout()"
            : "does it print one line for each item?";
    snprintf(outcome->last_words, sizeof(outcome->last_words), "%.200s without an answer: %s", how,
             question);
}

static void death_log(struct worker *worker, enum death death, const char *how, struct str tail)
{
    struct session *s = worker->session;
    cleanup_buf struct buf work = BUF_INIT, words = BUF_INIT;
    char died[END_TEXT_BYTES];
    s->request->work->worker->describe(worker, &work);
    bool is_mute = death == DEATH_CLEAN && worker->busy.n_answered == 0;
    if (is_mute)
        no_answer_note(worker, how);
    if ((is_mute || death != DEATH_ENDED_BY_US) && !worker->is_unreadable)
        s->outcome.is_last_a_breach = false;
    if (death == DEATH_CLEAN || death == DEATH_ENDED_BY_US) {
        if (worker->number > 0)
            log_add(shell_log(s->shell), LOG_INFO, "worker", "%s ended (%s)%s",
                    worker_label(worker), how, buf_text(&work));
        return;
    }
    last_line_add(tail, &words);
    snprintf(died, sizeof(died), "%.300s%s%s", how, words.len > 0 ? ": " : "", buf_text(&words));
    worker_died(worker, died);
    bool is_away = device_watch_seat_is_away(s->devices, worker->seat);
    log_add(shell_log(s->shell), is_away ? LOG_INFO : LOG_WARN, "worker", "%s died (%s)%s%s%s",
            worker_label(worker), how, buf_text(&work), words.len > 0 ? "; its last words: " : "",
            buf_text(&words));
}

static void memory_log(const struct worker *worker)
{
    const struct session *s = worker->session;
    const struct seat *seat = &s->seats[worker->seat].seat;
    char used[16], total[16];
    for (size_t d = 0; d < seat->n_devices; d++) {
        const struct device_sample *sample = device_watch_sample(s->devices, seat->devices[d]);
        if (sample->mem_total_bytes == 0)
            continue;
        size_format(used, sample->mem_used_bytes);
        size_format(total, sample->mem_total_bytes);
        log_add(shell_log(s->shell), LOG_DEBUG, "device", "%s: %s of %s used in its last sample",
                worker_label(worker), used, total);
    }
}

static void resources_close(struct worker *worker)
{
    if (worker->process)
        node_release(steal_ptr(&worker->process));
    if (worker->session->request->work->worker->close)
        worker->session->request->work->worker->close(worker);
    part_close(worker->part);
    worker->part = NULL;
    logfile_close(worker->stdout_log);
    logfile_close(worker->stderr_log);
    worker->stdout_log = worker->stderr_log = NULL;
}

/*
 * How long the process may live on, on a lost host, while no other worker may have its items; 0: it does not, or may
 * do no harm.
 */
static uint64_t afterlife_ms(struct worker *worker)
{
    struct session *s = worker->session;
    const struct map_request *r = s->request;
    bool has_ended = worker->exit.has_exited || worker->exit.was_refused;
    char wait[24];
    if (!worker->process || has_ended || !device_watch_seat_is_away(s->devices, worker->seat) ||
        (r->work->keeps_workers && !r->schedule.no_reissue))
        return 0;
    uint64_t ms = host_emptied_in_ms(&r->allocation, r->run.grace_ms);
    duration_format(wait, ms);
    log_add(shell_log(s->shell), LOG_WARN, "worker",
            "%s may still work on its lost host: what it had runs again in %s",
            worker_label(worker), wait);
    return ms;
}

void worker_over(struct worker *worker)
{
    struct session *s = worker->session;
    const struct worker_ops *ops = s->request->work->worker;
    struct seat_state *seat_state = &s->seats[worker->seat];
    cleanup_buf struct buf tail = BUF_INIT;
    char how[END_TEXT_BYTES];
    if (worker->is_over)
        return;
    if (!worker->is_channel)
        filter_eof(worker);
    if (ops->printed)
        worker_words_end(worker);
    enum death death = verdict(worker, &tail);
    if (ops->settle && !ops->settle(worker, &death))
        return;
    death_describe(worker, death, how);
    if (death == DEATH_HOST_OOM && worker->exit.exit_signal == SIGKILL)
        node_oom_explained(worker->process);
    if (ops->judge && death == DEATH_CLEAN)
        ops->judge(worker, how);
    else
        death_log(worker, death, how, buf_str(&tail));
    memory_log(worker);
    if (ops->ended)
        ops->ended(worker, death_of[death] == GONE_OOM);
    worker->is_over = true;
    busy_end(&worker->busy, now_us());
    struct str printed = buf_str(&tail);
    if (!s->queue.is_drained) {
        s->step.error = how;
        s->step.stderr_tail = printed.len > 0 ? printed.at : NULL;
    }
    session_event(
        s, (struct feed_event){.kind = EV_EXIT,
                               .worker = worker->seat,
                               .death = death_of[death],
                               .count = death == DEATH_DEVICE_LOST ? afterlife_ms(worker) : 0});
    attempt_record(worker, how); /* the number of its answers that count is known now */
    seat_state->busy_ms += worker->busy.total_us / 1000;
    hist_merge(&seat_state->item_times, &worker->busy.item_times);
    seat_state->items_done += worker->items_done;
    seat_state->worker = NULL;
    worker_handle_opened(worker); /* keeps the worker allocated while the streams close */
    resources_close(worker);
    uint32_t seat = worker->seat;
    uv_handle_t last = {.data = worker};
    worker_handle_closed(&last);
    device_watch_left(s->devices, seat);
    device_watch_check(s->devices);
}

void worker_started(void *context)
{
    struct worker *worker = context;
    struct session *s = worker->session;
    shell_now(s->shell);
    attempt_record(worker, NULL);
    device_watch_guarded(s->devices, worker->seat, worker->process->guard_pid);
    session_event(s, (struct feed_event){.kind = EV_STARTED, .worker = worker->seat});
    if (s->request->key_field)
        session_event(s, (struct feed_event){.kind = EV_KEYED, .worker = worker->seat});
    worker_ask_for_room(worker);
}

void worker_gone(void *context, const struct worker_exit *exit)
{
    struct worker *worker = context;
    struct log *log = shell_log(worker->session->shell);
    shell_now(worker->session->shell);
    worker->exit = *exit;
    device_watch_ended(worker->session->devices, worker->seat);
    if (exit->n_left_behind > 0)
        log_add(log, LOG_INFO, "worker", "%s left %d process%s behind; ended", worker_label(worker),
                exit->n_left_behind, exit->n_left_behind == 1 ? "" : "es");
    if (exit->stuck_pid)
        log_add(log, LOG_ERROR, "worker", "%s: process %d does not die (uninterruptible sleep?)",
                worker_label(worker), exit->stuck_pid);
    /* Neither an exit nor a refusal: its guard was killed, and the worker with it, which is not the worker's fault. */
    worker->was_ended = worker->was_ended || !(exit->has_exited || exit->was_refused);
    worker_over(worker);
}
