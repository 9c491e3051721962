/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside store/ only: a stream over the rows of a query.
 */
#pragma once

#include "store/db.h"

struct row_reader {
    struct store *store;
    sqlite3_stmt *statement;
};

MUST_CHECK int reader_open(struct row_reader **out, struct store *store, const char *sql,
                           struct err *err);
/* 1 with a row, 0 at the end, negative on error. */
int reader_step(struct row_reader *reader, struct err *err);

static inline uint64_t column_u64(sqlite3_stmt *statement, int column)
{
    return (uint64_t)sqlite3_column_int64(statement, column);
}

static inline const char *column_text(sqlite3_stmt *statement, int column)
{
    return (const char *)sqlite3_column_text(statement, column);
}
