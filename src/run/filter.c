/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters: item lines into stdin, result lines out of stdout, in the same order. Answers are bytes
 * in the worker's part; where the line of which item stands is known for runs, not for single lines.
 */
#include "run/session.h"

#include <errno.h>
#include <unistd.h>

#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "run/keyed.h"
#include "run/lines.h"
#include "run/message.h"

enum {
    LOAD_BYTES = 64 * 1024, /* of lines, on their way into the pipe */
    BLOCK_BYTES = 4096      /* by which they may be more */
};

/* ---- to the worker ----
 *
 * What a filter is given is a range of items. Their lines are fetched when its pipe takes them, so that
 * ranges may be long, and rows few, while memory holds one load of lines for each worker.
 */

static void sent_push(struct life *life, struct sent_items items)
{
    struct sent_items *last = life->n_sent > 0 ? &life->sent[life->n_sent - 1] : NULL;
    if (life->session->request->key_field || items.count == 0)
        return; /* matched by their keys */
    if (last && last->first + last->count == items.first && last->is_unfit == items.is_unfit) {
        last->count += items.count;
        return;
    }
    if (life->n_sent == life->cap_sent) {
        life->cap_sent = life->cap_sent ? life->cap_sent * 2 : 16;
        life->sent = xrealloc(life->sent, life->cap_sent * sizeof(*life->sent));
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
    life->sent[life->n_sent++] = items;
}

static void sent_pop(struct life *life, uint64_t count)
{
    life->sent[0].first += count;
    life->sent[0].count -= count;
    if (life->sent[0].count > 0)
        return;
    memmove(life->sent, life->sent + 1, --life->n_sent * sizeof(*life->sent));
}

static void answers_say(struct life *life);

/* All before them is answered, and they never will be. */
static void unfit_pass(struct life *life)
{
    while (life->n_sent > 0 && life->sent[0].is_unfit) {
        uint64_t count = life->sent[0].count;
        sent_pop(life, count);
        answers_say(life); /* which may send more, and come back here */
        session_event(life->session,
                      (struct feed_event){.kind = EV_PASSED, .worker = life->seat, .count = count});
    }
}

static void item_refuse(struct life *life, uint64_t item)
{
    session_event(life->session,
                  (struct feed_event){.kind = EV_UNFIT, .worker = life->seat, .item = item});
    sent_push(life, (struct sent_items){.first = item, .count = 1, .is_unfit = true});
    unfit_pass(life);
}

/* What fits of the lines of these items, which is at least one. *is_cut: the item behind them is unfit. */
static int lines_load(struct life *life, struct item_span items, uint64_t *n_out, bool *is_cut,
                      struct err *err)
{
    struct session *s = life->session;
    struct buf *out = &life->to_worker;
    buf_reserve(out, LOAD_BYTES + BLOCK_BYTES); /* at once: growing would leave holes */
    int rc = source_lines(s->source, items.first, items.count, LOAD_BYTES, out, n_out, err);
    *is_cut = rc == ERR_RECORD;
    if (rc && !*is_cut)
        return rc;
    if (s->request->key_field && *n_out > 0) {
        uint64_t n_keyed =
            keyed_add(&life->keyed, s->request->key_field, items.first, buf_str(out), &out->len);
        *is_cut |= n_keyed < *n_out;
        *n_out = n_keyed;
    }
    return 0;
}

static void unwritten_pop(struct life *life, uint64_t count)
{
    struct item_span *next = &life->unwritten[0];
    next->first += count;
    next->count -= count;
    if (next->count == 0)
        memmove(next, next + 1, --life->n_unwritten * sizeof(*next));
}

/* False if the run is given up. */
static bool load_some(struct life *life)
{
    struct item_span items = life->unwritten[0];
    struct err err = {0};
    uint64_t n_items = 0;
    bool is_cut = false;
    if (lines_load(life, items, &n_items, &is_cut, &err) != 0) {
        buf_reset(&life->to_worker);
        life->n_unwritten = 0;
        shell_abort(&life->session->shell, &err);
        return false;
    }
    ASSERT(n_items + is_cut > 0);
    unwritten_pop(life, n_items + is_cut);
    life->bytes_in_flight += life->to_worker.len;
    life_sent(life, n_items);
    sent_push(life, (struct sent_items){.first = items.first, .count = n_items});
    if (is_cut)
        item_refuse(life, items.first + n_items);
    return true;
}

bool filter_load(struct life *life)
{
    if (life->is_loading) /* an unfit item's event has led here */
        return false;
    life->is_loading = true;
    while (life->to_worker.len == 0 && life->n_unwritten > 0 && load_some(life))
        continue;
    life->is_loading = false;
    return life->to_worker.len > 0;
}

void filter_send(struct life *life, uint64_t first, uint64_t count)
{
    struct item_span *last = life->n_unwritten > 0 ? &life->unwritten[life->n_unwritten - 1] : NULL;
    if (last && last->first + last->count == first) {
        last->count += count;
    } else {
        if (life->n_unwritten == life->cap_unwritten) {
            life->cap_unwritten = life->cap_unwritten ? life->cap_unwritten * 2 : 4;
            life->unwritten =
                xrealloc(life->unwritten, life->cap_unwritten * sizeof(*life->unwritten));
        }
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
        life->unwritten[life->n_unwritten++] = (struct item_span){first, count};
    }
    life_flush(life);
}

/* ---- from the worker ---- */

/*
 * Match whole lines in `bytes`, which stand in the part at `offset`, with the items sent. Lines beyond
 * the items sent are counted as answers too, for the feeder to judge.
 */
static void lines_match(struct life *life, struct str bytes, uint64_t offset)
{
    while (bytes.len > 0) {
        uint64_t found, want = life->n_sent > 0 ? life->sent[0].count : UINT64_MAX;
        size_t used = lines_skip(bytes, want, &found);
        if (found == 0)
            break;
        uint64_t end = offset + used, begin = life->part_line_begin;
        life->part_line_begin = offset = end;
        life->n_unsaid += found;
        if (life->n_sent > 0) {
            answers_note(life, (struct answered_items){.first = life->sent[0].first,
                                                       .count = found,
                                                       .offset = begin,
                                                       .bytes = end - begin});
            sent_pop(life, found);
            unfit_pass(life);
        } else {
            life_stray_note(life, "more lines than items were sent", bytes);
        }
        bytes.at += used;
        bytes.len -= used;
    }
}

/* The bytes of single items are not known: each has its share. */
static void answers_count(struct life *life, uint64_t count)
{
    uint64_t in_flight = life->n_items_sent - life->n_items_answered;
    life->bytes_in_flight -=
        in_flight > 0 ? life->bytes_in_flight * MIN(count, in_flight) / in_flight : 0;
    life_answered(life, count);
}

static void answers_say(struct life *life)
{
    uint64_t count = life->n_unsaid;
    if (count == 0)
        return;
    life->n_unsaid = 0;
    life_first_result(life);
    answers_count(life, count);
    session_event(life->session,
                  (struct feed_event){.kind = EV_ANSWERS, .worker = life->seat, .count = count});
}

/* Before a worker is known to be a filter, what it prints may be talk: keep it for the log. */
static void early_keep(struct life *life, struct str bytes)
{
    enum {
        EARLY_MAX = 65536
    };
    if (life->n_items_answered == 0 && life->early_stdout.len < EARLY_MAX)
        buf_add(&life->early_stdout, bytes.at,
                MIN(bytes.len, (size_t)EARLY_MAX - life->early_stdout.len));
    else if (life->n_items_answered > 0)
        buf_release(&life->early_stdout);
}

/* A line that goes on and on belongs to the item whose turn it is. */
static void line_too_long(struct life *life, struct str beginning)
{
    cleanup_buf struct buf why = BUF_INIT;
    char limit[16];
    answers_say(life);
    size_format(limit, life->session->request->line_max_bytes);
    buf_addf(&why, "a line longer than %s (--line-max)", limit);
    life_stray_note(life, buf_text(&why), beginning);
    buf_release(&life->from_worker);
    bool is_known = life->n_sent > 0 && !life->keyed;
    session_event(life->session, (struct feed_event){.kind = EV_STRAY,
                                                     .worker = life->seat,
                                                     .item = is_known ? life->sent[0].first : 0,
                                                     .flag = is_known});
}

static void plain_read(struct life *life, struct str bytes)
{
    uint64_t offset = part_append(life->part, bytes);
    lines_match(life, bytes, offset);
    answers_say(life);
    if (life->part->offset - life->part_line_begin > life->session->request->line_max_bytes)
        line_too_long(life, STR(""));
}

/* True if a filter's lines must be JSON objects: with --key, or JSON input without --raw. */
static bool answers_are_json(const struct session *s)
{
    return s->request->key_field || (source_is_json(s->source) && !s->request->is_raw);
}

static bool is_answer(const struct session *s, struct str line)
{
    return answers_are_json(s) ? json_is_object(line) : utf8_is_valid(line);
}

/*
 * Why a line fails its item: it is an object but for what stands in it (NaN, no UTF-8), so an answer
 * and no talk; or text that cannot be written as JSON. False: it may be talk.
 */
static bool line_flaw_add(const struct session *s, struct str line, struct str *key_value,
                          struct buf *why)
{
    struct failed_line failed;
    buf_add_text(why, "its line cannot be taken: ");
    if (!answers_are_json(s)) {
        buf_add_text(why, "it is not UTF-8, which JSON and CSV need (--format-out lines writes it "
                          "as it is)");
        return true;
    }
    if (!failed_line_parse(line, s->request->key_field, &failed))
        return false;
    flaw_add(failed.flaw, failed.flaw_at, str_trim(line), why);
    *key_value = failed.key_value;
    return true;
}

static bool line_fail(struct life *life, struct str line)
{
    struct session *s = life->session;
    cleanup_buf struct buf why = BUF_INIT;
    struct str key_value = {0};
    uint64_t item = 0;
    if (!line_flaw_add(s, line, &key_value, &why))
        return false;
    if (life->keyed ? !keyed_take_value(life->keyed, key_value, &item) : life->n_sent == 0)
        return false;
    answers_say(life);
    if (!life->keyed) {
        item = life->sent[0].first;
        sent_pop(life, 1);
    }
    answers_count(life, 1);
    s->hand.error = buf_text(&why);
    session_event(
        s, (struct feed_event){.kind = EV_FAIL, .worker = life->seat, .item = item, .flag = true});
    if (!life->keyed)
        session_event(s, (struct feed_event){.kind = EV_PASSED, .worker = life->seat, .count = 1});
    unfit_pass(life);
    return true;
}

static void lines_take(struct life *life, struct str lines)
{
    lines_match(life, lines, part_append(life->part, lines));
}

/* One whole line of a worker whose answers are looked into. False: it cannot be an answer. */
static bool line_take(struct life *life, struct str line)
{
    struct session *s = life->session;
    if (!is_answer(s, line))
        return line_fail(life, line);
    if (!life->keyed) {
        lines_take(life, line);
        return true;
    }
    uint64_t item;
    if (!keyed_take(life->keyed, s->request->key_field, line, &item))
        return false;
    life_first_result(life);
    life_answered(life, 1);
    s->hand.result = str_trim(line);
    session_event(s, (struct feed_event){.kind = EV_DONE, .worker = life->seat, .item = item});
    return true;
}

/* Text is taken many lines at a time, as long as nothing is wrong with it. Returns what is left. */
static struct str text_take(struct life *life, struct str bytes)
{
    const char *last = bytes.len > 0 ? memrchr(bytes.at, '\n', bytes.len) : NULL;
    struct str lines = {bytes.at, last ? (size_t)(last + 1 - bytes.at) : 0};
    if (answers_are_json(life->session) || !utf8_is_valid(lines))
        return bytes;
    lines_take(life, lines);
    return (struct str){bytes.at + lines.len, bytes.len - lines.len};
}

static const char *stray_reason(const struct life *life, struct str line)
{
    if (!answers_are_json(life->session))
        return "more lines than items were sent";
    if (!json_is_object(line))
        return "a line that is no JSON object (JSON in wants JSON out; --raw lifts that)";
    return life->session->request->key_field ? "a line whose --key field belongs to no item it has"
                                             : "a line that cannot be an answer";
}

static void checked_read(struct life *life, struct str bytes)
{
    uint64_t line_max = life->session->request->line_max_bytes;
    bool carried = life->from_worker.len > 0;
    if (carried) {
        const char *end = memchr(bytes.at, '\n', bytes.len);
        size_t len = end ? (size_t)(end + 1 - bytes.at) : bytes.len;
        buf_add(&life->from_worker, bytes.at, len);
        bytes.at += len;
        bytes.len -= len;
        if (life->from_worker.len > line_max + 1) {
            line_too_long(life, buf_str(&life->from_worker));
            return;
        }
        if (!end)
            return;
        if (!line_take(life, buf_str(&life->from_worker)))
            goto stray;
        buf_reset(&life->from_worker);
    }
    bytes = text_take(life, bytes);
    while (bytes.len > 0) {
        const char *end = memchr(bytes.at, '\n', bytes.len);
        if (!end)
            break;
        struct str line = {bytes.at, (size_t)(end + 1 - bytes.at)};
        if (line.len > line_max + 1) {
            line_too_long(life, line);
            return;
        }
        if (!line_take(life, line)) {
            buf_reset(&life->from_worker);
            buf_add_str(&life->from_worker, line);
            goto stray;
        }
        bytes.at += line.len;
        bytes.len -= line.len;
    }
    buf_add_str(&life->from_worker, bytes);
    answers_say(life);
    return;
stray:
    life_stray_note(life, stray_reason(life, buf_str(&life->from_worker)),
                    buf_str(&life->from_worker));
    buf_reset(&life->from_worker);
    life->n_unsaid = 0;
    session_event(life->session, (struct feed_event){.kind = EV_STRAY, .worker = life->seat});
}

static size_t strcspn_of(struct str bytes, char end)
{
    const char *at = memchr(bytes.at, end, bytes.len);
    return at ? (size_t)(at - bytes.at) : bytes.len;
}

void filter_read(struct life *life, struct str bytes)
{
    struct session *s = life->session;
    if (!life_part_ready(life) || life->was_ended)
        return;
    early_keep(life, bytes);
    if (!life->first_line[0])
        snprintf(life->first_line, sizeof(life->first_line), "%.*s",
                 (int)MIN(strcspn_of(bytes, '\n'), sizeof(life->first_line) - 1), bytes.at);
    if (answers_are_json(s) || s->results_need_utf8)
        checked_read(life, bytes);
    else
        plain_read(life, bytes);
}

/* The last line may lack its newline; that of a worker which did not end by itself lacks more. */
void filter_eof(struct life *life)
{
    /* Lines that are looked into are whole in the part; others are written there as they come. */
    bool is_cut_in_part = life->part && !life->keyed && life->part->offset > life->part_line_begin;
    bool unfinished = life->from_worker.len > 0 || is_cut_in_part;
    const struct worker_exit *exit = &life->exit;
    bool is_whole = exit->has_exited && exit->exit_code == 0 && exit->exit_signal == 0;
    if (unfinished && is_whole && !life->was_ended && life->part)
        filter_read(life, STR("\n"));
}

void filter_to_channel(struct life *life)
{
    life->n_sent = life->n_unwritten = 0;
    answers_forget(life);
    life->n_items_sent = life->n_items_answered = life->n_unsaid = 0;
    buf_reset(&life->to_worker);
    if (life->early_stdout.len > 0)
        logfile_add(life->stdout_log, buf_str(&life->early_stdout));
    buf_release(&life->early_stdout);
    buf_reset(&life->from_worker);
    node_drop(life->process, STREAM_IN);
}
