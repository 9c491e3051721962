/* SPDX-License-Identifier: Apache-2.0
 *
 * Submissions of several jobs: arrays, stages, and which of the jobs tells how the run is.
 */
#include "unit/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "store/submission.h"
#include "submit/stage.h"
#include "submit/tasks.h"

static void the_tasks_of_an_array_are_counted_from_zero(void **state)
{
    (void)state;
    static const struct {
        const char *text, *indexes; /* NULL: refused */
    } rows[] = {{"1", "0-0"},         {"16", "0-15"}, {"16%4", "0-15%4"}, {"0-15", "0-15"},
                {"0-15%2", "0-15%2"}, {"0-0", "0-0"}, {"0", NULL},        {"", NULL},
                {"x", NULL},          {"16%", NULL},  {"16%0", NULL},     {"1-15", NULL},
                {"0-15:2", NULL},     {"1,3", NULL},  {"%4", NULL},       {"100001", NULL}};
    for (size_t i = 0; i < countof(rows); i++) {
        uint64_t n_tasks = 0;
        char *indexes = NULL;
        struct err err = {0};
        int rc = tasks_parse(rows[i].text, &n_tasks, &indexes, &err);
        if (rc != (rows[i].indexes ? 0 : ERR_USAGE))
            fail_msg("'%s': %d", rows[i].text, rc);
        if (rows[i].indexes)
            assert_string_equal(indexes, rows[i].indexes);
        free(indexes);
    }
}

/* A folder of a run counts as ended by its state alone; here none has one. */
static void tasks_without_a_run_are_left_in_ranges(void **state)
{
    (void)state;
    char dir[] = "/tmp/muster-tasks-XXXXXX";
    cleanup_buf struct buf left = BUF_INIT;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(tasks_left(dir, 5, &left), 5);
    assert_string_equal(buf_text(&left), "0-4");
    buf_reset(&left);
    assert_int_equal(tasks_left(dir, 1, &left), 1);
    assert_string_equal(buf_text(&left), "0");
    assert_int_equal(remove_tree(dir, NULL), 0);
}

static void a_stage_has_the_common_options_that_it_does_not_say_itself(void **state)
{
    (void)state;
    static const char *const words[] = {"--partition=gpu", "--time=10", "--exclusive", NULL};
    struct env_list common = {0};
    struct stage stage;
    struct err err = {0};
    cleanup_buf struct buf found = BUF_INIT;
    env_list_add_words(&common, words);
    assert_int_equal(
        stage_parse("train: -t 20 --gpus 8 -- python 'a b.py' --time 3", &common, &stage, &err), 0);
    for (size_t i = 0; i < stage.options.len; i++)
        buf_addf(&found, "%s ", stage.options.at[i]);
    for (int i = 0; i < stage.argc; i++)
        buf_addf(&found, "[%s]", stage.argv[i]);
    assert_string_equal(stage.name, "train");
    assert_string_equal(buf_text(&found), "--partition=gpu --exclusive --time=20 --gpus=8 "
                                          "[python][a b.py][--time][3]");
    stage_release(&stage);
    env_list_release(&common);
}

static void what_is_no_stage_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",   "a",      ": -- x",   "a b: -- x",          "../a: -- x", "job: -- x", "tasks: -- x",
        "a:", "a: -- ", "-a: -- x", "a: --nonsense -- x", "a: -- 'x",   "a/b: -- x"};
    const struct env_list none = {0};
    for (size_t i = 0; i < countof(texts); i++) {
        struct stage stage;
        struct err err = {0};
        if (stage_parse(texts[i], &none, &stage, &err) != ERR_USAGE)
            fail_msg("'%s' is taken for a stage", texts[i]);
        stage_release(&stage);
    }
}

static uint64_t last_of(const char *text, uint64_t *n_again)
{
    struct submission submission;
    submission_parse(str_of(text), &submission);
    const struct submitted_job *last = submission_last(&submission);
    uint64_t id = last ? last->id : 0;
    *n_again = submission_count_again(&submission, NULL);
    submission_release(&submission);
    return id;
}

static void a_line_that_was_cut_off_does_not_take_the_next_one_with_it(void **state)
{
    (void)state;
    struct submission submission;
    struct err err = {0};
    char dir[] = "/tmp/test-jobs-XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *path = path_join(dir, "jobs.jsonl");
    const struct job_record first = {.event = JOB_SUBMITTED, .job = 7, .verb = "map"};
    const struct job_record second = {.event = JOB_CANCELLED, .job = 7};
    assert_int_equal(submission_add(dir, &first, &err), 0);
    cleanup_fd int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "{\"at\":1,\"job\":7,\"ev", 20), 20);
    assert_int_equal(submission_add(dir, &second, &err), 0);
    assert_int_equal(submission_read(dir, &submission, &err), 0);
    assert_int_equal(submission.n_jobs, 1);
    assert_int_equal(submission.jobs[0].event, JOB_CANCELLED);
    submission_release(&submission);
    assert_int_equal(remove_tree(dir, &err), 0);
}

#define STAGES                                                                 \
    "{\"job\":5,\"event\":\"submitted\",\"verb\":\"stages\",\"role\":\"a\"}\n" \
    "{\"job\":6,\"event\":\"submitted\",\"verb\":\"stages\",\"role\":\"b\"}\n"
#define TASKS                                                                   \
    "{\"job\":5,\"event\":\"submitted\",\"verb\":\"map\",\"role\":\"tasks\"}\n" \
    "{\"job\":6,\"event\":\"submitted\",\"verb\":\"map\"}\n"

static void the_first_stage_that_has_not_ended_well_tells_how_the_run_is(void **state)
{
    (void)state;
    uint64_t n_again;
    assert_int_equal(last_of(STAGES, &n_again), 5);
    assert_int_equal(last_of(STAGES "{\"job\":5,\"event\":\"started\"}\n", &n_again), 5);
    assert_int_equal(last_of(STAGES "{\"job\":5,\"event\":\"ended\",\"status\":0}\n", &n_again), 6);
    assert_int_equal(last_of(STAGES "{\"job\":5,\"event\":\"ended\",\"status\":3}\n", &n_again), 5);
    assert_int_equal(last_of(STAGES "{\"job\":5,\"event\":\"ended\",\"status\":0}\n"
                                    "{\"job\":6,\"event\":\"ended\",\"status\":0}\n",
                             &n_again),
                     6);
    assert_int_equal(n_again, 0);
}

static void the_job_behind_an_array_tells_how_the_run_is(void **state)
{
    (void)state;
    uint64_t n_again;
    assert_int_equal(last_of(TASKS, &n_again), 6);
    assert_int_equal(n_again, 0);
    assert_int_equal(
        last_of(TASKS "{\"job\":7,\"event\":\"submitted\",\"role\":\"tasks\"}\n", &n_again), 7);
    assert_int_equal(last_of(TASKS "{\"job\":7,\"event\":\"submitted\",\"role\":\"tasks\"}\n"
                                   "{\"job\":8,\"event\":\"submitted\"}\n",
                             &n_again),
                     8);
    assert_int_equal(n_again, 1);
}

#define TASKS_AGAIN                             \
    TASKS "{\"job\":6,\"event\":\"started\"}\n" \
          "{\"job\":7,\"event\":\"submitted\",\"role\":\"tasks\"}\n"
#define GAVE_UP "{\"job\":6,\"event\":\"ended\",\"status\":69,\"why\":\"no sbatch\"}\n"

static void an_array_behind_which_nothing_comes_is_not_the_last_job(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        uint64_t last;
    } rows[] = {
        {TASKS_AGAIN, 7}, /* the job behind it is about to come */
        {TASKS_AGAIN GAVE_UP, 6},
        {TASKS_AGAIN "{\"job\":7,\"event\":\"cancelled\"}\n" GAVE_UP, 6},
        {TASKS_AGAIN GAVE_UP "{\"job\":8,\"event\":\"started\"}\n", 8}, /* the user goes on */
        {TASKS GAVE_UP "{\"job\":7,\"event\":\"submitted\",\"verb\":\"map\",\"role\":\"tasks\"}\n",
         7}, /* of the user */
    };
    for (size_t i = 0; i < countof(rows); i++) {
        uint64_t n_again, last = last_of(rows[i].lines, &n_again);
        if (last != rows[i].last)
            fail_msg("row %zu: job %lu is the last, not %lu", i, last, rows[i].last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tasks_of_an_array_are_counted_from_zero),
        cmocka_unit_test(tasks_without_a_run_are_left_in_ranges),
        cmocka_unit_test(a_stage_has_the_common_options_that_it_does_not_say_itself),
        cmocka_unit_test(what_is_no_stage_is_refused),
        cmocka_unit_test(a_line_that_was_cut_off_does_not_take_the_next_one_with_it),
        cmocka_unit_test(the_first_stage_that_has_not_ended_well_tells_how_the_run_is),
        cmocka_unit_test(the_job_behind_an_array_tells_how_the_run_is),
        cmocka_unit_test(an_array_behind_which_nothing_comes_is_not_the_last_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
