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

/* Statements that run often. Each is prepared when it is first used, so that opening a run pays for
 * none that it does not need. */
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
    X(FACT_GET, "SELECT value FROM facts WHERE key = ?1")                                          \
    X(JOB_ADD, "INSERT OR REPLACE INTO jobs (name, state, attempts, definition, proof, inputs,"    \
               " outs_digest, needs_digest, started_ms, ended_ms, ended_by, log, batch,"           \
               " mem_peak_bytes, rss_peak_bytes, n_halvings) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,"  \
               " ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)")                                      \
    X(JOB_STATE_SET, "UPDATE jobs SET state = ?2 WHERE name = ?1")                                 \
    X(JOB_ATTEMPT_ADD, "INSERT INTO job_attempts (name, attempt, devices, started_ms, ended_ms,"   \
                       " ended_by, is_well, batch, mem_peak_bytes, rss_peak_bytes)"                \
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")
/* clang-format on */

enum statement {
#define X(id, sql) SQL_##id,
    STATEMENTS(X)
#undef X
    N_STATEMENTS
};

/* The largest part number. No run gets there; a larger one in a database is damage. */
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
    uint64_t steps_left; /* READ, PEEK: thousands of SQLite's steps that are left */
    bool knows_parts;    /* progress.next_part is past everything on disk */
    struct run_lock lock;
    struct progress progress;
    sqlite3_stmt *statements[N_STATEMENTS];
};

/* store_open() without its checks of the folder; the caller says whether the folder is on a network
 * file system (tests). */
MUST_CHECK int store_open_as(struct store **out, const char *dir, enum store_mode mode,
                             bool is_networked, struct err *err);

enum {
    STORE_HEAP_MIB = 56 /* of all databases together; a ledger needs less than a tenth of that */
};

/* database.c: opens and closes run.db. database_read() is for STORE_READ, database_peek() for
 * STORE_PEEK. */
MUST_CHECK int database_open(struct store *store, int flags, struct err *err);
MUST_CHECK int database_read(struct store *store, struct err *err);
MUST_CHECK int database_peek(struct store *store, struct err *err);
void database_close(struct store *store);

/* Turns the connection's last error into one of ours: ERR_STOPPED for a full disk or no memory,
 * ERR_DATA for corruption, ERR_UNAVAILABLE for a busy database, else ERR_SYS. */
int db_fail(const struct store *store, struct err *err, const char *doing);
MUST_CHECK int db_exec(struct store *store, const char *sql, struct err *err);
/* Reads one number. If there is no row, *out is left alone. */
MUST_CHECK int db_number(struct store *store, const char *sql, int64_t *out, struct err *err);
MUST_CHECK int db_prepare(struct store *store, const char *sql, sqlite3_stmt **out,
                          struct err *err);
/* The prepared statement, ready to be bound; borrowed. */
MUST_CHECK int db_statement(struct store *store, enum statement id, sqlite3_stmt **out,
                            struct err *err);
/* Binds `n` numbers as ?1.. and runs the statement to its end. */
MUST_CHECK int db_run(struct store *store, enum statement id, const int64_t *numbers, size_t n,
                      struct err *err);
/* Runs a bound statement to its end, then resets it and clears its bindings. */
MUST_CHECK int db_finish(struct store *store, sqlite3_stmt *statement, struct err *err);
void db_bind_text(sqlite3_stmt *statement, int at, const char *text);

/*
 * commit.c: begin and end of a transaction for rows that are added by db_statement(); they become durable with
 * store_sync(). store_end_transaction() rolls back if rc is not 0, and returns rc.
 */
MUST_CHECK int store_begin_transaction(struct store *store, struct err *err);
MUST_CHECK int store_end_transaction(struct store *store, int rc, struct err *err);
/* Events and samples, within a transaction. */
MUST_CHECK int store_history_add(struct store *store, const struct event_row *events,
                                 size_t n_events, const struct sample_row *samples,
                                 size_t n_samples, struct err *err);

MUST_CHECK int schema_create(struct store *store, struct err *err);
MUST_CHECK int schema_check(struct store *store, struct err *err);
