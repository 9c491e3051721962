/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "store/manifest.h"
#include "store/order_answer.h"
#include "store/orders.h"
#include "store/runs.h"
#include "store/status.h"
#include "store/store.h"
#include "temp.h"

enum {
    JAN_31 = 1769846887
}; /* seconds; the local time of day differs, the tests do not care */

/* A run's folder with a ledger and, if given, a state. */
static char *make_run(const char *root, const char *name, const char *state)
{
    char *dir = path_join(root, name);
    struct store *store = NULL;
    struct err err = {0};
    const struct range_row row = {.first = 0, .count = 7, .part = 1};
    if (store_open(&store, dir, STORE_CREATE, &err) != 0 ||
        store_commit(store, &(struct store_batch){.ranges = &row, .n_ranges = 1}, &err) != 0 ||
        store_set(store, "items", "10", &err) != 0 ||
        (state && store_set(store, "state", state, &err) != 0))
        fail_msg("%s", err.text);
    store_close(store);
    return dir;
}

static void no_two_runs_get_the_same_folder(void **state)
{
    cleanup_free char *root = path_join(*state, "a/b/runs");
    static const char *const endings[] = {"-map", "-map-2", "-map-3"};
    for (size_t i = 0; i < countof(endings); i++) {
        cleanup_free char *dir = NULL;
        assert_int_equal(run_create(root, "map", JAN_31 * 1000ll, &dir, NULL), 0);
        assert_true(str_ends_with(str_of(dir), str_of(endings[i])));
        assert_true(path_exists(dir));
    }
    cleanup_free char *dir = NULL;
    assert_int_equal(run_create(root, "graph", JAN_31 * 1000ll, &dir, NULL), 0);
    assert_true(str_ends_with(str_of(dir), STR("-graph")));
}

static void latest_follows_the_newest_run(void **state)
{
    cleanup_free char *found = NULL;
    assert_int_equal(run_find(*state, NULL, &found, NULL), ERR_USAGE);
    cleanup_free char *first = make_run(*state, "20260131_090807-map", NULL);
    cleanup_free char *second = make_run(*state, "20260131_090807-map-2", NULL);
    assert_int_equal(run_find(*state, "latest", &found, NULL), 0); /* without a link */
    assert_string_equal(path_basename(found), "20260131_090807-map-2");
    free(steal_ptr(&found));
    assert_int_equal(run_mark_latest(second, NULL), 0);
    assert_int_equal(run_mark_latest(first, NULL), 0);
    assert_int_equal(run_find(*state, NULL, &found, NULL), 0);
    assert_string_equal(path_basename(found), "20260131_090807-map");
    cleanup_free char *link = path_join(*state, "latest");
    char target[64] = "";
    assert_true(readlink(link, target, sizeof(target) - 1) > 0);
    assert_string_equal(target, "20260131_090807-map"); /* relative: the folder may be moved */
}

static void a_run_is_found_by_path_name_or_beginning(void **state)
{
    free(make_run(*state, "20260131_090807-map", NULL));
    free(make_run(*state, "20260131_090807-map-2", NULL));
    free(make_run(*state, "20260201_000000-graph", NULL));
    free(make_run(*state, "elsewhere/my run", NULL));
    cleanup_free char *plain = path_join(*state, "20260301_000000-map");
    assert_int_equal(mkdir(plain, 0777), 0);
    cleanup_free char *path = path_join(*state, "elsewhere/my run");
    const struct {
        const char *text, *name, *says;
    } cases[] = {
        {"20260131_090807-map", "20260131_090807-map", NULL},
        {"20260131_090807-map-", "20260131_090807-map-2", NULL},
        {"202602", "20260201_000000-graph", NULL},
        {path, "my run", NULL},
        {"202601", NULL, "begins the names of 2 runs"},
        {"20260201_000000-grahp", NULL, "did you mean '20260201_000000-graph'?"},
        {"nonsense", NULL,
         "recent: 20260201_000000-graph, 20260131_090807-map-2, 20260131_090807-map"},
        {"20260301", NULL, "no run '20260301'"},
        {"./no/such", NULL, "there is no such folder"},
        {"", NULL, "no run ''"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct err err = {0};
        cleanup_free char *dir = NULL;
        int rc = run_find(*state, cases[i].text, &dir, &err);
        if (cases[i].name ? rc != 0 || strcmp(path_basename(dir), cases[i].name) != 0
                          : rc != ERR_USAGE || !strstr(err.text, cases[i].says))
            fail_msg("'%s': %d %s", cases[i].text, rc, rc ? err.text : dir);
    }
}

static void runs_are_listed_newest_first(void **state)
{
    static const char *const expected[] = {"20260201_000000-map", "20260131_090807-map-10",
                                           "20260131_090807-map-2", "20260131_090807-map"};
    for (size_t i = 0; i < countof(expected); i++)
        free(make_run(*state, expected[(i * 3 + 1) % countof(expected)], NULL));
    struct run_names names;
    assert_int_equal(runs_list(*state, &names, NULL), 0);
    assert_int_equal(names.len, countof(expected));
    for (size_t i = 0; i < names.len; i++)
        assert_string_equal(names.at[i], expected[i]);
    run_names_release(&names);
    assert_int_equal(runs_list("/nonexistent/muster-runs", &names, NULL), 0);
    assert_int_equal(names.len, 0);
}

/* A run of --run-dir has any name. */
static void begin_run(const char *root, const char *name, int64_t started_wall_ms)
{
    static const char *const argv[] = {"muster", "map", NULL};
    cleanup_free char *dir = make_run(root, name, NULL);
    struct err err = {0};
    if (manifest_write(
            dir,
            &(struct manifest){
                .verb = "map", .argv = argv, .cwd = "/", .started_wall_ms = started_wall_ms},
            &err) != 0)
        fail_msg("%s", err.text);
}

static void runs_of_any_name_are_listed_newest_first(void **state)
{
    static const char *const expected[] = {
        "b", "20260131_090806-each", "20260131_090807-map-2", "zz", "a", "20260131_080807-map"};
    char stamp[20];
    clock_stamp(stamp, (JAN_31 - 10) * 1000ll);
    cleanup_free char *waits = xasprintf("%s-graph", stamp), *found = NULL;
    begin_run(*state, "a", JAN_31 * 1000ll - 2);
    begin_run(*state, "b", JAN_31 * 1000ll + 500);
    begin_run(*state, "20260131_080807-map", (JAN_31 - 3600) * 1000ll);
    begin_run(*state, "zz", JAN_31 * 1000ll - 1);
    begin_run(*state, "20260131_090807-map-2", JAN_31 * 1000ll);
    free(make_run(*state, waits, NULL));                                /* has no manifest yet */
    cleanup_free char *submitted = make_run(*state, expected[1], NULL); /* nor will it have one */
    cleanup_free char *jobs = path_join(submitted, "jobs.jsonl");
    cleanup_free char *line =
        xasprintf("{\"at\":%lld,\"job\":7,\"event\":\"submitted\"}\n", JAN_31 * 1000ll + 250);
    assert_int_equal(file_replace_fast(jobs, str_of(line), NULL), 0);
    free(make_run(*state, "now", NULL));
    struct run_names names;
    assert_int_equal(runs_list(*state, &names, NULL), 0);
    assert_int_equal(names.len, countof(expected) + 2);
    assert_string_equal(names.at[0], "now"); /* of which nothing but its folder tells */
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(names.at[i + 1], expected[i]);
    assert_string_equal(names.at[6], waits);
    assert_string_equal(names.at[7], expected[5]);
    run_names_release(&names);
    assert_int_equal(run_find(*state, "latest", &found, NULL), 0); /* without a link */
    assert_string_equal(path_basename(found), "now");
}

static void the_state_of_a_run_comes_from_its_lock_and_its_last_word(void **state)
{
    static const struct {
        const char *fact;
        enum run_state state;
    } cases[] = {
        {"finished", RUN_FINISHED},   {"failed", RUN_FAILED},  {"stopped", RUN_STOPPED},
        {"running", RUN_INTERRUPTED}, {NULL, RUN_INTERRUPTED}, {"nonsense", RUN_INTERRUPTED},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_free char *name = xasprintf("run %zu", i),
                          *dir = make_run(*state, name, cases[i].fact);
        struct run_summary run;
        assert_int_equal(run_inspect(dir, &run, NULL), 0);
        if (run.state != cases[i].state)
            fail_msg("'%s' is %s", cases[i].fact, run_state_name(run.state));
        assert_int_equal(run.items_done, 7);
        assert_true(run.is_total_known);
        assert_int_equal(run.items_total, 10);
        run_summary_release(&run);
        struct store *store = NULL;
        assert_int_equal(store_open(&store, dir, STORE_RESUME, NULL), 0);
        assert_int_equal(run_inspect(dir, &run, NULL), 0);
        assert_int_equal(run.state, RUN_RUNNING);
        assert_int_equal(run.holder.pid, getpid());
        run_summary_release(&run);
        store_close(store);
    }
}

static void a_snapshot_stands_in_for_a_ledger_that_cannot_be_read(void **state)
{
    cleanup_free char *dir = make_run(*state, "run", "failed"), *path = path_join(dir, "run.db");
    assert_int_equal(unlink(path), 0);
    const struct run_status status = {
        .state = "running", .items_total = 50, .is_total_known = true, .done = 20};
    assert_int_equal(status_write(dir, &status, NULL), 0);
    struct run_summary run;
    assert_int_equal(run_inspect(dir, &run, NULL), 0);
    assert_int_equal(run.items_done, 20);
    assert_int_equal(run.items_total, 50);
    assert_int_equal(run.state, RUN_INTERRUPTED);
    run_summary_release(&run);
}

static void a_status_comes_back_as_it_was_written(void **state)
{
    const struct worker_status workers[] = {
        {"gpu 0", "busy", 11, 2.5, 1ull << 36, "epoch \"3\"\t\x01"},
        {"gpu 1", "loading", 0, 0, 0, NULL}};
    const struct host_status hosts[] = {{"lab1", "up", 7, 1.5, 0, 2500, 12, 1ull << 40, 99},
                                        {"lab2", "away", 4, 0, 1500, 1500, 0, 0, 0}};
    const struct run_status written = {
        .verb = "map",
        .state = "running",
        .host = "node1",
        .pid = 4711,
        .items_total = 1ull << 40,
        .is_total_known = true,
        .done = 12,
        .aside = 1,
        .running = 8,
        .rate = 3.25,
        .eta_ms = 60000,
        .started_wall_ms = 1769846887123,
        .updated_wall_ms = 1769846888123,
        .workers = workers,
        .n_workers = 2,
        .hosts = hosts,
        .n_hosts = 2,
    };
    struct err err = {0};
    struct run_status read;
    if (status_write(*state, &written, &err) != 0 || status_read(*state, &read, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(read.verb, "map");
    assert_string_equal(read.host, "node1");
    assert_null(read.message);
    assert_int_equal(read.pid, 4711);
    assert_true(read.items_total == 1ull << 40 && read.is_total_known);
    assert_true(read.done == 12 && read.aside == 1 && read.running == 8);
    assert_true(read.rate == 3.25 && read.eta_ms == 60000);
    assert_true(read.started_wall_ms == written.started_wall_ms);
    assert_int_equal(read.n_workers, 2);
    assert_string_equal(read.workers[0].last_word, workers[0].last_word);
    assert_true(read.workers[0].mem_bytes == 1ull << 36 && read.workers[0].rate == 2.5);
    assert_null(read.workers[1].last_word);
    assert_int_equal(read.n_hosts, 2);
    assert_string_equal(read.hosts[0].name, "lab1");
    assert_string_equal(read.hosts[1].state, "away");
    assert_true(read.hosts[0].done == 7 && read.hosts[0].rate == 1.5);
    assert_true(read.hosts[0].lost_ms == 2500 && read.hosts[0].round_trip_ms == 12);
    assert_true(read.hosts[0].sent_bytes == 1ull << 40 && read.hosts[0].received_bytes == 99);
    assert_true(read.hosts[1].away_ms == 1500);
    status_release(&read);
}

static void a_status_holds_whatever_a_worker_says(void **state)
{
    const struct worker_status worker = {"gpu 0",   "busy", 1,
                                         1.0 / 0.0, 0,      "half \xe2\x82 of a character"};
    const struct run_status written = {
        .verb = "map", .eta_ms = -1, .workers = &worker, .n_workers = 1};
    struct run_status read;
    assert_int_equal(status_write(*state, &written, NULL), 0);
    assert_int_equal(status_read(*state, &read, NULL), 0);
    assert_non_null(strstr(read.workers[0].last_word, "of a character"));
    assert_true(read.workers[0].rate == 0);
    assert_true(read.eta_ms < 0 && !read.is_total_known);
    status_release(&read);
    cleanup_free char *path = path_join(*state, "status.json");
    assert_int_equal(file_replace_fast(path, STR("{\"done\":"), NULL), 0);
    assert_int_equal(status_read(*state, &read, NULL), ERR_DATA);
    assert_int_equal(file_replace_fast(path, STR("[1]"), NULL), 0);
    assert_int_equal(status_read(*state, &read, NULL), ERR_DATA);
}

/* A muster that holds the run until SIGUSR1 arrives, then says through its status what was
 * asked. */
static void child_that_waits_for_a_stop(const char *dir, int ready_fd)
{
    struct store *store = NULL;
    sigset_t looked_for;
    sigemptyset(&looked_for);
    sigaddset(&looked_for, SIGUSR1);
    sigprocmask(SIG_BLOCK, &looked_for, NULL);
    alarm(20);
    if (store_open(&store, dir, STORE_RESUME, NULL) != 0 || write(ready_fd, "x", 1) != 1)
        _exit(9);
    int signal_number;
    enum stop_how how = STOP_NOW;
    if (sigwait(&looked_for, &signal_number) != 0 || !run_stop_asked(dir, &how))
        _exit(8);
    _exit(how == STOP_DRAIN ? 0 : 1);
}

static void a_stop_reaches_the_muster_that_holds_the_run(void **state)
{
    SKIP_UNDER_VALGRIND();
    cleanup_free char *dir = make_run(*state, "run", NULL), *stop = path_join(dir, "stop");
    for (enum stop_how how = STOP_DRAIN; how <= STOP_NOW; how++) {
        int ready[2];
        char byte;
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        if (child == 0)
            child_that_waits_for_a_stop(dir, ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        bool was_running = false;
        assert_int_equal(run_stop(dir, how, &was_running, NULL), 0);
        assert_true(was_running);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), how == STOP_DRAIN ? 0 : 1);
        close(ready[0]);
        close(ready[1]);
    }
    assert_int_equal(unlink(stop), 0);
    bool was_running = true;
    assert_int_equal(run_stop(dir, STOP_NOW, &was_running, NULL), 0);
    assert_false(was_running);
    assert_false(path_exists(stop)); /* a later resume must not find an order */
}

static void put_order(const char *dir, const char *name, const char *text, mode_t mode)
{
    cleanup_free char *path = path_join(dir, name);
    assert_int_equal(file_replace_fast(path, str_of(text), NULL), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void orders_are_taken_once_the_oldest_first(void **state)
{
    cleanup_free char *dir = make_run(*state, "run", NULL);
    char name[ORDER_NAME_MAX] = "";
    cleanup_buf struct buf text = BUF_INIT;
    put_order(dir, "order-2-b", "second\n", 0600);
    put_order(dir, "order-1-z", "first\n", 0600);
    put_order(dir, "order-0-a.new", "half writ", 0600); /* it is being written */
    assert_int_equal(run_order_take(dir, name, &text, NULL), 0);
    assert_string_equal(name, "order-1-z");
    assert_int_equal(run_order_take(dir, name, &text, NULL), 0);
    assert_string_equal(buf_text(&text), "first\nsecond\n");
    assert_int_equal(run_order_take(dir, name, &text, NULL), 0);
    assert_string_equal(name, "");
    assert_false(run_order_withdraw(dir, "order-2-b"));
    put_order(dir, "order-3-c", "too late\n", 0600);
    assert_true(run_order_withdraw(dir, "order-3-c"));
    bool was_running = true;
    assert_int_equal(run_order_give(dir, STR("add x\n"), name, &was_running, NULL), 0);
    assert_false(was_running); /* nothing was written */
    assert_int_equal(run_order_take(dir, name, &text, NULL), 0);
    assert_string_equal(name, "");
}

static void an_order_that_is_not_the_owners_is_removed_and_not_taken(void **state)
{
    cleanup_free char *dir = make_run(*state, "run", NULL), *link = path_join(dir, "order-2");
    char name[ORDER_NAME_MAX] = "";
    cleanup_buf struct buf text = BUF_INIT;
    cleanup_free char *large = xmalloc(ORDER_MAX_BYTES + 2);
    memset(large, 'x', ORDER_MAX_BYTES + 1);
    large[ORDER_MAX_BYTES + 1] = '\0';
    put_order(dir, "order-1", "add x\n", 0666);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    put_order(dir, "order-3", large, 0600);
    for (int i = 1; i <= 3; i++) {
        assert_int_not_equal(run_order_take(dir, name, &text, NULL), 0);
        assert_int_equal(name[6], '0' + i);
    }
    assert_int_equal(text.len, 0);
    assert_int_equal(run_order_take(dir, name, &text, NULL), 0);
    assert_string_equal(name, "");
    put_order(dir, "order-4", "add x\n", 0600);
    assert_int_equal(run_orders_drop(dir, NULL), 0);
    assert_int_equal(run_order_take(dir, name, &text, NULL), 0);
    assert_string_equal(name, "");
}

static void an_order_that_cannot_be_removed_does_not_hide_the_next(void **state)
{
    cleanup_free char *dir = make_run(*state, "run", NULL), *folder = path_join(dir, "order-1");
    char name[ORDER_NAME_MAX] = "";
    cleanup_buf struct buf text = BUF_INIT;
    assert_int_equal(mkdir(folder, 0700), 0);
    put_order(dir, "order-2", "add x\n", 0600);
    assert_int_equal(run_order_take(dir, name, &text, NULL), ERR_SYS);
    assert_string_equal(name, "order-1");
    assert_int_equal(run_order_take(dir, name, &text, NULL), 0);
    assert_string_equal(name, "order-2");
    assert_string_equal(buf_text(&text), "add x\n");
    assert_int_equal(run_order_take(dir, name, &text, NULL), 0);
    assert_string_equal(name, "");
}

static void an_order_finds_its_answer_and_no_other(void **state)
{
    cleanup_free char *dir = make_run(*state, "run", NULL), *path = path_join(dir, "answers.json");
    const struct order_answer answers[] = {{"order-1", NULL, NULL},
                                           {"order-2", "why \"not\"", NULL, true},
                                           {"order-4", "'\xff' is no name", NULL},
                                           {"order-5", NULL, "it waits for x\n  log: y\nforged"}};
    struct found_answer found;
    assert_false(order_answer_find(dir, "order-1", &found));
    assert_int_equal(order_answers_write(dir, answers, countof(answers), NULL), 0);
    assert_true(order_answer_find(dir, "order-1", &found));
    assert_null(found.refused);
    assert_false(found.is_wrong);
    assert_true(order_answer_find(dir, "order-2", &found));
    assert_string_equal(found.refused, "why \"not\"");
    assert_true(found.is_wrong);
    found_answer_release(&found);
    assert_true(order_answer_find(dir, "order-4", &found));
    assert_string_equal(found.refused, "'\\xff' is no name");
    assert_null(found.told);
    found_answer_release(&found);
    assert_true(order_answer_find(dir, "order-5", &found));
    assert_string_equal(found.told, "it waits for x\n  log: y\\nforged");
    found_answer_release(&found);
    assert_false(order_answer_find(dir, "order-3", &found));
    assert_int_equal(file_replace_fast(path, STR("{\"order\":7}"), NULL), 0);
    assert_false(order_answer_find(dir, "order-1", &found));
    assert_int_equal(file_replace_fast(path, STR("[1"), NULL), 0);
    assert_false(order_answer_find(dir, "order-1", &found));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_setup, temp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_two_runs_get_the_same_folder),
        TEST(latest_follows_the_newest_run),
        TEST(a_run_is_found_by_path_name_or_beginning),
        TEST(runs_are_listed_newest_first),
        TEST(runs_of_any_name_are_listed_newest_first),
        TEST(the_state_of_a_run_comes_from_its_lock_and_its_last_word),
        TEST(a_snapshot_stands_in_for_a_ledger_that_cannot_be_read),
        TEST(a_status_comes_back_as_it_was_written),
        TEST(a_status_holds_whatever_a_worker_says),
        TEST(a_stop_reaches_the_muster_that_holds_the_run),
        TEST(orders_are_taken_once_the_oldest_first),
        TEST(an_order_that_is_not_the_owners_is_removed_and_not_taken),
        TEST(an_order_that_cannot_be_removed_does_not_hide_the_next),
        TEST(an_order_finds_its_answer_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
