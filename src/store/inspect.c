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

static void read_manifest(struct run_summary *out)
{
    struct manifest manifest;
    if (manifest_read(out->dir, &manifest, NULL) != 0)
        return;
    out->verb = dup_or_null(manifest.verb);
    out->output = dup_or_null(manifest.output);
    out->host = dup_or_null(manifest.host);
    out->started_wall_ms = manifest.started_wall_ms;
    manifest_release(&manifest);
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
    out->items_total = n_items;
    free(spans);
}

/* The items of a graph are its jobs. */
static void jobs_count(struct store *store, struct run_summary *out)
{
    struct row_reader *reader;
    struct job_row row;
    if (!out->verb || strcmp(out->verb, "graph") != 0 || job_reader_open(&reader, store, NULL) != 0)
        return;
    while (job_reader_next(reader, &row, NULL) > 0) {
        out->items_done += row.state == JOB_DONE;
        out->items_failed += row.state == JOB_FAILED;
    }
    row_reader_close(reader);
}

/* True if run.db could be read. It is authoritative; status.json is only a copy. */
static bool read_ledger(struct run_summary *out, bool is_locked, char **state)
{
    struct store *store;
    struct store_totals totals;
    if (store_open(&store, out->dir, is_locked ? STORE_READ : STORE_PEEK, NULL) != 0)
        return false;
    cleanup_free char *items = NULL;
    bool is_read = store_totals(store, &totals, NULL) == 0 &&
                   store_get(store, "items", &items, NULL) == 0 &&
                   store_get(store, "message", &out->message, NULL) == 0 &&
                   store_get(store, "go_on", &out->go_on, NULL) == 0 &&
                   store_get(store, "state", state, NULL) == 0;
    if (is_read) {
        out->is_total_known = u64_parse(str_of(items), 0, UINT64_MAX, &out->items_total, NULL) == 0;
        out->items_done = totals.items_done;
        out->items_failed = totals.items_failed;
        shards_count(store, out);
        jobs_count(store, out);
    }
    store_close(store);
    return is_read;
}

/* For a run on a network file system: while it is going on, only its own muster can open the
 * database. */
static void read_snapshot(struct run_summary *out, char **state)
{
    struct run_status status;
    if (status_read(out->dir, &status, NULL) != 0)
        return;
    out->items_total = status.items_total;
    out->is_total_known = status.is_total_known;
    out->items_done = status.done;
    out->items_failed = status.aside;
    out->message = dup_or_null(status.message);
    *state = dup_or_null(status.state);
    status_release(&status);
}

static int64_t touched_ms(const char *dir)
{
    static const char *const names[] = {"status.json", "run.db-wal", "run.db"};
    int64_t latest = 0;
    for (size_t i = 0; i < countof(names); i++) {
        cleanup_free char *path = path_join(dir, names[i]);
        struct stat st;
        if (stat(path, &st) == 0)
            latest = MAX(latest, (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
    }
    return latest;
}

/* An error if one of the names of a run's files is not a regular file. Muster never makes such a
 * thing there, and has not read it. */
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

int run_inspect(const char *dir, struct run_summary *out, struct err *err)
{
    struct stat st;
    if (stat(dir, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", dir);
    *out = (struct run_summary){.dir = xstrdup(dir)};
    out->name = path_basename(out->dir);
    out->updated_wall_ms = touched_ms(dir);
    /* The lock is read before the state. So a run that ends in between is shown as running, which
     * it just was, and never as interrupted. */
    bool is_locked = run_is_locked(dir, &out->holder);
    cleanup_free char *state = NULL;
    struct err why = {0};
    read_manifest(out);
    if (!read_ledger(out, is_locked, &state))
        read_snapshot(out, &state);
    if (oddity_find(dir, &why) != 0)
        out->oddity = xstrdup(why.text);
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
