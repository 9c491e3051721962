/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/submit_follow.h"

#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/run_arg.h"
#include "cli/tail.h"
#include "store/runs.h"
#include "store/submission.h"
#include "submit/look.h"

enum {
    LOOK_EVERY_MS = 300,
    LAST_TURNS = 10
};

struct follow {
    const struct app *app;
    const char *run_dir;
    uint64_t job; /* the job whose output is shown; 0: none yet */
    int n_last;   /* how often its last words were looked for while there was another job */
    char *said;   /* the job's state when it was last printed */
    struct tail out, errors;
    struct submitted_look look;
};

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    is_interrupted = true;
}

/* ---- the job's output ---- */

static void tail_begin(struct tail *tail, const struct follow *f, const char *stream, int fd)
{
    bool is_shown = isatty(fd);
    cleanup_free char *path =
        xasprintf("%s/logs/job_%llu_%s.log", f->run_dir, (unsigned long long)f->job, stream);
    tail_init(tail, path, is_shown ? "" : NULL);
    tail->is_shown = is_shown;
}

static int stderr_put(struct str text, struct err *err)
{
    return write_all(STDERR_FILENO, text.at, text.len, err);
}

static int tail_print(struct tail *tail, int (*put)(struct str, struct err *), bool is_end,
                      struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    int rc = 0;
    for (bool has_more = true; rc == 0 && has_more;) {
        has_more = tail_read(tail, &out);
        if (is_end && !has_more)
            tail_finish(tail, &out);
        rc = put(buf_str(&out), err);
        buf_reset(&out);
    }
    return rc;
}

static int output_print(struct follow *f, bool is_end, struct err *err)
{
    if (f->job == 0)
        return 0;
    int rc = tail_print(&f->errors, stderr_put, is_end, err);
    return rc ? rc : tail_print(&f->out, stdout_put, is_end, err);
}

static void output_end(struct follow *f)
{
    if (f->job > 0) {
        tail_release(&f->out);
        tail_release(&f->errors);
    }
    f->job = 0;
}

/* ---- the job ---- */

/*
 * True if the job may still print its last words: a job submits the next one before it prints that
 * and ends. A job that is killed in between is never noted as ended, so the number of looks is
 * limited.
 */
static bool has_last_words(struct follow *f)
{
    struct submission submission;
    bool has = false;
    if (f->job == 0 || f->n_last++ >= LAST_TURNS ||
        submission_read(f->run_dir, &submission, NULL) != 0)
        return false;
    for (size_t i = 0; i < submission.n_jobs; i++)
        has |= submission.jobs[i].id == f->job && submitted_job_is_open(&submission.jobs[i]) &&
               !submitted_job_is_array(&submission.jobs[i]);
    submission_release(&submission);
    return has;
}

static int job_take(struct follow *f, struct err *err)
{
    if (f->look.job == f->job)
        return 0;
    int rc = output_print(f, true, err);
    output_end(f);
    f->n_last = 0;
    f->job = f->look.job;
    tail_begin(&f->out, f, "stdout", STDOUT_FILENO);
    tail_begin(&f->errors, f, "stderr", STDERR_FILENO);
    free(steal_ptr(&f->said));
    return rc;
}

static void news_say(struct follow *f)
{
    const struct submitted_look *look = &f->look;
    if (!look->words || (f->said && strcmp(f->said, look->words) == 0))
        return;
    say(f->app, "job %llu %s%s%s", (unsigned long long)look->job, look->words,
        look->times ? "; " : "", look->times ? look->times : "");
    free(f->said);
    f->said = xstrdup(look->words);
}

static int turn(struct follow *f, struct err *err)
{
    struct run_summary run;
    int rc = run_inspect(f->run_dir, &run, err);
    if (rc)
        return rc;
    submitted_look_release(&f->look);
    submitted_look(&run, &f->look);
    run_summary_release(&run);
    if (f->look.goes_on && f->look.job != f->job && has_last_words(f))
        return output_print(f, false, err);
    rc = job_take(f, err);
    if (rc == 0 && f->look.goes_on) /* the end of the job is printed after its last words */
        news_say(f);
    if (rc == 0)
        rc = output_print(f, !f->look.goes_on, err);
    if (rc == 0 && !f->look.goes_on)
        news_say(f);
    return rc;
}

static int left_say(const struct follow *f)
{
    cleanup_free char *root = runs_root(NULL), *typed = run_typed_new(f->run_dir, root);
    say(f->app,
        "job %llu is left alone; muster status %s tells how it is, muster logs -f %s shows it, "
        "muster stop %s ends it",
        (unsigned long long)f->look.job, typed, typed, typed);
    return 128 + SIGINT;
}

int submit_follow(const struct app *app, const char *run_dir, struct err *err)
{
    struct follow f = {.app = app, .run_dir = run_dir};
    const struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    int rc = turn(&f, err);
    while (rc == 0 && f.look.goes_on && !is_interrupted) {
        pause_ms(LOOK_EVERY_MS);
        if (!is_interrupted)
            rc = turn(&f, err);
    }
    if (rc == 0)
        rc = f.look.goes_on ? left_say(&f) : f.look.status;
    output_end(&f);
    submitted_look_release(&f.look);
    free(f.said);
    return rc;
}
