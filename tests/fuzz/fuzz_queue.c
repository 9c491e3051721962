/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of jobs.jsonl, and behind a line "%%" what squeue says of these jobs.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "slurm/queue.h"
#include "submit/look.h"

static void check_jobs(const struct submission *submission)
{
    ASSERT(submission_count_again(submission, NULL) <= submission->n_jobs);
    for (size_t i = 0; i < submission->n_jobs; i++) {
        ASSERT(submission->jobs[i].id > 0);
        for (size_t k = 0; k < MIN(i, (size_t)16); k++)
            ASSERT(submission->jobs[k].id != submission->jobs[i].id);
    }
}

/* Whatever was found in the answer lies in it. */
static void check_answer(struct str answer)
{
    struct queue_entry entry;
    struct str rest = answer;
    cleanup_buf struct buf words = BUF_INIT;
    for (int n = 0; n < 64 && queue_next(&rest, &entry); n++) {
        ASSERT(entry.job > 0);
        ASSERT(entry.state.at >= answer.at &&
               entry.nodes.at + entry.nodes.len <= answer.at + answer.len);
        queue_reason_add(entry.reason, &words);
        queue_end_add(entry.state, &words);
    }
    struct queue_waiting waiting;
    rest = answer;
    for (int n = 0; n < 64 && queue_waiting_next(&rest, &waiting); n++)
        ASSERT(waiting.job > 0 && waiting.dependency.at >= answer.at &&
               (waiting.script.len == 0 ||
                waiting.script.at + waiting.script.len <= answer.at + answer.len));
}

static void check_look(const struct submission *submission, struct str answer, unsigned bits)
{
    struct queue_entry entry;
    struct submitted_look look;
    struct run_summary run = {.state = bits & 1 ? RUN_RUNNING : RUN_INTERRUPTED};
    struct look_facts facts = {.is_asked = bits & 2, .now_ms = 1769846887123};
    const struct submitted_job *job = submission_last(submission);
    if (job && facts.is_asked && queue_find(answer, job->id, &entry))
        facts.entry = &entry;
    look_judge(submission, &facts, bits & 4, &run, &look);
    ASSERT((look.job > 0) == (job != NULL) && (look.words != NULL) == (job != NULL));
    ASSERT(!look.goes_on || run.state == RUN_RUNNING || run.state == RUN_QUEUED);
    ASSERT(look.goes_on || run.state != RUN_QUEUED);
    submitted_look_release(&look);
    free(run.verb);
}

int fuzz_target(const uint8_t *data, size_t len)
{
    struct submission submission;
    struct str text = {(const char *)data, len}, answer = {(const char *)data + len, 0};
    const char *at = len > 0 ? memmem(data, len, "\n%%\n", 4) : NULL;
    if (at) {
        text.len = (size_t)(at - text.at);
        answer = (struct str){at + 4, len - text.len - 4};
    }
    submission_parse(text, &submission);
    check_jobs(&submission);
    check_answer(answer);
    for (unsigned bits = 0; bits < 8; bits++)
        check_look(&submission, answer, bits);
    submission_release(&submission);
    return 0;
}
