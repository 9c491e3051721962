/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside store/ only: the open database, its prepared statements, and how SQLite's errors become
 * ours.
 */
#pragma once

#include <sqlite3.h>

#include "store/lock.h"
#include "store/manifest.h"
#include "store/store.h"

/* What runs often, prepared when first used: opening a run must cost nothing it does not need. */
/* clang-format off */
#define STATEMENTS(X)                                                                              \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(RANGE_BEFORE, "SELECT first, count FROM ranges WHERE first < ?1"                             \
                    " ORDER BY first DESC LIMIT 1")                                                \
    X(ASIDE_WITHIN, "SELECT item FROM asides WHERE item >= ?1 AND item < ?2 LIMIT 1")              \
    X(RANGE_ADD, "INSERT INTO ranges (first, count, part, offset, bytes, seat, attempt, metrics,"  \
                 " seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")                              \
    X(ASIDE_ADD, "INSERT OR REPLACE INTO asides (item, attempts, reason, stderr_tail, place)"      \
                 " VALUES (?1, ?2, ?3, ?4, ?5)")                                                   \
    X(ATTEMPT_ADD, "INSERT OR REPLACE INTO attempts (id, seat, label, pid, started_ms, ended_ms,"  \
                   " ended_by, items_done, load_ms, busy_ms, mem_peak_bytes, times)"               \
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")                  \
    X(EVENT_ADD, "INSERT INTO events (wall_ms, kind, json) VALUES (?1, ?2, ?3)")                   \
    X(SAMPLE_ADD, "INSERT INTO samples (wall_ms, device, mem_used_bytes, busy_percent,"            \
                  " temperature_c, power_w) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                      \
    X(PROGRESS_SET, "UPDATE progress SET ranges = ?1, items_done = ?2, result_bytes = ?3,"         \
                    " next_part = ?4 WHERE rowid = 1")                                             \
    X(FACT_SET, "INSERT OR REPLACE INTO facts (key, value) VALUES (?1, ?2)")                       \
    X(FACT_GET, "SELECT value FROM facts WHERE key = ?1")
/* clang-format on */

enum statement {
#define X(id, sql) SQL_##id,
    STATEMENTS(X)
#undef X
    N_STATEMENTS
};

/* Of a part's number; nobody gets there, and what is read from elsewhere may not say so either. */
enum {
    PART_MAX = INT32_MAX
};

/* The one row of the table `progress`, kept in step with `ranges` by every commit. */
struct progress {
    uint64_t ranges, items_done, result_bytes;
    uint64_t next_part;
};

struct store {
    sqlite3 *db;
    char *dir;
    enum store_mode mode;
    bool is_networked;
    bool is_settled;     /* folder, database file and schema have reached the disk */
    bool is_full_sync;   /* the synchronous level in force */
    bool is_holding;     /* a transaction is open, see store_batch.is_held */
    uint64_t steps_left; /* of SQLite's, in thousands, when it is only read */
    bool knows_parts;    /* progress.next_part is past everything on disk */
    struct run_lock lock;
    struct progress progress;
    sqlite3_stmt *statements[N_STATEMENTS];
};

/* store_open with the choice of settings made by the caller (tests). */
MUST_CHECK int store_open_as(struct store **out, const char *dir, enum store_mode mode,
                             bool is_networked, struct err *err);

/* database.c: the file itself, opened and closed. To be read, as store_open says of READ and PEEK. */
MUST_CHECK int database_open(struct store *store, int flags, struct err *err);
MUST_CHECK int database_read(struct store *store, struct err *err);
MUST_CHECK int database_peek(struct store *store, struct err *err);
void database_close(struct store *store);

/* The last error of the connection as ours: full disk STOPPED, corruption DATA, busy
 * UNAVAILABLE. */
int db_fail(const struct store *store, struct err *err, const char *doing);
MUST_CHECK int db_exec(struct store *store, const char *sql, struct err *err);
/* One number; 0 rows leave *out alone. */
MUST_CHECK int db_number(struct store *store, const char *sql, int64_t *out, struct err *err);
MUST_CHECK int db_prepare(struct store *store, const char *sql, sqlite3_stmt **out,
                          struct err *err);
/* The prepared statement, ready to be bound; borrowed. */
MUST_CHECK int db_statement(struct store *store, enum statement id, sqlite3_stmt **out,
                            struct err *err);
/* Bind `n` numbers as ?1.. and run to the end. */
MUST_CHECK int db_run(struct store *store, enum statement id, const int64_t *numbers, size_t n,
                      struct err *err);
/* Run what is bound to the end. */
MUST_CHECK int db_finish(struct store *store, sqlite3_stmt *statement, struct err *err);
void db_bind_text(sqlite3_stmt *statement, int at, const char *text);

MUST_CHECK int schema_create(struct store *store, struct err *err);
MUST_CHECK int schema_check(struct store *store, struct err *err);
