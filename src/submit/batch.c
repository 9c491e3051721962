/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/batch.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "slurm/command.h"
#include "slurm/job.h"
#include "slurm/queue.h"
#include "store/runs.h"
#include "store/submission.h"
#include "submit/queue_answer.h"
#include "submit/script.h"
#include "submit/unnoted.h"

char *batch_script_path(const char *run_dir, const char *name)
{
    return path_join(run_dir, name ? name : "job.sh");
}

/* The environment of sbatch, which exports it to the job: without the variables of a job around it, or of salloc. */
static void environment_make(struct env_list *env)
{
    env_inherit(env);
    env_unset_beginning(env, "SLURM_", "SLURM_CONF");
    env_unset_beginning(env, "SBATCH_",
                        NULL); /* the script has these options, and variables would override them */
    env_end(env);
}

/* "12", "12;cluster" */
static int job_number_parse(struct str answer, uint64_t *job, struct err *err)
{
    struct str number, rest = str_trim(answer);
    if (!rest.at || !str_next(&rest, ';', &number) ||
        u64_parse(number, 1, UINT32_MAX, job, NULL) != 0)
        return fail(err, ERR_UNAVAILABLE, "sbatch has given no job's number, but '%.*s'",
                    (int)MIN(answer.len, (size_t)200), answer.len > 0 ? answer.at : "");
    return 0;
}

static void words_make(const struct batch_wish *wish, const char *script, struct env_list *out)
{
    static const char *const begin[] = {"sbatch", "--parsable", NULL};
    env_list_add_words(out, begin);
    if (wish->after > 0)
        env_list_add(out,
                     xasprintf("--dependency=%s:%llu", wish->needs_success ? "afterok" : "afterany",
                               (unsigned long long)wish->after));
    if (wish->needs_success)
        env_list_add(out, xstrdup("--kill-on-invalid-dep=yes"));
    if (wish->array)
        env_list_add(out, xasprintf("--array=%s", wish->array));
    if (wish->options)
        script_first_add(wish->options, out);
    env_list_add(out, xstrdup(script));
    env_end(out);
}

static int submission_note(const char *run_dir, const struct batch_wish *wish, uint64_t job,
                           struct err *err)
{
    const struct job_record record = {
        .event = JOB_SUBMITTED, .job = job, .verb = wish->verb, .role = wish->role};
    return submission_add(run_dir, &record, err);
}

int batch_submit(const char *run_dir, const struct batch_wish *wish, uint64_t *job, struct err *err)
{
    cleanup_free char *script = batch_script_path(run_dir, wish->script);
    cleanup_buf struct buf answer = BUF_INIT;
    struct env_list env = {0}, words = {0};
    environment_make(&env);
    words_make(wish, script, &words);
    int rc = slurm_command_in((const char *const *)words.at, &env, 0, &answer, err);
    env_list_release(&env);
    env_list_release(&words);
    if (rc == 0)
        rc = job_number_parse(buf_str(&answer), job, err);
    return rc ? rc : submission_note(run_dir, wish, *job, err);
}

int batch_find(const char *run_dir, const struct batch_wish *wish, uint64_t *job, struct err *err)
{
    cleanup_free char *script = batch_script_path(run_dir, wish->script);
    cleanup_buf struct buf answer = BUF_INIT;
    struct queue_waiting waiting;
    *job = 0;
    int rc = queue_waiting_ask(&answer, err);
    struct str lines = buf_str(&answer);
    while (rc == 0 && *job == 0 && queue_waiting_next(&lines, &waiting))
        if (queue_waits_for_end(&waiting, wish->after) && str_equal(waiting.script, str_of(script)))
            *job = waiting.job;
    return rc || *job == 0 ? rc : submission_note(run_dir, wish, *job, err);
}

void batch_cancel_others(const char *run_dir, uint64_t but)
{
    struct submission submission;
    struct queue_answer answer = {0};
    struct err err = {0};
    if (submission_read(run_dir, &submission, &err) != 0)
        return;
    if (queue_answer_get(&answer, false, NULL) == 0)
        unnoted_jobs_add(run_dir, buf_str(&answer.text), &submission);
    for (size_t i = 0; i < submission.n_jobs; i++) {
        const struct submitted_job *job = &submission.jobs[i];
        if (job->id != but && submitted_job_is_open(job) &&
            batch_cancel(run_dir, job->id, job->role, &err) != 0)
            err =
                (struct err){0}; /* an array that has ended, or a stage that Slurm has cancelled */
    }
    queue_answer_release(&answer);
    submission_release(&submission);
}

int batch_cancel(const char *run_dir, uint64_t job, const char *role, struct err *err)
{
    cleanup_free char *number = xasprintf("%llu", (unsigned long long)job);
    cleanup_buf struct buf nothing = BUF_INIT;
    const char *argv[] = {"scancel", number, NULL};
    const struct job_record record = {.event = JOB_CANCELLED, .job = job, .role = role};
    struct env_list env = {0};
    int rc = run_check_ours(run_dir, err); /* another user's folder may name any job */
    slurm_cancel_environment(&env);
    if (rc == 0)
        rc = slurm_command_in(argv, &env, 0, &nothing, err);
    env_list_release(&env);
    return rc ? rc : submission_add(run_dir, &record, err);
}
