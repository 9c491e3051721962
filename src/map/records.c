/* SPDX-License-Identifier: Apache-2.0
 *
 * Items that are records of the input: warm workers (filters and channel workers) take one after the other.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/shell.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "map/session_impl.h"
#include "map/summary.h"
#include "map/work.h"

enum {
    SCAN_BYTES = 4 << 20
};

/* How the input is read during the run. */
struct records {
    uv_idle_t scan_idle;
    uv_poll_t source_poll;
    bool scan_runs, source_polled;
};

/* ---- the input ---- */

static void scan_stop(struct records *records)
{
    if (records->scan_runs)
        uv_idle_stop(&records->scan_idle);
    if (records->source_polled)
        uv_poll_stop(&records->source_poll);
    records->scan_runs = records->source_polled = false;
}

static void scan_some(struct session *s)
{
    struct records *records = s->work_data;
    struct err err = {0};
    uint64_t known = source_known(s->source);
    if (source_scan(s->source, SCAN_BYTES, &err) != 0) {
        shell_abort(s->shell, &err);
        scan_stop(records);
        return;
    }
    bool complete = source_is_complete(s->source);
    if (source_known(s->source) != known || complete)
        session_event(s, (struct feed_event){
                             .kind = EV_INPUT, .count = source_known(s->source), .flag = complete});
    if (complete) {
        char items[24];
        snprintf(items, sizeof(items), "%lu", source_known(s->source));
        ledger_fact(s->ledger, "items", items);
        session_input_copied(s);
        scan_stop(records);
    }
}

static void on_scan_idle(uv_idle_t *idle)
{
    scan_some(idle->data);
}

static void on_source_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    scan_some(poll->data);
}

static void input_begin(struct session *s)
{
    struct records *records = s->work_data;
    int fd = source_wait_fd(s->source);
    uv_idle_init(shell_uv_loop(s->shell), &records->scan_idle);
    records->scan_idle.data = s;
    scan_some(s);
    if (source_is_complete(s->source))
        return;
    int sys = fd >= 0 ? -uv_poll_init(shell_uv_loop(s->shell), &records->source_poll, fd) : EPERM;
    if (sys != 0 && sys != EPERM) { /* EPERM: a file, which is always ready */
        struct err err = {0};
        fail(&err, ERR_STOPPED, "the input cannot be watched: %s", errno_text(sys));
        shell_abort(s->shell, &err);
        return;
    }
    if (sys == 0) {
        records->source_poll.data = s;
        records->source_polled = true;
        uv_poll_start(&records->source_poll, UV_READABLE, on_source_readable);
        return;
    }
    records->scan_runs = true;
    uv_idle_start(&records->scan_idle, on_scan_idle);
}

/* ---- their order ---- */

struct weighed {
    double weight;
    uint32_t item;
};

static int by_weight_descending(const void *a, const void *b)
{
    const struct weighed *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->item < y->item ? -1 : 1;
}

enum {
    WEIGHED_ITEMS_MAX = 16 << 20
};

/* longest-first needs all sizes, so the whole input is read once. */
static int order_make(struct session *s, struct err *err)
{
    int rc = 0;
    if (!s->request->schedule.longest_first && !s->request->schedule.weight_field)
        return 0;
    while (rc == 0 && !source_is_complete(s->source))
        rc = source_scan(s->source, 64 << 20, err);
    uint64_t n_items = rc == 0 ? source_known(s->source) : 0;
    if (rc == 0 && n_items > WEIGHED_ITEMS_MAX)
        rc = fail(err, ERR_USAGE, "longest-first is for at most %d items; this input has %lu",
                  WEIGHED_ITEMS_MAX, n_items);
    if (rc)
        return rc;
    struct weighed *all = xcalloc(n_items, sizeof(*all));
    for (uint64_t i = 0; i < n_items && rc == 0; i++) {
        all[i].item = (uint32_t)i;
        rc = source_weight(s->source, i, &all[i].weight, err);
    }
    qsort(all, n_items, sizeof(*all), by_weight_descending);
    s->order = xcalloc(n_items + 1, sizeof(*s->order));
    for (uint64_t i = 0; i < n_items; i++)
        s->order[i] = all[i].item;
    free(all);
    return rc;
}

static int begin(struct session *s, struct err *err)
{
    s->work_data = xcalloc(1, sizeof(struct records));
    return order_make(s, err);
}

static int recall(struct session *s, uint64_t *n_items, struct err *err)
{
    cleanup_free char *items = NULL;
    int rc = store_get(shell_store(s->shell), "items", &items, err);
    if (!items || u64_parse(str_of(items), 0, UINT64_MAX, n_items, NULL) != 0)
        *n_items = 0;
    return rc;
}

static void print(struct session *s)
{
    seats_print(&s->allocation, s->request->command);
}

static void release(struct session *s)
{
    free(s->work_data);
}

/* ---- a record ---- */

static void position_add(const struct session *s, uint64_t item, struct buf *out)
{
    source_position(s->source, item, out);
}

/* Adds what is wrong with a record; `position` says where the record is. */
void record_flaw_add(const struct session *s, uint64_t item, struct str position,
                     struct buf *reason)
{
    cleanup_buf struct buf data = BUF_INIT;
    struct err err = {0};
    const char *key;
    if (source_item_json(s->source, item, &data, &key, &err) == 0) {
        buf_addf(reason, "it has no field '%s', by which --key matches results with items",
                 s->request->key_field ? s->request->key_field : "");
        return;
    }
    bool says_where = strncmp(err.text, position.at, position.len) == 0;
    buf_add_text(reason, err.text + (says_where ? position.len + strlen(": ") : 0));
}

/* Adds the record unchanged, as text or, if it is not UTF-8, in base64. */
static void malformed_add(struct session *s, uint64_t item, struct buf *text)
{
    cleanup_buf struct buf record = BUF_INIT;
    if (source_record(s->source, item, &record, NULL) != 0)
        return;
    if (utf8_is_valid(buf_str(&record))) {
        buf_add_text(text, ",\"record\":");
        buf_add_json(text, buf_str(&record));
    } else {
        buf_add_text(text, ",\"record_b64\":\"");
        buf_add_base64(text, buf_str(&record));
        buf_add_char(text, '"');
    }
}

static void retry_add(struct session *s, uint64_t item, struct buf *json_out)
{
    const char *key = "data";
    cleanup_buf struct buf data = BUF_INIT;
    if (source_item_json(s->source, item, &data, &key, NULL) == 0) {
        buf_addf(json_out, ",\"%s\":%s", key, buf_text(&data));
        return;
    }
    malformed_add(s, item, json_out);
    s->failed.n_malformed++;
}

/* ---- a worker ---- */

static void give(struct worker *worker, const struct feed_action *a)
{
    if (worker->is_channel)
        channel_send(worker, a->item, a->count, a->detail);
    else
        filter_send(worker, a->item, a->count);
}

static void batch(struct worker *worker, uint64_t size)
{
    if (worker->is_channel)
        channel_batch(worker, size);
}

static const char *const *command(const struct worker *worker)
{
    return worker->session->request->command;
}

static void environment(const struct worker *worker, struct env_list *env)
{
    env_set(env, worker->channel_path ? xasprintf("MUSTER_CHANNEL=%s", worker->channel_path)
                                      : xstrdup("MUSTER_CHANNEL=3"));
}

static void describe(const struct worker *worker, struct buf *out)
{
    uint64_t n_failed = MIN(worker->busy.n_failed, worker->busy.n_answered);
    uint64_t n_done = worker->busy.n_answered - n_failed;
    buf_addf(out, " after %lu item%s", n_done, plural(n_done));
    if (n_failed > 0)
        buf_addf(out, "; %lu failed", n_failed);
}

static const struct worker_ops worker_ops = {.spawn = worker_spawn,
                                             .send = give,
                                             .batch = batch,
                                             .retire = worker_finish,
                                             .command = command,
                                             .environment = environment,
                                             .describe = describe};

/* ---- the end ---- */

static void safe_say(struct session *s, int rc)
{
    cleanup_buf struct buf next = BUF_INIT;
    cleanup_free char *run = summary_run_new(s);
    summary_go_on(s, NULL, &next);
    if (rc == ERR_DATA)
        talk("every result is safe in %s; muster results %s prints them, "
             "in another format with -o FILE or --format-out",
             shell_run_dir(s->shell), run);
    else
        talk("every result is safe in %s; to merge them again: %s", shell_run_dir(s->shell),
             buf_text(&next));
}

static uint64_t n_done_here(const struct session *s)
{
    uint64_t n_done = 0;
    for (uint32_t p = 0; p < s->n_seats; p++)
        n_done += s->seats[p].items_done;
    return n_done;
}

static void result_line(struct session *s, const struct result_merge_stats *stats, struct buf *out)
{
    struct feed_counts counts;
    char done[32], known[32];
    feed_counts(s->feed, &counts);
    count_format(done, counts.done);
    count_format(known, counts.known);
    if (stats && strcmp(s->request->out_path, "-") != 0)
        buf_addf(out, "%s: %s result%s%s\n", s->request->out_path, done, plural(counts.done),
                 counts.aside == 0 ? ", complete" : "");
    else
        buf_addf(out, "%s of %s item%s done\n", done, known, plural(counts.known));
}

const struct work record_work = {
    .noun = "item",
    .a_noun = "an item",
    .keeps_workers = true,
    .worker = &worker_ops,
    .begin = begin,
    .recall = recall,
    .print = print,
    .input_begin = input_begin,
    .release = release,
    .position_add = position_add,
    .retry_add = retry_add,
    .merge = session_merge,
    .safe_say = safe_say,
    .n_done_here = n_done_here,
    .result_line = result_line,
};
