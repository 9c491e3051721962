/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing. A new run must cost almost nothing (eight trivial workers are done in 30 ms), so the database
 * is made without a single fsync; the first commit that must be durable pays for the folder, the file and the schema
 * at once (settle in commit.c).
 */
#include "store/store.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "store/db.h"
#include "store/manifest.h"
#include "store/orders.h"
#include "store/runs.h"

static int folder_make(const char *dir, struct err *err)
{
    int rc = mkdir_parents(dir, 0775, err);
    static const char *const inside[] = {"parts", "logs"};
    for (size_t i = 0; rc == 0 && i < countof(inside); i++) {
        cleanup_free char *path = path_join(dir, inside[i]);
        rc = mkdir_parents(path, 0775, err);
    }
    return rc;
}

/* locking_mode is set first: with exclusive locks SQLite can leave WAL mode without shared memory,
 * which a network file system does not provide. Rows arrive in the order of the index, so a cache
 * of 64 KiB serves as well as SQLite's 2 MiB, and memory does not grow with the run. */
static int settings_apply(struct store *store, struct err *err)
{
    int rc = db_exec(store,
                     store->is_networked
                         ? "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = TRUNCATE;"
                         : "PRAGMA journal_mode = WAL;",
                     err);
    return rc ? rc : db_exec(store, "PRAGMA cache_size = -64;", err);
}

static int progress_load(struct store *store, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store, "SELECT ranges, items_done, result_bytes, next_part FROM progress",
                        &statement, err);
    if (rc)
        return rc;
    int step = sqlite3_step(statement);
    if (step == SQLITE_ROW)
        store->progress = (struct progress){
            .ranges = (uint64_t)sqlite3_column_int64(statement, 0),
            .items_done = (uint64_t)sqlite3_column_int64(statement, 1),
            .result_bytes = (uint64_t)sqlite3_column_int64(statement, 2),
            .next_part = (uint64_t)sqlite3_column_int64(statement, 3),
        };
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        rc = db_fail(store, err, "read");
    else if (step == SQLITE_DONE || store->progress.next_part > PART_MAX)
        rc = fail(err, ERR_DATA, "%s/run.db is damaged: its table progress is %s", store->dir,
                  step == SQLITE_DONE ? "empty" : "out of range");
    sqlite3_finalize(statement);
    return rc;
}

/* Removes the database of a run that could not begin: the same command must find the folder as it was. */
static void database_drop(struct store *store, const char *path)
{
    static const char *const suffixes[] = {"-journal", "-wal", "-shm", ""};
    database_close(store);
    for (size_t i = 0; i < countof(suffixes); i++) {
        cleanup_free char *file = xasprintf("%s%s", path, suffixes[i]);
        unlink(file);
    }
}

/*
 * True if the run was killed before its manifest was written. Then no worker ran, and parts/ is
 * empty, which rmdir() tests. A part without a manifest was put there by somebody else, and is not
 * ours to delete.
 */
static bool is_stillborn(const char *dir)
{
    cleanup_free char *manifest = path_join(dir, "manifest.json"), *parts = path_join(dir, "parts");
    return !path_exists(manifest) && rmdir(parts) == 0 && mkdir(parts, 0775) == 0;
}

static int open_new(struct store *store, const char *path, struct err *err)
{
    int rc = database_open(store, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err);
    if (rc == 0)
        rc = db_exec(store, "PRAGMA synchronous = OFF;", err);
    if (rc == 0)
        rc = settings_apply(store, err);
    if (rc == 0)
        rc = schema_create(store, err);
    if (rc == 0)
        rc = db_exec(store, "PRAGMA synchronous = NORMAL;", err);
    store->progress.next_part = 1;
    if (rc)
        database_drop(store, path);
    return rc;
}

static int open_again(struct store *store, struct err *err)
{
    int rc = database_open(store, SQLITE_OPEN_READWRITE, err);
    if (rc == 0)
        rc = schema_check(store, err);
    if (rc == 0)
        rc = settings_apply(store, err);
    if (rc == 0)
        rc = db_exec(store, "PRAGMA synchronous = NORMAL;", err);
    return rc ? rc : progress_load(store, err);
}

static int open_to_write(struct store *store, const char *path, struct err *err)
{
    bool is_new = store->mode == STORE_CREATE;
    int rc = run_lock_take(&store->lock, store->dir, err);
    if (rc)
        return rc;
    if (is_new && path_exists(path) && !is_stillborn(store->dir)) {
        cleanup_buf struct buf word = BUF_INIT;
        buf_add_typed_word(&word, store->dir);
        return fail(err, ERR_USAGE, "%s holds a run already (muster resume %s goes on with it)",
                    store->dir, buf_text(&word));
    }
    if (is_new)
        database_drop(store, path);
    /* Orders that are still there were meant for an earlier muster. */
    rc = run_orders_drop(store->dir, err);
    if (rc)
        return rc;
    return is_new ? open_new(store, path, err) : open_again(store, err);
}

/* run.db is made before the manifest, so a manifest without run.db means that run.db was lost. */
static int missing_fail(const struct store *store, const char *path, struct err *err)
{
    cleanup_free char *manifest = path_join(store->dir, "manifest.json");
    if (path_exists(manifest))
        return fail(err, ERR_DATA, "%s is missing; put a copy in its place, or " START_OVER, path);
    return fail(err, ERR_USAGE, "%s holds no run: there is no run.db in it", store->dir);
}

static int open_path(struct store *store, struct err *err)
{
    cleanup_free char *path = path_join(store->dir, "run.db");
    if (store->mode != STORE_CREATE && !path_exists(path))
        return missing_fail(store, path, err);
    if (store->mode == STORE_PEEK)
        return database_peek(store, err);
    return store->mode == STORE_READ ? database_read(store, err) : open_to_write(store, path, err);
}

int store_open_as(struct store **out, const char *dir, enum store_mode mode, bool is_networked,
                  struct err *err)
{
    struct store *store = xcalloc(1, sizeof(*store));
    *store = (struct store){
        .dir = xstrdup(dir),
        .mode = mode,
        .is_networked = is_networked,
        .lock = RUN_LOCK_INIT,
    };
    int rc = open_path(store, err);
    if (rc) {
        store_close(store);
        return rc;
    }
    *out = store;
    return 0;
}

int store_open(struct store **out, const char *dir, enum store_mode mode, struct err *err)
{
    int rc = mode < STORE_READ ? run_check_ours(dir, err) : 0;
    if (rc == 0 && mode == STORE_CREATE)
        rc = folder_make(dir, err);
    return rc ? rc : store_open_as(out, dir, mode, is_network_fs(dir), err);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    database_close(store);
    run_lock_release(&store->lock);
    free(store->dir);
    free(store);
}

enum run_place store_place(const struct store *store, char **now_at)
{
    return run_lock_place(&store->lock, store->dir, now_at);
}

const char *store_dir(const struct store *store)
{
    return store->dir;
}

bool store_is_networked(const struct store *store)
{
    return store->is_networked;
}

int store_set(struct store *store, const char *key, const char *value, struct err *err)
{
    sqlite3_stmt *statement;
    int rc = db_statement(store, SQL_FACT_SET, &statement, err);
    if (rc)
        return rc;
    db_bind_text(statement, 1, key);
    db_bind_text(statement, 2, value);
    return db_finish(store, statement, err);
}

int store_get(struct store *store, const char *key, char **out, struct err *err)
{
    sqlite3_stmt *statement;
    *out = NULL;
    int rc = db_statement(store, SQL_FACT_GET, &statement, err);
    if (rc)
        return rc;
    db_bind_text(statement, 1, key);
    int step = sqlite3_step(statement);
    const unsigned char *value = step == SQLITE_ROW ? sqlite3_column_text(statement, 0) : NULL;
    if (value)
        *out = xstrdup((const char *)value);
    else if (step != SQLITE_DONE)
        rc = db_fail(store, err, "read");
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc;
}
