/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding out the state of a run.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/share.h"
#include "base/xalloc.h"
#include "store/jobs.h"
#include "store/manifest.h"
#include "store/runs.h"
#include "store/status.h"
#include "store/store.h"

static const char *const state_names[] = {
#define X(id, name) [RUN_##id] = (name),
    RUN_STATES(X)
#undef X
};

const char *run_state_name(enum run_state state)
{
    return state_names[state];
}

/* The lock decides whether a run is going on. How it ended is what the run itself wrote down. A run
 * without a lock that wrote "running", or nothing, was interrupted. */
static enum run_state state_of(bool is_locked, const char *fact)
{
    if (is_locked)
        return RUN_RUNNING;
    for (enum run_state state = RUN_FINISHED; fact && state < RUN_INTERRUPTED; state++)
        if (strcmp(fact, state_names[state]) == 0)
            return state;
    return RUN_INTERRUPTED;
}

static char *dup_or_null(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static int read_manifest(struct run_summary *out, struct err *err)
{
    struct manifest manifest;
    int rc = manifest_read(out->dir, &manifest, err);
    if (rc)
        return rc;
    out->verb = dup_or_null(manifest.verb);
    out->output = dup_or_null(manifest.output);
    out->host = dup_or_null(manifest.host);
    out->started_wall_ms = manifest.started_wall_ms;
    manifest_release(&manifest);
    return 0;
}

static uint64_t failed_items_count(struct store *store, uint64_t n_items, uint64_t n_shards)
{
    struct row_reader *reader;
    struct failed_item_row row;
    uint64_t total = 0;
    if (failed_item_reader_open(&reader, store, NULL) != 0)
        return 0;
    while (failed_item_reader_next(reader, &row, NULL) > 0)
        total += row.item < n_shards ? share_of(n_items, n_shards, row.item).count : 0;
    row_reader_close(reader);
    return total;
}

/* The items of the run's shards: all items, or with --part those of its own shards. */
static uint64_t items_own(struct store *store, uint64_t n_items, uint64_t n_shards)
{
    cleanup_free char *text = NULL;
    struct str rest, part;
    uint64_t k, n;
    if (store_get(store, "shard_part", &text, NULL) != 0 || !text)
        return n_items;
    rest = str_of(text);
    if (!str_next(&rest, '/', &part) || u64_parse(rest, 1, n_shards, &n, NULL) != 0 ||
        u64_parse(part, 0, n - 1, &k, NULL) != 0)
        return n_items;
    struct share own = share_of(n_shards, n, k);
    struct share last = share_of(n_items, n_shards, own.start + own.count - 1);
    return last.start + last.count - share_of(n_items, n_shards, own.start).start;
}

/* The ledger of a run of shards counts shards. This converts its counts into items. */
static void shards_count(struct store *store, struct run_summary *out)
{
    cleanup_free char *items = NULL, *shards = NULL;
    struct item_span *spans = NULL;
    size_t n_spans = 0;
    uint64_t n_items, n_shards;
    if (store_get(store, "shard_items", &items, NULL) != 0 ||
        store_get(store, "shards", &shards, NULL) != 0 || !items || !shards ||
        u64_parse(str_of(items), 1, UINT64_MAX, &n_items, NULL) != 0 ||
        u64_parse(str_of(shards), 1, n_items, &n_shards, NULL) != 0 ||
        store_done(store, &spans, &n_spans, NULL) != 0)
        return;
    out->items_done = 0;
    for (size_t i = 0; i < n_spans; i++) {
        uint64_t last = spans[i].first + spans[i].count - 1;
        if (last >= n_shards)
            continue; /* the ledger is damaged; a resume reports it */
        struct share end = share_of(n_items, n_shards, last);
        out->items_done +=
            end.start + end.count - share_of(n_items, n_shards, spans[i].first).start;
    }
    out->items_failed = failed_items_count(store, n_items, n_shards);
    out->items_total = items_own(store, n_items, n_shards);
    free(spans);
}

bool run_is_graph(const struct run_summary *run)
{
    return run->verb && strcmp(run->verb, "graph") == 0;
}

static void jobs_count(struct store *store, struct run_summary *out)
{
    struct row_reader *reader;
    struct job_row row;
    if (!run_is_graph(out) || job_reader_open(&reader, store, NULL) != 0)
        return;
    while (job_reader_next(reader, &row, NULL) > 0) {
        out->items_done += row.state == JOB_DONE;
        out->items_failed += row.state == JOB_FAILED;
    }
    row_reader_close(reader);
}

static int ledger_take(struct run_summary *out, struct store *store, char **state, struct err *err)
{
    struct store_totals totals;
    cleanup_free char *items = NULL, *malformed = NULL, *changed = NULL;
    int rc = store_totals(store, &totals, err);
    rc = rc ? rc : store_get(store, "input_changed", &changed, err);
    rc = rc ? rc : store_get(store, "items", &items, err);
    rc = rc ? rc : store_get(store, "malformed", &malformed, err);
    rc = rc ? rc : store_get(store, "message", &out->message, err);
    rc = rc ? rc : store_get(store, "go_on", &out->go_on, err);
    rc = rc ? rc : store_get(store, "state", state, err);
    if (rc)
        return rc;
    out->is_total_known = u64_parse(str_of(items), 0, UINT64_MAX, &out->items_total, NULL) == 0;
    out->items_done = totals.items_done;
    out->items_failed = totals.items_failed;
    out->is_input_changed = changed != NULL;
    if (!malformed || u64_parse(str_of(malformed), 0, UINT64_MAX, &out->items_malformed, NULL) != 0)
        out->items_malformed = 0;
    shards_count(store, out);
    jobs_count(store, out);
    return 0;
}

/* run.db is authoritative; status.json is only a copy. */
static int read_ledger(struct run_summary *out, bool is_locked, char **state, struct err *err)
{
    struct store *store;
    int rc = store_open(&store, out->dir, is_locked ? STORE_READ : STORE_PEEK, err);
    if (rc)
        return rc;
    rc = ledger_take(out, store, state, err);
    store_close(store);
    return rc;
}

/*
 * Takes counts from status.json: for a run on a network file system, whose database only its own muster can open
 * while it is going on, and for a run whose database is damaged or missing.
 */
static void take_counts(struct run_summary *out, const struct run_status *status, char **state)
{
    out->items_total = status->items_total;
    out->is_total_known = status->is_total_known;
    out->items_done = status->done;
    out->items_failed = status->aside;
    out->message = out->message ? out->message : dup_or_null(status->message);
    if (!*state && status->state && strcmp(status->state, "ended") == 0)
        /* A map that ended by itself; no more is known. */
        *state = xstrdup(state_names[status->is_total_known && status->done == status->items_total
                                         ? RUN_FINISHED
                                         : RUN_STOPPED]);
    else if (!*state)
        *state = dup_or_null(status->state);
}

/* Takes from status.json what the manifest would say, if the manifest is damaged or missing. */
static void take_origin(struct run_summary *out, const struct run_status *status)
{
    out->verb = dup_or_null(status->verb);
    out->host = dup_or_null(status->host);
    out->started_wall_ms = status->started_wall_ms;
}

/* For a run without status.json. The time is too late if somebody has opened the database since. */
static int64_t touched_ms(const char *dir)
{
    static const char *const names[] = {"run.db-wal", "run.db"};
    int64_t latest = 0;
    for (size_t i = 0; i < countof(names); i++) {
        cleanup_free char *path = path_join(dir, names[i]);
        struct stat st;
        if (stat(path, &st) == 0)
            latest = MAX(latest, (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
    }
    return latest;
}

/* An error if a file of the run is not a regular file. muster never makes such a thing, and has not read it. */
static int oddity_find(const char *dir, struct err *err)
{
    static const char *const names[] = {"manifest.json", "run.db", "run.db-wal", "run.db-journal",
                                        "run.db-shm",    "lock",   "status.json"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(names); i++) {
        cleanup_free char *path = path_join(dir, names[i]);
        rc = plain_file_check(path, err);
    }
    return rc;
}

static void folder_read(struct run_summary *out, bool is_locked, char **state)
{
    struct run_status status = {0};
    struct err of_manifest = {0}, of_ledger = {0}, odd = {0};
    bool has_status = status_read(out->dir, &status, NULL) == 0;
    /* Reading the ledger needs the verb. */
    bool has_manifest = read_manifest(out, &of_manifest) == 0;
    if (!has_manifest && has_status)
        take_origin(out, &status);
    bool has_ledger = read_ledger(out, is_locked, state, &of_ledger) == 0;
    if (!has_ledger && has_status)
        take_counts(out, &status, state);
    out->updated_wall_ms = has_status ? status.updated_wall_ms : 0;
    if (out->updated_wall_ms == 0)
        out->updated_wall_ms = touched_ms(out->dir);
    status_release(&status);
    if (oddity_find(out->dir, &odd) != 0)
        out->oddity = xstrdup(odd.text);
    else if (!has_ledger && !is_locked && (has_manifest || has_status))
        out->oddity = xstrdup(of_ledger.text);
    else if (!has_manifest && (has_ledger || has_status))
        out->oddity = xstrdup(of_manifest.text);
}

int run_inspect(const char *dir, struct run_summary *out, struct err *err)
{
    struct stat st;
    if (stat(dir, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", dir);
    *out = (struct run_summary){.dir = xstrdup(dir)};
    out->name = path_basename(out->dir);
    /*
     * The lock is read before the state. So a run that ends in between is shown as running, and never as interrupted.
     */
    bool is_locked = run_is_locked(dir, &out->holder);
    cleanup_free char *state = NULL;
    folder_read(out, is_locked, &state);
    out->state = state_of(is_locked, state);
    return 0;
}

void run_summary_release(struct run_summary *summary)
{
    free(summary->dir);
    free(summary->verb);
    free(summary->output);
    free(summary->host);
    free(summary->message);
    free(summary->go_on);
    free(summary->oddity);
    *summary = (struct run_summary){0};
}
