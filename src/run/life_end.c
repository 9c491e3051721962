/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a worker's life: what its guard reports, why it died, what remains to be read.
 */
#include <signal.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "run/session.h"
#include "run/shard.h"
#include "run/watch.h"

enum {
    TAIL_BYTES = 4096,
    TOGETHER_US = 20,
    HOW_MAX = 512
};

bool life_is_busy(const struct life *life)
{
    return life->n_items_sent > life->n_items_answered;
}

static void burst_end(struct life *life)
{
    if (life->burst.count > 0)
        hist_add(&life->item_times, life->burst.span_us / life->burst.count, life->burst.count);
    life->burst.first_us = life->burst.span_us = life->burst.count = 0;
}

/* Busy is counted from the first sign of readiness: what was sent before waited for the model. */
static void busy_begin(struct life *life)
{
    if (life->live_ms == 0 || life->busy_since_ms > 0 || !life_is_busy(life))
        return;
    life->busy_since_ms = life->session->shell.now_ms;
    life->item_since_us = clock_now_ns() / 1000;
    burst_end(life);
}

static void busy_end(struct life *life)
{
    if (life->busy_since_ms > 0)
        life->busy_ms += life->session->shell.now_ms - life->busy_since_ms;
    life->busy_since_ms = 0;
}

/*
 * The time an item takes is seen in the spacing of the answers. The answers of a batch come at one
 * moment, so what follows within a fiftieth of the wait for the first belongs to the same burst.
 */
static void item_times_note(struct life *life, uint64_t count)
{
    uint64_t now_us = clock_now_ns() / 1000, gap_us = now_us - life->item_since_us;
    if (life->item_since_us == 0)
        return; /* its first answer came before it was known to be ready: it has loaded meanwhile */
    if (gap_us > life->burst.first_us / 50 + TOGETHER_US)
        burst_end(life);
    if (life->burst.count == 0)
        life->burst.first_us = gap_us;
    life->burst.span_us += gap_us;
    life->burst.count += count;
    life->item_since_us = now_us;
}

void life_sent(struct life *life, uint64_t count)
{
    life->n_items_sent += count;
    busy_begin(life);
}

void life_answered(struct life *life, uint64_t count)
{
    item_times_note(life, count);
    life->n_items_answered = MIN(life->n_items_answered + count, life->n_items_sent);
    if (life->input_must_close) /* its end was said perhaps long ago, with its last items */
        life->deadline_ms = life->session->shell.now_ms + life_ending_limit_ms(life);
    if (!life_is_busy(life))
        busy_end(life);
    else
        busy_begin(life);
}

void life_end(struct life *life)
{
    if (life->shard) {
        shard_retire(life);
        return;
    }
    life->input_must_close = true;
    life->deadline_ms = life->session->shell.now_ms + life_ending_limit_ms(life);
    if (life->is_channel)
        channel_stop(life);
    life_flush(life);
}

void life_stray_note(struct life *life, const char *why, struct str line)
{
    struct session *s = life->session;
    struct str first = line;
    const char *end = memchr(first.at, '\n', first.len);
    first.len = end ? (size_t)(end - first.at) : first.len;
    snprintf(life->stray, sizeof(life->stray), "%s%s%.*s%s%s", why, first.len > 0 ? ": " : "",
             (int)MIN(first.len, (size_t)120), first.at,
             life->first_line[0] ? "; its first line was: " : "", life->first_line);
    snprintf(s->last_stray, sizeof(s->last_stray), "%s", life->stray);
    s->stray_is_channel = life->is_channel;
}

void life_terminate(struct life *life, enum feed_cause cause)
{
    static const char *const why[] = {
        [CAUSE_TIMEOUT] = "an item took longer than its limit",
        [CAUSE_START] = "it was not ready within the time limit for starting",
        [CAUSE_PROTOCOL] = "its answers do not match the items it was given",
        [CAUSE_LOST] = "its device is gone",
    };
    struct session *s = life->session;
    const char *reason = cause < countof(why) ? why[cause] : NULL;
    if (cause == CAUSE_PROTOCOL && life->is_channel)
        reason = "it breaks the protocol of the channel, see muster-worker(7)";
    if (reason)
        log_add(s->shell.log, LOG_WARN, "worker", "%s is ended: %s%s%s", life_label(life), reason,
                life->stray[0] ? "; " : "", life->stray);
    life->broke_its_rule = cause == CAUSE_PROTOCOL && life->stray[0];
    life->was_ended = true;
    if (life->process)
        node_end(life->process, END_POLITELY);
    if (life->shard)
        shard_retire(life);
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

static enum death verdict(struct life *life, struct buf *tail)
{
    cleanup_buf struct buf out_tail = BUF_INIT;
    struct session *s = life->session;
    if (life->stderr_log)
        logfile_tail(life->stderr_log, TAIL_BYTES, tail);
    if (life->stdout_log)
        logfile_tail(life->stdout_log, TAIL_BYTES, &out_tail);
    const struct worker_exit *exit = &life->exit;
    const struct oom_counts *kills = &exit->oom_kills;
    return verdict_of(&(struct death_facts){
        .exit_code = exit->exit_code,
        .exit_signal = exit->exit_signal,
        .exec_failed = exit->was_refused,
        .we_ended_it = life->was_ended,
        .oom_kills_near = kills->knows_own ? kills->own : kills->host,
        .oom_kills_host = MAX(kills->host, kills->own),
        .rss_peak_bytes = exit->rss_peak_bytes,
        .memory_bytes = exit->memory_bytes,
        .device_lost = seat_has_lost_device(s, &s->places[life->seat].seat),
        .stderr_tail = buf_str(tail),
        .stdout_tail = buf_str(&out_tail),
    });
}

static void death_describe(struct life *life, enum death death, char out[HOW_MAX])
{
    char end[24];
    exit_format(end, life->exit.exit_code, life->exit.exit_signal);
    if (life->broke_its_rule)
        snprintf(out, HOW_MAX, "ended for %s", life->stray);
    else if (death == DEATH_NOT_STARTED && life->start_error[0])
        snprintf(out, HOW_MAX, "could not be started: %s", life->start_error);
    else if (death == DEATH_NOT_STARTED)
        snprintf(out, HOW_MAX, "could not be executed: %s", errno_text(life->exit.exec_errno));
    else if (death == DEATH_FAILED || death == DEATH_CRASHED || death == DEATH_CLEAN ||
             death == DEATH_ENDED_BY_US)
        snprintf(out, HOW_MAX, "%s", end);
    else
        snprintf(out, HOW_MAX, "%s, %s", end, death_text(death));
}

static void attempt_record(struct life *life, const char *end)
{
    struct session *s = life->session;
    bool is_over = end != NULL;
    if (life->number == 0) /* it never had anything to do */
        return;
    cleanup_buf struct buf times = BUF_INIT;
    hist_format(&life->item_times, &times);
    ledger_attempt(s->ledger,
                   &(struct attempt_row){
                       .id = life->number,
                       .seat = life->seat,
                       .label = life_label(life),
                       .pid = node_pid(life->process),
                       .started_wall_ms = life->started_wall_ms,
                       .ended_wall_ms = is_over ? clock_wall_ms() : 0,
                       .end = end,
                       .items_done = life->items_done,
                       .load_ms = life->live_ms ? life->live_ms - life->started_ms : 0,
                       .busy_ms = life->busy_ms,
                       .times = buf_text(&times),
                       .mem_peak_bytes = MAX(life->mem_peak_bytes, life->exit.rss_peak_bytes),
                   });
}

/* What it did up to its end. */
static void work_add(const struct life *life, struct buf *out)
{
    if (life->shard)
        shard_work_add(life, out);
    else
        buf_addf(out, " after %lu items", life->n_items_answered);
}

static struct str last_line(struct str tail)
{
    struct str last = str_trim(tail);
    const char *line = last.len > 0 ? memrchr(last.at, '\n', last.len) : NULL;
    line = line ? line + 1 : last.at;
    size_t len = last.len > 0 ? (size_t)(last.at + last.len - line) : 0;
    return (struct str){line, MIN(len, (size_t)160)};
}

static void death_log(struct life *life, enum death death, const char *how, struct str tail)
{
    struct session *s = life->session;
    cleanup_buf struct buf work = BUF_INIT;
    work_add(life, &work);
    if (death == DEATH_CLEAN && life->n_items_answered == 0)
        snprintf(s->last_words, sizeof(s->last_words),
                 "%.300s without an answer: does it print one line for each item?", how);
    if (death == DEATH_CLEAN || death == DEATH_ENDED_BY_US) {
        if (life->number > 0)
            log_add(s->shell.log, LOG_INFO, "worker", "%s ended (%s)%s", life_label(life), how,
                    buf_text(&work));
        return;
    }
    struct str line = last_line(tail);
    snprintf(s->last_words, sizeof(s->last_words), "%.*s%s%.*s", 300, how, line.len > 0 ? ": " : "",
             (int)line.len, line.at);
    session_record(s, "died", life->seat, s->last_words);
    log_add(s->shell.log, LOG_WARN, "worker", "%s died (%s)%s%s%.*s", life_label(life), how,
            buf_text(&work), line.len > 0 ? "; its last words: " : "", (int)line.len, line.at);
}

/* It ended well, as it seems. Did it leave what it was to leave? */
static void shard_end_judge(struct life *life, char how[HOW_MAX])
{
    struct session *s = life->session;
    cleanup_buf struct buf work = BUF_INIT;
    shard_work_add(life, &work);
    if (shard_result_give(life, how, HOW_MAX)) {
        log_add(s->shell.log, LOG_INFO, "worker", "%s is done%s", life_label(life),
                buf_text(&work));
        return;
    }
    snprintf(s->last_words, sizeof(s->last_words), "%.*s", (int)sizeof(s->last_words) - 1, how);
    session_record(s, "died", life->seat, s->last_words);
    log_add(s->shell.log, LOG_WARN, "worker", "%s failed%s: %s", life_label(life), buf_text(&work),
            how);
}

static void resources_close(struct life *life)
{
    if (life->process)
        node_release(steal_ptr(&life->process));
    if (life->shard)
        shard_close(life);
    part_close(life->part);
    life->part = NULL;
    logfile_close(life->stdout_log);
    logfile_close(life->stderr_log);
    life->stdout_log = life->stderr_log = NULL;
}

/* The process and all that was its own are gone, and what it said is read: tell the feeder. */
void life_over(struct life *life)
{
    struct session *s = life->session;
    struct place *place = &s->places[life->seat];
    cleanup_buf struct buf tail = BUF_INIT;
    char how[HOW_MAX];
    if (life->is_over)
        return;
    if (!life->is_channel)
        filter_eof(life);
    if (life->shard)
        life_words_end(life);
    enum death death = verdict(life, &tail);
    if (life->shard && shard_has_ended_well(life)) /* its device may be lost since */
        death = DEATH_CLEAN;
    if (life->shard && !shard_is_settled(life, death == DEATH_CLEAN))
        return;
    death_describe(life, death, how);
    if (death == DEATH_HOST_OOM && life->exit.exit_signal == SIGKILL)
        node_oom_explained(s->shell.node);
    if (life->shard && death == DEATH_CLEAN)
        shard_end_judge(life, how);
    else
        death_log(life, death, how, buf_str(&tail));
    if (life->shard && death_of[death] == GONE_OOM)
        shard_oom_tell(life);
    if (life->shard)
        shard_input_drop(life);
    life->is_over = true;
    busy_end(life);
    burst_end(life);
    struct str printed = buf_str(&tail);
    if (!s->in_step) {
        s->hand.error = how;
        s->hand.stderr_tail = printed.len > 0 ? printed.at : NULL;
    }
    session_event(
        s, (struct feed_event){.kind = EV_EXIT, .worker = life->seat, .death = death_of[death]});
    attempt_record(life, how); /* now it is known how many of its answers count */
    place->busy_ms += life->busy_ms;
    hist_merge(&place->item_times, &life->item_times);
    place->items_done += life->items_done;
    place->life = NULL;
    life->open_handles++; /* keeps it alive while the streams close */
    resources_close(life);
    uint32_t seat = life->seat;
    uv_handle_t last = {.data = life};
    life_handle_closed(&last);
    memory_left(s->memory, seat, s->shell.now_ms);
    memory_check(s);
}

void life_started(void *context)
{
    struct life *life = context;
    struct session *s = life->session;
    shell_now(&s->shell);
    attempt_record(life, NULL);
    session_event(s, (struct feed_event){.kind = EV_STARTED, .worker = life->seat});
    if (s->request->key_field)
        session_event(s, (struct feed_event){.kind = EV_KEYED, .worker = life->seat});
    life_ask_for_room(life);
}

void life_gone(void *context, const struct worker_exit *exit)
{
    struct life *life = context;
    struct log *log = life->session->shell.log;
    shell_now(&life->session->shell);
    life->exit = *exit;
    memory_ended(life->session->memory, life->seat, life->session->shell.now_ms);
    if (exit->n_left_behind > 0)
        log_add(log, LOG_INFO, "worker", "%s left %d process%s behind; ended", life_label(life),
                exit->n_left_behind, exit->n_left_behind == 1 ? "" : "es");
    if (exit->stuck_pid)
        log_add(log, LOG_ERROR, "worker", "%s: process %d does not die (uninterruptible sleep?)",
                life_label(life), exit->stuck_pid);
    /* Its guard was killed, and it went along through no fault of its own. */
    life->was_ended = life->was_ended || !(exit->has_exited || exit->was_refused);
    life_over(life);
}
