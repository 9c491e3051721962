/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/unnoted.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "slurm/queue.h"
#include "submit/batch.h"
#include "submit/stage.h"

/* Is `path` the script of that name (NULL: job.sh) in real_dir? */
static bool is_script(const char *path, const char *real_dir, const char *name)
{
    cleanup_free char *wanted = batch_script_path(real_dir, name), *real = NULL;
    cleanup_free char *folder = path_dirname(path);
    const char *run = path_basename(folder);
    /* Most jobs of a long queue have scripts of other runs: no system call for these. */
    if (strcmp(path_basename(path), path_basename(wanted)) != 0 ||
        (strcmp(run, path_basename(real_dir)) != 0 && strcmp(run, "latest") != 0))
        return false;
    real = realpath(path, NULL);
    return real && strcmp(real, wanted) == 0;
}

/* The role of the job with that script; *role NULL: the run's only job. False: the script is not of this run. */
static bool role_find(const struct submission *submission, const char *path, const char *real_dir,
                      const char **role)
{
    *role = NULL;
    if (is_script(path, real_dir, NULL))
        return true;
    for (size_t i = 0; i < submission->n_jobs; i++) {
        const struct submitted_job *job = &submission->jobs[i];
        if (!job->role || submitted_job_is_array(job))
            continue;
        cleanup_free char *name = stage_script_new(job->role);
        *role = job->role;
        if (is_script(path, real_dir, name))
            return true;
    }
    return false;
}

void unnoted_jobs_add(const char *run_dir, struct str answer, struct submission *submission)
{
    cleanup_free char *real_dir = realpath(run_dir, NULL);
    struct queue_entry entry;
    const char *role;
    while (real_dir && queue_next(&answer, &entry)) {
        cleanup_free char *path =
            xstrndup(entry.script.at ? entry.script.at : "", entry.script.len);
        if (queue_phase_of(entry.state) != QUEUE_OVER &&
            role_find(submission, path, real_dir, &role))
            submission_add_unnoted(submission, entry.job, role);
    }
}
