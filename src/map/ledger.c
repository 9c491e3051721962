/* SPDX-License-Identifier: Apache-2.0 */
#include "map/ledger.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/xalloc.h"

enum {
    PART_BUFFER_BYTES = 16 * 1024,
    INTERVAL_MS = 1000,
    PROMPT_MS = 50, /* shortest time between prompt commits, so that many small shards share one */
    WAITING_SOON_BYTES = 32 * 1024, /* of rows: more of them begin a commit before its time */
    WAITING_MAX_BYTES = 32 << 20,
    LEDGER_HANDLES = 2
};

struct fact {
    char *key, *value;
};

/* The rows of one group commit. It owns its strings. */
struct batch {
    struct range_row *ranges;
    struct metrics **metrics; /* one for each range; NULL: none */
    struct failed_item_row *failed_items;
    struct attempt_row *attempts;
    struct event_row *events;
    struct sample_row *samples;
    struct fact *facts;
    size_t n_ranges, n_failed_items, n_attempts, n_events, n_samples, n_facts;
    size_t cap_ranges, cap_failed_items, cap_attempts, cap_events, cap_samples, cap_facts;
    struct part **parts; /* to be synced first */
    size_t n_parts, cap_parts;
};

struct ledger {
    struct ledger_opts opts;
    struct batch open, closing;
    struct metrics totals;
    uv_thread_t thread; /* of the running group commit, the job */
    uv_async_t job_ended;
    uv_timer_t timer;
    bool has_thread, job_runs, has_failed, timer_runs, is_crowded;
    bool is_held;           /* no commit is begun before ledger_settle */
    uint64_t waiting_bytes; /* of the open batch */
    int job_rc;
    struct err job_err;
    uint64_t job_began_ms;
    unsigned n_closed; /* handles that are closed */
};

#define GROW(array, len, cap)                                      \
    do {                                                           \
        if ((len) == (cap)) {                                      \
            (cap) = (cap) ? (cap)*2 : 64;                          \
            (array) = xrealloc((array), (cap) * sizeof(*(array))); \
        }                                                          \
    } while (0)

/* ---- metrics ---- */

static double *metric_slot(struct metrics *sums, struct str name)
{
    for (size_t i = 0; i < sums->len; i++)
        if (str_equal(name, str_of(sums->names[i])))
            return &sums->values[i];
    if (sums->len == METRICS_MAX || name.len >= METRIC_NAME_MAX)
        return NULL;
    memcpy(sums->names[sums->len], name.at, name.len);
    sums->names[sums->len][name.len] = '\0';
    sums->values[sums->len] = 0;
    return &sums->values[sums->len++];
}

/* A sum that would be infinite is left unchanged. */
static bool metric_add(struct metrics *sums, struct str name, double more)
{
    double *slot = metric_slot(sums, name);
    bool is_added = slot && isfinite(*slot + more);
    if (is_added)
        *slot += more;
    return is_added;
}

bool metrics_add(struct metrics *sums, struct str json_object)
{
    struct json_members walk = json_members(json_object);
    struct str key, value;
    bool is_whole = true;
    while (json_next(&walk, &key, &value)) {
        double number;
        bool truth;
        bool is_truth = json_to_bool(value, &truth);
        bool is_number = is_truth || json_to_double(value, &number);
        is_whole &= is_number && metric_add(sums, key, is_truth ? truth : number);
    }
    return is_whole && !walk.malformed;
}

bool metrics_sum(struct metrics *sums, const struct metrics *more)
{
    bool is_whole = true;
    for (size_t i = 0; i < more->len; i++)
        is_whole &= metric_add(sums, str_of(more->names[i]), more->values[i]);
    return is_whole;
}

bool metrics_judged(const struct metrics *sums, double *correct, double *seen)
{
    *correct = *seen = -1;
    for (size_t i = 0; i < sums->len; i++) {
        if (strcmp(sums->names[i], "correct") == 0)
            *correct = sums->values[i];
        if (strcmp(sums->names[i], "seen") == 0)
            *seen = sums->values[i];
    }
    return *correct >= 0 && *seen > 0;
}

void metric_format(char out[METRIC_TEXT_BYTES], double sum)
{
    static const double FIRST_INEXACT =
        9007199254740992; /* 2^53: the next whole number is no double */
    bool is_count = trunc(sum) == sum && fabs(sum) < FIRST_INEXACT;
    if (is_count)
        snprintf(out, METRIC_TEXT_BYTES, "%ld", (long)sum);
    else
        snprintf(out, METRIC_TEXT_BYTES, "%.10g", sum);
}

void metrics_format(const struct metrics *sums, struct buf *out)
{
    buf_add_char(out, '{');
    for (size_t i = 0; i < sums->len; i++)
        buf_addf(out, "%s\"%s\":%.17g", i > 0 ? "," : "", sums->names[i], sums->values[i]);
    buf_add_char(out, '}');
}

/* ---- parts ---- */

int part_open(struct ledger *ledger, uint32_t number, struct part **out, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/parts/%u.part", store_dir(ledger->opts.store), number);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0664);
    if (fd < 0)
        return fail_errno(err, "create %s", path);
    struct part *part = xcalloc(1, sizeof(*part));
    *part = (struct part){.number = number, .fd = fd, .users = 1, .ledger = ledger};
    buf_reserve(&part->pending, PART_BUFFER_BYTES);
    *out = part;
    return 0;
}

static void ledger_fail(struct ledger *ledger, const struct err *err)
{
    if (ledger->has_failed)
        return;
    ledger->has_failed = true;
    ledger->opts.failed(ledger->opts.context, err);
}

int part_flush(struct part *part, struct err *err)
{
    int rc = write_all(part->fd, part->pending.at, part->pending.len, err);
    buf_reset(&part->pending);
    return rc ? wrap(err, rc, "part %u in %s", part->number, store_dir(part->ledger->opts.store))
              : 0;
}

uint64_t part_append(struct part *part, struct str bytes)
{
    uint64_t at = part->offset;
    struct err err = {0};
    part->offset += bytes.len;
    part->is_dirty = true;
    if (part->pending.len + bytes.len > PART_BUFFER_BYTES && part_flush(part, &err) != 0)
        ledger_fail(part->ledger, &err);
    if (bytes.len < PART_BUFFER_BYTES / 2) {
        buf_add(&part->pending, bytes.at, bytes.len);
        return at;
    }
    if (part->pending.len > 0 && part_flush(part, &err) != 0)
        ledger_fail(part->ledger, &err);
    if (write_all(part->fd, bytes.at, bytes.len, &err) != 0)
        ledger_fail(part->ledger, &err);
    return at;
}

static void part_unref(struct part *part)
{
    if (--part->users > 0)
        return;
    close(part->fd);
    buf_release(&part->pending);
    free(part);
}

void part_close(struct part *part)
{
    struct err err = {0};
    if (!part)
        return;
    if (part_flush(part, &err) != 0)
        ledger_fail(part->ledger, &err);
    part_unref(part);
}

/* ---- rows ---- */

static void batch_hold_part(struct batch *batch, const struct part *part)
{
    for (size_t i = 0; i < batch->n_parts; i++)
        if (batch->parts[i] == part)
            return;
    GROW(batch->parts, batch->n_parts, batch->cap_parts);
    struct part *held = (struct part *)(uintptr_t)part;
    held->users++;
    batch->parts[batch->n_parts++] = held;
}

static bool follows(const struct range_row *last, const struct range_row *row)
{
    return last->part == row->part && last->first + last->count == row->first &&
           last->offset + last->bytes == row->offset;
}

static void commit_soon(struct ledger *ledger);
/* Counts one more waiting row, of this size. */
static void waits(struct ledger *ledger, size_t bytes);

bool ledger_range(struct ledger *ledger, const struct part *part, const struct range_row *row,
                  const struct metrics *metrics)
{
    struct batch *batch = &ledger->open;
    bool counted = metrics && metrics->len > 0;
    batch_hold_part(batch, part);
    bool is_whole = !counted || metrics_sum(&ledger->totals, metrics);
    struct range_row *last = batch->n_ranges > 0 ? &batch->ranges[batch->n_ranges - 1] : NULL;
    if (last && follows(last, row)) {
        last->count += row->count;
        last->bytes += row->bytes;
        last->attempt = MAX(last->attempt, row->attempt);
    } else {
        if (batch->n_ranges == batch->cap_ranges) {
            size_t cap = batch->cap_ranges ? batch->cap_ranges * 2 : 64;
            batch->metrics = xrealloc(batch->metrics, cap * sizeof(struct metrics *));
        }
        GROW(batch->ranges, batch->n_ranges, batch->cap_ranges);
        batch->metrics[batch->n_ranges] = NULL;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
        batch->ranges[batch->n_ranges++] = *row;
        waits(ledger, sizeof(*row) + sizeof(struct metrics *));
    }
    struct metrics **sums = &batch->metrics[batch->n_ranges - 1];
    if (counted && !*sums) {
        *sums = xcalloc(1, sizeof(**sums));
        waits(ledger, sizeof(**sums));
    }
    if (counted)
        is_whole &= metrics_sum(*sums, metrics);
    commit_soon(ledger);
    return is_whole;
}

static char *dup_or_null(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

void ledger_failed_item(struct ledger *ledger, const struct failed_item_row *row)
{
    struct batch *batch = &ledger->open;
    GROW(batch->failed_items, batch->n_failed_items, batch->cap_failed_items);
    struct failed_item_row *kept = &batch->failed_items[batch->n_failed_items++];
    *kept = *row;
    kept->reason = dup_or_null(row->reason);
    kept->stderr_tail = dup_or_null(row->stderr_tail);
    kept->position = dup_or_null(row->position);
    waits(ledger, sizeof(*row) + text_bytes(row->reason) + text_bytes(row->stderr_tail) +
                      text_bytes(row->position));
    commit_soon(ledger);
}

void ledger_attempt(struct ledger *ledger, const struct attempt_row *row)
{
    struct batch *batch = &ledger->open;
    GROW(batch->attempts, batch->n_attempts, batch->cap_attempts);
    struct attempt_row *kept = &batch->attempts[batch->n_attempts++];
    *kept = *row;
    kept->label = dup_or_null(row->label);
    kept->end = dup_or_null(row->end);
    kept->times = dup_or_null(row->times);
    commit_soon(ledger);
}

void ledger_event(struct ledger *ledger, const char *kind, const char *json)
{
    struct batch *batch = &ledger->open;
    GROW(batch->events, batch->n_events, batch->cap_events);
    batch->events[batch->n_events++] = (struct event_row){clock_wall_ms(), kind, dup_or_null(json)};
    waits(ledger, sizeof(struct event_row) + text_bytes(json));
    commit_soon(ledger);
}

void ledger_sample(struct ledger *ledger, const struct sample_row *row)
{
    struct batch *batch = &ledger->open;
    GROW(batch->samples, batch->n_samples, batch->cap_samples);
    batch->samples[batch->n_samples++] = *row;
    commit_soon(ledger);
}

void ledger_fact(struct ledger *ledger, const char *key, const char *value)
{
    struct batch *batch = &ledger->open;
    GROW(batch->facts, batch->n_facts, batch->cap_facts);
    batch->facts[batch->n_facts++] = (struct fact){xstrdup(key), xstrdup(value)};
    commit_soon(ledger);
}

int ledger_metrics_restore(struct ledger *ledger, struct err *err)
{
    struct row_reader *reader;
    struct range_row row;
    int rc = range_reader_open(&reader, ledger->opts.store, RANGES_AS_COMMITTED, err);
    if (rc)
        return rc;
    while ((rc = range_reader_next(reader, &row, err)) > 0)
        if (row.metrics)
            (void)metrics_add(&ledger->totals, str_of(row.metrics));
    row_reader_close(reader);
    return rc;
}

const struct metrics *ledger_metrics(const struct ledger *ledger)
{
    return &ledger->totals;
}

static bool batch_is_empty(const struct batch *batch)
{
    return batch->n_ranges + batch->n_failed_items + batch->n_attempts + batch->n_events +
               batch->n_samples + batch->n_facts ==
           0;
}

static void batch_clear(struct batch *batch)
{
    for (size_t i = 0; i < batch->n_ranges; i++) {
        free(batch->metrics[i]);
        free((void *)(uintptr_t)batch->ranges[i].metrics);
    }
    for (size_t i = 0; i < batch->n_failed_items; i++) {
        free((void *)(uintptr_t)batch->failed_items[i].reason);
        free((void *)(uintptr_t)batch->failed_items[i].stderr_tail);
        free((void *)(uintptr_t)batch->failed_items[i].position);
    }
    for (size_t i = 0; i < batch->n_attempts; i++) {
        free((void *)(uintptr_t)batch->attempts[i].label);
        free((void *)(uintptr_t)batch->attempts[i].end);
        free((void *)(uintptr_t)batch->attempts[i].times);
    }
    for (size_t i = 0; i < batch->n_events; i++)
        free((void *)(uintptr_t)batch->events[i].json);
    for (size_t i = 0; i < batch->n_facts; i++) {
        free(batch->facts[i].key);
        free(batch->facts[i].value);
    }
    for (size_t i = 0; i < batch->n_parts; i++)
        part_unref(batch->parts[i]);
    batch->n_ranges = batch->n_failed_items = batch->n_attempts = batch->n_events =
        batch->n_samples = 0;
    batch->n_parts = batch->n_facts = 0;
}

static void batch_release(struct batch *batch)
{
    batch_clear(batch);
    free(batch->ranges);
    free(batch->metrics);
    free(batch->failed_items);
    free(batch->attempts);
    free(batch->events);
    free(batch->samples);
    free(batch->facts);
    free(batch->parts);
    *batch = (struct batch){0};
}

/* ---- the group commit ---- */

static int parts_write(struct batch *batch, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < batch->n_parts && rc == 0; i++)
        rc = part_flush(batch->parts[i], err);
    for (size_t i = 0; i < batch->n_ranges; i++) {
        if (!batch->metrics[i])
            continue;
        struct buf json = BUF_INIT;
        metrics_format(batch->metrics[i], &json);
        batch->ranges[i].metrics = buf_steal(&json);
    }
    return rc;
}

/* Runs on a thread of its own; uses only the closed batch and the store. */
static int batch_commit(struct ledger *ledger, bool held, struct err *err)
{
    const struct batch *batch = &ledger->closing;
    for (size_t i = 0; !held && i < batch->n_parts; i++)
        if (fdatasync(batch->parts[i]->fd) != 0)
            return fail_errno(err, "sync part %u", batch->parts[i]->number);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < batch->n_facts; i++)
        rc = store_set(ledger->opts.store, batch->facts[i].key, batch->facts[i].value, err);
    if (rc)
        return rc;
    return store_commit(ledger->opts.store,
                        &(struct store_batch){
                            .ranges = batch->ranges,
                            .n_ranges = batch->n_ranges,
                            .failed_items = batch->failed_items,
                            .n_failed_items = batch->n_failed_items,
                            .attempts = batch->attempts,
                            .n_attempts = batch->n_attempts,
                            .events = batch->events,
                            .n_events = batch->n_events,
                            .samples = batch->samples,
                            .n_samples = batch->n_samples,
                            .is_held = held,
                        },
                        err);
}

static void job_run(void *context)
{
    struct ledger *ledger = context;
    ledger->job_rc = batch_commit(ledger, false, &ledger->job_err);
    uv_async_send(&ledger->job_ended);
}

static void commit_begin(struct ledger *ledger);
static void crowded_set(struct ledger *ledger, bool is_crowded);

static void on_job_ended(uv_async_t *async)
{
    struct ledger *ledger = async->data;
    if (ledger->has_thread)
        uv_thread_join(&ledger->thread);
    uv_unref((uv_handle_t *)async);
    ledger->job_runs = false;
    batch_clear(&ledger->closing);
    if (ledger->job_rc)
        ledger_fail(ledger, &ledger->job_err);
    if (ledger->is_crowded)
        commit_begin(ledger);
    crowded_set(ledger, false);
    commit_soon(ledger);
}

static int batch_close(struct ledger *ledger, struct err *err)
{
    struct batch emptied = ledger->closing;
    ledger->closing = ledger->open;
    ledger->open = emptied;
    ledger->waiting_bytes = 0;
    return parts_write(&ledger->closing, err);
}

static void commit_begin(struct ledger *ledger)
{
    struct err err = {0};
    if (ledger->job_runs || ledger->is_held || ledger->has_failed || batch_is_empty(&ledger->open))
        return;
    if (batch_close(ledger, &err) != 0) {
        ledger_fail(ledger, &err);
        return;
    }
    ledger->job_runs = true;
    ledger->job_began_ms = clock_now_ms();
    ledger->job_err = (struct err){0};
    uv_ref((uv_handle_t *)&ledger->job_ended);
    /* A thread for each commit: its stack is freed when the rows are on disk. */
    ledger->has_thread = uv_thread_create(&ledger->thread, job_run, ledger) == 0;
    if (!ledger->has_thread) /* no more threads are allowed: commits on this one */
        job_run(ledger);
}

static void on_timer(uv_timer_t *timer)
{
    struct ledger *ledger = timer->data;
    ledger->timer_runs = false;
    commit_begin(ledger);
}

static void crowded_set(struct ledger *ledger, bool is_crowded)
{
    if (ledger->is_crowded == is_crowded)
        return;
    ledger->is_crowded = is_crowded;
    if (ledger->opts.crowded)
        ledger->opts.crowded(ledger->opts.context, is_crowded);
}

/* An early commit begins with the next turn of the loop, since the caller may not have completed the row. */
static void waits(struct ledger *ledger, size_t bytes)
{
    uint64_t max_bytes = ledger->opts.waiting_max_bytes;
    ledger->waiting_bytes += bytes;
    if (ledger->has_failed || ledger->waiting_bytes <= MIN(max_bytes, (uint64_t)WAITING_SOON_BYTES))
        return;
    if (ledger->job_runs) {
        if (ledger->waiting_bytes > max_bytes)
            crowded_set(ledger, true);
        return;
    }
    ledger->timer_runs = true;
    uv_timer_start(&ledger->timer, on_timer, 0, 0);
}

static uint64_t delay_ms(const struct ledger *ledger, bool is_prompt)
{
    uint64_t next_ms = ledger->job_began_ms + PROMPT_MS, now_ms = clock_now_ms();
    if (!is_prompt)
        return ledger->opts.interval_ms;
    return next_ms > now_ms ? next_ms - now_ms : 0;
}

static void commit_soon(struct ledger *ledger)
{
    const struct batch *open = &ledger->open;
    bool is_prompt = ledger->opts.is_prompt && open->n_ranges + open->n_failed_items > 0;
    if (ledger->job_runs || ledger->has_failed || batch_is_empty(open) ||
        (ledger->timer_runs && !is_prompt))
        return;
    ledger->timer_runs = true;
    uv_update_time(ledger->opts.loop);
    uv_timer_start(&ledger->timer, on_timer, delay_ms(ledger, is_prompt), 0);
}

struct ledger *ledger_new(const struct ledger_opts *opts)
{
    struct ledger *ledger = xcalloc(1, sizeof(*ledger));
    ledger->opts = *opts;
    if (ledger->opts.interval_ms == 0)
        ledger->opts.interval_ms = INTERVAL_MS;
    if (ledger->opts.waiting_max_bytes == 0)
        ledger->opts.waiting_max_bytes = WAITING_MAX_BYTES;
    uv_timer_init(opts->loop, &ledger->timer);
    ledger->timer.data = ledger;
    uv_unref((uv_handle_t *)&ledger->timer);
    uv_async_init(opts->loop, &ledger->job_ended, on_job_ended);
    ledger->job_ended.data = ledger;
    uv_unref((uv_handle_t *)&ledger->job_ended);
    return ledger;
}

/* Waits for the group commit that is running. */
static void job_wait(struct ledger *ledger)
{
    uv_timer_stop(&ledger->timer);
    while (ledger->job_runs)
        uv_run(ledger->opts.loop, UV_RUN_ONCE);
    uv_timer_stop(&ledger->timer);
    ledger->timer_runs = false;
}

int ledger_finish(struct ledger *ledger, bool held, struct err *err)
{
    job_wait(ledger);
    if (ledger->has_failed)
        return fail(err, ERR_SYS, "results could not be written");
    if (batch_is_empty(&ledger->open) && !held)
        return 0;
    int rc = batch_close(ledger, err);
    if (rc == 0)
        rc = batch_commit(ledger, held, err);
    ledger->is_held = held && rc == 0;
    if (!ledger->is_held)
        batch_clear(&ledger->closing);
    return rc;
}

void ledger_hold(struct ledger *ledger, bool is_held)
{
    ledger->is_held = is_held;
}

int ledger_settle(struct ledger *ledger, bool parts_matter, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; parts_matter && rc == 0 && i < ledger->closing.n_parts; i++)
        if (fdatasync(ledger->closing.parts[i]->fd) != 0)
            rc = fail_errno(err, "sync part %u", ledger->closing.parts[i]->number);
    if (rc == 0)
        rc = store_commit_held(ledger->opts.store, parts_matter, err);
    ledger->has_failed |= rc != 0; /* so that held rows are not committed */
    batch_clear(&ledger->closing);
    ledger->is_held = false;
    return rc;
}

static void on_closed(uv_handle_t *handle)
{
    struct ledger *ledger = handle->data;
    if (++ledger->n_closed < LEDGER_HANDLES)
        return;
    batch_release(&ledger->open);
    batch_release(&ledger->closing);
    free(ledger);
}

void ledger_free(struct ledger *ledger)
{
    if (!ledger)
        return;
    uv_close((uv_handle_t *)&ledger->timer, on_closed);
    uv_close((uv_handle_t *)&ledger->job_ended, on_closed);
}
