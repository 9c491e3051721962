/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/batch.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "slurm/command.h"
#include "store/submission.h"

char *batch_script_path(const char *run_dir)
{
    return path_join(run_dir, "job.sh");
}

/* sbatch exports its environment: the variables of the job around it, or of salloc, would be the new job's. */
static void environment_make(struct env_list *env)
{
    env_inherit(env);
    env_unset_beginning(env, "SLURM_", "SLURM_CONF");
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

int batch_submit(const char *run_dir, const char *verb, uint64_t after, uint64_t *job,
                 struct err *err)
{
    cleanup_free char *script = batch_script_path(run_dir);
    cleanup_free char *dependency =
        xasprintf("--dependency=afterany:%llu", (unsigned long long)after);
    cleanup_buf struct buf answer = BUF_INIT;
    const char *argv[] = {"sbatch", "--parsable", after > 0 ? dependency : script,
                          after > 0 ? script : NULL, NULL};
    struct env_list env = {0};
    environment_make(&env);
    int rc = slurm_command_in(argv, &env, &answer, err);
    env_list_release(&env);
    if (rc == 0)
        rc = job_number_parse(buf_str(&answer), job, err);
    const struct job_record record = {.event = JOB_SUBMITTED, .job = *job, .verb = verb};
    return rc ? rc : submission_add(run_dir, &record, err);
}

int batch_cancel(const char *run_dir, uint64_t job, struct err *err)
{
    cleanup_free char *number = xasprintf("%llu", (unsigned long long)job);
    cleanup_buf struct buf nothing = BUF_INIT;
    const char *argv[] = {"scancel", number, NULL};
    const struct job_record record = {.event = JOB_CANCELLED, .job = job};
    int rc = slurm_command(argv, &nothing, err);
    return rc ? rc : submission_add(run_dir, &record, err);
}
