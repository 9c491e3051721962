/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"

static const char *const statement_sql[] = {
#define X(id, sql) [SQL_##id] = (sql),
    STATEMENTS(X)
#undef X
};

static int file_errno(const struct store *store, int which)
{
    sqlite3_file *file = NULL;
    int sys = 0;
    if (sqlite3_file_control(store->db, "main", which, &file) == SQLITE_OK && file &&
        file->pMethods)
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &sys);
    return sys;
}

/*
 * Where SQLite cannot create a file, it tries to open it for reading, and keeps only the errno of
 * that, ENOENT. This finds the real reason by creating a file without a name in the folder; 0 if
 * that succeeds or is not supported.
 */
static int create_errno(const struct store *store)
{
    cleanup_fd int fd = open(store->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 || errno == EOPNOTSUPP || errno == EISDIR ? 0 : errno;
}

/*
 * The errno behind an I/O error. sqlite3_system_errno() does not know of failures at COMMIT (3.40:
 * sqlite3VdbeHalt does not note them), so the files themselves are asked, the WAL or journal first.
 */
static int system_errno(const struct store *store, int code)
{
    if (code != SQLITE_IOERR && code != SQLITE_CANTOPEN)
        return 0;
    const int candidates[] = {sqlite3_system_errno(store->db),
                              file_errno(store, SQLITE_FCNTL_JOURNAL_POINTER),
                              file_errno(store, SQLITE_FCNTL_FILE_POINTER)};
    int known = 0;
    for (size_t i = 0; i < countof(candidates); i++) {
        if (errno_means_full(candidates[i]))
            return candidates[i];
        known = known ? known : candidates[i];
    }
    return code == SQLITE_CANTOPEN && known == ENOENT ? create_errno(store) : known;
}

int db_fail(const struct store *store, struct err *err, const char *doing)
{
    int code = sqlite3_errcode(store->db), sys = system_errno(store, code);
    const char *dir = store->dir;
    if (code == SQLITE_FULL || errno_means_full(sys)) {
        sys = errno_means_full(sys) ? sys : ENOSPC;
        fail(err, ERR_STOPPED, "%s %s/run.db: %s, then type the same command again", doing, dir,
             errno_room(sys));
        if (err)
            err->sys = sys;
        return ERR_STOPPED;
    }
    if (code == SQLITE_NOMEM)
        return fail(err, ERR_STOPPED,
                    "%s %s/run.db: out of memory, or it is damaged and asks for more than %d MiB",
                    doing, dir, STORE_HEAP_MIB);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return fail(err, ERR_DATA,
                    "%s %s/run.db: it is damaged (%s); put a copy in its place, or " START_OVER,
                    doing, dir, sqlite3_errmsg(store->db));
    if (code == SQLITE_INTERRUPT) /* only step_count() in database.c does that */
        return fail(err, ERR_DATA,
                    "%s %s/run.db: that takes more steps than a ledger of its size can need", doing,
                    dir);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return fail(err, ERR_UNAVAILABLE, "%s %s/run.db: another process is using it%s", doing, dir,
                    store->is_networked
                        ? " (on a network file system only its muster can; status.json "
                          "has the figures)"
                        : "");
    if (sys) {
        errno = sys;
        return fail_errno(err, "%s %s/run.db: %s", doing, dir, sqlite3_errmsg(store->db));
    }
    return fail(err, ERR_SYS, "%s %s/run.db: %s", doing, dir, sqlite3_errmsg(store->db));
}

int db_exec(struct store *store, const char *sql, struct err *err)
{
    if (sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    return db_fail(store, err, store->mode >= STORE_READ ? "read" : "write");
}

int db_prepare(struct store *store, const char *sql, sqlite3_stmt **out, struct err *err)
{
    if (sqlite3_prepare_v3(store->db, sql, -1, 0, out, NULL) == SQLITE_OK)
        return 0;
    return db_fail(store, err, "read");
}

int db_number(struct store *store, const char *sql, int64_t *out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store, sql, &statement, err);
    if (rc)
        return rc;
    int step = sqlite3_step(statement);
    if (step == SQLITE_ROW)
        *out = sqlite3_column_int64(statement, 0);
    else if (step != SQLITE_DONE)
        rc = db_fail(store, err, "read");
    sqlite3_finalize(statement);
    return rc;
}

int db_statement(struct store *store, enum statement id, sqlite3_stmt **out, struct err *err)
{
    sqlite3_stmt **slot = &store->statements[id];
    if (!*slot && sqlite3_prepare_v3(store->db, statement_sql[id], -1, SQLITE_PREPARE_PERSISTENT,
                                     slot, NULL) != SQLITE_OK)
        return db_fail(store, err, "use");
    *out = *slot;
    return 0;
}

int db_finish(struct store *store, sqlite3_stmt *statement, struct err *err)
{
    int step = SQLITE_ROW;
    while (step == SQLITE_ROW)
        step = sqlite3_step(statement);
    int rc = step == SQLITE_DONE ? 0 : db_fail(store, err, "write");
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc;
}

int db_run(struct store *store, enum statement id, const int64_t *numbers, size_t n,
           struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_statement(store, id, &statement, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++)
        sqlite3_bind_int64(statement, (int)i + 1, numbers[i]);
    return db_finish(store, statement, err);
}

void db_bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}
