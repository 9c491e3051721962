/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading: streams over the tables, so that a run of any size needs bounded memory.
 */
#include <dirent.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "store/db.h"

/* `first` is the table's own order. As committed is asked for once, at the end of a run that
 * wants no order: SQLite's external sort does it, and no commit pays for a second index. */
static const char *const range_sql[] = {
    [RANGES_BY_ITEM] =
        "SELECT first, count, part, offset, bytes, seat, attempt, metrics FROM ranges"
        " ORDER BY first",
    [RANGES_AS_COMMITTED] =
        "SELECT first, count, part, offset, bytes, seat, attempt, metrics FROM ranges"
        " ORDER BY seq",
};

struct range_reader {
    struct store *store;
    sqlite3_stmt *statement;
};

int range_reader_open(struct range_reader **out, struct store *store, enum range_order order,
                      struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store, range_sql[order], &statement, err);
    if (rc)
        return rc;
    *out = xmalloc(sizeof(**out));
    **out = (struct range_reader){store, statement};
    return 0;
}

static uint64_t column_u64(sqlite3_stmt *statement, int column)
{
    return (uint64_t)sqlite3_column_int64(statement, column);
}

static const char *column_text(sqlite3_stmt *statement, int column)
{
    return (const char *)sqlite3_column_text(statement, column);
}

int range_reader_next(struct range_reader *reader, struct range_row *row, struct err *err)
{
    int step = sqlite3_step(reader->statement);
    if (step == SQLITE_DONE)
        return 0;
    if (step != SQLITE_ROW)
        return db_fail(reader->store, err, "read");
    *row = (struct range_row){
        .first = column_u64(reader->statement, 0),
        .count = column_u64(reader->statement, 1),
        .part = (uint32_t)sqlite3_column_int64(reader->statement, 2),
        .offset = column_u64(reader->statement, 3),
        .bytes = column_u64(reader->statement, 4),
        .seat = (uint32_t)sqlite3_column_int64(reader->statement, 5),
        .attempt = (uint32_t)sqlite3_column_int64(reader->statement, 6),
        .metrics = column_text(reader->statement, 7),
    };
    return 1;
}

void range_reader_close(struct range_reader *reader)
{
    if (!reader)
        return;
    sqlite3_finalize(reader->statement);
    free(reader);
}

struct aside_reader {
    struct store *store;
    sqlite3_stmt *statement;
};

int aside_reader_open(struct aside_reader **out, struct store *store, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(
        store, "SELECT item, attempts, reason, stderr_tail, place FROM asides ORDER BY item",
        &statement, err);
    if (rc)
        return rc;
    *out = xmalloc(sizeof(**out));
    **out = (struct aside_reader){store, statement};
    return 0;
}

int aside_reader_next(struct aside_reader *reader, struct aside_row *row, struct err *err)
{
    int step = sqlite3_step(reader->statement);
    if (step == SQLITE_DONE)
        return 0;
    if (step != SQLITE_ROW)
        return db_fail(reader->store, err, "read");
    *row = (struct aside_row){
        .item = column_u64(reader->statement, 0),
        .attempts = (uint32_t)sqlite3_column_int64(reader->statement, 1),
        .reason = column_text(reader->statement, 2),
        .stderr_tail = column_text(reader->statement, 3),
        .place = column_text(reader->statement, 4),
    };
    return 1;
}

void aside_reader_close(struct aside_reader *reader)
{
    if (!reader)
        return;
    sqlite3_finalize(reader->statement);
    free(reader);
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

int store_done(struct store *store, struct item_span **out, size_t *n_out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store, "SELECT first, count FROM ranges ORDER BY first", &statement, err);
    if (rc)
        return rc;
    struct spans spans = {0};
    int step;
    while ((step = sqlite3_step(statement)) == SQLITE_ROW)
        spans_add(&spans, column_u64(statement, 0), column_u64(statement, 1));
    if (step != SQLITE_DONE)
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

int store_totals(struct store *store, struct store_totals *out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store,
                        "SELECT ranges, items_done, result_bytes, (SELECT count(*) FROM asides),"
                        " (SELECT count(*) FROM attempts) FROM progress",
                        &statement, err);
    if (rc)
        return rc;
    if (sqlite3_step(statement) == SQLITE_ROW)
        *out = (struct store_totals){
            .ranges = column_u64(statement, 0),
            .items_done = column_u64(statement, 1),
            .result_bytes = column_u64(statement, 2),
            .items_aside = column_u64(statement, 3),
            .attempts = column_u64(statement, 4),
        };
    else
        rc = db_fail(store, err, "read");
    sqlite3_finalize(statement);
    return rc;
}

/* The largest N of the files N.part: a muster may die between making its part and naming it
 * here. */
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
        if (u64_parse(name, 0, UINT32_MAX, &part, NULL) == 0)
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
        if (db_number(store, "SELECT max(id) FROM attempts", &attempts, NULL) != 0)
            attempts = 0;
        uint64_t used = MAX((uint64_t)attempts, parts_on_disk(store->dir));
        store->progress.next_part = MAX(store->progress.next_part, used + 1);
        store->knows_parts = true;
    }
    return store->progress.next_part++;
}
