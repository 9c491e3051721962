/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens run.db so that a hostile or damaged file can neither harm this process nor block it. SQLite
 * opens the file, and the files beside it, by name. Its open(2) is replaced by a function that
 * takes regular files only, follows no link, does not wait for a FIFO, and opens for writing only
 * files that are ours (base/ours.h). A file that is only read may belong to another user: so a
 * query may take only as many steps as the size of the file explains, and no code in its schema is
 * run.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"
#include "store/db.h"

enum {
    BUSY_MS = 5000,
    READ_BUSY_MS = 1000,
    OTHERS_BUSY_MS = 100, /* another user could hold a lock just to make us wait */
    STEPS_AT_ONCE = 1000, /* of SQLite, between two calls of step_count() */
    STEPS_LEAST = 5000,   /* thousands: a few 100 ms */
    STEPS_PER_KBYTE =
        8, /* thousands: a row has about 20 bytes, and sorting it takes about 30 steps */
    TEXT_BYTES_MAX = 16 << 20
};

/* ---- the files ---- */

/* SQLite calls this in place of open(2). It opens a folder only to sync it. */
static int sqlite_open(const char *path, int flags, int mode)
{
    struct stat st;
    cleanup_fd int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
    if (fd < 0 || fstat(fd, &st) != 0)
        return -1;
    bool is_read = (flags & O_ACCMODE) == O_RDONLY;
    cleanup_free char *folder = path_dirname(path);
    bool is_fit = S_ISREG(st.st_mode) ? is_read || (st.st_nlink <= 1 && ours_is(&st, folder))
                                      : S_ISDIR(st.st_mode) && is_read;
    if (is_fit)
        return steal_fd(&fd);
    errno = EACCES;
    return -1;
}

/* May be called again: setting the same function twice changes nothing. */
static void opening_guard(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    if (vfs && vfs->iVersion >= 3)
        vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)sqlite_open);
    /* A column's length in a damaged row is not bounded by SQLITE_LIMIT_LENGTH (3.40). */
    sqlite3_hard_heap_limit64((int64_t)STORE_HEAP_MIB << 20);
}

static const char *const file_suffixes[] = {"", "-wal", "-journal", "-shm"};

static int files_check(const struct store *store, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(file_suffixes); i++) {
        cleanup_free char *path = xasprintf("%s/run.db%s", store->dir, file_suffixes[i]);
        rc = plain_file_check(path, err);
    }
    return rc;
}

static bool has_content(const struct store *store, const char *suffix)
{
    cleanup_free char *path = xasprintf("%s/run.db%s", store->dir, suffix);
    struct stat st;
    return lstat(path, &st) == 0 && st.st_size > 0;
}

static bool is_others(const struct store *store)
{
    struct stat st;
    return stat(store->dir, &st) == 0 && !ours_is(&st, store->dir);
}

/* ---- what its content may do ---- */

/* Thousands of steps: a minimum, and more for each KiB allocated on disk. Holes in a sparse file do
 * not count. */
static uint64_t steps_allowed(const struct store *store)
{
    uint64_t kbytes = 0;
    for (size_t i = 0; i < countof(file_suffixes); i++) {
        cleanup_free char *path = xasprintf("%s/run.db%s", store->dir, file_suffixes[i]);
        struct stat st;
        if (lstat(path, &st) == 0)
            kbytes += (uint64_t)st.st_blocks / 2;
    }
    return STEPS_LEAST + STEPS_PER_KBYTE * kbytes;
}

static int step_count(void *context)
{
    struct store *store = context;
    if (store->steps_left == 0)
        return 1;
    store->steps_left--;
    return 0;
}

static void content_guard(struct store *store)
{
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_limit(store->db, SQLITE_LIMIT_LENGTH, TEXT_BYTES_MAX);
    if (store->mode < STORE_READ)
        return;
    store->steps_left = steps_allowed(store);
    sqlite3_progress_handler(store->db, STEPS_AT_ONCE, step_count, store);
}

/* ---- opening ---- */

static int open_name(struct store *store, const char *name, int flags, struct err *err)
{
    opening_guard();
    const int always = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    if (sqlite3_open_v2(name, &store->db, flags | always, NULL) != SQLITE_OK) {
        if (!store->db)
            return fail(err, ERR_STOPPED, "open %s: out of memory", name);
        return db_fail(store, err, "open");
    }
    sqlite3_busy_timeout(store->db, store->mode < STORE_READ ? BUSY_MS
                                    : is_others(store)       ? OTHERS_BUSY_MS
                                                             : READ_BUSY_MS);
    content_guard(store);
    return 0;
}

/* Resolves links in the folder's path, because SQLite is told to follow none. */
static int real_path(const struct store *store, char **out, struct err *err)
{
    cleanup_free char *dir = realpath(store->dir, NULL);
    if (!dir)
        return fail_errno_as(err, ERR_USAGE, "open %s", store->dir);
    *out = path_join(dir, "run.db");
    return files_check(store, err);
}

/* sqlite3_open_v2 takes a query such as "?immutable=1" only in a URI. Characters of the path that
 * have a meaning in a URI are escaped. */
static int open_uri(struct store *store, const char *query, struct err *err)
{
    cleanup_buf struct buf uri = BUF_INIT;
    cleanup_free char *path = NULL;
    int rc = real_path(store, &path, err);
    if (rc)
        return rc;
    ASSERT(path);
    buf_add_text(&uri, "file:");
    for (const char *at = path; *at; at++) {
        if (strchr("%?#", *at))
            buf_addf(&uri, "%%%02X", (unsigned char)*at);
        else
            buf_add_char(&uri, *at);
    }
    buf_add_text(&uri, query);
    rc = open_name(store, buf_text(&uri), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, err);
    return rc ? rc : schema_check(store, err);
}

int database_open(struct store *store, int flags, struct err *err)
{
    cleanup_free char *path = NULL;
    int rc = real_path(store, &path, err);
    return rc ? rc : open_name(store, path, flags, err);
}

void database_close(struct store *store)
{
    for (size_t i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(steal_ptr(&store->statements[i]));
    sqlite3_close(steal_ptr(&store->db));
}

/*
 * A finished run in a folder that this user cannot write: SQLite cannot make its -shm file there. Without a WAL
 * beside it, the database file is complete and does not change, so it is read as immutable.
 */
static int open_unwritable(struct store *store, struct err *err)
{
    database_close(store);
    if (has_content(store, "-wal"))
        return fail(
            err, ERR_UNAVAILABLE,
            "%s/run.db has commits in its -wal file that can only be read where %s can be written: "
            "copy the folder and read the copy",
            store->dir, store->dir);
    return open_uri(store, "?immutable=1", err);
}

/* In another user's folder SQLite must not create files, hence readonly_shm. */
int database_read(struct store *store, struct err *err)
{
    int rc = open_uri(store, is_others(store) ? "?readonly_shm=1" : "", err);
    if (rc && store->db) {
        int code = sqlite3_errcode(store->db);
        if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY)
            return open_unwritable(store, err);
    }
    return rc;
}

int database_peek(struct store *store, struct err *err)
{
    bool is_whole = !has_content(store, "-wal") && !has_content(store, "-journal");
    return is_whole ? open_uri(store, "?immutable=1", err) : database_read(store, err);
}
