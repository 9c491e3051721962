/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers are bytes in the worker's part. Their places are known by ranges of items, not by single lines.
 */
#include "map/session_impl.h"

#include <errno.h>
#include <unistd.h>

#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "map/key_index.h"
#include "map/lines.h"
#include "map/message.h"

enum {
    LOAD_BYTES = 64 * 1024, /* of lines that are put into to_worker at once */
    BLOCK_BYTES = 4096      /* a load may be longer by this */
};

/* ---- to the worker ---- */

static void sent_push(struct filter *filter, struct sent_items items)
{
    struct sent_items *last = filter->n_sent > 0 ? &filter->sent[filter->n_sent - 1] : NULL;
    if (items.count == 0)
        return;
    if (last && last->first + last->count == items.first && last->is_unfit == items.is_unfit) {
        last->count += items.count;
        return;
    }
    if (filter->n_sent == filter->cap_sent) {
        filter->cap_sent = filter->cap_sent ? filter->cap_sent * 2 : 16;
        filter->sent = xrealloc(filter->sent, filter->cap_sent * sizeof(*filter->sent));
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
    filter->sent[filter->n_sent++] = items;
}

static void sent_pop(struct filter *filter, uint64_t count)
{
    filter->sent[0].first += count;
    filter->sent[0].count -= count;
    if (filter->sent[0].count > 0)
        return;
    memmove(filter->sent, filter->sent + 1, --filter->n_sent * sizeof(*filter->sent));
}

static void answers_say(struct worker *worker);

/* Reports unfit items once all items before them are answered: no answer will come for them. */
static void unfit_pass(struct worker *worker)
{
    while (worker->filter.n_sent > 0 && worker->filter.sent[0].is_unfit) {
        uint64_t count = worker->filter.sent[0].count;
        sent_pop(&worker->filter, count);
        answers_say(worker); /* the feeder may send more items, and call this again */
        session_event(
            worker->session,
            (struct feed_event){.kind = EV_PASSED, .worker = worker->seat, .count = count});
    }
}

static void item_refuse(struct worker *worker, uint64_t item)
{
    session_event(worker->session,
                  (struct feed_event){.kind = EV_UNFIT, .worker = worker->seat, .item = item});
    if (!worker->session->request->key_field) /* with --key, the order does not matter */
        sent_push(&worker->filter,
                  (struct sent_items){.first = item, .count = 1, .is_unfit = true});
    unfit_pass(worker);
}

/* The item fails, and is tried again later: the other item may be answered by then. */
static void item_clash(struct worker *worker, uint64_t item)
{
    session_event_later(
        worker->session,
        (struct feed_event){.kind = EV_FAIL, .worker = worker->seat, .item = item, .flag = true},
        "its worker had another item with the same value of the --key field, and an answer could "
        "be meant for either: values of --key must differ");
}

/* Why the item after those that were loaded is not sent. */
enum load_end {
    LOAD_FITS, /* it may be sent later */
    LOAD_UNFIT,
    LOAD_CLASH
};

/* Loads the lines of the first *n_out of these items, as many as fit: at least one with LOAD_FITS. */
static int lines_load(struct worker *worker, struct item_span items, uint64_t *n_out,
                      enum load_end *end, struct err *err)
{
    static const enum load_end ends[] = {
        [KEY_ALL] = LOAD_FITS, [KEY_MISSING] = LOAD_UNFIT, [KEY_TAKEN] = LOAD_CLASH};
    enum key_end key_end = KEY_ALL;
    struct session *s = worker->session;
    struct buf *out = &worker->to_worker;
    /* Reserved at once: growing in steps would fragment the heap. */
    buf_reserve(out, LOAD_BYTES + BLOCK_BYTES);
    int rc = source_lines(s->source, items.first, items.count, LOAD_BYTES, out, n_out, err);
    if (rc && rc != ERR_RECORD)
        return rc;
    if (s->request->key_field && *n_out > 0)
        key_end = key_index_add(&worker->filter.key_index, s->request->key_field, items.first,
                                buf_str(out), n_out, &out->len);
    *end = key_end == KEY_ALL && rc == ERR_RECORD ? LOAD_UNFIT : ends[key_end];
    return 0;
}

static void unwritten_pop(struct worker *worker, uint64_t count)
{
    struct item_span *next = &worker->filter.unwritten[0];
    next->first += count;
    next->count -= count;
    if (next->count == 0)
        memmove(next, next + 1, --worker->filter.n_unwritten * sizeof(*next));
}

/* False if the run is given up. */
static bool load_some(struct worker *worker)
{
    struct item_span items = worker->filter.unwritten[0];
    struct err err = {0};
    uint64_t n_items = 0;
    enum load_end end = LOAD_FITS;
    if (lines_load(worker, items, &n_items, &end, &err) != 0) {
        worker_unwritten_drop(worker);
        shell_abort(worker->session->shell, &err);
        return false;
    }
    bool is_cut = end != LOAD_FITS;
    ASSERT(n_items + is_cut > 0);
    unwritten_pop(worker, n_items + is_cut);
    worker->filter.bytes_in_flight += worker->to_worker.len;
    worker_sent(worker, n_items);
    if (!worker->session->request->key_field) /* with --key, answers are matched by key */
        sent_push(&worker->filter, (struct sent_items){.first = items.first, .count = n_items});
    if (end == LOAD_UNFIT)
        item_refuse(worker, items.first + n_items);
    else if (end == LOAD_CLASH)
        item_clash(worker, items.first + n_items);
    return true;
}

bool filter_load(struct worker *worker)
{
    if (worker->filter.is_loading) /* called by the event of an unfit item in this loop */
        return false;
    worker->filter.is_loading = true;
    while (worker->to_worker.len == 0 && worker->filter.n_unwritten > 0 && load_some(worker))
        continue;
    worker->filter.is_loading = false;
    return worker->to_worker.len > 0;
}

void filter_send(struct worker *worker, uint64_t first, uint64_t count)
{
    struct item_span *last = worker->filter.n_unwritten > 0
                                 ? &worker->filter.unwritten[worker->filter.n_unwritten - 1]
                                 : NULL;
    if (last && last->first + last->count == first) {
        last->count += count;
    } else {
        if (worker->filter.n_unwritten == worker->filter.cap_unwritten) {
            worker->filter.cap_unwritten =
                worker->filter.cap_unwritten ? worker->filter.cap_unwritten * 2 : 4;
            worker->filter.unwritten =
                xrealloc(worker->filter.unwritten,
                         worker->filter.cap_unwritten * sizeof(*worker->filter.unwritten));
        }
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
        worker->filter.unwritten[worker->filter.n_unwritten++] = (struct item_span){first, count};
    }
    worker_flush(worker);
}

/* ---- from the worker ---- */

/*
 * Matches whole lines in `bytes`, which are in the part at `offset`, with the items sent. Lines beyond
 * the items sent are counted as answers too; the feeder judges them.
 */
static void lines_match(struct worker *worker, struct str bytes, uint64_t offset)
{
    while (bytes.len > 0) {
        uint64_t found,
            want = worker->filter.n_sent > 0 ? worker->filter.sent[0].count : UINT64_MAX;
        size_t used = lines_skip(bytes, want, &found);
        if (found == 0)
            break;
        uint64_t end = offset + used, begin = worker->filter.part_line_begin;
        worker->filter.part_line_begin = offset = end;
        worker->filter.n_unsaid += found;
        if (worker->filter.n_sent > 0) {
            answers_note(worker, (struct answered_items){.first = worker->filter.sent[0].first,
                                                         .count = found,
                                                         .offset = begin,
                                                         .bytes = end - begin});
            sent_pop(&worker->filter, found);
            unfit_pass(worker);
        } else {
            worker_stray_note(worker, "more lines than items were sent", bytes);
        }
        bytes.at += used;
        bytes.len -= used;
    }
}

/* The bytes of single items are not known: each counts as an equal share of those in flight. */
static void answers_count(struct worker *worker, uint64_t count)
{
    uint64_t in_flight = worker->busy.n_sent - worker->busy.n_answered;
    worker->filter.bytes_in_flight -=
        in_flight > 0 ? worker->filter.bytes_in_flight * MIN(count, in_flight) / in_flight : 0;
    worker_answered(worker, count);
}

static void answers_say(struct worker *worker)
{
    uint64_t count = worker->filter.n_unsaid;
    if (count == 0)
        return;
    worker->filter.n_unsaid = 0;
    worker_first_result(worker);
    answers_count(worker, count);
    session_event(worker->session,
                  (struct feed_event){.kind = EV_ANSWERS, .worker = worker->seat, .count = count});
}

/* Before a worker is known to be a filter, its output may be messages for people: keep it for the log. */
static void early_keep(struct worker *worker, struct str bytes)
{
    enum {
        EARLY_MAX = 65536
    };
    if (worker->busy.n_answered == 0 && worker->filter.early_stdout.len < EARLY_MAX)
        buf_add(&worker->filter.early_stdout, bytes.at,
                MIN(bytes.len, (size_t)EARLY_MAX - worker->filter.early_stdout.len));
    else if (worker->busy.n_answered > 0)
        buf_release(&worker->filter.early_stdout);
}

/* A line that is too long is taken for the answer to the next item. */
static void line_too_long(struct worker *worker, struct str beginning)
{
    cleanup_buf struct buf why = BUF_INIT;
    char limit[16];
    answers_say(worker);
    size_format(limit, worker->session->request->run.line_max_bytes);
    buf_addf(&why, "a line longer than %s (--line-max)", limit);
    worker_stray_note(worker, buf_text(&why), beginning);
    buf_release(&worker->filter.from_worker);
    bool is_known = worker->filter.n_sent > 0 && !worker->filter.key_index;
    session_event(worker->session,
                  (struct feed_event){.kind = EV_STRAY,
                                      .worker = worker->seat,
                                      .item = is_known ? worker->filter.sent[0].first : 0,
                                      .flag = is_known});
}

static void plain_read(struct worker *worker, struct str bytes)
{
    uint64_t offset = part_append(worker->part, bytes);
    lines_match(worker, bytes, offset);
    answers_say(worker);
    if (worker->part->offset - worker->filter.part_line_begin >
        worker->session->request->run.line_max_bytes)
        line_too_long(worker, STR(""));
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
 * Adds why a line fails its item. The line is an object with a malformed value (NaN, not UTF-8), and so an answer; or
 * it is text that cannot be written as JSON. False: the line may be a message for people.
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
    message_flaw_add(failed.flaw, failed.flaw_at, str_trim(line), why);
    *key_value = failed.key_value;
    return true;
}

static bool line_fail(struct worker *worker, struct str line)
{
    struct session *s = worker->session;
    cleanup_buf struct buf why = BUF_INIT;
    struct str key_value = {0};
    uint64_t item = 0;
    if (!line_flaw_add(s, line, &key_value, &why))
        return false;
    if (worker->filter.key_index ? !key_index_take_value(worker->filter.key_index, key_value, &item)
                                 : worker->filter.n_sent == 0)
        return false;
    answers_say(worker);
    if (!worker->filter.key_index) {
        item = worker->filter.sent[0].first;
        sent_pop(&worker->filter, 1);
    }
    answers_count(worker, 1);
    worker->busy.n_failed++;
    s->step.error = buf_text(&why);
    session_event(s, (struct feed_event){
                         .kind = EV_FAIL, .worker = worker->seat, .item = item, .flag = true});
    if (!worker->filter.key_index)
        session_event(s,
                      (struct feed_event){.kind = EV_PASSED, .worker = worker->seat, .count = 1});
    unfit_pass(worker);
    return true;
}

static void lines_take(struct worker *worker, struct str lines)
{
    lines_match(worker, lines, part_append(worker->part, lines));
}

/* Takes one whole line of a worker whose answers are parsed. False: it cannot be an answer. */
static bool line_take(struct worker *worker, struct str line)
{
    struct session *s = worker->session;
    if (!is_answer(s, line))
        return line_fail(worker, line);
    if (!worker->filter.key_index) {
        lines_take(worker, line);
        return true;
    }
    uint64_t item;
    if (!key_index_take(worker->filter.key_index, s->request->key_field, line, &item))
        return false;
    worker_first_result(worker);
    worker_answered(worker, 1);
    worker_result(worker, item, str_trim(line), STR(""));
    return true;
}

/* Takes text many lines at a time, as long as it is valid. Returns the rest. */
static struct str text_take(struct worker *worker, struct str bytes)
{
    const char *last = bytes.len > 0 ? memrchr(bytes.at, '\n', bytes.len) : NULL;
    struct str lines = {bytes.at, last ? (size_t)(last + 1 - bytes.at) : 0};
    if (answers_are_json(worker->session) || !utf8_is_valid(lines))
        return bytes;
    lines_take(worker, lines);
    return (struct str){bytes.at + lines.len, bytes.len - lines.len};
}

static const char *stray_reason(const struct worker *worker, struct str line)
{
    if (!answers_are_json(worker->session))
        return "more lines than items were sent";
    if (!json_is_object(line))
        return "a line that is no JSON object (JSON in wants JSON out; --raw lifts that)";
    return worker->session->request->key_field
               ? "a line whose --key field belongs to no item it has"
               : "a line that cannot be an answer";
}

static void checked_read(struct worker *worker, struct str bytes)
{
    uint64_t line_max = worker->session->request->run.line_max_bytes;
    bool carried = worker->filter.from_worker.len > 0;
    if (carried) {
        const char *end = memchr(bytes.at, '\n', bytes.len);
        size_t len = end ? (size_t)(end + 1 - bytes.at) : bytes.len;
        buf_add(&worker->filter.from_worker, bytes.at, len);
        bytes.at += len;
        bytes.len -= len;
        if (worker->filter.from_worker.len > line_max + 1) {
            line_too_long(worker, buf_str(&worker->filter.from_worker));
            return;
        }
        if (!end)
            return;
        if (!line_take(worker, buf_str(&worker->filter.from_worker)))
            goto stray;
        buf_reset(&worker->filter.from_worker);
    }
    bytes = text_take(worker, bytes);
    while (bytes.len > 0) {
        const char *end = memchr(bytes.at, '\n', bytes.len);
        if (!end)
            break;
        struct str line = {bytes.at, (size_t)(end + 1 - bytes.at)};
        if (line.len > line_max + 1) {
            line_too_long(worker, line);
            return;
        }
        if (!line_take(worker, line)) {
            buf_reset(&worker->filter.from_worker);
            buf_add_str(&worker->filter.from_worker, line);
            goto stray;
        }
        bytes.at += line.len;
        bytes.len -= line.len;
    }
    buf_add_str(&worker->filter.from_worker, bytes);
    answers_say(worker);
    return;
stray:
    worker_stray_note(worker, stray_reason(worker, buf_str(&worker->filter.from_worker)),
                      buf_str(&worker->filter.from_worker));
    buf_reset(&worker->filter.from_worker);
    worker->filter.n_unsaid = 0;
    session_event(worker->session, (struct feed_event){.kind = EV_STRAY, .worker = worker->seat});
}

static size_t strcspn_of(struct str bytes, char end)
{
    const char *at = memchr(bytes.at, end, bytes.len);
    return at ? (size_t)(at - bytes.at) : bytes.len;
}

void filter_read(struct worker *worker, struct str bytes)
{
    struct session *s = worker->session;
    if (!worker_part_ready(worker) || worker->was_ended)
        return;
    early_keep(worker, bytes);
    if (!worker->filter.first_line[0])
        snprintf(worker->filter.first_line, sizeof(worker->filter.first_line), "%.*s",
                 (int)MIN(strcspn_of(bytes, '\n'), sizeof(worker->filter.first_line) - 1),
                 bytes.at);
    if (answers_are_json(s) || s->results.need_utf8)
        checked_read(worker, bytes);
    else
        plain_read(worker, bytes);
}

/* The last line may lack its newline; if the worker did not end by itself, the line is incomplete. */
void filter_eof(struct worker *worker)
{
    /* Parsed lines are written to the part as whole lines; others as their bytes come. */
    bool is_cut_in_part = worker->part && !worker->filter.key_index &&
                          worker->part->offset > worker->filter.part_line_begin;
    bool unfinished = worker->filter.from_worker.len > 0 || is_cut_in_part;
    const struct worker_exit *exit = &worker->exit;
    bool is_whole = exit->has_exited && exit->exit_code == 0 && exit->exit_signal == 0;
    if (unfinished && is_whole && !worker->was_ended && worker->part)
        filter_read(worker, STR("\n"));
}

void filter_to_channel(struct worker *worker)
{
    worker->filter.n_sent = 0;
    answers_forget(worker);
    worker->busy.n_sent = worker->busy.n_answered = worker->busy.n_failed = 0;
    worker->filter.n_unsaid = 0;
    worker_unwritten_drop(worker);
    if (worker->filter.early_stdout.len > 0)
        logfile_add(worker->stdout_log, buf_str(&worker->filter.early_stdout));
    buf_release(&worker->filter.early_stdout);
    buf_reset(&worker->filter.from_worker);
    node_drop(worker->process, STREAM_IN);
}

void filter_release(struct filter *filter)
{
    buf_release(&filter->from_worker);
    buf_release(&filter->early_stdout);
    key_index_free(filter->key_index);
    free(filter->unwritten);
    free(filter->sent);
}
