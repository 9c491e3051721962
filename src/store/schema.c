/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of run.db. The names are documented in docs/run-folder.md and users query them: rename
 * nothing, add columns at the end, and raise SCHEMA_VERSION when an older muster would misread it.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "store/db.h"
#include "store/manifest.h"

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

#define APPLICATION_ID 1836282994 /* "mstr", for file(1) and for telling our files from others */
#define SCHEMA_VERSION 1

/* The comments inside stay in the database: `.schema` of the sqlite3 shell shows them. */
static const char schema_sql[] =
    "BEGIN;\n"
    "CREATE TABLE facts ( -- small facts about the run as a whole\n"
    "  key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;\n"
    "CREATE TABLE progress ( -- one row: sums over the table ranges, kept in step with it\n"
    "  ranges INTEGER NOT NULL, items_done INTEGER NOT NULL, result_bytes INTEGER NOT NULL,\n"
    "  next_part INTEGER NOT NULL);\n"
    "CREATE TABLE ranges ( -- committed results: items first .. first+count-1 are lines of a part\n"
    "  first INTEGER PRIMARY KEY, count INTEGER NOT NULL, part INTEGER NOT NULL,\n"
    "  offset INTEGER NOT NULL, bytes INTEGER NOT NULL, seat INTEGER NOT NULL,\n"
    "  attempt INTEGER NOT NULL, metrics TEXT, seq INTEGER NOT NULL);\n"
    "CREATE TABLE asides ( -- items that were set aside: they have no result\n"
    "  item INTEGER PRIMARY KEY, attempts INTEGER NOT NULL, reason TEXT, stderr_tail TEXT,\n"
    "  place TEXT);\n"
    "CREATE TABLE attempts ( -- one life of one worker; id is the part it writes\n"
    "  id INTEGER PRIMARY KEY, seat INTEGER NOT NULL, label TEXT, pid INTEGER,\n"
    "  started_ms INTEGER, ended_ms INTEGER, ended_by TEXT, items_done INTEGER, load_ms INTEGER,\n"
    "  busy_ms INTEGER, mem_peak_bytes INTEGER, times TEXT);\n"
    "CREATE TABLE events ( -- what happened, in order\n"
    "  id INTEGER PRIMARY KEY, wall_ms INTEGER NOT NULL, kind TEXT NOT NULL, json TEXT);\n"
    "CREATE TABLE samples ( -- the devices as they were seen\n"
    "  wall_ms INTEGER NOT NULL, device INTEGER NOT NULL, mem_used_bytes INTEGER,\n"
    "  busy_percent INTEGER, temperature_c INTEGER, power_w REAL);\n"
    "INSERT INTO progress VALUES (0, 0, 0, 1);\n"
    "PRAGMA application_id = " STRING(APPLICATION_ID) ";\n"
                                                      "PRAGMA user_version = " STRING(
                                                          SCHEMA_VERSION) ";\n"
                                                                          "COMMIT;\n";

int schema_create(struct store *store, struct err *err)
{
    return db_exec(store, schema_sql, err);
}

/*
 * Finds anything that could run code in the place of a plain table: a view (whose rows may never end), a virtual
 * table, a generated column, a trigger.
 */
static const char odd_sql[] =
    "SELECT name FROM sqlite_schema WHERE type = 'trigger' OR"
    " (name COLLATE NOCASE IN ('facts', 'progress', 'ranges', 'asides', 'attempts', 'events',"
    " 'samples', 'jobs', 'job_attempts') AND (type <> 'table' OR rootpage IS NULL OR rootpage < 2))"
    " UNION ALL SELECT t.name FROM sqlite_schema AS t, pragma_table_xinfo(t.name) AS c"
    " WHERE t.type = 'table' AND c.hidden <> 0 LIMIT 1";

static int tables_check(struct store *store, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = db_prepare(store, odd_sql, &statement, err);
    if (rc)
        return rc;
    int step = sqlite3_step(statement);
    if (step == SQLITE_ROW)
        rc = fail(err, ERR_DATA,
                  "%s/run.db is not a database of muster's: '%.60s' in it is no table", store->dir,
                  (const char *)sqlite3_column_text(statement, 0));
    else if (step != SQLITE_DONE)
        rc = db_fail(store, err, "read");
    sqlite3_finalize(statement);
    return rc;
}

/* The manifest is written when the schema is in the file. */
static int empty_fail(const struct store *store, struct err *err)
{
    cleanup_free char *manifest = path_join(store->dir, "manifest.json");
    if (path_exists(manifest))
        return fail(err, ERR_DATA,
                    "%s/run.db is damaged (it is empty); put a copy in its place, or " START_OVER,
                    store->dir);
    return fail(err, ERR_DATA, "%s/run.db holds no run: its muster died before it had begun",
                store->dir);
}

int schema_check(struct store *store, struct err *err)
{
    int64_t application = 0, version = 0;
    int rc = db_number(store, "PRAGMA application_id", &application, err);
    if (rc == 0)
        rc = db_number(store, "PRAGMA user_version", &version, err);
    if (rc)
        return rc;
    if (application == 0 && version == 0)
        return empty_fail(store, err);
    if (application != APPLICATION_ID || version < 1)
        return fail(err, ERR_DATA, "%s/run.db is not a database of muster's", store->dir);
    if (version > SCHEMA_VERSION)
        return fail(err, ERR_DATA,
                    "%s/run.db was written by a newer muster (schema %d, this one knows %d)",
                    store->dir, (int)version, SCHEMA_VERSION);
    return tables_check(store, err);
}
