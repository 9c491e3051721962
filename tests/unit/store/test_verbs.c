/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs about runs, called as main would call them, with stdout caught in a file.
 * result_merge_write is replaced by one that notes what it is asked for.
 */
#include "unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/tail.h"
#include "data/file_merge/file_merge.h"
#include "data/format.h"
#include "data/result_merge.h"
#include "data/source.h"
#include "opt/cmd.h"
#include "shard/shard.h"
#include "store/manifest.h"
#include "store/orders.h"
#include "store/runs.h"
#include "store/status.h"
#include "store/store.h"
#include "temp.h"

extern const struct cmd cmd_ls, cmd_status, cmd_logs, cmd_stop, cmd_results;

const struct choice out_formats[] = {{"jsonl", OUT_JSONL}, {0}};

/* Of verbs that are not here. */
const char *record_format_name(enum record_format format)
{
    (void)format;
    return "lines";
}

enum record_format record_format_of_path(const char *path)
{
    (void)path;
    return FORMAT_LINES;
}

int file_merge_write(const struct file_merge_opts *opts, const char *const *paths, size_t n_paths,
                     const char *output, struct file_merge_stats *stats, struct err *err)
{
    (void)opts, (void)paths, (void)n_paths, (void)output, (void)stats, (void)err;
    return ERR_FAILED; /* conversions are in tests/cli/resume.bats */
}

const char *out_format_name(enum out_format format)
{
    (void)format;
    return "jsonl";
}

int out_packing_refuse(const char *path, struct err *err)
{
    (void)path, (void)err;
    return 0;
}

/* These runs are none of shards; tests/cli/shards.bats has such. */
int shards_so_far(struct store *store, const struct map_request *request, bool *are_there,
                  struct result_merge_stats *stats, struct err *err)
{
    (void)store, (void)request, (void)stats, (void)err;
    *are_there = false;
    return 0;
}

int result_merge_write(const struct result_merge_opts *opts, struct result_merge_stats *stats,
                       struct err *err)
{
    struct result_range row;
    uint64_t aside;
    int got;
    *stats = (struct result_merge_stats){0};
    printf("items %lu json %d\n", opts->n_items, opts->results_are_json);
    while ((got = opts->next_range(opts->context, &row, err)) > 0)
        printf("%lu+%lu %s @%lu+%lu\n", row.first, row.count, path_basename(row.part_path),
               row.offset, row.bytes);
    if (got < 0)
        return got;
    while ((got = opts->next_failed_item(opts->context, &aside, err)) > 0)
        printf("aside %lu\n", aside);
    return got;
}

static bool opt_is_set(void *request, const struct cmd *cmd, const char *name, const char *value)
{
    for (const struct opt *opt = cmd->opts; opt->kind != OPT_END; opt++) {
        if (opt->kind == OPT_HEADING || strcmp(opt->name, name) != 0)
            continue;
        if (opt->kind == OPT_FLAG)
            *(bool *)((char *)request + opt->offset) = true;
        else if (opt->kind == OPT_TEXT || opt->kind == OPT_PATH)
            *(const char **)((char *)request + opt->offset) = value;
        else
            *(uint64_t *)((char *)request + opt->offset) = strtoull(value, NULL, 10);
        return true;
    }
    return false;
}

static int stdout_fd_catch(const char *path)
{
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    close(fd);
    return before;
}

/*
 * Run a verb in the runs folder `root`. words: options as "--name" or "--name=value", then
 * operands. What it printed is added to out. Returns its status or error code.
 */
static int verb(const struct cmd *cmd, const char *root, const char *const *words, struct buf *out,
                struct err *err)
{
    struct app app = {.log = LOG_INIT, .quiet = true};
    cleanup_free void *request = xcalloc(1, cmd->request_size);
    char *operands[8] = {0};
    int n_operands = 0;
    if (cmd->defaults)
        cmd->defaults(request);
    assert_true(opt_is_set(request, cmd, "runs-dir", root));
    for (; *words; words++) {
        cleanup_free char *word = xstrdup(*words);
        char *equals = strchr(word, '=');
        if (strncmp(word, "--", 2) != 0) {
            operands[n_operands++] = (char *)(uintptr_t)*words;
            continue;
        }
        if (equals)
            *equals = '\0';
        if (!opt_is_set(request, cmd, word + 2, equals ? strchr(*words, '=') + 1 : NULL))
            fail_msg("%s has no option %s", cmd->name, word);
    }
    cleanup_free char *path = path_join(root, ".stdout");
    int before = stdout_fd_catch(path);
    int rc = cmd->run(&app, request, n_operands, operands, NULL, err);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    assert_int_equal(file_read(path, 1 << 24, out, NULL), 0);
    return rc;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS   ((const char *const[]){NULL})

static void put_file(const char *dir, const char *name, const char *content)
{
    cleanup_free char *path = path_join(dir, name);
    assert_int_equal(file_replace_fast(path, str_of(content), NULL), 0);
}

/* A run with 7 of 10 items done and one set aside, which ended as `fact` says (NULL: kill -9). */
static char *make_run(const char *root, const char *name, const char *fact)
{
    char *dir = path_join(root, name);
    struct store *store = NULL;
    struct err err = {0};
    const char *const argv[] = {"muster", "map", NULL};
    const struct manifest manifest = {.verb = "map",
                                      .argv = argv,
                                      .cwd = "/",
                                      .output = "/data/out.jsonl",
                                      .started_wall_ms = 1769846887123};
    const struct range_row rows[] = {{.first = 4, .count = 3, .part = 2, .offset = 5, .bytes = 30},
                                     {.first = 0, .count = 4, .part = 1, .bytes = 40}};
    const struct failed_item_row aside = {.item = 9, .reason = "bad"};
    const struct store_batch batch = {
        .ranges = rows, .n_ranges = 2, .failed_items = &aside, .n_failed_items = 1};
    const struct worker_status worker = {"gpu 0", "busy", 7, 2.5, 1ull << 30, "thinking"};
    const struct run_status status = {.verb = "map",
                                      .state = "running",
                                      .pid = 99999,
                                      .host = "old",
                                      .rate = 3,
                                      .eta_ms = 245000,
                                      .running = 2,
                                      .workers = &worker,
                                      .n_workers = 1};
    if (store_open(&store, dir, STORE_CREATE, &err) != 0 ||
        manifest_write(dir, &manifest, &err) != 0 || status_write(dir, &status, &err) != 0 ||
        store_commit(store, &batch, &err) != 0 || store_set(store, "items", "10", &err) != 0 ||
        store_set(store, "results_json", "1", &err) != 0 ||
        (fact && store_set(store, "state", fact, &err) != 0))
        fail_msg("%s", err.text);
    store_close(store);
    return dir;
}

static void expect_text(const struct buf *out, const char *expected)
{
    if (!strstr(buf_text(out), expected))
        fail_msg("expected '%s' in:\n%s", expected, buf_text(out));
}

static void ls_shows_every_run_with_its_state(void **state)
{
    free(make_run(*state, "20260131_090807-map", "finished"));
    free(make_run(*state, "20260201_090807-map", NULL));
    cleanup_buf struct buf out = BUF_INIT, json = BUF_INIT, last = BUF_INIT;
    struct err err = {0};
    assert_int_equal(verb(&cmd_ls, *state, NO_WORDS, &out, &err), 0);
    expect_text(&out, "20260131_090807-map           finished     7/10 (1 aside)");
    expect_text(&out, "20260201_090807-map           interrupted  7/10 (1 aside)");
    assert_true(strstr(buf_text(&out), "20260201") < strstr(buf_text(&out), "20260131"));
    assert_int_equal(verb(&cmd_ls, *state, WORDS("--json"), &json, &err), 0);
    struct str rest = buf_str(&json), line;
    size_t n_lines = 0;
    while (str_next(&rest, '\n', &line) && line.len) {
        assert_true(json_is_object(line));
        n_lines++;
    }
    assert_int_equal(n_lines, 2);
    expect_text(&json, "\"state\":\"interrupted\",\"items\":10,\"done\":7,\"aside\":1");
    assert_int_equal(verb(&cmd_ls, *state, WORDS("--last=1", "--json"), &last, &err), 0);
    assert_null(strstr(buf_text(&last), "20260131"));
    assert_int_equal(verb(&cmd_ls, *state, WORDS("x"), &last, &err), ERR_USAGE);
}

static void status_does_not_believe_a_dead_muster(void **state)
{
    free(make_run(*state, "20260131_090807-map", NULL));
    cleanup_buf struct buf out = BUF_INIT, json = BUF_INIT;
    struct err err = {0};
    struct str value;
    assert_int_equal(verb(&cmd_status, *state, NO_WORDS, &out, &err), 0);
    expect_text(&out, "state     interrupted\n");
    expect_text(&out, "7 of 10 items (70.0 %), 1 set aside\n");
    expect_text(&out, "muster resume /"); /* its name alone would be looked for in muster-runs */
    expect_text(&out, "/20260131_090807-map\n");
    assert_null(strstr(buf_text(&out), "99999"));
    assert_int_equal(verb(&cmd_status, *state, WORDS("--json", "2026"), &json, &err), 0);
    assert_true(json_get(str_trim(buf_str(&json)), "state", &value) &&
                str_equal(value, STR("\"interrupted\"")));
    assert_true(json_get(str_trim(buf_str(&json)), "pid", &value) && str_equal(value, STR("0")));
    assert_true(json_get(str_trim(buf_str(&json)), "done", &value) && str_equal(value, STR("7")));
    assert_int_equal(verb(&cmd_status, *state, WORDS("1999"), &out, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "no run '1999'"));
}

static void status_shows_the_workers_of_a_run_that_goes_on(void **state)
{
    cleanup_free char *dir = make_run(*state, "20260131_090807-map", "stopped");
    struct store *store = NULL;
    assert_int_equal(store_open(&store, dir, STORE_RESUME, NULL), 0);
    cleanup_buf struct buf out = BUF_INIT;
    assert_int_equal(verb(&cmd_status, *state, NO_WORDS, &out, NULL), 0);
    cleanup_free char *who = xasprintf("state     running (pid %d on ", (int)getpid());
    expect_text(&out, who);
    expect_text(&out, "3 items/s, about 4 m 05 s left");
    expect_text(&out, "gpu 0         busy");
    expect_text(&out, "1.0 GiB  thinking");
    assert_null(strstr(buf_text(&out), "muster resume"));
    store_close(store);
}

static void watching_a_run_that_has_ended_ends(void **state)
{
    free(make_run(*state, "20260131_090807-map", "finished"));
    cleanup_buf struct buf out = BUF_INIT;
    assert_int_equal(verb(&cmd_status, *state, WORDS("--watch"), &out, NULL), 0);
    assert_string_equal(buf_text(&out),
                        "20260131_090807-map finished: 7 of 10 items (70.0 %), 1 set aside\n");
}

static void logs_are_printed_with_the_name_of_their_worker(void **state)
{
    cleanup_free char *dir = make_run(*state, "20260131_090807-map", NULL);
    put_file(dir, "logs/gpu_0_stdout.log.1", "rotated\n");
    put_file(dir, "logs/gpu_0_stdout.log", "one\n 10%\r 90%\r100%\nlast");
    put_file(dir, "logs/gpu_0_stderr.log", "");
    put_file(dir, "logs/gpu_10_stderr.log", "ten\n");
    put_file(dir, "logs/gpu_10_stdout.log", "");
    put_file(dir, "logs/gpu_2_w1_stderr.log", "windows\r\n");
    put_file(dir, "logs/notes.txt", "no log");
    put_file(dir, "orchestrator.log", "muster's own\n");
    static const struct {
        const char *words[4];
        int rc;
        const char *printed;
    } cases[] = {
        {{NULL},
         0,
         "[gpu 0] rotated\n[gpu 0] one\n[gpu 0] 100%\n[gpu 0] last\n"
         "[gpu 2 w1] windows\n[gpu 10] ten\n"},
        {{"--stderr"}, 0, "[gpu 2 w1] windows\n[gpu 10] ten\n"},
        {{"--follow", "--stderr"}, 0, "[gpu 2 w1] windows\n[gpu 10] ten\n"},
        {{"latest", "gpu_10"}, 0, "[gpu 10] ten\n"},
        {{"latest", "gpu 10", "2_w1"}, 0, "[gpu 2 w1] windows\n[gpu 10] ten\n"},
        {{"10"}, 0, "[gpu 10] ten\n"},
        {{"--orchestrator"}, 0, "muster's own\n"},
        {{"latest", "gpu_1"}, ERR_USAGE, ""},
        {{"gpu_1"}, ERR_USAGE, ""},
        {{"--orchestrator", "latest", "gpu_0"}, ERR_USAGE, ""},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_buf struct buf out = BUF_INIT;
        struct err err = {0};
        int rc = verb(&cmd_logs, *state, cases[i].words, &out, &err);
        if (rc != cases[i].rc || strcmp(buf_text(&out), cases[i].printed) != 0)
            fail_msg("case %zu: %d %s\n%s", i, rc, err.text, buf_text(&out));
    }
    struct err err = {0};
    cleanup_buf struct buf out = BUF_INIT;
    assert_int_equal(verb(&cmd_logs, *state, WORDS("latest", "gpu_1"), &out, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "there are gpu_0, gpu_2_w1, gpu_10"));
}

static void a_rotated_log_is_read_to_its_end_before_the_new_one(void **state)
{
    cleanup_free char *path = path_join(*state, "gpu_0_stdout.log");
    cleanup_free char *aside = path_join(*state, "gpu_0_stdout.log.1");
    cleanup_buf struct buf out = BUF_INIT;
    struct tail tail;
    tail_init(&tail, path, "> ");
    assert_false(tail_read(&tail, &out)); /* it is not there yet */
    FILE *log = fopen(path, "we");
    assert_non_null(log);
    fputs("one\nhal", log);
    fflush(log);
    assert_false(tail_read(&tail, &out));
    assert_string_equal(buf_text(&out), "> one\n");
    fputs("f\nlast of the old\n", log);
    fclose(log);
    assert_int_equal(rename(path, aside), 0);
    put_file(*state, "gpu_0_stdout.log", "new\nopen end");
    assert_false(tail_read(&tail, &out));
    assert_string_equal(buf_text(&out), "> one\n> half\n> last of the old\n> new\n");
    tail_finish(&tail, &out);
    assert_true(str_ends_with(buf_str(&out), STR("> new\n> open end\n")));
    tail_release(&tail);
}

/* A muster that goes on until its run is asked to stop; then it writes its last line and ends. */
static void child_that_stops_when_asked(const char *dir, int ready_fd)
{
    struct store *store = NULL;
    sigset_t looked_for;
    sigemptyset(&looked_for);
    sigaddset(&looked_for, SIGUSR1);
    sigprocmask(SIG_BLOCK, &looked_for, NULL);
    alarm(20);
    int signal_number;
    if (store_open(&store, dir, STORE_RESUME, NULL) != 0 || write(ready_fd, "x", 1) != 1 ||
        sigwait(&looked_for, &signal_number) != 0)
        _exit(9);
    put_file(dir, "logs/gpu_0_stdout.log", "before\nafter\n");
    put_file(dir, "logs/gpu_1_stdout.log", "late worker\n");
    store_close(store);
    _exit(0);
}

static pid_t start_muster(const char *dir)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0)
        child_that_stops_when_asked(dir, ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void stop_waits_until_the_run_has_ended(void **state)
{
    SKIP_UNDER_VALGRIND();
    cleanup_free char *dir = make_run(*state, "20260131_090807-map", NULL);
    cleanup_buf struct buf out = BUF_INIT;
    struct err err = {0};
    assert_int_equal(verb(&cmd_stop, *state, NO_WORDS, &out, &err),
                     0); /* nothing goes on: no harm */
    pid_t child = start_muster(dir);
    assert_int_equal(verb(&cmd_stop, *state, WORDS("latest"), &out, &err), 0);
    assert_false(run_is_locked(dir, NULL));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(verb(&cmd_stop, *state, WORDS("latest", "more"), &out, &err), ERR_USAGE);
}

static void a_stop_that_takes_too_long_says_so(void **state)
{
    cleanup_free char *dir = make_run(*state, "20260131_090807-map", NULL);
    pid_t child = start_muster(dir);
    cleanup_free char *lock = path_join(dir, "lock");
    /* Held by somebody whom no signal reaches: only the file can ask. */
    int fd = open(lock, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 0), 0);
    close(fd);
    cleanup_buf struct buf out = BUF_INIT;
    struct err err = {0};
    assert_int_equal(verb(&cmd_stop, *state, WORDS("--limit=1"), &out, &err), ERR_TIMEOUT);
    assert_non_null(strstr(err.text, "--now"));
    assert_int_equal(verb(&cmd_stop, *state, WORDS("--no-wait", "--now"), &out, &err), 0);
    enum stop_how how = STOP_DRAIN;
    assert_true(run_stop_asked(dir, &how));
    assert_int_equal(how, STOP_NOW);
    kill(child, SIGUSR1);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void following_ends_with_the_run_and_misses_nothing(void **state)
{
    cleanup_free char *dir = make_run(*state, "20260131_090807-map", NULL);
    put_file(dir, "logs/gpu_0_stdout.log", "before\n");
    pid_t child = start_muster(dir);
    kill(child, SIGUSR1); /* it writes, rotating by rename, and ends while we follow */
    cleanup_buf struct buf out = BUF_INIT;
    assert_int_equal(verb(&cmd_logs, *state, WORDS("--follow"), &out, NULL), 0);
    expect_text(&out, "[gpu 0] before\n");
    expect_text(&out, "[gpu 0] after\n");
    expect_text(&out, "[gpu 1] late worker\n");
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void results_come_from_the_ledger_in_order(void **state)
{
    free(make_run(*state, "20260131_090807-map", NULL));
    cleanup_buf struct buf out = BUF_INIT, committed = BUF_INIT;
    struct err err = {0};
    assert_int_equal(verb(&cmd_results, *state, NO_WORDS, &out, &err), 0);
    assert_string_equal(buf_text(&out),
                        "items 10 json 1\n0+4 1.part @0+40\n4+3 2.part @5+30\naside 9\n");
    assert_int_equal(verb(&cmd_results, *state, WORDS("--as-committed"), &committed, &err), 0);
    assert_string_equal(buf_text(&committed),
                        "items 10 json 1\n4+3 2.part @5+30\n0+4 1.part @0+40\naside 9\n");
    assert_int_equal(verb(&cmd_results, *state, WORDS("nonsense"), &out, &err), ERR_USAGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_setup, temp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ls_shows_every_run_with_its_state),
        TEST(status_does_not_believe_a_dead_muster),
        TEST(status_shows_the_workers_of_a_run_that_goes_on),
        TEST(watching_a_run_that_has_ended_ends),
        TEST(logs_are_printed_with_the_name_of_their_worker),
        TEST(a_rotated_log_is_read_to_its_end_before_the_new_one),
        TEST(stop_waits_until_the_run_has_ended),
        TEST(a_stop_that_takes_too_long_says_so),
        TEST(following_ends_with_the_run_and_misses_nothing),
        TEST(results_come_from_the_ledger_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
