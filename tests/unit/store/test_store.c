/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "store/db.h"
#include "temp.h"

static struct store *open_or_fail(const char *dir, enum store_mode mode)
{
    struct store *store = NULL;
    struct err err = {0};
    if (store_open(&store, dir, mode, &err) != 0)
        fail_msg("open %s: %s", dir, err.text);
    return store;
}

static int commit_range(struct store *store, uint64_t first, uint64_t count, struct err *err)
{
    const struct range_row row = {.first = first, .count = count, .part = 1, .bytes = count * 10};
    return store_commit(store, &(struct store_batch){.ranges = &row, .n_ranges = 1}, err);
}

static void expect_done(struct store *store, const char *expected)
{
    struct item_span *spans = NULL;
    size_t n_spans = 0;
    struct err err = {0};
    if (store_done(store, &spans, &n_spans, &err) != 0)
        fail_msg("%s", err.text);
    cleanup_buf struct buf text = BUF_INIT;
    for (size_t i = 0; i < n_spans; i++)
        buf_addf(&text, "%s%lu+%lu", i ? " " : "", spans[i].first, spans[i].count);
    free(spans);
    assert_string_equal(buf_text(&text), expected);
}

static void what_was_committed_is_there_after_reopening(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    const struct range_row ranges[] = {
        {.first = 10,
         .count = 5,
         .part = 3,
         .offset = 7,
         .bytes = 50,
         .seat = 2,
         .attempt = 1,
         .metrics = "{\"correct\":3}"},
        {.first = 0, .count = 10, .part = 4, .bytes = 100},
        {.first = 20, .count = 1, .part = 3, .offset = 57, .bytes = 9},
    };
    const struct failed_item_row aside = {15, 3, "killed its worker", NULL, "a.jsonl line 16"};
    const struct attempt_row attempt = {.id = 3, .seat = 2, .label = "gpu 2", .pid = 77};
    const struct event_row event = {1, "spawn", "{}"};
    const struct sample_row sample = {1, 0, 1 << 30, 97, 61, 412.5};
    const struct store_batch batch = {ranges, 3, &aside, 1, &attempt, 1, &event, 1, &sample, 1};
    assert_int_equal(store_commit(store, &batch, NULL), 0);
    assert_int_equal(store_set(store, "items", "21", NULL), 0);
    store_close(store);

    store = open_or_fail(dir, STORE_RESUME);
    expect_done(store, "0+15 20+1");
    struct store_totals totals;
    assert_int_equal(store_totals(store, &totals, NULL), 0);
    assert_int_equal(totals.items_done, 16);
    assert_int_equal(totals.items_failed, 1);
    assert_int_equal(totals.ranges, 3);
    assert_int_equal(totals.attempts, 1);
    assert_int_equal(totals.result_bytes, 159);
    cleanup_free char *items = NULL, *nothing = NULL;
    assert_int_equal(store_get(store, "items", &items, NULL), 0);
    assert_string_equal(items, "21");
    assert_int_equal(store_get(store, "no such fact", &nothing, NULL), 0);
    assert_null(nothing);
    assert_int_equal(store_next_part(store), 5);
    assert_int_equal(store_next_part(store), 6);
    store_close(store);
}

static void readers_stream_rows_by_item_and_as_committed(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    const struct range_row rows[] = {{.first = 8, .count = 2, .part = 2, .metrics = "{\"a\":1}"},
                                     {.first = 0, .count = 4, .part = 1, .offset = 3}};
    assert_int_equal(
        store_commit(store, &(struct store_batch){.ranges = rows, .n_ranges = 2}, NULL), 0);
    assert_int_equal(commit_range(store, 4, 4, NULL), 0);
    static const uint64_t expected[][3] = {
        [RANGES_BY_ITEM] = {0, 4, 8}, [RANGES_AS_COMMITTED] = {8, 0, 4}};
    for (size_t order = 0; order < countof(expected); order++) {
        struct row_reader *reader = NULL;
        struct range_row row;
        assert_int_equal(range_reader_open(&reader, store, (enum range_order)order, NULL), 0);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(range_reader_next(reader, &row, NULL), 1);
            assert_int_equal(row.first, expected[order][i]);
            if (row.first == 8)
                assert_string_equal(row.metrics, "{\"a\":1}");
            else
                assert_null(row.metrics);
        }
        assert_int_equal(range_reader_next(reader, &row, NULL), 0);
        row_reader_close(reader);
    }
    store_close(store);
}

static void asides_are_read_in_order_and_can_be_forgotten(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    const struct failed_item_row failed_items[] = {{9, 2, "b", "tail", "x line 10"},
                                                   {3, 1, "a", NULL, NULL}};
    assert_int_equal(
        store_commit(
            store, &(struct store_batch){.failed_items = failed_items, .n_failed_items = 2}, NULL),
        0);
    struct row_reader *reader = NULL;
    struct failed_item_row row;
    assert_int_equal(failed_item_reader_open(&reader, store, NULL), 0);
    assert_int_equal(failed_item_reader_next(reader, &row, NULL), 1);
    assert_int_equal(row.item, 3);
    assert_null(row.stderr_tail);
    assert_int_equal(failed_item_reader_next(reader, &row, NULL), 1);
    assert_int_equal(row.item, 9);
    assert_string_equal(row.stderr_tail, "tail");
    assert_int_equal(failed_item_reader_next(reader, &row, NULL), 0);
    row_reader_close(reader);
    uint64_t n_cleared = 0;
    assert_int_equal(commit_range(store, 0, 10, NULL), ERR_DATA);
    assert_int_equal(store_clear_failed_items(store, &n_cleared, NULL), 0);
    assert_int_equal(n_cleared, 2);
    assert_int_equal(commit_range(store, 0, 10, NULL), 0);
    store_close(store);
}

static void an_item_is_never_committed_twice(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    assert_int_equal(commit_range(store, 10, 10, NULL), 0);
    assert_int_equal(commit_range(store, 30, 1, NULL), 0);
    static const struct {
        uint64_t first, count;
        int rc;
    } cases[] = {
        {10, 10, ERR_DATA}, {10, 1, ERR_DATA}, {19, 1, ERR_DATA}, {0, 11, ERR_DATA},
        {5, 100, ERR_DATA}, {19, 5, ERR_DATA}, {30, 1, ERR_DATA}, {29, 2, ERR_DATA},
        {20, 10, 0},        {0, 10, 0},        {31, 1, 0},        {0, 1, ERR_DATA},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct err err = {0};
        if (commit_range(store, cases[i].first, cases[i].count, &err) != cases[i].rc)
            fail_msg("%lu+%lu: expected %d, found %d %s", cases[i].first, cases[i].count,
                     cases[i].rc, err.code, err.text);
    }
    const struct failed_item_row aside = {.item = 12, .reason = "no"};
    assert_int_equal(
        store_commit(store, &(struct store_batch){.failed_items = &aside, .n_failed_items = 1},
                     NULL),
        ERR_DATA);
    store_close(store);
}

static void a_refused_batch_leaves_nothing_behind(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    const struct range_row rows[] = {{.first = 0, .count = 4, .bytes = 8},
                                     {.first = 3, .count = 2}};
    struct err err = {0};
    assert_int_equal(
        store_commit(store, &(struct store_batch){.ranges = rows, .n_ranges = 2}, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "item 3 is committed already"));
    expect_done(store, "");
    assert_int_equal(commit_range(store, 0, 4, NULL), 0);
    struct store_totals totals;
    assert_int_equal(store_totals(store, &totals, NULL), 0);
    assert_int_equal(totals.items_done, 4);
    assert_int_equal(totals.ranges, 1);
    store_close(store);
}

/* Commits 0+100, begins a transaction with more, and dies as kill -9 would have it. */
static void child_that_dies_in_the_middle(const char *dir)
{
    struct store *store = NULL;
    if (store_open(&store, dir, STORE_CREATE, NULL) != 0 || commit_range(store, 0, 100, NULL) != 0)
        _exit(9);
    sqlite3_exec(
        store->db,
        "PRAGMA cache_size = 1; BEGIN IMMEDIATE; INSERT INTO ranges SELECT value, 1, 1, 0, 0, 0, 0,"
        " NULL, 9 FROM (WITH RECURSIVE n(value) AS (SELECT 1000 UNION ALL SELECT value + 1 FROM n"
        " WHERE value < 20000) SELECT value FROM n)",
        NULL, NULL, NULL);
    kill(getpid(), SIGKILL);
}

static void a_muster_killed_in_a_transaction_loses_only_that(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    pid_t child = fork();
    if (child == 0)
        child_that_dies_in_the_middle(dir);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    struct store *store = open_or_fail(dir, STORE_READ);
    expect_done(store, "0+100");
    store_close(store);
    store = open_or_fail(dir, STORE_RESUME);
    expect_done(store, "0+100");
    assert_int_equal(commit_range(store, 100, 5, NULL), 0);
    expect_done(store, "0+105");
    store_close(store);
}

static void a_reader_sees_commits_while_the_run_goes_on(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    struct store *writer = open_or_fail(dir, STORE_CREATE);
    struct store *reader = open_or_fail(dir, STORE_READ);
    expect_done(reader, "");
    assert_int_equal(commit_range(writer, 0, 3, NULL), 0);
    expect_done(reader, "0+3");
    struct row_reader *rows = NULL;
    struct range_row row;
    assert_int_equal(range_reader_open(&rows, reader, RANGES_BY_ITEM, NULL), 0);
    assert_int_equal(range_reader_next(rows, &row, NULL), 1);
    assert_int_equal(commit_range(writer, 3, 3, NULL), 0);
    assert_int_equal(range_reader_next(rows, &row, NULL), 0); /* its snapshot is older */
    row_reader_close(rows);
    store_close(writer);
    expect_done(reader, "0+6");
    store_close(reader);
}

static void a_run_that_goes_on_is_not_opened_twice(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    assert_false(run_is_locked(dir, NULL));
    struct store *holder = open_or_fail(dir, STORE_CREATE), *second = NULL;
    struct err err = {0};
    assert_int_equal(store_open(&second, dir, STORE_RESUME, &err), ERR_UNAVAILABLE);
    cleanup_free char *pid = xasprintf("pid %d on", (int)getpid());
    assert_non_null(strstr(err.text, pid));
    struct run_holder who;
    assert_true(run_is_locked(dir, &who));
    assert_int_equal(who.pid, getpid());
    assert_true(who.is_here);
    store_close(holder);
    assert_false(run_is_locked(dir, NULL));
    cleanup_free char *manifest = path_join(dir, "manifest.json");
    assert_int_equal(file_replace_fast(manifest, STR("{}\n"), NULL), 0);
    assert_int_equal(store_open(&second, dir, STORE_CREATE, &err), ERR_USAGE);
    store_close(open_or_fail(dir, STORE_RESUME));
}

static void a_lock_file_that_is_deleted_lets_nobody_in(void **state)
{
    cleanup_free char *dir = path_join(*state, "run"), *file = path_join(dir, "lock");
    struct store *holder = open_or_fail(dir, STORE_CREATE), *second = NULL;
    struct err err = {0};
    assert_int_equal(unlink(file), 0);
    assert_int_equal(store_open(&second, dir, STORE_RESUME, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "is going on under another muster"));
    store_close(holder);
    store_close(open_or_fail(dir, STORE_RESUME));
}

static void what_was_killed_before_it_began_is_begun_anew(void **state)
{
    cleanup_free char *dir = path_join(*state, "run"), *part = path_join(dir, "parts/1.part");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    struct err err = {0};
    assert_int_equal(store_set(store, "items", "7", NULL), 0);
    store_close(store);
    store = open_or_fail(dir, STORE_CREATE);
    cleanup_free char *items = NULL;
    assert_int_equal(store_get(store, "items", &items, NULL), 0);
    assert_null(items);
    store_close(store);
    assert_int_equal(file_replace_fast(part, STR("r\n"), NULL), 0);
    assert_int_equal(store_open(&store, dir, STORE_CREATE, &err), ERR_USAGE);
}

static void a_forked_child_does_not_keep_the_lock(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    int to_cat[2], from_cat[2];
    assert_int_equal(pipe2(to_cat, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from_cat, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(to_cat[0], 0);
        dup2(from_cat[1], 1);
        execlp("cat", "cat", (char *)NULL);
        _exit(9);
    }
    char back = 0;
    assert_int_equal(write(to_cat[1], "x", 1), 1);
    assert_int_equal(read(from_cat[0], &back, 1), 1); /* now the exec lies behind it */
    store_close(store);
    assert_false(run_is_locked(dir, NULL));
    for (int i = 0; i < 2; i++) {
        close(to_cat[i]);
        close(from_cat[i]);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void put_file(const char *dir, const char *name, struct str content)
{
    struct err err = {0};
    cleanup_free char *path = path_join(dir, name);
    if (mkdir_parents(dir, 0777, &err) != 0 || file_replace_fast(path, content, &err) != 0)
        fail_msg("%s", err.text);
}

static void what_is_not_ours_is_refused(void **state)
{
    static const struct {
        const char *name, *sql;
        int rc;
        const char *says;
    } cases[] = {
        {"other", "CREATE TABLE t (x); PRAGMA user_version = 3", ERR_DATA,
         "not a database of muster's"},
        {"newer", "PRAGMA application_id = 1836282994; PRAGMA user_version = 99", ERR_DATA,
         "newer muster"},
        {"early", "", ERR_DATA, "died before it had begun"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_free char *dir = path_join(*state, cases[i].name);
        cleanup_free char *path = path_join(dir, "run.db");
        put_file(dir, "run.db", (struct str){"", 0});
        sqlite3 *db = NULL;
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, cases[i].sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        for (enum store_mode mode = STORE_RESUME; mode <= STORE_READ; mode++) {
            struct store *store = NULL;
            struct err err = {0};
            if (store_open(&store, dir, mode, &err) != cases[i].rc ||
                !strstr(err.text, cases[i].says))
                fail_msg("%s: %d %s", cases[i].name, err.code, err.text);
        }
    }
    cleanup_free char *dir = path_join(*state, "text");
    put_file(dir, "run.db", STR("this is no database, whatever its name may say about it\n"));
    struct store *store = NULL;
    assert_int_equal(store_open(&store, dir, STORE_RESUME, NULL), ERR_DATA);
    assert_int_equal(store_open(&store, *state, STORE_READ, NULL), ERR_USAGE);
}

static void a_damaged_database_is_named_as_data(void **state)
{
    cleanup_free char *dir = path_join(*state, "run"), *path = path_join(dir, "run.db");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    for (uint64_t i = 0; i < 500; i++)
        assert_int_equal(commit_range(store, i * 2, 1, NULL), 0);
    store_close(store);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    for (off_t at = 4096; at < st.st_size; at++) /* all but the first page, where the schema is */
        assert_int_equal(pwrite(fd, "\x5a", 1, at), 1);
    struct err err = {0};
    int rc = store_open(&store, dir, STORE_RESUME, &err);
    if (rc == 0) {
        struct item_span *spans = NULL;
        size_t n_spans;
        rc = store_done(store, &spans, &n_spans, &err);
        store_close(store);
    }
    assert_int_equal(rc, ERR_DATA);
    assert_non_null(strstr(err.text, "run.db"));
}

static void rows_that_no_muster_writes_are_refused(void **state)
{
    static const struct {
        const char *sql, *words;
    } cases[] = {
        {"UPDATE ranges SET count = 0", "a result of 0 items from item 0"},
        {"UPDATE ranges SET count = -1", "a result of -1 items"},
        {"UPDATE ranges SET first = -5", "from item -5"},
        {"UPDATE ranges SET count = 9223372036854775807, first = 1", "is damaged"},
        {"INSERT INTO ranges VALUES (2, 5, 1, 0, 5, 0, 1, NULL, 9)", "has a result already"},
        {"DELETE FROM progress", "its table progress is empty"},
        {"UPDATE progress SET next_part = -1", "its table progress is out of range"},
        {"UPDATE ranges SET part = -1", "is damaged: results in part -1"},
        {"UPDATE ranges SET part = 9000000000", "is damaged: results in part 9000000000"},
        {"UPDATE ranges SET offset = -90", "is damaged: results end at byte -60 of part 1"},
        {"UPDATE ranges SET bytes = 9223372036854775807, offset = 1", "1.part"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_free char *dir = xasprintf("%s/run-%zu", (const char *)*state, i);
        cleanup_free char *path = path_join(dir, "run.db");
        struct store *store = open_or_fail(dir, STORE_CREATE);
        struct err err = {0};
        assert_int_equal(commit_range(store, 0, 3, &err), 0);
        store_close(store);
        sqlite3 *db = NULL;
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, cases[i].sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        struct item_span *spans = NULL;
        size_t n_spans = 0;
        int rc = store_open(&store, dir, STORE_RESUME, &err);
        if (rc == 0) {
            rc = store_done(store, &spans, &n_spans, &err);
            if (rc == 0)
                rc = store_check_parts(store, &err);
            free(spans);
            store_close(store);
        }
        if (rc != ERR_DATA || !strstr(err.text, cases[i].words))
            fail_msg("%s: rc %d, %s", cases[i].sql, rc, err.text);
    }
}

static void one_item_is_forgotten_and_never_its_neighbours(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    struct store_totals totals;
    struct err err = {0};
    assert_int_equal(commit_range(store, 0, 1, NULL), 0);
    assert_int_equal(commit_range(store, 1, 3, NULL), 0);
    assert_int_equal(store_forget(store, 0, &err), 0);
    assert_int_equal(store_forget(store, 7, &err), 0);
    expect_done(store, "1+3");
    assert_int_equal(store_forget(store, 1, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "is damaged: a row of 3 items at item 1"));
    expect_done(store, "1+3");
    assert_int_equal(store_totals(store, &totals, NULL), 0);
    assert_int_equal(totals.items_done, 3);
    assert_int_equal(totals.result_bytes, 30);
    store_close(store);
}

static void a_full_disk_stops_the_run_and_loses_nothing(void **state)
{
    cleanup_free char *dir = path_join(*state, "run");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    assert_int_equal(commit_range(store, 0, 1, NULL), 0);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){200000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct err err = {0};
    uint64_t item = 1;
    while (item < 10000 && commit_range(store, item, 1, &err) == 0)
        item++;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    if (err.code != ERR_STOPPED || !strstr(err.text, "ulimit -f"))
        fail_msg("item %lu: %d %s", item, err.code, err.text);
    /* There is room again: the same batch goes through. */
    assert_int_equal(commit_range(store, item, 1, &err), 0);
    cleanup_free char *expected = xasprintf("0+%lu", item + 1);
    expect_done(store, expected);
    store_close(store);
    store = open_or_fail(dir, STORE_RESUME);
    expect_done(store, expected);
    store_close(store);
}

static void the_careful_settings_work_alike(void **state)
{
    cleanup_free char *dir = path_join(*state, "run"), *parts = path_join(dir, "parts");
    cleanup_free char *wal = path_join(dir, "run.db-wal");
    assert_int_equal(mkdir_parents(parts, 0777, NULL), 0);
    struct store *store = NULL, *reader = NULL;
    struct err err = {0};
    assert_int_equal(store_open_as(&store, dir, STORE_CREATE, true, &err), 0);
    assert_true(store_is_networked(store));
    assert_int_equal(commit_range(store, 0, 7, &err), 0);
    assert_false(path_exists(wal));
    assert_int_equal(store_open_as(&reader, dir, STORE_READ, true, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "status.json"));
    store_close(store);
    /* A run may move: from a local disk, where it was in WAL mode, to a network file system and
     * back. */
    for (int networked = 0; networked <= 1; networked++) {
        assert_int_equal(store_open_as(&store, dir, STORE_RESUME, networked, &err), 0);
        assert_int_equal(commit_range(store, 7 + (uint64_t)networked, 1, &err), 0);
        store_close(store);
    }
    store = open_or_fail(dir, STORE_READ);
    expect_done(store, "0+9");
    store_close(store);
}

static void a_finished_run_is_read_in_a_folder_nobody_may_write(void **state)
{
    cleanup_free char *dir = path_join(*state, "run #1?%41");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    assert_int_equal(commit_range(store, 0, 7, NULL), 0);
    store_close(store);
    assert_int_equal(chmod(*state, 0755), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    bool is_root = geteuid() == 0; /* who may write everywhere */
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    store = open_or_fail(dir, STORE_READ);
    expect_done(store, "0+7");
    store_close(store);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(dir, 0755), 0);
}

static void a_part_without_a_row_is_not_used_again(void **state)
{
    cleanup_free char *dir = path_join(*state, "run"), *parts = path_join(dir, "parts");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    assert_int_equal(store_next_part(store), 1);
    const struct attempt_row attempt = {.id = 4, .label = "cpu 0"};
    assert_int_equal(
        store_commit(store, &(struct store_batch){.attempts = &attempt, .n_attempts = 1}, NULL), 0);
    store_close(store);
    store = open_or_fail(dir, STORE_RESUME);
    assert_int_equal(store_next_part(store), 5);
    store_close(store);
    put_file(parts, "41.part", STR("half a line"));
    put_file(parts, "99.other", STR(""));
    store = open_or_fail(dir, STORE_RESUME);
    assert_int_equal(store_next_part(store), 42);
    store_close(store);
}

static void an_old_order_to_stop_does_not_stop_a_resume(void **state)
{
    cleanup_free char *dir = path_join(*state, "run"), *stop = path_join(dir, "stop");
    store_close(open_or_fail(dir, STORE_CREATE));
    put_file(dir, "stop", STR("now\n"));
    store_close(open_or_fail(dir, STORE_READ));
    assert_true(path_exists(stop));
    store_close(open_or_fail(dir, STORE_RESUME));
    assert_false(path_exists(stop));
}

static void a_hundred_thousand_rows_take_no_time_to_speak_of(void **state)
{
    SKIP_UNDER_VALGRIND();
    cleanup_free char *dir = path_join(*state, "run");
    struct store *store = open_or_fail(dir, STORE_CREATE);
    enum {
        ROWS = 100000,
        BATCH = 1000
    };
    static struct range_row rows[BATCH];
    uint64_t begin_ms = clock_now_ms();
    for (uint64_t at = 0; at < ROWS; at += BATCH) {
        for (uint64_t i = 0; i < BATCH; i++)
            rows[i] =
                (struct range_row){.first = (at + i) * 11, .count = 10, .part = 1, .bytes = 100};
        assert_int_equal(
            store_commit(store, &(struct store_batch){.ranges = rows, .n_ranges = BATCH}, NULL), 0);
    }
    store_close(store);
    store = open_or_fail(dir, STORE_RESUME);
    struct item_span *spans = NULL;
    size_t n_spans = 0;
    assert_int_equal(store_done(store, &spans, &n_spans, NULL), 0);
    free(spans);
    assert_int_equal(n_spans, ROWS);
    assert_in_range(clock_now_ms() - begin_ms, 0, 10000);
    store_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_setup, temp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_committed_is_there_after_reopening),
        TEST(readers_stream_rows_by_item_and_as_committed),
        TEST(asides_are_read_in_order_and_can_be_forgotten),
        TEST(an_item_is_never_committed_twice),
        TEST(a_refused_batch_leaves_nothing_behind),
        TEST(a_muster_killed_in_a_transaction_loses_only_that),
        TEST(a_reader_sees_commits_while_the_run_goes_on),
        TEST(a_run_that_goes_on_is_not_opened_twice),
        TEST(what_was_killed_before_it_began_is_begun_anew),
        TEST(a_lock_file_that_is_deleted_lets_nobody_in),
        TEST(a_forked_child_does_not_keep_the_lock),
        TEST(what_is_not_ours_is_refused),
        TEST(a_damaged_database_is_named_as_data),
        TEST(rows_that_no_muster_writes_are_refused),
        TEST(one_item_is_forgotten_and_never_its_neighbours),
        TEST(a_full_disk_stops_the_run_and_loses_nothing),
        TEST(the_careful_settings_work_alike),
        TEST(a_finished_run_is_read_in_a_folder_nobody_may_write),
        TEST(a_part_without_a_row_is_not_used_again),
        TEST(an_old_order_to_stop_does_not_stop_a_resume),
        TEST(a_hundred_thousand_rows_take_no_time_to_speak_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
