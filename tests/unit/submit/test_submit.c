/* SPDX-License-Identifier: Apache-2.0
 *
 * The decisions of muster submit: the script, whether a job is submitted again, and how a submitted run is.
 */
#include "unit/test.h"

#include "base/attr.h"
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "slurm/sbatch_options.h"
#include "submit/again.h"
#include "submit/look.h"
#include "submit/script.h"
#include "submit/stage.h"

/* ---- the script ---- */

static int script_of(const char *const *typed, const char *tasks, const char *const *words,
                     struct buf *out, struct err *err)
{
    struct env_list list = {0};
    struct sbatch_words options;
    env_list_add_words(&list, typed);
    env_end(&list);
    int rc = sbatch_words_read(NULL, (int)list.len, list.at, &options, err);
    assert_int_equal(rc, 0);
    const struct script_request request = {.program = "/opt/muster",
                                           .run_dir = "/runs/50% of it",
                                           .cwd = "/home/a",
                                           .options = &options.options,
                                           .words = words,
                                           .tasks = tasks,
                                           .n_tasks = tasks ? 4 : 0,
                                           .drain_s = 120,
                                           .again_max = 2};
    rc = script_format(&request, out, err);
    sbatch_words_release(&options);
    env_list_release(&list);
    return rc;
}

static void words_of_any_kind_are_read_back_by_sbatch_and_by_the_shell(void **state)
{
    const char *const typed[] = {
        "--comment=a \"b\" 'c' \\d #e", "-J", "x", "-Q", "-H", "--begin=now+1hour", NULL};
    const char *const words[] = {"launch", "it's", "two\nlines", NULL};
    cleanup_buf struct buf out = BUF_INIT;
    struct err err = {0};
    (void)state;
    assert_int_equal(script_of(typed, NULL, words, &out, &err), 0);
    assert_string_equal(buf_text(&out),
                        "#!/bin/bash\n"
                        "#SBATCH --chdir=/home/a\n"
                        "#SBATCH \"--error=/runs/50%% of it/logs/job_%j_stderr.log\"\n"
                        "#SBATCH \"--output=/runs/50%% of it/logs/job_%j_stdout.log\"\n"
                        "#SBATCH --open-mode=append\n"
                        "#SBATCH --signal=B:USR1@120\n"
                        "#SBATCH --requeue\n"
                        "#SBATCH \"--comment=a \\\"b\\\" 'c' \\\\d #e\"\n"
                        "#SBATCH --job-name=x\n"
                        "exec /opt/muster job --again=2 '/runs/50% of it' launch 'it'\\''s' "
                        "'two\nlines'\n");
}

static void an_option_that_a_script_cannot_have_is_refused(void **state)
{
    const char *const words[] = {"map", NULL};
    static const char *const refused[] = {"--wrap=true",
                                          "--wait",
                                          "--help",
                                          "--comment=a\nb",
                                          "--signal=B:TERM@60",
                                          "--signal=RB:15",
                                          "--signal=B:HUP@60",
                                          "--signal=USR2@60"};
    (void)state;
    for (size_t i = 0; i < countof(refused); i++) {
        const char *const typed[] = {refused[i], NULL};
        cleanup_buf struct buf out = BUF_INIT;
        struct err err = {0};
        if (script_of(typed, NULL, words, &out, &err) != ERR_USAGE)
            fail_msg("%s was accepted", refused[i]);
    }
}

static void
a_signal_that_the_verb_of_a_job_or_of_a_task_takes_for_a_warning_is_handed_on(void **state)
{
    static const struct {
        const char *typed, *of_job, *of_task;
    } cases[] = {
        {"--signal=B:usr2@60", "--signal=B:usr2@60\n", "--signal=B:TERM@60\n"},
        {"--signal=RB:10", "--signal=RB:10\n", "--signal=RB:TERM\n"},
    };
    const char *const words[] = {"map", NULL};
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        const char *const typed[] = {cases[i].typed, NULL};
        cleanup_buf struct buf of_job = BUF_INIT, of_task = BUF_INIT;
        struct err err = {0};
        assert_int_equal(script_of(typed, NULL, words, &of_job, &err), 0);
        assert_int_equal(script_of(typed, "0-3", words, &of_task, &err), 0);
        assert_non_null(strstr(buf_text(&of_job), cases[i].of_job));
        assert_non_null(strstr(buf_text(&of_task), cases[i].of_task));
    }
}

static void a_short_job_is_drained_for_a_quarter_of_its_time_at_most(void **state)
{
    (void)state;
    assert_int_equal(script_drain_s(0), 120);
    assert_int_equal(script_drain_s(60), 15);
    assert_int_equal(script_drain_s(8 * 3600), 120);
    assert_int_equal(script_drain_s(UINT64_MAX), 120);
}

/* ---- going on again ---- */

static void a_job_is_submitted_again_if_its_time_was_over_and_it_has_gained_something(void **state)
{
    const struct {
        struct again_facts facts;
        enum again_verdict verdict;
    } cases[] = {
        {{.status = 0, .again_max = 9}, AGAIN_DONE},
        {{.status = 0, .is_limit_near = true, .again_max = 9}, AGAIN_DONE},
        {{.status = 75, .knows_gain = true, .n_done = 1, .again_max = 9}, AGAIN_GOES_ON},
        {{.status = 75, .knows_gain = true, .n_done = 1, .n_again = 9, .again_max = 9},
         AGAIN_BOUND},
        {{.status = 75, .knows_gain = true, .n_done_before = 1, .n_done = 1, .again_max = 9},
         AGAIN_NO_GAIN},
        {{.status = 75, .knows_gain = true, .n_done = 1}, AGAIN_FORBIDDEN},
        {{.status = 75, .is_stopped = true, .again_max = 9}, AGAIN_STOPPED},
        {{.status = 143, .is_limit_near = true, .again_max = 9}, AGAIN_GOES_ON},
        {{.status = 143, .again_max = 9}, AGAIN_FAILED},
        {{.status = 143, .is_ended = true, .again_max = 9}, AGAIN_CANCELLED},
        {{.status = 75, .is_ended = true, .is_limit_near = true, .is_killed = true, .again_max = 9},
         AGAIN_GOES_ON},
        {{.status = 1, .is_limit_near = true, .again_max = 9}, AGAIN_FAILED},
        {{.status = 1, .is_limit_near = true, .is_ended = true, .again_max = 9}, AGAIN_GOES_ON},
        {{.status = 2, .again_max = 9}, AGAIN_FAILED},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        if (again_judge(&cases[i].facts) != cases[i].verdict)
            fail_msg("case %zu: %s", i, again_why(again_judge(&cases[i].facts)));
    assert_true(again_goes_on(AGAIN_GOES_ON));
    assert_false(again_goes_on(AGAIN_NO_GAIN));
}

/* ---- how a run is ---- */

#define SUBMITTED "{\"at\":1000,\"job\":7,\"event\":\"submitted\",\"verb\":\"map\"}\n"
#define STARTED   "{\"at\":2000,\"job\":7,\"event\":\"started\",\"nodes\":\"n1\",\"restarts\":0}\n"
#define AGAIN     "{\"at\":3000,\"job\":8,\"event\":\"submitted\"}\n"
#define ENDED     "{\"at\":3001,\"job\":7,\"event\":\"ended\",\"status\":75,\"why\":\"time\"}\n"

struct seen {
    const char *lines, *squeue; /* NULL: not asked */
    bool has_ledger;
    enum run_state before, after;
    const char *words, *times;
    bool goes_on;
};

static void look_at(const struct seen *seen)
{
    struct submission submission;
    struct queue_entry entry;
    struct submitted_look look;
    struct run_summary run = {.state = seen->before};
    struct look_facts facts = {.is_asked = seen->squeue, .now_ms = 1000000};
    submission_parse(str_of(seen->lines), &submission);
    const struct submitted_job *job = submission_last(&submission);
    if (seen->squeue && job && queue_find(str_of(seen->squeue), job->id, &entry))
        facts.entry = &entry;
    look_judge(&submission, &facts, seen->has_ledger, &run, &look);
    if (run.state != seen->after || look.goes_on != seen->goes_on)
        fail_msg("%s is %s", look.words, run_state_name(run.state));
    assert_string_equal(look.words ? look.words : "", seen->words);
    assert_string_equal(look.times ? look.times : "", seen->times ? seen->times : "");
    submitted_look_release(&look);
    submission_release(&submission);
    free(run.verb);
}

static void the_state_is_that_of_the_lock_then_of_the_queue_then_of_the_ledger(void **state)
{
    const struct seen cases[] = {
        {"", NULL, true, RUN_STOPPED, RUN_STOPPED, "", NULL, false},
        {SUBMITTED, NULL, false, RUN_INTERRUPTED, RUN_QUEUED, "waits", NULL, true},
        {SUBMITTED, "7|PENDING|Resources|1060|N/A|\n", false, RUN_INTERRUPTED, RUN_QUEUED,
         "waits: the nodes or GPUs that it asks for are in use",
         "Slurm expects it to begin in 60.0 s", true},
        {SUBMITTED STARTED, "7|PENDING|job requeued in held state|1900|NONE|\n", true,
         RUN_INTERRUPTED, RUN_QUEUED, "waits to be started again: it is held: scontrol release",
         NULL, true},
        {SUBMITTED, "7|PENDING|SomethingNew|N/A|N/A|\n", false, RUN_INTERRUPTED, RUN_QUEUED,
         "waits: SomethingNew", NULL, true},
        {SUBMITTED, "7|RUNNING|None|900|1060|n[1-2]\n", false, RUN_INTERRUPTED, RUN_RUNNING,
         "runs on n[1-2]", "for 60.0 s at most", true},
        {SUBMITTED, "7|RUNNING|None|900|31536900|n1|UNLIMITED\n", false, RUN_INTERRUPTED,
         RUN_RUNNING, "runs on n1", NULL, true},
        {SUBMITTED, "7|COMPLETING|None|900|1001|n1|1:00\n", false, RUN_INTERRUPTED, RUN_RUNNING,
         "runs on n1", NULL, true},
        {SUBMITTED, "7|SUSPENDED|None|900|1060|n1|1:00\n", false, RUN_INTERRUPTED, RUN_RUNNING,
         "is suspended on n1", NULL, true},
        {SUBMITTED STARTED, NULL, true, RUN_RUNNING, RUN_RUNNING, "runs on n1", NULL, true},
        {SUBMITTED STARTED, "", true, RUN_RUNNING, RUN_RUNNING, "runs on n1", NULL, true},
        {SUBMITTED STARTED, "7|PENDING|BeginTime|N/A|N/A|\n", true, RUN_INTERRUPTED, RUN_QUEUED,
         "waits to be started again: the time at which it may begin has not come", NULL, true},
        {SUBMITTED STARTED, "7|NODE_FAIL|NodeDown|900|990|n1\n", true, RUN_INTERRUPTED,
         RUN_INTERRUPTED, "is over: a node failed", NULL, false},
        {SUBMITTED, "7|CANCELLED|None|900|990|n1\n", false, RUN_INTERRUPTED, RUN_STOPPED,
         "is over: it was cancelled", NULL, false},
        {SUBMITTED, "7|FAILED|NonZeroExitCode|900|990|n1\n", false, RUN_INTERRUPTED, RUN_FAILED,
         "is over: it failed", NULL, false},
        {SUBMITTED STARTED, "8|RUNNING|None|900|990|n1\n", true, RUN_INTERRUPTED, RUN_INTERRUPTED,
         "is over: Slurm does not know it any more", NULL, false},
        {SUBMITTED STARTED ENDED, "", true, RUN_STOPPED, RUN_STOPPED, "ended with status 75: time",
         NULL, false},
        {SUBMITTED STARTED ENDED, "", false, RUN_INTERRUPTED, RUN_STOPPED,
         "ended with status 75: time", NULL, false},
        {SUBMITTED STARTED AGAIN, "7|RUNNING|None|900|1060|n1\n8|PENDING|Dependency|N/A|N/A|\n",
         true, RUN_RUNNING, RUN_RUNNING, "waits: it begins when the job before it has ended", NULL,
         true},
        {SUBMITTED STARTED AGAIN ENDED, "7|COMPLETED|None|1|2|\n8|PENDING|Dependency|N/A|N/A|\n",
         true, RUN_STOPPED, RUN_QUEUED, "waits: it begins when the job before it has ended", NULL,
         true},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        look_at(&cases[i]);
}

/* scancel moves the end of a job to the present, and leaves its limit; of a suspended job only the end is true. */
static void the_time_of_a_job_is_over_at_its_limit_whatever_ends_it_before(void **state)
{
    static const struct {
        const char *line;
        uint64_t at_s;
    } cases[] = {
        {"7|RUNNING|None|1000|1060|n1|1:00", 1060},
        {"7|RUNNING|None|1000|4000|n1|1:00", 4000},
        {"7|COMPLETING|None|1000|1010|n1|1:00", 1060},
        {"7|CANCELLED|None|1000|1010|n1|1-00:00:30", 1000 + 86400 + 30},
        {"7|COMPLETING|None|1000|1010|n1|UNLIMITED", INT64_MAX},
        {"7|COMPLETING|None|1000|1010|n1|INVALID", 0},
        {"7|COMPLETING|None|1000|1010|n1", 0},
        {"7|PENDING|None|N/A|N/A||1:00", 0},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct queue_entry entry;
        assert_true(queue_find(str_of(cases[i].line), 7, &entry));
        if (queue_time_over_s(&entry) != cases[i].at_s)
            fail_msg("'%s' is over at %lu", cases[i].line, queue_time_over_s(&entry));
    }
}

static void slurm_tells_which_jobs_it_ends_and_which_for_their_limit(void **state)
{
    static const struct {
        const char *line;
        bool is_being_ended, is_at_limit;
    } cases[] = {
        {"7|COMPLETING|TimeLimit|1000|1067|n1|1:00", true, true},
        {"7|COMPLETING|None|1000|1067|n1|1:00", true, false},
        {"7|CANCELLED|None|1000|1067|n1|1:00", true, false},
        {"7|PENDING|BeginTime|N/A|N/A||1:00", true, false}, /* requeued */
        {"7|RUNNING|None|1000|1060|n1|1:00", false, false},
        {"7|SUSPENDED|None|1000|1060|n1|1:00", false, false},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct queue_entry entry;
        assert_true(queue_find(str_of(cases[i].line), 7, &entry));
        assert_int_equal(queue_is_being_ended(&entry), cases[i].is_being_ended);
        assert_int_equal(queue_is_at_limit(&entry), cases[i].is_at_limit);
    }
}

static void a_job_that_waits_for_the_end_of_another_one_alone_is_found(void **state)
{
    static const struct {
        const char *line;
        bool waits;
    } cases[] = {
        {"8|afterany:7(unfulfilled)|/runs/a b|c/job.sh", true},
        {"8|afterany:7|/runs/a b|c/job.sh", true},
        {"8|afterany:71(unfulfilled)|/runs/a b|c/job.sh", false},
        {"8|afterok:7(unfulfilled)|/runs/a b|c/job.sh", false},
        {"8|afterany:7(unfulfilled),afterok:6(unfulfilled)|/runs/a b|c/job.sh", false},
        {"8|(null)|/runs/a b|c/job.sh", false},
    };
    struct queue_waiting waiting;
    struct str lines = STR("no line\n0|(null)|\n");
    (void)state;
    assert_false(queue_waiting_next(&lines, &waiting));
    for (size_t i = 0; i < countof(cases); i++) {
        struct str line = str_of(cases[i].line);
        assert_true(queue_waiting_next(&line, &waiting));
        assert_int_equal(waiting.job, 8);
        assert_true(str_equal(waiting.script, STR("/runs/a b|c/job.sh")));
        assert_int_equal(queue_waits_for_end(&waiting, 7), cases[i].waits);
    }
}

static void lines_that_are_no_records_are_passed_over(void **state)
{
    struct submission submission;
    (void)state;
    /* The second job had begun before the first line about it was written. */
    submission_parse(STR(SUBMITTED "nonsense\n{\"job\":0,\"event\":\"ended\"}\n"
                                   "{\"job\":7,\"event\":\"dance\"}\n"
                                   "{\"job\":8,\"event\":\"started\",\"nodes\":\"n2\"}\n" AGAIN
                                   "{\"at\":4000,\"job\":9,\"event\":\"submitted\"}\n{\"at\":5"),
                     &submission);
    assert_int_equal(submission.n_jobs, 3);
    assert_string_equal(submission.verb, "map");
    assert_int_equal(submission.jobs[1].event, JOB_STARTED);
    assert_string_equal(submission.jobs[1].nodes, "n2");
    assert_int_equal(submission_count_again(&submission, NULL), 2);
    submission_release(&submission);
}

static void a_stage_that_was_submitted_again_stands_in_its_place(void **state)
{
#define STAGE(job, role, verb) \
    "{\"at\":1,\"job\":" job ",\"event\":\"submitted\"," verb "\"role\":\"" role "\"}\n"
#define OF_USER          "\"verb\":\"stages\","
#define END(job, status) "{\"at\":2,\"job\":" job ",\"event\":\"ended\",\"status\":" status "}\n"
    struct submission s;
    (void)state;
    submission_parse(STR(STAGE("1", "a", OF_USER) STAGE("2", "b", OF_USER) STAGE("3", "c", OF_USER)
                             STAGE("4", "a", "") END("1", "75")),
                     &s);
    assert_int_equal(submission_last(&s)->id, 4);
    assert_int_equal(submission_stage_after(&s, "a")->id, 2);
    assert_int_equal(submission_stage_after(&s, "b")->id, 3);
    assert_null(submission_stage_after(&s, "c"));
    assert_null(submission_stage_at(&s, 3));
    assert_int_equal(submission_count_again(&s, "a"), 1);
    assert_int_equal(submission_count_again(&s, "b"), 0);
    assert_int_equal(submission_since_ms(&s, "a"), 1);
    assert_int_equal(submission_since_ms(&s, "b"), 0);
    submission_release(&s);
    submission_parse(STR(STAGE("1", "a", OF_USER) STAGE("2", "b", OF_USER) STAGE("4", "a", "")
                             END("1", "75") END("4", "0") END("2", "0")),
                     &s);
    assert_int_equal(submission_last(&s)->id, 2);
    submission_release(&s);
}

static void what_waits_for_a_job_waits_for_the_next_one_and_for_all_else_as_before(void **state)
{
    static const struct {
        const char *from, *to; /* NULL: it does not wait for job 7 */
    } cases[] = {
        {"afterok:7(unfulfilled)", "afterok:9"},
        {"afterok:7", "afterok:9"},
        {"afterok:7+5(unfulfilled)", "afterok:9"},
        {"afterany:3(unfulfilled),afterok:7(unfulfilled),afterok:71(unfulfilled)",
         "afterany:3,afterok:9,afterok:71"},
        {"afterok:3_*(unfulfilled)?afterok:7(unfulfilled)", "afterok:3_*?afterok:9"},
        {"afterany:7(unfulfilled)", NULL},
        {"afterok:71(unfulfilled)", NULL},
        {"afterok:7_*(unfulfilled)", NULL},
        {"(null)", NULL},
        {"", NULL},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_buf struct buf out = BUF_INIT;
        assert_int_equal(stage_dependency_move(str_of(cases[i].from), 7, 9, &out),
                         cases[i].to != NULL);
        if (cases[i].to)
            assert_string_equal(buf_text(&out), cases[i].to);
    }
}

static void work_has_begun_if_a_job_has_started_since_the_user_submitted_it(void **state)
{
    static const struct {
        const char *lines;
        int64_t since_ms;
    } cases[] = {
        {"", 0},
        {"{\"at\":10,\"job\":7,\"event\":\"submitted\",\"verb\":\"graph\"}\n", 0},
        {"{\"at\":10,\"job\":7,\"event\":\"submitted\",\"verb\":\"graph\"}\n"
         "{\"at\":11,\"job\":7,\"event\":\"started\"}\n",
         10},
        {"{\"at\":10,\"job\":7,\"event\":\"submitted\",\"verb\":\"graph\"}\n"
         "{\"at\":11,\"job\":7,\"event\":\"ended\"}\n"
         "{\"at\":12,\"job\":8,\"event\":\"submitted\"}\n",
         10},
        {"{\"at\":10,\"job\":7,\"event\":\"submitted\",\"verb\":\"graph\"}\n"
         "{\"at\":11,\"job\":7,\"event\":\"ended\"}\n"
         "{\"at\":12,\"job\":8,\"event\":\"submitted\",\"verb\":\"graph\"}\n",
         0},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct submission submission;
        submission_parse(str_of(cases[i].lines), &submission);
        assert_int_equal(submission_since_ms(&submission, NULL), cases[i].since_ms);
        submission_release(&submission);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_any_kind_are_read_back_by_sbatch_and_by_the_shell),
        cmocka_unit_test(an_option_that_a_script_cannot_have_is_refused),
        cmocka_unit_test(
            a_signal_that_the_verb_of_a_job_or_of_a_task_takes_for_a_warning_is_handed_on),
        cmocka_unit_test(a_short_job_is_drained_for_a_quarter_of_its_time_at_most),
        cmocka_unit_test(a_job_is_submitted_again_if_its_time_was_over_and_it_has_gained_something),
        cmocka_unit_test(the_state_is_that_of_the_lock_then_of_the_queue_then_of_the_ledger),
        cmocka_unit_test(the_time_of_a_job_is_over_at_its_limit_whatever_ends_it_before),
        cmocka_unit_test(a_job_that_waits_for_the_end_of_another_one_alone_is_found),
        cmocka_unit_test(slurm_tells_which_jobs_it_ends_and_which_for_their_limit),
        cmocka_unit_test(lines_that_are_no_records_are_passed_over),
        cmocka_unit_test(a_stage_that_was_submitted_again_stands_in_its_place),
        cmocka_unit_test(what_waits_for_a_job_waits_for_the_next_one_and_for_all_else_as_before),
        cmocka_unit_test(work_has_begun_if_a_job_has_started_since_the_user_submitted_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
