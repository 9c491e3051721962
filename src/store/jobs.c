/* SPDX-License-Identifier: Apache-2.0 */
#include "store/jobs.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "store/reader_impl.h"

#define WALL_MS_MAX (INT64_C(1) << 43) /* the year 2248; in nanoseconds it is an int64_t too */

static const char *const state_names[] = {
#define X(id, name) [JOB_##id] = (name),
    JOB_STATES(X)
#undef X
};

const char *job_state_name(enum job_state state)
{
    return state_names[state];
}

static enum job_state state_of(const char *name)
{
    enum job_state state = JOB_NONE;
    for (size_t i = 0; name && i < countof(state_names); i++)
        if (strcmp(name, state_names[i]) == 0)
            state = (enum job_state)i;
    return state;
}

/* Not in the schema of every run: only graphs have jobs. */
static const char tables_sql[] =
    "CREATE TABLE IF NOT EXISTS jobs ( -- what became of the jobs of a graph\n"
    "  name TEXT PRIMARY KEY, state TEXT NOT NULL, attempts INTEGER, definition TEXT, proof TEXT,\n"
    "  inputs TEXT, outs_digest INTEGER, needs_digest INTEGER, started_ms INTEGER,\n"
    "  ended_ms INTEGER, ended_by TEXT, log TEXT, batch INTEGER, mem_peak_bytes INTEGER,\n"
    "  rss_peak_bytes INTEGER, n_halvings INTEGER) WITHOUT ROWID;\n"
    "CREATE TABLE IF NOT EXISTS job_attempts ( -- one start of one job\n"
    "  id INTEGER PRIMARY KEY, name TEXT NOT NULL, attempt INTEGER, devices TEXT,\n"
    "  started_ms INTEGER, ended_ms INTEGER, ended_by TEXT, is_well INTEGER, batch INTEGER,\n"
    "  mem_peak_bytes INTEGER, rss_peak_bytes INTEGER);\n";

/* Runs that began with an older version have no such column. */
static int has_halvings(struct store *store, bool *has, struct err *err)
{
    int64_t n = 0;
    int rc = db_number(
        store, "SELECT count(*) FROM pragma_table_info('jobs') WHERE name = 'n_halvings'", &n, err);
    *has = n > 0;
    return rc;
}

int store_jobs_begin(struct store *store, struct err *err)
{
    bool has = false;
    int rc = db_exec(store, tables_sql, err);
    rc = rc ? rc : has_halvings(store, &has, err);
    return rc || has ? rc : db_exec(store, "ALTER TABLE jobs ADD COLUMN n_halvings INTEGER", err);
}

/* 0: there was no such moment. */
static void bind_wall_ms(sqlite3_stmt *statement, int at, int64_t wall_ms)
{
    if (wall_ms == 0)
        sqlite3_bind_null(statement, at);
    else
        sqlite3_bind_int64(statement, at, wall_ms);
}

static int job_add(struct store *store, const struct job_row *row, struct err *err)
{
    sqlite3_stmt *statement;
    int rc = db_statement(store, SQL_JOB_ADD, &statement, err);
    if (rc)
        return rc;
    db_bind_text(statement, 1, row->name);
    db_bind_text(statement, 2, state_names[row->state]);
    db_bind_text(statement, 4, row->definition);
    db_bind_text(statement, 5, row->proof);
    db_bind_text(statement, 6, row->inputs);
    db_bind_text(statement, 11, row->end);
    db_bind_text(statement, 12, row->log);
    bind_wall_ms(statement, 9, row->started_wall_ms);
    bind_wall_ms(statement, 10, row->ended_wall_ms);
    const struct {
        int at;
        int64_t value;
    } numbers[] = {{3, row->attempts},
                   {7, (int64_t)row->outs_digest},
                   {8, (int64_t)row->needs_digest},
                   {13, (int64_t)row->batch},
                   {14, (int64_t)row->mem_peak_bytes},
                   {15, (int64_t)row->rss_peak_bytes},
                   {16, row->n_halvings}};
    for (size_t i = 0; i < countof(numbers); i++)
        sqlite3_bind_int64(statement, numbers[i].at, numbers[i].value);
    return db_finish(store, statement, err);
}

static int job_state_set(struct store *store, const struct job_row *row, struct err *err)
{
    sqlite3_stmt *statement;
    int rc = db_statement(store, SQL_JOB_STATE_SET, &statement, err);
    if (rc)
        return rc;
    db_bind_text(statement, 1, row->name);
    db_bind_text(statement, 2, state_names[row->state]);
    return db_finish(store, statement, err);
}

static int attempt_add(struct store *store, const struct job_attempt_row *row, struct err *err)
{
    sqlite3_stmt *statement;
    int rc = db_statement(store, SQL_JOB_ATTEMPT_ADD, &statement, err);
    if (rc)
        return rc;
    db_bind_text(statement, 1, row->name);
    sqlite3_bind_int64(statement, 2, row->attempt);
    db_bind_text(statement, 3, row->devices);
    sqlite3_bind_int64(statement, 4, row->started_wall_ms);
    sqlite3_bind_int64(statement, 5, row->ended_wall_ms);
    db_bind_text(statement, 6, row->end);
    sqlite3_bind_int64(statement, 7, row->is_well);
    sqlite3_bind_int64(statement, 8, (int64_t)row->batch);
    sqlite3_bind_int64(statement, 9, (int64_t)row->mem_peak_bytes);
    sqlite3_bind_int64(statement, 10, (int64_t)row->rss_peak_bytes);
    return db_finish(store, statement, err);
}

int store_jobs_commit(struct store *store, const struct job_batch *batch, struct err *err)
{
    int rc = store_begin_transaction(store, err);
    if (rc)
        return rc;
    for (size_t i = 0; rc == 0 && i < batch->n_jobs; i++)
        rc = batch->jobs[i].has_state_alone ? job_state_set(store, &batch->jobs[i], err)
                                            : job_add(store, &batch->jobs[i], err);
    for (size_t i = 0; rc == 0 && i < batch->n_attempts; i++)
        rc = attempt_add(store, &batch->attempts[i], err);
    if (rc == 0)
        rc = store_history_add(store, batch->events, batch->n_events, batch->samples,
                               batch->n_samples, err);
    return store_end_transaction(store, rc, err);
}

/* ---- reading ---- */

static int reader_of(struct row_reader **out, struct store *store, const char *table,
                     const char *sql, struct err *err)
{
    int64_t n_tables = 0;
    cleanup_free char *ask =
        xasprintf("SELECT count(*) FROM sqlite_schema WHERE name = '%s'", table);
    int rc = db_number(store, ask, &n_tables, err);
    return rc ? rc : reader_open(out, store, n_tables > 0 ? sql : "SELECT 1 WHERE 0", err);
}

#define JOB_COLUMNS                                                                            \
    "name, state, attempts, definition, proof, inputs, outs_digest, needs_digest, started_ms," \
    " ended_ms, ended_by, log, batch, mem_peak_bytes, rss_peak_bytes, "

int job_reader_open(struct row_reader **out, struct store *store, struct err *err)
{
    bool has = false;
    int rc = has_halvings(store, &has, err);
    return rc ? rc
              : reader_of(out, store, "jobs",
                          has ? "SELECT " JOB_COLUMNS "n_halvings FROM jobs"
                              : "SELECT " JOB_COLUMNS "0 FROM jobs",
                          err);
}

/* Callers compute with times, so a time that no clock of ours can have given becomes 0. */
static int64_t column_wall_ms(sqlite3_stmt *statement, int column)
{
    int64_t wall_ms = sqlite3_column_int64(statement, column);
    return wall_ms >= 0 && wall_ms <= WALL_MS_MAX ? wall_ms : 0;
}

int job_reader_next(struct row_reader *reader, struct job_row *row, struct err *err)
{
    int rc = reader_step(reader, err);
    sqlite3_stmt *s = reader->statement;
    if (rc <= 0)
        return rc;
    *row = (struct job_row){.name = column_text(s, 0),
                            .state = state_of(column_text(s, 1)),
                            .attempts = (uint32_t)sqlite3_column_int64(s, 2),
                            .definition = column_text(s, 3),
                            .proof = column_text(s, 4),
                            .inputs = column_text(s, 5),
                            .outs_digest = column_u64(s, 6),
                            .needs_digest = column_u64(s, 7),
                            .started_wall_ms = column_wall_ms(s, 8),
                            .ended_wall_ms = column_wall_ms(s, 9),
                            .end = column_text(s, 10),
                            .log = column_text(s, 11),
                            .batch = column_u64(s, 12),
                            .mem_peak_bytes = column_u64(s, 13),
                            .rss_peak_bytes = column_u64(s, 14),
                            .n_halvings = (uint32_t)sqlite3_column_int64(s, 15)};
    return rc;
}

int job_attempt_reader_open(struct row_reader **out, struct store *store, struct err *err)
{
    return reader_of(out, store, "job_attempts",
                     "SELECT name, attempt, devices, started_ms, ended_ms, ended_by, is_well,"
                     " batch, mem_peak_bytes, rss_peak_bytes FROM job_attempts ORDER BY id",
                     err);
}

int job_attempt_reader_next(struct row_reader *reader, struct job_attempt_row *row, struct err *err)
{
    int rc = reader_step(reader, err);
    sqlite3_stmt *s = reader->statement;
    if (rc <= 0)
        return rc;
    *row = (struct job_attempt_row){.name = column_text(s, 0),
                                    .attempt = (uint32_t)sqlite3_column_int64(s, 1),
                                    .devices = column_text(s, 2),
                                    .started_wall_ms = column_wall_ms(s, 3),
                                    .ended_wall_ms = column_wall_ms(s, 4),
                                    .end = column_text(s, 5),
                                    .is_well = sqlite3_column_int64(s, 6) != 0,
                                    .batch = column_u64(s, 7),
                                    .mem_peak_bytes = column_u64(s, 8),
                                    .rss_peak_bytes = column_u64(s, 9)};
    return rc;
}
