/* SPDX-License-Identifier: Apache-2.0
 *
 * muster stop: ends a run so that it can be resumed.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "cli/run_arg.h"
#include "store/orders.h"
#include "store/runs.h"
#include "submit/batch.h"
#include "submit/look.h"

enum {
    LOOK_EVERY_MS = 100
};

struct stop_request {
    const char *runs_dir;
    bool now, no_wait, is_quiet;
    uint64_t limit_ms;
};

static int wait_for_end(const struct stop_request *ask, const char *dir, struct err *err)
{
    uint64_t begin_ms = clock_now_ms();
    while (run_is_locked(dir, NULL)) {
        if (ask->limit_ms && clock_now_ms() - begin_ms >= ask->limit_ms)
            return fail(err, ERR_TIMEOUT, "run %s has not ended yet%s", path_basename(dir),
                        ask->now ? "" : " (--now ends its workers at once)");
        pause_ms(LOOK_EVERY_MS);
    }
    return 0;
}

/* Stops a run on which a muster works. */
static int running_stop(const struct app *app, const struct stop_request *ask, const char *dir,
                        bool *was_running, struct err *err)
{
    int rc = run_stop(dir, ask->now ? STOP_NOW : STOP_DRAIN, was_running, err);
    if (rc || !*was_running || ask->no_wait)
        return rc;
    if (!ask->now)
        say(app, "run %s finishes what is in flight (--now ends it at once)", path_basename(dir));
    return wait_for_end(ask, dir, err);
}

/* Cancels a job that waits, or whose muster has not begun yet. */
static int job_cancel(const char *dir, uint64_t *cancelled, struct err *err)
{
    struct run_summary run = {0};
    struct submitted_look look = {0};
    int rc = run_inspect(dir, &run, err);
    if (rc)
        return rc;
    submitted_look(&run, &look);
    if (look.goes_on && !run_is_locked(dir, NULL)) {
        rc = batch_cancel(dir, look.job, look.role, err);
        *cancelled = rc ? 0 : look.job;
    }
    submitted_look_release(&look);
    run_summary_release(&run);
    return rc;
}

/*
 * Cancels the other jobs of the run. The job that works on the run is kept, because it finishes the
 * items in flight; without such a job, the one that reports on the run is kept. Another job would
 * begin when the kept one has ended.
 */
static int others_cancel(const char *dir, struct err *err)
{
    struct run_summary run = {0};
    struct submitted_look look = {0};
    int rc = run_inspect(dir, &run, err);
    if (rc)
        return rc;
    submitted_look_now(&run, &look);
    if (look.goes_on)
        batch_cancel_others(dir, look.at_work > 0 ? look.at_work : look.job);
    submitted_look_release(&look);
    run_summary_release(&run);
    return 0;
}

static int end_say(const struct app *app, const char *dir, struct err *err)
{
    cleanup_free char *root = runs_root(NULL), *typed = run_typed_new(dir, root);
    struct run_summary run = {0};
    struct submitted_look look = {0};
    int rc = run_inspect(dir, &run, err);
    if (rc == 0)
        submitted_look(&run, &look);
    if (rc == 0 && run.state == RUN_FINISHED)
        say(app, "run %s has ended: it is complete", path_basename(dir));
    else if (rc == 0 && run.go_on)
        say(app, "run %s has ended; to go on: %s", path_basename(dir), run.go_on);
    else if (rc == 0)
        say(app, "run %s has ended; to go on: muster resume %s", path_basename(dir), typed);
    submitted_look_release(&look);
    run_summary_release(&run);
    return rc;
}

static int stop_run(struct app *app, void *request, int argc, char **argv, char **command,
                    struct err *err)
{
    (void)command;
    const struct stop_request *ask = request;
    cleanup_free char *dir = NULL;
    bool was_running = false;
    uint64_t cancelled = 0;
    app->quiet = app->quiet || ask->is_quiet;
    int rc = run_arg_find(ask->runs_dir, argc, argv, &dir, err);
    if (rc == 0)
        rc = others_cancel(dir, err);
    if (rc == 0)
        rc = running_stop(app, ask, dir, &was_running, err);
    if (rc == 0)
        rc = job_cancel(dir, &cancelled, err);
    if (rc)
        return rc;
    if (cancelled > 0)
        say(app, "job %llu is cancelled", (unsigned long long)cancelled);
    if (!was_running && cancelled == 0)
        say(app, "run %s is not going on: there is nothing to stop", path_basename(dir));
    else if (!ask->no_wait)
        rc = end_say(app, dir, err);
    return rc;
}

static const struct opt stop_opts[] = {
    {.kind = OPT_FLAG,
     .name = "now",
     .help = "end the workers at once; a resume runs the items that they had in flight again",
     .offset = offsetof(struct stop_request, now)},
    {.kind = OPT_FLAG,
     .name = "no-wait",
     .help = "do not wait until the run has ended",
     .offset = offsetof(struct stop_request, no_wait)},
    {.kind = OPT_DURATION,
     .name = "limit",
     .arg = "DURATION",
     .help = "longest time to wait for the run to end (default: no limit)",
     .has_no_variable = true, /* MUSTER_LIMIT is a number of items */
     .offset = offsetof(struct stop_request, limit_ms)},
    {.kind = OPT_FLAG,
     .letter = 'q',
     .name = "quiet",
     .help = "nothing on stderr but errors",
     .offset = offsetof(struct stop_request, is_quiet)},
    RUNS_DIR_OPT(struct stop_request),
    {.kind = OPT_END},
};

static const char *const stop_examples[] = {
    "muster stop",
    "the latest run finishes what is in flight and ends, with status 75",
    "muster stop --now 20260131_090807-map",
    "this run, at once",
    NULL,
};

const struct cmd cmd_stop = {
    .name = "stop",
    .args = "[OPTION]... [RUN]",
    .summary = "end a run so that it can be resumed",
    .details =
        "Works from another host too, when the run's folder is shared. A Slurm job of muster submit that waits is "
        "cancelled.",
    .opts = stop_opts,
    .examples = stop_examples,
    .request_size = sizeof(struct stop_request),
    .run = stop_run,
};
