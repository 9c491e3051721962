/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a run.db that anything may have happened to: read, resumed, written to. An error that says
 * something, or rows; never more.
 *
 *   byte 0 even   the file, as it is
 *          odd    changes to a small good one: offset (2 bytes), new byte
 *          3      rows that muster would not have written: table, then values
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "data/result_merge.h"
#include "fuzz.h"
#include "map/rows.h"
#include "store/db.h"
#include "store/runs.h"

static const char *run_path(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", fuzz_folder(), name);
    return path;
}

static void forget_run(void)
{
    static const char *const names[] = {"run.db", "run.db-wal", "run.db-shm", "run.db-journal"};
    for (size_t i = 0; i < countof(names); i++)
        unlink(run_path(names[i]));
}

static void good_rows(struct store *store)
{
    const struct range_row ranges[] = {
        {.first = 0, .count = 3, .part = 1, .bytes = 6, .metrics = "{\"seen\":3}"},
        {.first = 3, .count = 1, .part = 1, .offset = 6, .bytes = 2},
    };
    const struct failed_item_row aside = {
        .item = 4, .attempts = 2, .reason = "why", .position = "a line 5"};
    const struct attempt_row attempt = {.id = 1, .label = "cpu 0", .pid = 1, .end = "status 7"};
    const struct event_row event = {.wall_ms = 1, .kind = "spawn", .json = "{}"};
    const struct sample_row sample = {.wall_ms = 1, .busy_percent = 50};
    const struct store_batch batch = {.ranges = ranges,
                                      .n_ranges = countof(ranges),
                                      .failed_items = &aside,
                                      .n_failed_items = 1,
                                      .attempts = &attempt,
                                      .n_attempts = 1,
                                      .events = &event,
                                      .n_events = 1,
                                      .samples = &sample,
                                      .n_samples = 1};
    ASSERT(store_commit(store, &batch, NULL) == 0 && store_set(store, "items", "5", NULL) == 0);
}

/* A database as a run leaves it, made once. */
static struct str good_database(void)
{
    static struct buf bytes = BUF_INIT;
    struct store *store = NULL;
    struct err err = {0};
    if (bytes.len > 0)
        return buf_str(&bytes);
    if (store_open(&store, fuzz_folder(), STORE_CREATE, &err))
        BUG("%s", err.text);
    good_rows(store);
    store_close(store);
    ASSERT(file_read(run_path("run.db"), 64 << 20, &bytes, &err) == 0);
    fuzz_file("parts/1.part", STR("a\nb\nc\nd\n"));
    return buf_str(&bytes);
}

static void write_changed(struct str changes)
{
    cleanup_buf struct buf bytes = BUF_INIT;
    buf_add_str(&bytes, good_database());
    while (changes.len >= 3) {
        unsigned high = fuzz_choice(&changes), low = fuzz_choice(&changes);
        size_t at = high << 8 | low;
        bytes.at[at % bytes.len] = (char)fuzz_choice(&changes);
    }
    fuzz_file("run.db", buf_str(&bytes));
}

/* Whole numbers of every size, texts, nothing, bytes. */
static void bind_any(sqlite3_stmt *statement, int at, struct str *input)
{
    unsigned kind = fuzz_choice(input);
    int64_t small = (int64_t)fuzz_choice(input);
    if (kind % 8 == 0)
        sqlite3_bind_null(statement, at);
    else if (kind % 8 == 1)
        sqlite3_bind_text(statement, at, "{\"seen\":1e308,\"x\":[", (int)small % 20, SQLITE_STATIC);
    else if (kind % 8 == 2)
        sqlite3_bind_blob(statement, at, "\xff\x00\x01", 3, SQLITE_STATIC);
    else if (kind % 8 == 3)
        sqlite3_bind_int64(statement, at, (int64_t)((uint64_t)small << (kind >> 2)));
    else if (kind % 8 == 4)
        sqlite3_bind_int64(statement, at, -small);
    else
        sqlite3_bind_int64(statement, at, small % 8);
}

static void write_rows(struct str input)
{
    static const char *const inserts[] = {
        "INSERT OR REPLACE INTO ranges VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        "INSERT OR REPLACE INTO asides VALUES (?1, ?2, ?3, ?4, ?5)",
        "INSERT OR REPLACE INTO attempts (id, seat, label, items_done) VALUES (?1, ?2, ?3, ?4)",
        "UPDATE progress SET ranges = ?1, items_done = ?2, result_bytes = ?3, next_part = ?4",
        "INSERT OR REPLACE INTO facts VALUES (CASE ?1 & 3 WHEN 0 THEN 'items' WHEN 1 THEN 'state'"
        " WHEN 2 THEN 'metrics' ELSE 'results_json' END, ?2)",
        "DELETE FROM progress",
    };
    sqlite3 *db = NULL;
    fuzz_file("run.db", good_database());
    ASSERT(sqlite3_open(run_path("run.db"), &db) == SQLITE_OK);
    sqlite3_exec(db, "PRAGMA synchronous = OFF; BEGIN", NULL, NULL, NULL);
    for (int n_rows = 0; input.len > 0 && n_rows < 20; n_rows++) {
        sqlite3_stmt *statement = NULL;
        const char *sql = inserts[fuzz_choice(&input) % countof(inserts)];
        if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
            BUG("%s: %s", sql, sqlite3_errmsg(db));
        for (int i = 1; i <= sqlite3_bind_parameter_count(statement); i++)
            bind_any(statement, i, &input);
        sqlite3_step(statement);
        sqlite3_finalize(statement);
    }
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
}

static void expect_said(int rc, const struct err *err)
{
    ASSERT(rc >= 0 || (err->code == rc && err->text[0]));
}

static void read_rows(struct store *store)
{
    struct err err = {0};
    struct store_totals totals;
    struct item_span *spans = NULL;
    size_t n_spans = 0;
    int rc = store_totals(store, &totals, &err);
    expect_said(rc, &err);
    rc = store_done(store, &spans, &n_spans, &err);
    expect_said(rc, &err);
    for (size_t i = 0; rc == 0 && i < n_spans; i++) /* what the feeder takes for granted */
        ASSERT(spans[i].count > 0 && spans[i].first + spans[i].count > spans[i].first &&
               (i == 0 || spans[i - 1].first + spans[i - 1].count < spans[i].first));
    free(spans);
    expect_said(store_check_parts(store, &err), &err);
    char *items = NULL;
    expect_said(store_get(store, "items", &items, &err), &err);
    free(items);
}

static void merge_rows_all(struct store *store, bool in_order)
{
    struct merge_rows rows;
    struct err err = {0};
    cleanup_free char *out = xstrdup(run_path("out"));
    int rc = merge_rows_open(&rows, store, in_order, &err);
    if (rc == 0) {
        const struct result_merge_opts opts = {.out_path = out,
                                               .format = OUT_LINES,
                                               .in_order = in_order,
                                               .overwrite = true,
                                               .n_items = 5,
                                               .next_range = merge_rows_range,
                                               .next_failed_item = merge_rows_failed_item,
                                               .context = &rows};
        rc = result_merge_write(&opts, NULL, &err);
    }
    expect_said(rc, &err);
    merge_rows_close(&rows);
}

static void check_open(enum store_mode mode)
{
    struct store *store = NULL;
    struct err err = {0};
    int rc = store_open(&store, fuzz_folder(), mode, &err);
    expect_said(rc, &err);
    if (rc)
        return;
    read_rows(store);
    merge_rows_all(store, mode == STORE_READ);
    if (mode == STORE_RESUME) {
        uint64_t part = store_next_part(store);
        ASSERT(part > 0 && part <= UINT32_MAX && store_next_part(store) > part);
        const struct range_row range = {.first = 7, .count = 1, .part = (uint32_t)part, .bytes = 2};
        rc = store_commit(store, &(struct store_batch){.ranges = &range, .n_ranges = 1}, &err);
        expect_said(rc, &err);
    }
    store_close(store);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, size};
    struct run_summary summary;
    unsigned choice = fuzz_choice(&input);
    good_database();
    forget_run();
    if (choice % 2 == 0)
        fuzz_file("run.db", input);
    else if (choice == 3)
        write_rows(input);
    else
        write_changed(input);
    ASSERT(run_inspect(fuzz_folder(), &summary, NULL) == 0);
    run_summary_release(&summary);
    check_open(STORE_READ);
    check_open(STORE_RESUME);
    ASSERT(sqlite3_memory_highwater(1) <= 64 << 20);
    return 0;
}
