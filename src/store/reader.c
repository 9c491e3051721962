/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading: streams over the tables, so that a run of any size needs bounded memory.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "store/reader_impl.h"

/* The table is stored in the order of `first`. The order of the commits is read only once, at the
 * end of a run whose output is unordered: SQLite then sorts the rows, so that no commit pays for a
 * second index. */
static const char *const range_sql[] = {
    [RANGES_BY_ITEM] =
        "SELECT first, count, part, offset, bytes, seat, attempt, metrics FROM ranges"
        " ORDER BY first",
    [RANGES_AS_COMMITTED] =
        "SELECT first, count, part, offset, bytes, seat, attempt, metrics FROM ranges"
        " ORDER BY seq",
};

int reader_open(struct row_reader **out, struct store *store, const char *sql, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store, sql, &statement, err);
    if (rc)
        return rc;
    *out = xmalloc(sizeof(**out));
    **out = (struct row_reader){store, statement};
    return 0;
}

int reader_step(struct row_reader *reader, struct err *err)
{
    int step = sqlite3_step(reader->statement);
    if (step == SQLITE_DONE)
        return 0;
    return step == SQLITE_ROW ? 1 : db_fail(reader->store, err, "read");
}

void row_reader_close(struct row_reader *reader)
{
    if (!reader)
        return;
    sqlite3_finalize(reader->statement);
    free(reader);
}

/* Refuses numbers that muster never writes: cut to 32 bits, one could name another part. */
static int column_part(const struct store *store, sqlite3_stmt *statement, int column,
                       uint32_t *out, struct err *err)
{
    int64_t part = sqlite3_column_int64(statement, column);
    if (part < 0 || part > PART_MAX)
        return fail(err, ERR_DATA, "%s/run.db is damaged: results in part %" PRId64, store->dir,
                    part);
    *out = (uint32_t)part;
    return 0;
}

int range_reader_open(struct row_reader **out, struct store *store, enum range_order order,
                      struct err *err)
{
    return reader_open(out, store, range_sql[order], err);
}

int range_reader_next(struct row_reader *reader, struct range_row *row, struct err *err)
{
    int rc = reader_step(reader, err);
    if (rc <= 0)
        return rc;
    uint32_t part = 0;
    int damaged = column_part(reader->store, reader->statement, 2, &part, err);
    if (damaged)
        return damaged;
    *row = (struct range_row){
        .first = column_u64(reader->statement, 0),
        .count = column_u64(reader->statement, 1),
        .part = part,
        .offset = column_u64(reader->statement, 3),
        .bytes = column_u64(reader->statement, 4),
        .seat = (uint32_t)sqlite3_column_int64(reader->statement, 5),
        .attempt = (uint32_t)sqlite3_column_int64(reader->statement, 6),
        .metrics = column_text(reader->statement, 7),
    };
    return rc;
}

int failed_item_reader_open(struct row_reader **out, struct store *store, struct err *err)
{
    return reader_open(
        out, store, "SELECT item, attempts, reason, stderr_tail, place FROM asides ORDER BY item",
        err);
}

int failed_item_reader_next(struct row_reader *reader, struct failed_item_row *row, struct err *err)
{
    int rc = reader_step(reader, err);
    if (rc <= 0)
        return rc;
    *row = (struct failed_item_row){
        .item = column_u64(reader->statement, 0),
        .attempts = (uint32_t)sqlite3_column_int64(reader->statement, 1),
        .reason = column_text(reader->statement, 2),
        .stderr_tail = column_text(reader->statement, 3),
        .position = column_text(reader->statement, 4),
    };
    return rc;
}

int event_reader_open(struct row_reader **out, struct store *store, const char *kind,
                      struct err *err)
{
    int rc = reader_open(out, store,
                         "SELECT wall_ms, kind, json FROM events WHERE kind = ?1 ORDER BY id", err);
    if (rc == 0)
        db_bind_text((*out)->statement, 1, kind);
    return rc;
}

int event_reader_next(struct row_reader *reader, struct event_row *row, struct err *err)
{
    int rc = reader_step(reader, err);
    if (rc <= 0)
        return rc;
    *row = (struct event_row){
        .wall_ms = sqlite3_column_int64(reader->statement, 0),
        .kind = column_text(reader->statement, 1),
        .json = column_text(reader->statement, 2),
    };
    return rc;
}

int attempt_reader_open(struct row_reader **out, struct store *store, struct err *err)
{
    return reader_open(
        out, store,
        "SELECT id, seat, items_done, load_ms, busy_ms, times FROM attempts ORDER BY id", err);
}

int attempt_reader_next(struct row_reader *reader, struct attempt_row *row, struct err *err)
{
    int rc = reader_step(reader, err);
    if (rc <= 0)
        return rc;
    *row = (struct attempt_row){
        .id = column_u64(reader->statement, 0),
        .seat = (uint32_t)sqlite3_column_int64(reader->statement, 1),
        .items_done = column_u64(reader->statement, 2),
        .load_ms = column_u64(reader->statement, 3),
        .busy_ms = column_u64(reader->statement, 4),
        .times = column_text(reader->statement, 5),
    };
    return rc;
}

int store_event_count(struct store *store, const char *kind, uint64_t *out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store, "SELECT count(*) FROM events WHERE kind = ?1", &statement, err);
    if (rc)
        return rc;
    db_bind_text(statement, 1, kind);
    int step = sqlite3_step(statement);
    *out = step == SQLITE_ROW ? column_u64(statement, 0) : 0;
    rc = step == SQLITE_ROW ? 0 : db_fail(store, err, "read");
    sqlite3_finalize(statement);
    return rc;
}

struct spans {
    struct item_span *at;
    size_t len, cap;
};

static void spans_add(struct spans *spans, uint64_t first, uint64_t count)
{
    struct item_span *last = spans->len ? &spans->at[spans->len - 1] : NULL;
    if (last && last->first + last->count == first) {
        last->count += count;
        return;
    }
    if (spans->len == spans->cap) {
        spans->cap = MAX(spans->cap + spans->cap / 2, (size_t)1024);
        spans->at = xrealloc(spans->at, spans->cap * sizeof(*spans->at));
    }
    spans->at[spans->len++] = (struct item_span){first, count};
}

/* Refuses rows that muster never writes. The file may come from anywhere, and the callers of
 * store_done() rely on disjoint spans in ascending order. */
static int spans_check(const struct store *store, const struct spans *spans, int64_t first,
                       int64_t count, struct err *err)
{
    const struct item_span *last = spans->len ? &spans->at[spans->len - 1] : NULL;
    bool is_after = !last || (uint64_t)first >= last->first + last->count;
    if (first >= 0 && count > 0 && count <= INT64_MAX - first && is_after)
        return 0;
    return fail(err, ERR_DATA,
                "%s/run.db is damaged: a result of %" PRId64 " items from item %" PRId64 "%s",
                store->dir, count, first, is_after ? "" : ", one of which has a result already");
}

int store_done(struct store *store, struct item_span **out, size_t *n_out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store, "SELECT first, count FROM ranges ORDER BY first", &statement, err);
    if (rc)
        return rc;
    struct spans spans = {0};
    int step = SQLITE_DONE;
    while (rc == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t first = sqlite3_column_int64(statement, 0),
                count = sqlite3_column_int64(statement, 1);
        rc = spans_check(store, &spans, first, count, err);
        if (rc == 0)
            spans_add(&spans, (uint64_t)first, (uint64_t)count);
    }
    if (rc == 0 && step != SQLITE_DONE)
        rc = db_fail(store, err, "read");
    sqlite3_finalize(statement);
    if (rc) {
        free(spans.at);
        return rc;
    }
    *out = spans.at;
    *n_out = spans.len;
    return 0;
}

static int part_check(struct store *store, uint32_t part, uint64_t bytes_min, struct err *err)
{
    static const char cure[] = "put it back, or " START_OVER;
    cleanup_free char *path = xasprintf("%s/parts/%u.part", store_dir(store), part);
    struct stat st;
    if (stat(path, &st) != 0 && errno == ENOENT)
        return fail(err, ERR_DATA, "%s is missing, and results of this run with it; %s", path,
                    cure);
    if (stat(path, &st) != 0)
        return fail_errno(err, "look at %s", path);
    if ((uint64_t)st.st_size < bytes_min)
        return fail(err, ERR_DATA, "%s has %ld bytes, and results of this run reach up to %lu; %s",
                    path, (long)st.st_size, bytes_min, cure);
    return 0;
}

/* One row for each part: its number, and where the last of its results ends. */
static const char parts_sql[] =
    "SELECT part, max(offset + bytes) FROM ranges GROUP BY part ORDER BY part";

static int part_row_check(struct store *store, sqlite3_stmt *statement, struct err *err)
{
    int64_t end = sqlite3_column_int64(statement, 1);
    uint32_t part = 0;
    int rc = column_part(store, statement, 0, &part, err);
    if (rc == 0 && end < 0)
        rc = fail(err, ERR_DATA, "%s/run.db is damaged: results end at byte %" PRId64 " of part %u",
                  store->dir, end, part);
    return rc || end == 0 ? rc : part_check(store, part, (uint64_t)end, err);
}

int store_check_parts(struct store *store, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store, parts_sql, &statement, err), step = SQLITE_DONE;
    if (rc)
        return rc;
    while (rc == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW)
        rc = part_row_check(store, statement, err);
    if (rc == 0 && step != SQLITE_DONE)
        rc = db_fail(store, err, "read");
    sqlite3_finalize(statement);
    return rc;
}

/* count(1) takes SQLite at least a step per row, so the limit on steps holds. count(*) is a single
 * step, in which a damaged tree could keep SQLite busy for ever. */
int store_totals(struct store *store, struct store_totals *out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store,
                        "SELECT ranges, items_done, result_bytes, (SELECT count(1) FROM asides),"
                        " (SELECT count(1) FROM attempts) FROM progress",
                        &statement, err);
    if (rc)
        return rc;
    if (sqlite3_step(statement) == SQLITE_ROW)
        *out = (struct store_totals){
            .ranges = column_u64(statement, 0),
            .items_done = column_u64(statement, 1),
            .result_bytes = column_u64(statement, 2),
            .items_failed = column_u64(statement, 3),
            .attempts = column_u64(statement, 4),
        };
    else
        rc = db_fail(store, err, "read");
    sqlite3_finalize(statement);
    return rc;
}

/* The largest N of the files N.part. It may exceed those in the database: muster may die after it
 * made a part and before it recorded the part. */
static uint64_t parts_on_disk(const char *dir)
{
    cleanup_free char *path = path_join(dir, "parts");
    DIR *folder = opendir(path);
    uint64_t largest = 0;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        struct str name = str_of(entry->d_name);
        uint64_t part = 0;
        if (!str_ends_with(name, STR(".part")))
            continue;
        name.len -= strlen(".part");
        if (u64_parse(name, 0, PART_MAX, &part, NULL) == 0)
            largest = MAX(largest, part);
    }
    if (folder)
        closedir(folder);
    return largest;
}

uint64_t store_next_part(struct store *store)
{
    if (!store->knows_parts) {
        int64_t attempts = 0;
        if (db_number(store, "SELECT max(id) FROM attempts WHERE id BETWEEN 0 AND 2147483647",
                      &attempts, NULL) != 0)
            attempts = 0;
        uint64_t used = MAX((uint64_t)attempts, parts_on_disk(store->dir));
        store->progress.next_part = MAX(store->progress.next_part, used + 1);
        store->knows_parts = true;
    }
    return store->progress.next_part++;
}
