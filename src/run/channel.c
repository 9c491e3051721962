/* SPDX-License-Identifier: Apache-2.0
 *
 * Channel workers: newline-delimited JSON. Only the envelope is parsed; the payload is carried as
 * the bytes it is. The protocol stands in muster-worker(7).
 */
#include "run/session.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "run/message.h"

enum {
    FLUSH_BYTES = 64 * 1024,
    MESSAGE_MAX_BYTES = 1 << 30,
    CREDITS_MAX = 100000
};

/* ---- to the worker ---- */

/* One item as a message. False: the run is given up. */
static bool item_write(struct life *life, uint64_t item, uint32_t attempt)
{
    struct session *s = life->session;
    struct buf *out = &life->to_worker;
    struct err err = {0};
    const char *key = "data";
    cleanup_buf struct buf data = BUF_INIT;
    int rc = source_item_json(s->source, item, &data, &key, &err);
    if (rc == ERR_RECORD) { /* the worker never sees it */
        session_event(s, (struct feed_event){.kind = EV_UNFIT, .worker = life->seat, .item = item});
        return true;
    }
    if (rc) {
        session_abort(s, &err);
        return false;
    }
    life_sent(life, 1);
    buf_addf(out, "{\"item\":%lu,\"seed\":\"%016lx\",\"attempt\":%u,\"%s\":", item,
             item_seed(s->base_seed, item), attempt, key);
    buf_add(out, data.at, data.len);
    buf_add_text(out, "}\n");
    return true;
}

void channel_send(struct life *life, uint64_t first, uint64_t count, uint32_t attempt)
{
    for (uint64_t item = first; item < first + count; item++)
        if (!item_write(life, item, attempt))
            return;
    if (life->to_worker.len >= FLUSH_BYTES)
        life_flush(life);
}

void channel_batch(struct life *life, uint64_t batch)
{
    buf_addf(&life->to_worker, "{\"batch\":%lu}\n", batch);
}

void channel_stop(struct life *life)
{
    buf_add_text(&life->to_worker, "{\"stop\":true}\n");
}

/* ---- from the worker ---- */

static void on_ready(struct life *life, const struct message *m)
{
    uint64_t credits = 0;
    bool was_late = !life->is_channel && life->input_must_close;
    if (!json_to_u64(m->ready, &credits))
        credits = 0;
    if (!life->is_channel) {
        life->is_channel = true;
        if (!life->session->results_are_json)
            ledger_fact(life->session->ledger, "results_json", "1");
        life->session->results_are_json = true;
        filter_to_channel(life);
    }
    session_event(life->session, (struct feed_event){.kind = EV_READY,
                                                     .worker = life->seat,
                                                     .count = MIN(credits, (uint64_t)CREDITS_MAX)});
    if (was_late) { /* its end was said to the stdin of a filter, which it does not read */
        channel_stop(life);
        life_flush(life);
    }
}

static void result_hold(struct life *life, uint64_t item);

/* Nothing would tell that its item is answered: better said at once than waited for. */
static void number_malformed(struct life *life, const char *member, struct str value)
{
    cleanup_buf struct buf why = BUF_INIT;
    buf_addf(&why, "a \"%s\" that is not the number of an item", member);
    life_stray_note(life, buf_text(&why), value);
    session_event(life->session, (struct feed_event){.kind = EV_STRAY, .worker = life->seat});
}

static void on_done(struct life *life, const struct message *m)
{
    struct session *s = life->session;
    uint64_t item;
    if (!json_to_u64(m->done, &item)) {
        number_malformed(life, "done", m->done);
        return;
    }
    if (!life_part_ready(life))
        return;
    life_first_result(life);
    life_answered(life, 1);
    s->hand.result = m->result.len > 0 ? m->result : STR("null");
    if (m->metrics.len > 0)
        metrics_add(&s->hand.metrics, m->metrics);
    if (s->request->fixed_batches)
        result_hold(life, item);
    session_event(s, (struct feed_event){.kind = EV_DONE, .worker = life->seat, .item = item});
}

static void on_fail(struct life *life, const struct message *m)
{
    struct session *s = life->session;
    cleanup_buf struct buf error = BUF_INIT;
    uint64_t item;
    bool retry = true;
    if (!json_to_u64(m->fail, &item)) {
        number_malformed(life, "fail", m->fail);
        return;
    }
    if (m->retry.len > 0 && !json_to_bool(m->retry, &retry))
        retry = true;
    if (!json_to_text(m->error, &error))
        buf_add_text(&error, "failed");
    life_answered(life, 1);
    s->hand.error = buf_text(&error);
    log_add(s->log, LOG_DEBUG, "map", "item %lu failed on %s: %s", item, life_label(life),
            buf_text(&error));
    session_event(
        s, (struct feed_event){.kind = EV_FAIL, .worker = life->seat, .item = item, .flag = retry});
}

static void on_oom(struct life *life, const struct message *m)
{
    uint64_t batch = 0;
    if (!json_to_u64(m->batch, &batch))
        batch = 1;
    session_event(life->session,
                  (struct feed_event){.kind = EV_OOM, .worker = life->seat, .count = batch});
}

static void on_loaded(struct life *life, const struct message *m)
{
    (void)m;
    life_first_result(life);
    session_event(life->session, (struct feed_event){.kind = EV_LOADED, .worker = life->seat});
}

static void message_malformed(struct life *life, struct str line)
{
    life_stray_note(life, "a message that is no JSON object", line);
    session_event(life->session, (struct feed_event){.kind = EV_STRAY, .worker = life->seat});
}

static void message_take(struct life *life, struct str line)
{
    struct message m;
    if (str_trim(line).len == 0)
        return;
    if (!message_parse(line, &m)) {
        message_malformed(life, line);
        return;
    }
    if (m.ready.len > 0)
        on_ready(life, &m);
    if (!life->is_channel) /* nothing else counts before the first ready */
        return;
    if (m.loaded.len > 0)
        on_loaded(life, &m);
    if (m.done.len > 0)
        on_done(life, &m);
    if (m.fail.len > 0)
        on_fail(life, &m);
    if (m.oom.len > 0)
        on_oom(life, &m);
}

void channel_read(struct life *life, struct str bytes)
{
    struct str rest = bytes;
    /* A message cut in two by the last read is finished first. */
    if (life->channel_in.len > 0) {
        const char *end = memchr(rest.at, '\n', rest.len);
        size_t len = end ? (size_t)(end + 1 - rest.at) : rest.len;
        buf_add(&life->channel_in, rest.at, len);
        rest.at += len;
        rest.len -= len;
        if (!end && life->channel_in.len < MESSAGE_MAX_BYTES)
            return;
        struct buf whole = life->channel_in;
        life->channel_in = (struct buf)BUF_INIT;
        message_take(life, buf_str(&whole));
        buf_release(&whole);
    }
    while (rest.len > 0 && !life->is_over) {
        const char *end = memchr(rest.at, '\n', rest.len);
        if (!end)
            break;
        struct str line = {rest.at, (size_t)(end - rest.at)};
        rest.at += line.len + 1;
        rest.len -= line.len + 1;
        message_take(life, line);
    }
    buf_add_str(&life->channel_in, rest);
}

/* ---- commit ---- */

/* The result at hand, as one line in the part; *bytes long. Returns where it begins. */
static uint64_t result_append(struct life *life, uint64_t *bytes)
{
    struct str result = life->session->hand.result;
    cleanup_buf struct buf line = BUF_INIT;
    if (memchr(result.at, '\n', result.len))
        buf_add_json_compact(&line, result);
    else
        buf_add_str(&line, result);
    buf_add_char(&line, '\n');
    *bytes = line.len;
    return part_append(life->part, buf_str(&line));
}

void channel_commit(struct life *life, uint64_t item)
{
    struct session *s = life->session;
    struct range_row row = {.first = item,
                            .count = 1,
                            .part = life->number,
                            .seat = life->seat,
                            .attempt = feed_item_failures(s->feed, item) + 1};
    if (!life_part_ready(life))
        return;
    row.offset = result_append(life, &row.bytes);
    ledger_range(s->ledger, life->part, &row, &s->hand.metrics);
}

/* --fixed-batches: the result waits in the part until its batch is whole. */
static void result_hold(struct life *life, uint64_t item)
{
    struct session *s = life->session;
    struct answered_items held = {.first = item, .count = 1};
    held.offset = result_append(life, &held.bytes);
    if (s->hand.metrics.len > 0) {
        held.metrics = xmalloc(sizeof(*held.metrics));
        *held.metrics = s->hand.metrics;
    }
    answers_note(life, held);
}
