/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/look.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "submit/batch.h"
#include "submit/queue_answer.h"
#include "submit/stage.h"
#include "submit/unnoted.h"

enum {
    STATUS_STOPPED = 75
};

/* ---- words ---- */

static void wait_add(struct buf *out, const struct submitted_job *job,
                     const struct queue_entry *entry)
{
    buf_add_text(out, job->event == JOB_SUBMITTED ? "waits" : "waits to be started again");
    if (!entry)
        return;
    buf_add_text(out, ": ");
    queue_reason_add(entry->reason, out);
}

static void run_add(struct buf *out, const struct submitted_job *job,
                    const struct queue_entry *entry)
{
    bool is_suspended = entry && str_equal(entry->state, STR("SUSPENDED"));
    buf_add_text(out, is_suspended ? "is suspended" : "runs");
    if (job->nodes)
        buf_addf(out, " on %s", job->nodes);
    else if (entry && entry->nodes.len > 0)
        buf_addf(out, " on %.*s", (int)entry->nodes.len, entry->nodes.at);
}

/* NULL: unknown. */
static char *times_new(const char *before, uint64_t at_s, int64_t now_ms, const char *after)
{
    char left[24];
    int64_t left_ms = (int64_t)at_s * 1000 - now_ms;
    if (at_s == 0 || left_ms <= 0)
        return NULL;
    duration_format(left, (uint64_t)left_ms);
    return xasprintf("%s%s%s", before, left, after);
}

/* The time at which Slurm will end a running job; 0: unknown, or never. */
static uint64_t run_end_s(const struct queue_entry *entry)
{
    bool has_end = entry && str_equal(entry->state, STR("RUNNING")) && entry->limit_s != UINT64_MAX;
    return has_end ? entry->end_s : 0;
}

/* The time at which Slurm expects a job to begin; 0: unknown, as for a held job. */
static uint64_t begin_s(const struct queue_entry *entry)
{
    return entry && !queue_is_held(entry) ? entry->start_s : 0;
}

/* ---- states ---- */

static void ended_judge(const struct submitted_job *job, bool has_ledger, struct run_summary *run,
                        struct buf *words)
{
    if (job->status == 0)
        buf_add_text(words, "has ended");
    else
        buf_addf(words, "ended with status %d", job->status);
    if (job->why)
        buf_addf(words, ": %s", job->why);
    if (!has_ledger)
        run->state = job->status == 0                                     ? RUN_FINISHED
                     : job->status == STATUS_STOPPED || job->status > 128 ? RUN_STOPPED
                                                                          : RUN_FAILED;
}

static void over_judge(const struct look_facts *facts, bool has_ledger, struct run_summary *run,
                       struct buf *words)
{
    if (!facts->entry) {
        buf_add_text(words, "is over: Slurm does not know it any more");
        return;
    }
    buf_add_text(words, "is over: ");
    queue_end_add(facts->entry->state, words);
    if (!has_ledger && str_equal(facts->entry->state, STR("CANCELLED")))
        run->state = RUN_STOPPED;
    else if (!has_ledger && str_equal(facts->entry->state, STR("FAILED")))
        run->state = RUN_FAILED;
}

/* Judges a job that has not ended, by the lines in the run's folder. */
static void open_judge(const struct submitted_job *job, const struct look_facts *facts,
                       bool has_ledger, struct run_summary *run, struct buf *words,
                       struct submitted_look *out)
{
    const struct queue_entry *entry = facts->entry;
    enum queue_phase phase = job->event == JOB_STARTED ? QUEUE_RUNS : QUEUE_WAITS;
    /* A job notes its start before it works on the run: if this one has not, another job works on the run. */
    bool is_of_another = run->state == RUN_RUNNING && job->event == JOB_SUBMITTED;
    if (run->state != RUN_RUNNING && facts->is_asked)
        phase = facts->entry ? queue_phase_of(facts->entry->state) : QUEUE_OVER;
    if (is_of_another) {
        bool is_queued = entry && queue_phase_of(entry->state) == QUEUE_WAITS;
        wait_add(words, job, is_queued ? entry : NULL);
    } else if (run->state == RUN_RUNNING || phase == QUEUE_RUNS) {
        run->state = RUN_RUNNING;
        run_add(words, job, entry);
        out->times = times_new("for ", run_end_s(entry), facts->now_ms, " at most");
    } else if (phase == QUEUE_WAITS) {
        run->state = RUN_QUEUED;
        wait_add(words, job, entry);
        out->times = times_new("Slurm expects it to begin in ", begin_s(entry), facts->now_ms, "");
    } else {
        over_judge(facts, has_ledger, run, words);
        out->status = job->status > 0 ? job->status : 1;
        return;
    }
    out->goes_on = true;
    if (facts->no_answer)
        buf_addf(words, " (Slurm cannot be asked: %s)", facts->no_answer);
}

/*
 * The job that works on the run: the last one that noted its start, which a job does only when no other one works on
 * the run.
 */
static uint64_t at_work(const struct submission *submission)
{
    uint64_t found = 0;
    for (size_t i = 0; i < submission->n_jobs; i++)
        if (submission->jobs[i].event == JOB_STARTED &&
            !submitted_job_is_array(&submission->jobs[i]))
            found = submission->jobs[i].id;
    return found;
}

void look_judge(const struct submission *submission, const struct look_facts *facts,
                bool has_ledger, struct run_summary *run, struct submitted_look *out)
{
    const struct submitted_job *job = submission_last(submission);
    struct buf words = BUF_INIT;
    *out = (struct submitted_look){0};
    if (!job)
        return;
    out->job = job->id;
    out->at_work = run->state == RUN_RUNNING ? at_work(submission) : 0;
    out->n_again = submission_count_again(submission, NULL);
    if (run->started_wall_ms == 0)
        run->started_wall_ms = submission->jobs[0].submitted_ms;
    if (!run->verb && submission->verb)
        run->verb = xstrdup(submission->verb);
    if (submitted_job_is_open(job)) {
        open_judge(job, facts, has_ledger, run, &words, out);
        if (submitted_job_is_array(job) && job->why)
            buf_addf(&words, "; no job takes its results: %s", job->why);
    } else if (job->event == JOB_ENDED) {
        ended_judge(job, has_ledger, run, &words);
        out->status = job->status;
    } else {
        buf_add_text(&words, "was cancelled by muster stop");
        out->status = STATUS_STOPPED;
        run->state = has_ledger && run->state != RUN_INTERRUPTED ? run->state : RUN_STOPPED;
    }
    out->words = buf_steal(&words);
}

/* ---- asking ---- */

/* Slurm is asked only about the user's own jobs. */
static bool is_mine(const char *run_dir)
{
    struct stat st;
    return stat(run_dir, &st) == 0 && ours_is(&st, run_dir);
}

static void script_add(const char *dir, const char *name, struct buf *out)
{
    cleanup_free char *script = batch_script_path(dir, name);
    buf_add_char(out, ' ');
    buf_add_typed_word(out, script);
}

/* The stages from this one on, each behind the one before it. */
static void stages_go_on(const char *dir, const struct submission *submission,
                         const struct submitted_job *from, struct buf *out)
{
    bool is_first = true;
    for (const struct submitted_job *job = from; job;
         job = submission_stage_after(submission, job->role)) {
        cleanup_free char *name = job->role ? stage_script_new(job->role) : NULL;
        buf_add_text(out, is_first ? "job=$(sbatch --parsable"
                                   : " && job=$(sbatch --parsable --kill-on-invalid-dep=yes "
                                     "--dependency=afterok:$job");
        script_add(dir, name, out);
        buf_add_char(out, ')');
        is_first = false;
    }
}

/*
 * The same script goes on with the run, or runs a verb without a ledger anew. Here may be no place for the work. Tasks that
 * Slurm has still (`array`; 0: none) would be taken for lost.
 */
static void go_on_complete(struct run_summary *run, const struct submission *submission,
                           const struct submitted_job *job, uint64_t array)
{
    struct buf words = BUF_INIT;
    if (job->role && !submitted_job_is_array(job)) {
        stages_go_on(run->dir, submission, job, &words);
    } else {
        buf_add_text(&words, "sbatch");
        if (array > 0)
            buf_addf(&words, " --dependency=afterany:%llu", (unsigned long long)array);
        script_add(run->dir, NULL, &words);
    }
    free(run->go_on);
    run->go_on = buf_steal(&words);
}

/* ---- several jobs ---- */

static bool part_find(const struct submitted_job *job, const struct look_facts *facts,
                      const struct queue_answer *answer, struct queue_entry *entry)
{
    return facts->is_asked && queue_find(buf_str(&answer->text), job->id, entry);
}

/* The number of an array of which Slurm says this. 0: there is none. */
static uint64_t array_in(enum queue_phase phase, const struct submission *submission,
                         const struct look_facts *facts, const struct queue_answer *answer)
{
    struct queue_entry entry;
    for (size_t i = 0; i < submission->n_jobs; i++)
        if (submitted_job_is_array(&submission->jobs[i]) &&
            part_find(&submission->jobs[i], facts, answer, &entry) &&
            queue_phase_of(entry.state) == phase)
            return submission->jobs[i].id;
    return 0;
}

static const char *part_words(const struct submitted_job *job, const struct look_facts *facts,
                              const struct queue_answer *answer)
{
    struct queue_entry entry;
    if (job->event == JOB_ENDED)
        return job->status == 0 ? "has ended" : "has failed";
    if (job->event == JOB_CANCELLED)
        return "was cancelled";
    if (!part_find(job, facts, answer, &entry))
        return facts->is_asked ? "is over" : job->event == JOB_STARTED ? "runs" : "waits";
    enum queue_phase phase = queue_phase_of(entry.state);
    return phase == QUEUE_RUNS ? "runs" : phase == QUEUE_WAITS ? "waits" : "is over";
}

/* "dump (13) has ended, train (14) runs" */
static char *parts_new(const struct submission *submission, const struct submitted_job *last,
                       const struct look_facts *facts, const struct queue_answer *answer)
{
    struct buf out = BUF_INIT;
    for (size_t i = 0; i < submission->n_jobs; i++) {
        const struct submitted_job *job = submitted_job_is_array(&submission->jobs[i])
                                              ? &submission->jobs[i]
                                              : submission_stage_at(submission, i);
        if (job && job->role)
            buf_addf(&out, "%s%s (%llu) %s", out.len > 0 ? ", " : "", job->role,
                     (unsigned long long)job->id,
                     !facts->is_asked && !submitted_job_is_open(last) && submitted_job_is_open(job)
                         ? "is over"
                         : part_words(job, facts, answer));
    }
    return out.len > 0 ? buf_steal(&out) : NULL;
}

/* Adds the jobs of which only the queue tells, and finds what the answer says of the last one. */
static void answer_take(const char *run_dir, struct submission *submission,
                        const struct queue_answer *answer, struct queue_entry *entry,
                        struct look_facts *facts)
{
    unnoted_jobs_add(run_dir, buf_str(&answer->text), submission);
    const struct submitted_job *job = submission_last(submission);
    facts->is_asked = answer->wall_ms > job->changed_ms;
    facts->entry = NULL;
    if (facts->is_asked && queue_find(buf_str(&answer->text), job->id, entry))
        facts->entry = entry;
}

/* Reads the run's folder again: the job may have ended while Slurm was asked. */
static void folder_look_again(struct run_summary *run, struct submission *submission)
{
    struct submission now;
    struct run_summary later = {0};
    if (submission_read(run->dir, &now, NULL) == 0 && now.n_jobs > 0) {
        submission_release(submission);
        *submission = now;
    }
    if (run_inspect(run->dir, &later, NULL) == 0) {
        run_summary_release(run);
        *run = later;
    }
}

static bool is_complete(const struct submitted_job *job)
{
    return job->event == JOB_ENDED && job->status == 0;
}

static void slurm_look(struct run_summary *run, bool is_now, struct submission *submission,
                       struct queue_answer *answer, struct queue_entry *entry,
                       struct look_facts *facts, struct err *err)
{
    const struct submitted_job *job = submission_last(submission);
    const bool is_open = submitted_job_is_open(job);
    if (!is_complete(job) && is_mine(run->dir)) {
        int rc = is_now ? queue_answer_renew(answer, err) : queue_answer_get(answer, !is_open, err);
        facts->no_answer = rc ? err->text : NULL;
        answer_take(run->dir, submission, answer, entry, facts);
        bool is_over = !facts->entry || queue_phase_of(facts->entry->state) == QUEUE_OVER;
        if (is_open && facts->is_asked && is_over) {
            folder_look_again(run, submission);
            answer_take(run->dir, submission, answer, entry, facts);
        }
    }
    facts->now_ms = clock_wall_ms();
}

static void look(struct run_summary *run, bool is_now, struct submitted_look *out)
{
    struct submission submission;
    struct queue_answer answer = {0};
    struct queue_entry entry;
    struct err err = {0};
    struct look_facts facts = {0};
    *out = (struct submitted_look){0};
    if (submission_read(run->dir, &submission, NULL) != 0 || submission.n_jobs == 0)
        return;
    slurm_look(run, is_now, &submission, &answer, &entry, &facts, &err);
    const struct submitted_job *job = submission_last(&submission);
    bool has_ledger = run->verb != NULL;
    look_judge(&submission, &facts, has_ledger, run, out);
    out->role = job->role ? xstrdup(job->role) : NULL;
    uint64_t running = array_in(QUEUE_RUNS, &submission, &facts, &answer);
    uint64_t waiting = array_in(QUEUE_WAITS, &submission, &facts, &answer);
    if (!has_ledger || run->state != RUN_FAILED) /* items that failed need --retry-failed */
        go_on_complete(run, &submission, job, running > 0 ? running : waiting);
    out->parts = parts_new(&submission, job, &facts, &answer);
    if (run->state == RUN_QUEUED && running > 0)
        run->state = RUN_RUNNING;
    queue_answer_release(&answer);
    submission_release(&submission);
}

void submitted_look(struct run_summary *run, struct submitted_look *out)
{
    look(run, false, out);
}

void submitted_look_now(struct run_summary *run, struct submitted_look *out)
{
    look(run, true, out);
}

bool submitted_goes_on(const char *run_dir)
{
    struct run_summary run;
    struct submitted_look found;
    if (run_is_locked(run_dir, NULL))
        return true;
    if (run_inspect(run_dir, &run, NULL) != 0)
        return false;
    submitted_look(&run, &found);
    bool goes_on = found.goes_on;
    submitted_look_release(&found);
    run_summary_release(&run);
    return goes_on;
}

void submitted_look_release(struct submitted_look *look)
{
    free(look->role);
    free(look->words);
    free(look->times);
    free(look->parts);
    *look = (struct submitted_look){0};
}
