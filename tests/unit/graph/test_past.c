/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session makes of the rows that sessions before it left: which jobs are done, and which run again.
 */
#include "../store/temp.h"
#include "../test.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "graph/graph_impl.h"

/* "a" leaves the file a and reads in; "b" needs it and leaves b; "c" needs b and leaves nothing. */
static const char *const argv[] = {"true", NULL}, *const inputs[] = {"in", NULL};
static const uint32_t need_a[] = {0}, need_b[] = {1};
static const struct plan_out out_a = {"a"}, out_b = {"b"};
static const struct plan_job usual[] = {
    {.name = "a", .argv = argv, .inputs = inputs, .outs = &out_a, .n_outs = 1},
    {.name = "b", .argv = argv, .needs = need_a, .n_needs = 1, .outs = &out_b, .n_outs = 1},
    {.name = "c", .argv = argv, .needs = need_b, .n_needs = 1},
};

struct session {
    struct plan_job jobs[3];
    struct plan plan;
    struct graph_request request;
    struct log log;
    struct graph graph;
    struct graph_job states[3];
    struct err err;
    int rc;
};

static void put(const char *dir, const char *name, const char *text)
{
    cleanup_free char *path = path_join(dir, name);
    assert_int_equal(file_replace_fast(path, str_of(text), NULL), 0);
}

/* The session's folder is that of its files. */
static void open_session(struct session *s, char *dir, enum store_mode mode)
{
    *s = (struct session){.log = LOG_INIT};
    memcpy(s->jobs, usual, sizeof(usual));
    s->log.console_quiet = true;
    s->plan = (struct plan){.jobs = s->jobs, .n_jobs = 3};
    s->graph = (struct graph){.request = &s->request,
                              .plan = &s->plan,
                              .shell = shell_new(&(struct shell_setup){.log = &s->log}),
                              .jobs = s->states,
                              .n_jobs = 3,
                              .is_resumed = mode == STORE_RESUME,
                              .cwd = dir};
    for (uint32_t i = 0; i < 3; i++)
        s->states[i].plan = &s->jobs[i];
    assert_int_equal(plan_index(&s->plan, NULL), 0);
    shell_folder_name(s->graph.shell, xstrdup(dir));
    assert_int_equal(shell_store_open(s->graph.shell, mode, NULL), 0);
    assert_int_equal(store_jobs_begin(shell_store(s->graph.shell), NULL), 0);
    record_open(&s->graph);
}

static void close_session(struct session *s)
{
    record_flush(&s->graph);
    record_close(&s->graph);
    learned_close(&s->graph);
    shell_store_close(s->graph.shell);
    shell_free(s->graph.shell);
    for (size_t i = 0; i < countof(s->states); i++)
        free(s->states[i].left);
    buf_release(&s->graph.stale);
    s->plan.jobs = NULL;
    s->plan.n_jobs = 0;
    plan_release(&s->plan);
}

static void job_is_done(struct session *s, uint32_t job)
{
    struct process process = {.graph = &s->graph, .job = job, .attempt = 1, .started_wall_ms = 1};
    job_proof_take(&(struct proof_ask){.job = &s->jobs[job], .cwd = s->graph.cwd}, &process.proof);
    assert_int_equal(process.proof.why.code, 0);
    s->states[job].outs_digest = job_proof_digest(&process.proof);
    s->states[job].needs_digest = needs_digest(&s->graph, &s->states[job]);
    record_job(&s->graph, job, JOB_DONE, &process);
    job_proof_release(&process.proof);
}

/* A first session, which did `n_done` of the jobs. */
static void first_session(char *dir, uint32_t n_done)
{
    struct session s;
    put(dir, "in", "i");
    open_session(&s, dir, STORE_CREATE);
    for (uint32_t i = 0; i < n_done; i++) {
        if (i < 2)
            put(dir, usual[i].name, usual[i].name);
        job_is_done(&s, i);
    }
    close_session(&s);
}

static void expect(const struct session *s, uint32_t job, bool runs, const char *why)
{
    bool is_done = s->states[job].was_done && !s->states[job].is_stale;
    if (is_done == runs || (why && !strstr(buf_text(&s->graph.stale), why)))
        fail_msg("%s %s: %s", s->jobs[job].name, is_done ? "is done" : "runs",
                 buf_text(&s->graph.stale));
}

static void what_is_done_and_as_it_was_stays_done(void **state)
{
    struct session s;
    first_session(*state, 3);
    open_session(&s, *state, STORE_RESUME);
    assert_int_equal(past_take(&s.graph, &s.err), 0);
    for (uint32_t i = 0; i < 3; i++)
        expect(&s, i, false, NULL);
    assert_int_equal(s.graph.stale.len, 0);
    cleanup_free char *path = path_join(*state, "a");
    assert_true(mark_is_untouched(s.states[0].left, path));
    assert_true(s.states[0].left && s.states[1].left && !s.states[2].left);
    close_session(&s);
}

static enum job_state row_state(const struct session *s, const char *name)
{
    struct row_reader *reader;
    struct job_row row;
    int found = -1;
    assert_int_equal(job_reader_open(&reader, shell_store(s->graph.shell), NULL), 0);
    while (job_reader_next(reader, &row, NULL) == 1)
        found = strcmp(row.name, name) == 0 ? (int)row.state : found;
    row_reader_close(reader);
    assert_true(found >= 0);
    return (enum job_state)found;
}

/* b is another job, and c is not in the file; then both are as they were. */
static void rows_say_what_jobs_are_in_the_graph_as_it_is(void **state)
{
    static const char *const other_argv[] = {"false", NULL};
    struct session s;
    first_session(*state, 3);
    for (int is_edited = 1; is_edited >= 0; is_edited--) {
        open_session(&s, *state, STORE_RESUME);
        s.jobs[1].argv = is_edited ? other_argv : argv;
        s.plan.n_jobs = s.graph.n_jobs = is_edited ? 2 : 3;
        assert_int_equal(past_take(&s.graph, &s.err), 0);
        record_flush(&s.graph);
        expect(&s, 1, is_edited, NULL);
        assert_int_equal(row_state(&s, "a"), JOB_DONE);
        assert_int_equal(row_state(&s, "b"), is_edited ? JOB_AGAIN : JOB_DONE);
        assert_int_equal(row_state(&s, "c"), is_edited ? JOB_DROPPED : JOB_DONE);
        close_session(&s);
    }
}

/* Changes one thing, and tells which jobs run again. */
struct change {
    const char *put, *gone, *redo;
    bool other_argv, other_env, other_outs;
    uint32_t first; /* the job that runs again, with all that need it; 3: none */
    const char *why;
};

static void change_do(struct session *s, const char *dir, const struct change *change)
{
    static const char *const other_argv[] = {"false", NULL}, *const other_env[] = {"A=1", NULL};
    static const struct plan_out counted = {"b", .count_min = 1};
    cleanup_free char *gone = change->gone ? path_join(dir, change->gone) : NULL;
    if (change->put)
        put(dir, change->put, "other");
    if (gone)
        assert_int_equal(unlink(gone), 0);
    if (change->redo)
        s->request.redo = (struct texts){(const char **)(uintptr_t)&change->redo, 1};
    s->jobs[1].argv = change->other_argv ? other_argv : argv;
    s->jobs[1].env = change->other_env ? other_env : NULL;
    s->jobs[1].outs = change->other_outs ? &counted : &out_b;
}

static void what_changed_runs_again_with_its_followers(void **state)
{
    static const struct change rows[] = {
        {.put = "in", .first = 0, .why = "in, which it reads, changed"},
        {.gone = "in", .first = 0, .why = "in, which it reads, is gone"},
        {.put = "a", .first = 0, .why = "a, which it left, changed"},
        {.gone = "a", .first = 0, .why = "a, which it left, is gone"},
        {.put = "b", .first = 1, .why = "b, which it left, changed"},
        {.other_argv = true, .first = 1, .why = "b runs again: its command changed"},
        {.other_env = true, .first = 1, .why = "b runs again: its environment changed"},
        {.other_outs = true, .first = 1, .why = "b runs again: what it reads or leaves is another"},
        {.redo = "b", .first = 1, .why = "c runs again: it needs b, which runs again"},
        {.redo = "c", .first = 2, .why = "--redo names it"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct session s;
        cleanup_free char *dir = xasprintf("%s/%zu", (char *)*state, i);
        assert_int_equal(mkdir_parents(dir, 0777, NULL), 0);
        first_session(dir, 3);
        open_session(&s, dir, STORE_RESUME);
        change_do(&s, dir, &rows[i]);
        assert_int_equal(past_take(&s.graph, &s.err), 0);
        for (uint32_t job = 0; job < 3; job++)
            expect(&s, job, job >= rows[i].first, rows[i].why);
        close_session(&s);
    }
}

/* A file at the place of b: one of somebody else, or what an attempt left that was killed. */
static void half_a_file_is_not_adopted(void **state)
{
    for (int has_begun = 0; has_begun < 2; has_begun++)
        for (int adopts = 0; adopts < 2; adopts++) {
            struct session s;
            cleanup_free char *dir = xasprintf("%s/%d%d", (char *)*state, has_begun, adopts);
            assert_int_equal(mkdir_parents(dir, 0777, NULL), 0);
            first_session(dir, 1);
            put(dir, "b", "half");
            open_session(&s, dir, STORE_RESUME);
            if (has_begun) {
                struct process process = {.graph = &s.graph, .job = 1, .attempt = 1};
                assert_int_equal(record_begun(&s.graph, &process, NULL), 0);
            }
            s.request.adopts = adopts;
            s.rc = past_take(&s.graph, &s.err);
            assert_int_equal(s.rc, has_begun || adopts ? 0 : ERR_USAGE);
            if (s.rc == 0)
                expect(&s, 1, has_begun, NULL);
            else
                assert_non_null(strstr(s.err.text, "b is there, and no run of this graph"));
            close_session(&s);
        }
}

/* Rows that somebody forged, or that another version wrote: none of their jobs is done. */
static void rows_that_make_no_sense_do_nothing(void **state)
{
    const struct graph_request request = {0};
    const struct graph graph = {.request = &request};
    cleanup_free char *definition = definition_new(&graph, &usual[1]);
    cleanup_free char *deep = xmalloc(100001), *huge = xmalloc(1 << 20);
    memset(deep, '[', 100000);
    deep[100000] = '\0';
    snprintf(huge, 1 << 20, "[{\"path\":\"%0*d\"}]", (1 << 20) - 32, 0);
    const struct job_row rows[] = {
        {.name = "nobody", .state = JOB_DONE},
        {.name = "", .state = JOB_DONE, .proof = "["},
        {.name = "a\nb", .state = JOB_DONE},
        {.name = "a", .state = JOB_DONE},
        {.name = "a", .state = JOB_DONE, .definition = "::", .attempts = UINT32_MAX},
        {.name = "b", .state = JOB_DONE, .definition = definition, .proof = "{}"},
        {.name = "b", .state = JOB_DONE, .definition = definition, .proof = "[{}]"},
        {.name = "b", .state = JOB_DONE, .definition = definition, .proof = deep},
        {.name = "b", .state = JOB_DONE, .definition = definition, .proof = huge},
        {.name = "b", .state = JOB_DONE, .definition = definition, .proof = "[]", .inputs = "x"},
        {.name = "b", .started_wall_ms = INT64_MAX, .attempts = 1},
        {.name = "b",
         .state = JOB_DONE,
         .definition = "x",
         .started_wall_ms = INT64_MIN,
         .ended_wall_ms = INT64_MAX},
        {.name = "b",
         .state = JOB_DONE,
         .definition = definition,
         .started_wall_ms = INT64_MAX,
         .ended_wall_ms = INT64_MIN,
         .proof = "[{\"path\":\"/proc/self/mem\",\"size\":0,\"mtime_ns\":0,\"xxh3\":\"0\"}]"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct session s;
        cleanup_free char *dir = xasprintf("%s/%zu", (char *)*state, i);
        assert_int_equal(mkdir_parents(dir, 0777, NULL), 0);
        first_session(dir, 0);
        open_session(&s, dir, STORE_RESUME);
        assert_int_equal(store_jobs_commit(shell_store(s.graph.shell),
                                           &(struct job_batch){.jobs = &rows[i], .n_jobs = 1},
                                           NULL),
                         0);
        assert_int_equal(past_take(&s.graph, &s.err), 0);
        for (uint32_t job = 0; job < 3; job++)
            expect(&s, job, true, NULL);
        close_session(&s);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_setup, temp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_done_and_as_it_was_stays_done),
        TEST(rows_say_what_jobs_are_in_the_graph_as_it_is),
        TEST(what_changed_runs_again_with_its_followers),
        TEST(half_a_file_is_not_adopted),
        TEST(rows_that_make_no_sense_do_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
