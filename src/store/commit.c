/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing: one transaction per batch. A range that overlaps a committed one is refused inside the
 * transaction, even if the caller has checked it: an item committed twice is a wrong result.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "store/db.h"

static int sync_if_there(const char *path, struct err *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : fail_errno(err, "open %s", path);
    return fsync(fd) == 0 ? 0 : fail_errno(err, "sync %s", path);
}

/*
 * The run was created without an fsync. Before the first row that must survive a power cut, this
 * syncs all that the row depends on: the manifest, the database file with its header, the names of
 * both, and the folder's name. (The schema is in the WAL, which the commit itself syncs. SQLite
 * deletes the WAL of an empty database file, so the database file must be synced as well.)
 */
static int settle(struct store *store, struct err *err)
{
    if (store->is_settled)
        return 0;
    sqlite3_file *file = NULL;
    if (sqlite3_file_control(store->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
        file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) != SQLITE_OK)
        return fail_errno(err, "sync %s/run.db", store->dir);
    cleanup_free char *manifest = path_join(store->dir, "manifest.json");
    int rc = sync_if_there(manifest, err);
    if (rc == 0)
        rc = fsync_parent(manifest, err);
    if (rc)
        return rc;
    /* The folders above may belong to another user and not be readable. In that case they existed
     * before the run and need no sync. */
    cleanup_free char *runs = path_dirname(store->dir);
    if (fsync_parent(store->dir, NULL) == 0 && fsync_parent(runs, NULL) != 0)
        errno = 0;
    store->is_settled = true;
    return 0;
}

/* A batch of attempts, events, samples or facts only may wait for the next durable commit. */
static int durability_set(struct store *store, bool durable, struct err *err)
{
    int rc = durable ? settle(store, err) : 0;
    /* The level cannot change inside a transaction; a held one got its level when it began. */
    if (rc || store->is_full_sync == durable || store->is_holding)
        return rc;
    rc = db_exec(store, durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", err);
    if (rc == 0)
        store->is_full_sync = durable;
    return rc;
}

/* Committed ranges are disjoint, so only the last one that starts before the end of the new range
 * can overlap it. */
static int refuse_overlap(struct store *store, uint64_t first, uint64_t count, struct err *err)
{
    sqlite3_stmt *statement;
    int rc = db_statement(store, SQL_RANGE_BEFORE, &statement, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(statement, 1, (int64_t)(first + count));
    int step = sqlite3_step(statement);
    if (step == SQLITE_ROW) {
        uint64_t there = (uint64_t)sqlite3_column_int64(statement, 0);
        uint64_t there_count = (uint64_t)sqlite3_column_int64(statement, 1);
        if (there + there_count > first)
            rc = fail(
                err, ERR_DATA,
                "item %llu is committed already: items %llu-%llu were given, %llu-%llu are there",
                (unsigned long long)MAX(there, first), (unsigned long long)first,
                (unsigned long long)(first + count - 1), (unsigned long long)there,
                (unsigned long long)(there + there_count - 1));
    } else if (step != SQLITE_DONE) {
        rc = db_fail(store, err, "read");
    }
    sqlite3_reset(statement);
    return rc;
}

static int refuse_aside(struct store *store, uint64_t first, uint64_t count, struct err *err)
{
    sqlite3_stmt *statement;
    int rc = db_statement(store, SQL_ASIDE_WITHIN, &statement, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(statement, 1, (int64_t)first);
    sqlite3_bind_int64(statement, 2, (int64_t)(first + count));
    int step = sqlite3_step(statement);
    if (step == SQLITE_ROW)
        rc = fail(err, ERR_DATA, "item %lld was set aside and cannot have a result",
                  (long long)sqlite3_column_int64(statement, 0));
    else if (step != SQLITE_DONE)
        rc = db_fail(store, err, "read");
    sqlite3_reset(statement);
    return rc;
}

static int range_add(struct store *store, const struct range_row *row, struct progress *progress,
                     struct err *err)
{
    ASSERT(row->count > 0 && row->first <= (uint64_t)INT64_MAX - row->count);
    sqlite3_stmt *statement;
    int rc = refuse_overlap(store, row->first, row->count, err);
    if (rc == 0)
        rc = refuse_aside(store, row->first, row->count, err);
    if (rc == 0)
        rc = db_statement(store, SQL_RANGE_ADD, &statement, err);
    if (rc)
        return rc;
    progress->ranges++;
    progress->items_done += row->count;
    progress->result_bytes += row->bytes;
    progress->next_part = MAX(progress->next_part, (uint64_t)row->part + 1);
    const uint64_t numbers[] = {row->first, row->count, row->part,   row->offset,
                                row->bytes, row->seat,  row->attempt};
    for (size_t i = 0; i < countof(numbers); i++)
        sqlite3_bind_int64(statement, (int)i + 1, (int64_t)numbers[i]);
    db_bind_text(statement, 8, row->metrics);
    sqlite3_bind_int64(statement, 9, (int64_t)progress->ranges);
    return db_finish(store, statement, err);
}

static int progress_write(struct store *store, struct err *err)
{
    const struct progress *progress = &store->progress;
    const int64_t numbers[] = {(int64_t)progress->ranges, (int64_t)progress->items_done,
                               (int64_t)progress->result_bytes, (int64_t)progress->next_part};
    /* The statement names the one row by its rowid: for an UPDATE of an unknown number of rows
     * SQLite allocates 64 KiB to undo it. */
    int rc = db_run(store, SQL_PROGRESS_SET, numbers, countof(numbers), err);
    if (rc == 0 && sqlite3_changes(store->db) != 1)
        rc =
            fail(err, ERR_DATA, "%s/run.db is damaged: its table progress lacks row 1", store->dir);
    return rc;
}

static int ranges_add(struct store *store, const struct store_batch *batch, struct err *err)
{
    struct progress *progress = &store->progress;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < batch->n_ranges; i++)
        rc = range_add(store, &batch->ranges[i], progress, err);
    return rc || batch->n_ranges == 0 ? rc : progress_write(store, err);
}

static int failed_item_add(struct store *store, const struct failed_item_row *row, struct err *err)
{
    sqlite3_stmt *statement;
    int rc = refuse_overlap(store, row->item, 1, err);
    if (rc == 0)
        rc = db_statement(store, SQL_ASIDE_ADD, &statement, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(statement, 1, (int64_t)row->item);
    sqlite3_bind_int64(statement, 2, row->attempts);
    db_bind_text(statement, 3, row->reason);
    db_bind_text(statement, 4, row->stderr_tail);
    db_bind_text(statement, 5, row->position);
    return db_finish(store, statement, err);
}

static int attempt_add(struct store *store, const struct attempt_row *row, struct err *err)
{
    sqlite3_stmt *statement;
    int rc = db_statement(store, SQL_ATTEMPT_ADD, &statement, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(statement, 1, (int64_t)row->id);
    sqlite3_bind_int64(statement, 2, row->seat);
    db_bind_text(statement, 3, row->label);
    sqlite3_bind_int64(statement, 4, row->pid);
    sqlite3_bind_int64(statement, 5, row->started_wall_ms);
    if (row->ended_wall_ms) { /* columns that are known only at the end are NULL before */
        sqlite3_bind_int64(statement, 6, row->ended_wall_ms);
        sqlite3_bind_int64(statement, 8, (int64_t)row->items_done);
        sqlite3_bind_int64(statement, 9, (int64_t)row->load_ms);
        sqlite3_bind_int64(statement, 10, (int64_t)row->busy_ms);
        sqlite3_bind_int64(statement, 11, (int64_t)row->mem_peak_bytes);
        db_bind_text(statement, 12, row->times);
    }
    db_bind_text(statement, 7, row->end);
    return db_finish(store, statement, err);
}

static int event_add(struct store *store, const struct event_row *row, struct err *err)
{
    sqlite3_stmt *statement;
    int rc = db_statement(store, SQL_EVENT_ADD, &statement, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(statement, 1, row->wall_ms);
    db_bind_text(statement, 2, row->kind);
    db_bind_text(statement, 3, row->json);
    return db_finish(store, statement, err);
}

static int sample_add(struct store *store, const struct sample_row *row, struct err *err)
{
    sqlite3_stmt *statement;
    int rc = db_statement(store, SQL_SAMPLE_ADD, &statement, err);
    if (rc)
        return rc;
    const int64_t numbers[] = {row->wall_ms, row->device, (int64_t)row->mem_used_bytes,
                               row->busy_percent, row->temperature_c};
    for (size_t i = 0; i < countof(numbers); i++)
        sqlite3_bind_int64(statement, (int)i + 1, numbers[i]);
    sqlite3_bind_double(statement, 6, row->power_w);
    return db_finish(store, statement, err);
}

int store_history_add(struct store *store, const struct event_row *events, size_t n_events,
                      const struct sample_row *samples, size_t n_samples, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n_events; i++)
        rc = event_add(store, &events[i], err);
    for (size_t i = 0; rc == 0 && i < n_samples; i++)
        rc = sample_add(store, &samples[i], err);
    return rc;
}

static int rows_add(struct store *store, const struct store_batch *batch, struct err *err)
{
    int rc = ranges_add(store, batch, err);
    for (size_t i = 0; rc == 0 && i < batch->n_failed_items; i++)
        rc = failed_item_add(store, &batch->failed_items[i], err);
    for (size_t i = 0; rc == 0 && i < batch->n_attempts; i++)
        rc = attempt_add(store, &batch->attempts[i], err);
    return rc ? rc
              : store_history_add(store, batch->events, batch->n_events, batch->samples,
                                  batch->n_samples, err);
}

static void rollback(struct store *store, const struct progress *before)
{
    /* On a full disk SQLite may have rolled back by itself; then there is nothing left to undo. */
    if (!sqlite3_get_autocommit(store->db) && db_run(store, SQL_ROLLBACK, NULL, 0, NULL) != 0)
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    store->progress = *before;
}

int store_commit(struct store *store, const struct store_batch *batch, struct err *err)
{
    ASSERT(store->mode < STORE_READ);
    struct progress before = store->progress;
    ASSERT(!store->is_holding);
    bool has_results = batch->n_ranges + batch->n_failed_items > 0;
    int rc = durability_set(store, batch->is_held ? store->is_settled : has_results, err);
    if (rc == 0)
        rc = db_run(store, SQL_BEGIN, NULL, 0, err);
    if (rc)
        return rc;
    rc = rows_add(store, batch, err);
    if (rc == 0 && !batch->is_held)
        rc = db_run(store, SQL_COMMIT, NULL, 0, err);
    if (rc)
        rollback(store, &before);
    store->is_holding = rc == 0 && batch->is_held;
    return rc;
}

int store_begin_transaction(struct store *store, struct err *err)
{
    ASSERT(store->mode < STORE_READ && !store->is_holding);
    int rc = durability_set(store, false, err);
    return rc ? rc : db_run(store, SQL_BEGIN, NULL, 0, err);
}

int store_end_transaction(struct store *store, int rc, struct err *err)
{
    const struct progress unchanged = store->progress;
    if (rc == 0)
        rc = db_run(store, SQL_COMMIT, NULL, 0, err);
    if (rc)
        rollback(store, &unchanged);
    return rc;
}

/* Syncs what was committed at the lower synchronous level. Without a WAL, SQLite has synced it. */
static int wal_sync(struct store *store, struct err *err)
{
    sqlite3_file *wal = NULL;
    int rc = settle(store, err);
    if (rc)
        return rc;
    bool has_wal =
        sqlite3_file_control(store->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal) == SQLITE_OK &&
        wal && wal->pMethods;
    if (has_wal && wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL) != SQLITE_OK)
        return fail_errno(err, "sync %s/run.db-wal", store->dir);
    return 0;
}

int store_sync(struct store *store, struct err *err)
{
    return wal_sync(store, err);
}

int store_commit_held(struct store *store, bool results_are_here, struct err *err)
{
    if (!store->is_holding)
        return 0;
    store->is_holding = false;
    int rc = db_run(store, SQL_COMMIT, NULL, 0, err);
    return rc == 0 && results_are_here && !store->is_full_sync ? wal_sync(store, err) : rc;
}

int store_clear_failed_items(struct store *store, uint64_t *n_out, struct err *err)
{
    int rc = durability_set(store, true, err);
    if (rc == 0)
        rc = db_exec(store, "DELETE FROM asides", err);
    if (rc == 0)
        *n_out = (uint64_t)sqlite3_changes(store->db);
    return rc;
}

int store_forget_failed_item(struct store *store, uint64_t item, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = durability_set(store, true, err);
    if (rc == 0)
        rc = db_prepare(store, "DELETE FROM asides WHERE item = ?1", &statement, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(statement, 1, (int64_t)item);
    if (sqlite3_step(statement) != SQLITE_DONE)
        rc = db_fail(store, err, "forget");
    sqlite3_finalize(statement);
    return rc;
}

static int range_forget(struct store *store, uint64_t item, struct progress *progress,
                        struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store, "DELETE FROM ranges WHERE first = ?1 RETURNING count, bytes",
                        &statement, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(statement, 1, (int64_t)item);
    int step = sqlite3_step(statement);
    int64_t count = step == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 1;
    if (step == SQLITE_ROW) {
        progress->items_done--;
        progress->result_bytes -= (uint64_t)sqlite3_column_int64(statement, 1);
        step = sqlite3_step(statement);
    }
    if (step != SQLITE_DONE)
        rc = db_fail(store, err, "forget");
    else if (count != 1)
        rc =
            fail(err, ERR_DATA, "%s/run.db is damaged: a row of %" PRId64 " items at item %" PRIu64,
                 store->dir, count, item);
    sqlite3_finalize(statement);
    return rc ? rc : progress_write(store, err);
}

int store_forget(struct store *store, uint64_t item, struct err *err)
{
    struct progress before = store->progress;
    int rc = durability_set(store, true, err);
    if (rc == 0)
        rc = db_run(store, SQL_BEGIN, NULL, 0, err);
    if (rc)
        return rc;
    rc = range_forget(store, item, &store->progress, err);
    if (rc == 0)
        rc = db_run(store, SQL_COMMIT, NULL, 0, err);
    if (rc)
        rollback(store, &before);
    return rc;
}
