/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/tasks.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "store/runs.h"
#include "store/submission.h"

int tasks_parse(const char *text, uint64_t *n_tasks, char **indexes, struct err *err)
{
    struct str rest = str_of(text), count, limit;
    uint64_t last, at_once = 0;
    bool is_range = strncmp(text, "0-", 2) == 0;
    if (is_range)
        rest = (struct str){rest.at + 2, rest.len - 2};
    bool is_read = str_next(&rest, '%', &count) &&
                   u64_parse(count, is_range ? 0 : 1, TASKS_MAX - is_range, &last, NULL) == 0;
    limit = rest;
    if (is_read && text[strcspn(text, "%")])
        is_read = u64_parse(limit, 1, TASKS_MAX, &at_once, NULL) == 0;
    if (!is_read)
        return fail(err, ERR_USAGE,
                    "--array=%s: expected N tasks, or N%%K for K of them at once; a verb's work is "
                    "shared among all of them",
                    text);
    *n_tasks = is_range ? last + 1 : last;
    *indexes = at_once > 0 ? xasprintf("0-%lu%%%lu", *n_tasks - 1, at_once)
                           : xasprintf("0-%lu", *n_tasks - 1);
    return 0;
}

static bool has_ended(const char *run_dir, uint64_t task)
{
    cleanup_free char *dir = xasprintf("%s/tasks/%lu", run_dir, task);
    struct run_summary run = {0};
    bool has =
        run_inspect(dir, &run, NULL) == 0 && (run.state == RUN_FINISHED || run.state == RUN_FAILED);
    run_summary_release(&run);
    return has;
}

uint64_t tasks_left(const char *run_dir, uint64_t n_tasks, struct buf *out)
{
    uint64_t n_left = 0, n_row = 0; /* consecutive tasks before this one */
    for (uint64_t task = 0; task <= n_tasks; task++) {
        bool is_left = task < n_tasks && !has_ended(run_dir, task);
        if (is_left && n_row++ == 0)
            buf_addf(out, "%s%lu", n_left > 0 ? "," : "", task);
        if (!is_left && n_row > 1)
            buf_addf(out, "-%lu", task - 1);
        n_row = is_left ? n_row : 0;
        n_left += is_left;
    }
    return n_left;
}

uint64_t tasks_count_rounds(const char *run_dir)
{
    struct submission submission;
    uint64_t n = 0;
    if (submission_read(run_dir, &submission, NULL) != 0)
        return 0;
    for (size_t i = 0; i < submission.n_jobs; i++)
        n += submitted_job_is_array(&submission.jobs[i]);
    submission_release(&submission);
    return n;
}
