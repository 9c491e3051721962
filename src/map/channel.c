/* SPDX-License-Identifier: Apache-2.0
 *
 * Channel workers: newline-delimited JSON. Only the envelope is parsed; the bytes of the payload
 * are not changed. The protocol is described in muster-worker(7).
 */
#include "map/session_impl.h"

#include <stdarg.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/json.h"
#include "base/json_identity.h"
#include "base/parse.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "map/message.h"

enum {
    FLUSH_BYTES = 64 * 1024,
    CREDITS_MAX = 100000,
    WAITING_BYTES = 16 << 20, /* not yet read by a worker: from then on its credits are held back */
    ERROR_MAX_BYTES = 4096,
    BEGINNING_BYTES = 4096 /* kept of a message that is too long */
};

/* ---- to the worker ---- */

/* Adds one item as a message. False: the run is given up. */
static bool item_write(struct worker *worker, uint64_t item, uint32_t attempt)
{
    struct session *s = worker->session;
    struct buf *out = &worker->to_worker;
    struct err err = {0};
    const char *key = "data";
    cleanup_buf struct buf data = BUF_INIT;
    int rc = source_item_json(s->source, item, &data, &key, &err);
    if (rc == ERR_RECORD) { /* the item is not sent */
        session_event(s,
                      (struct feed_event){.kind = EV_UNFIT, .worker = worker->seat, .item = item});
        return true;
    }
    if (rc) {
        shell_abort(s->shell, &err);
        return false;
    }
    worker_sent(worker, 1);
    buf_addf(out, "{\"item\":%lu,\"seed\":\"%016lx\",\"attempt\":%u,\"%s\":", item,
             item_seed(s->base_seed, item), attempt, key);
    buf_add(out, data.at, data.len);
    buf_add_text(out, "}\n");
    return true;
}

void channel_send(struct worker *worker, uint64_t first, uint64_t count, uint32_t attempt)
{
    for (uint64_t item = first; item < first + count; item++)
        if (!item_write(worker, item, attempt))
            return;
    if (worker->to_worker.len >= FLUSH_BYTES)
        worker_flush(worker);
}

void channel_batch(struct worker *worker, uint64_t batch)
{
    buf_addf(&worker->to_worker, "{\"batch\":%lu}\n", batch);
}

void channel_stop(struct worker *worker)
{
    buf_add_text(&worker->to_worker, "{\"stop\":true}\n");
}

/*
 * ---- from the worker ----
 *
 * An error that concerns one item fails that item, with the reason. A malformed message that names no item may be
 * about any of the worker's items: the worker is ended, and the feeder finds that item. Parts of a message that can
 * have no effect are ignored, and each kind is logged once.
 */

static void result_hold(struct worker *worker, uint64_t item);

/* Logged once in a run for each kind. */
static void ignored(struct worker *worker, enum ignored_kind kind, const char *fmt, ...)
{
    struct session *s = worker->session;
    char text[256];
    va_list args;
    if (s->ignored_said & 1u << kind)
        return;
    s->ignored_said |= 1u << kind;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    log_add(shell_log(s->shell), LOG_WARN, "map", "%s: %s; this is said once", worker_label(worker),
            text);
}

void channel_foreign(struct worker *worker, uint64_t item)
{
    ignored(worker, IGNORED_ITEM, "a result for item %lu, which it was not given, is dropped",
            item);
}

void channel_unsummed(struct worker *worker, uint64_t item)
{
    ignored(worker, IGNORED_SUM,
            "a metric of item %lu is not summed: the sum is no finite number, or there are more "
            "than %d names",
            item, METRICS_MAX);
}

/* The worker uses the channel, so its stdout holds messages for people. */
static void channel_begin(struct worker *worker)
{
    if (worker->is_channel)
        return;
    worker->is_channel = true;
    if (!worker->session->results.are_json)
        ledger_fact(worker->session->ledger, "results_json", "1");
    worker->session->results.are_json = true;
    filter_to_channel(worker);
}

static void credits_give(struct worker *worker, uint64_t credits)
{
    session_event(worker->session,
                  (struct feed_event){.kind = EV_READY, .worker = worker->seat, .count = credits});
}

/*
 * A worker may ask for more items than it reads soon, and each credit that the feeder learns of becomes a record in
 * muster's memory. So credits are passed on in pieces that double, while less than WAITING_BYTES wait for the worker:
 * no piece is much larger than all before it. With --batch the feeder itself bounds what a worker has, and must know
 * of all its credits.
 */
static void credits_pass(struct worker *worker)
{
    bool is_bounded = worker->session->request->schedule.batch > 0;
    uint64_t piece = is_bounded ? UINT64_MAX : worker_room_items(worker->session);
    for (; worker->credits_held > 0 && worker->to_worker.len < WAITING_BYTES; piece *= 2) {
        uint64_t credits = MIN(worker->credits_held, piece);
        worker->credits_held -= credits;
        credits_give(worker, credits);
    }
}

/* If everything was written at once, there is room for more; if not, on_writable() calls this again. */
void channel_flush(struct worker *worker)
{
    do {
        credits_pass(worker);
        worker_flush(worker);
    } while (worker->credits_held > 0 && worker->to_worker.len == 0);
}

/* Ends the worker at once, since the message does not tell which item it is about. */
static void breach(struct worker *worker, const char *why, struct str line)
{
    if (!worker->is_channel) {
        channel_begin(worker);
        credits_give(worker, 0);
    }
    worker->is_unreadable = true;
    worker_stray_note(worker, why, line);
    session_event(worker->session, (struct feed_event){.kind = EV_STRAY, .worker = worker->seat});
}

static void number_malformed(struct worker *worker, const char *member, const char *what,
                             struct str value)
{
    cleanup_buf struct buf why = BUF_INIT;
    buf_addf(&why, "a \"%s\" that is %s", member, what);
    breach(worker, buf_text(&why), value);
}

static void on_ready(struct worker *worker, const struct message *m)
{
    uint64_t credits = 0;
    bool was_late = !worker->is_channel && worker->input_must_close;
    if (!json_to_whole(m->ready, &credits)) {
        number_malformed(worker, "ready", "no whole number from 0 on", m->ready);
        return;
    }
    channel_begin(worker);
    if (credits == 0)
        credits_give(worker, 0);
    else
        worker_ready_note(worker, clock_now_ns() / 1000);
    worker->credits_held += MIN(credits, (uint64_t)CREDITS_MAX);
    credits_pass(worker);
    if (was_late) { /* its stdin was closed, as of a filter: it needs the stop message */
        channel_stop(worker);
        worker_flush(worker);
    }
}

static void item_failed(struct worker *worker, uint64_t item, const char *why, bool retry)
{
    struct session *s = worker->session;
    worker_answered(worker, 1);
    worker->busy.n_failed++;
    s->step.error = why;
    log_add(shell_log(s->shell), LOG_DEBUG, "map", "item %lu failed on %s: %s", item,
            worker_label(worker), why);
    session_event(s, (struct feed_event){
                         .kind = EV_FAIL, .worker = worker->seat, .item = item, .flag = retry});
}

static void on_done(struct worker *worker, const struct message *m)
{
    struct session *s = worker->session;
    uint64_t item;
    if (!json_to_whole(m->done, &item)) {
        number_malformed(worker, "done", "not the number of an item", m->done);
        return;
    }
    if (!worker_part_ready(worker))
        return;
    worker_first_result(worker);
    worker_answered(worker, 1);
    s->step.result = m->result.at ? m->result : STR("null");
    if (m->metrics.at && !metrics_add(&s->step.metrics, m->metrics))
        ignored(worker, IGNORED_METRIC,
                "a metric of item %lu that is no finite number, or has too long a name, or is the "
                "%dth, is not summed",
                item, METRICS_MAX + 1);
    if (s->request->schedule.fixed_batches)
        result_hold(worker, item);
    session_event(s, (struct feed_event){.kind = EV_DONE, .worker = worker->seat, .item = item});
}

/* Whether a retry may help: yes, unless the message says no. */
static bool retry_of(struct worker *worker, const struct message *m)
{
    bool retry = true;
    if (m->retry.at && !json_to_bool(m->retry, &retry)) {
        ignored(worker, IGNORED_RETRY, "a \"retry\" that is neither true nor false counts as true");
        retry = true;
    }
    return retry;
}

static void on_fail(struct worker *worker, const struct message *m)
{
    cleanup_buf struct buf error = BUF_INIT;
    uint64_t item;
    if (!json_to_whole(m->fail, &item)) {
        number_malformed(worker, "fail", "not the number of an item", m->fail);
        return;
    }
    if (m->error.at && !json_to_text(m->error, &error))
        buf_add_str(&error, m->error);
    if (error.len == 0)
        buf_add_text(&error, "failed");
    error.len = console_text_cut(buf_str(&error), ERROR_MAX_BYTES);
    error.at[error.len] = '\0';
    item_failed(worker, item, buf_text(&error), retry_of(worker, m));
}

/* The result or the reason in the message is not valid JSON. */
static void on_flawed(struct worker *worker, const struct message *m, struct str line,
                      uint64_t item)
{
    cleanup_buf struct buf why = BUF_INIT;
    buf_addf(&why, "its message cannot be taken: ");
    message_flaw_add(m->flaw, m->flaw_at, line, &why);
    item_failed(worker, item, buf_text(&why), true);
}

/* True unless the value is absent, `false` or null. */
static bool is_said(struct worker *worker, struct str value)
{
    bool is_true = true;
    bool is_denied =
        json_kind_of(value) == JSON_NULL || (json_to_bool(value, &is_true) && !is_true);
    if (value.at && is_denied)
        ignored(worker, IGNORED_DENIAL, "an \"oom\" or a \"loaded\" that is not true is ignored");
    return value.at && !is_denied;
}

static void on_oom(struct worker *worker, const struct message *m)
{
    uint64_t batch = 0;
    if (!m->batch.at || !json_to_whole(m->batch, &batch))
        batch = 1;
    session_event(worker->session,
                  (struct feed_event){.kind = EV_OOM, .worker = worker->seat, .count = batch});
}

static void on_loaded(struct worker *worker)
{
    struct seat_state *seat_state = &worker->session->seats[worker->seat];
    if (seat_state->items_done + worker->items_done == 0)
        seat_state->ready_us = 0; /* the note of its first "ready" does not count */
    worker_ready_note(worker, clock_now_ns() / 1000);
    worker_first_result(worker);
    session_event(worker->session, (struct feed_event){.kind = EV_LOADED, .worker = worker->seat});
}

/* Adds why the message cannot be assigned to an item; adds nothing if it can. */
static void unreadable_add(const struct message *m, enum message_form form, struct str line,
                           struct buf *why)
{
    uint64_t item;
    if (form == MESSAGE_NONE) {
        buf_add_text(why, "a message that is no JSON object");
    } else if (m->done.at && m->fail.at) {
        buf_add_text(why, "a message with both \"done\" and \"fail\"");
    } else if (message_lacks_item(m)) {
        buf_add_text(why, "a message with a result or an error and without the number of its item");
    } else if (form == MESSAGE_FLAWED && !message_item(m, &item)) {
        buf_add_text(why, "a message that does not say which item it is about; ");
        message_flaw_add(m->flaw, m->flaw_at, line, why);
    }
}

static void unknown_ignored(struct worker *worker, const struct message *m)
{
    cleanup_buf struct buf name = BUF_INIT;
    console_text_add(&name, (struct str){m->unknown.at, MIN(m->unknown.len, (size_t)40)}, false);
    ignored(worker, IGNORED_MEMBER, "'%s', which is not in the protocol, is ignored",
            buf_text(&name));
}

static void message_take(struct worker *worker, struct str line)
{
    cleanup_buf struct buf why = BUF_INIT;
    struct message m;
    uint64_t item;
    if (str_trim(line).len == 0)
        return;
    enum message_form form = message_parse(line, &m);
    unreadable_add(&m, form, line, &why);
    if (why.len > 0) {
        breach(worker, buf_text(&why), form == MESSAGE_FLAWED ? STR("") : line);
        return;
    }
    if (m.unknown.at)
        unknown_ignored(worker, &m);
    if (m.ready.at)
        on_ready(worker, &m);
    if (!worker->is_channel) {
        ignored(worker, IGNORED_EARLY, "what it says before its first \"ready\" is ignored");
        return;
    }
    if (is_said(worker, m.loaded))
        on_loaded(worker);
    if (form == MESSAGE_FLAWED && message_item(&m, &item))
        on_flawed(worker, &m, line, item);
    else if (m.done.at)
        on_done(worker, &m);
    else if (m.fail.at)
        on_fail(worker, &m);
    if (is_said(worker, m.oom))
        on_oom(worker, &m);
}

/* Only the beginning is kept of a message that is too long: it may tell the item. */
static void message_too_long(struct worker *worker, struct str piece)
{
    cleanup_buf struct buf whole = worker->channel_in, why = BUF_INIT;
    struct message m;
    uint64_t item;
    char limit[16];
    worker->channel_in = (struct buf)BUF_INIT;
    buf_add(&whole, piece.at, MIN(piece.len, (size_t)BEGINNING_BYTES));
    size_format(limit, worker->session->request->run.line_max_bytes);
    buf_addf(&why, "a message longer than %s (--line-max)", limit);
    (void)message_parse((struct str){whole.at, MIN(whole.len, (size_t)BEGINNING_BYTES)}, &m);
    bool is_known = worker->is_channel && message_item(&m, &item);
    if (!is_known) {
        breach(worker, buf_text(&why), buf_str(&whole));
        return;
    }
    worker->is_unreadable = true;
    worker_stray_note(worker, buf_text(&why), buf_str(&whole));
    session_event(
        worker->session,
        (struct feed_event){.kind = EV_STRAY, .worker = worker->seat, .item = item, .flag = true});
}

/* Takes a piece of a message; a newline ends the message. */
static void piece_take(struct worker *worker, struct str piece)
{
    bool is_end = piece.at[piece.len - 1] == '\n';
    struct buf whole = worker->channel_in;
    if (whole.len + piece.len - is_end > worker->session->request->run.line_max_bytes) {
        message_too_long(worker, piece);
    } else if (!is_end) {
        buf_add_str(&worker->channel_in, piece);
    } else if (whole.len == 0) {
        message_take(worker, (struct str){piece.at, piece.len - 1});
    } else {
        worker->channel_in = (struct buf)BUF_INIT;
        buf_add(&whole, piece.at, piece.len - 1);
        message_take(worker, buf_str(&whole));
        buf_release(&whole);
    }
}

void channel_read(struct worker *worker, struct str bytes)
{
    while (bytes.len > 0 && !worker->is_over && !worker->is_unreadable) {
        const char *end = memchr(bytes.at, '\n', bytes.len);
        struct str piece = {bytes.at, end ? (size_t)(end + 1 - bytes.at) : bytes.len};
        bytes.at += piece.len;
        bytes.len -= piece.len;
        piece_take(worker, piece);
    }
}

/* ---- commit ---- */

/* Appends the result of this step to the part as one line of *bytes. Returns its offset. */
static uint64_t result_append(struct worker *worker, uint64_t *bytes)
{
    struct str result = worker->session->step.result;
    cleanup_buf struct buf compact = BUF_INIT;
    if (memchr(result.at, '\n', result.len)) {
        buf_add_json_compact(&compact, result);
        result = buf_str(&compact);
    }
    uint64_t offset = part_append(worker->part, result); /* not copied: it may be large */
    (void)part_append(worker->part, STR("\n"));
    *bytes = result.len + 1;
    return offset;
}

void channel_commit(struct worker *worker, uint64_t item)
{
    struct session *s = worker->session;
    struct range_row row = {.first = item,
                            .count = 1,
                            .part = worker->number,
                            .seat = worker->seat,
                            .attempt = feed_item_failures(s->feed, item) + 1};
    if (!worker_part_ready(worker))
        return;
    row.offset = result_append(worker, &row.bytes);
    if (!ledger_range(s->ledger, worker->part, &row, &s->step.metrics))
        channel_unsummed(worker, item);
}

/* --fixed-batches: the result waits in the part until its batch is whole. */
static void result_hold(struct worker *worker, uint64_t item)
{
    struct session *s = worker->session;
    struct answered_items held = {.first = item, .count = 1};
    held.offset = result_append(worker, &held.bytes);
    if (s->step.metrics.len > 0) {
        held.metrics = xmalloc(sizeof(*held.metrics));
        *held.metrics = s->step.metrics;
    }
    answers_note(worker, held);
}
