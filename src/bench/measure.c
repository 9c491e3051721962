/* SPDX-License-Identifier: Apache-2.0
 *
 * The shell of the benchmark: devices, signals, and one run after the other.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "bench/bench_impl.h"
#include "map/template.h"

static const double near_share = 0.02;

/* ---- the files of a run ---- */

static int scratch_make(struct benching *b, struct err *err)
{
    const char *folder = getenv("TMPDIR");
    b->scratch = path_join(folder && *folder ? folder : "/tmp", "muster-bench-XXXXXX");
    if (mkdtemp(b->scratch))
        return 0;
    int rc = fail_errno(err, "make a folder for the files of a run, %s", b->scratch);
    free(steal_ptr(&b->scratch));
    return rc;
}

static int scratch_empty(const struct benching *b, struct err *err)
{
    static const char *const names[] = {"output", "summary.json", "runs"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(names); i++) {
        cleanup_free char *path = path_join(b->scratch, names[i]);
        rc = remove_tree(path, err);
    }
    return rc;
}

static void scratch_remove(struct benching *b)
{
    struct err err = {0};
    if (b->scratch && remove_tree(b->scratch, &err) != 0)
        talk("%s", err.text);
    free(steal_ptr(&b->scratch));
}

/* ---- runs ---- */

static uint64_t elapsed_ms(const struct benching *b)
{
    uint64_t now_us = clock_now_ns() / 1000;
    return b->begin_us > 0 ? (now_us - b->begin_us) / 1000 : 0;
}

/* The time limit of the next run: its own, or what is left of the limit for all runs if that is less. */
static uint64_t limit_ms(const struct benching *b, bool *is_of_all)
{
    const struct bench_request *r = b->request;
    uint64_t left_ms = r->time_limit_ms - MIN(elapsed_ms(b), r->time_limit_ms);
    *is_of_all = r->time_limit_ms > 0 && (r->trial_limit_ms == 0 || left_ms < r->trial_limit_ms);
    return *is_of_all ? MAX(left_ms, (uint64_t)1) : r->trial_limit_ms;
}

/* Ends the benchmark if a muster map had no items: its result is useless, and other runs would have none either. */
static void items_check(struct benching *b, const struct contest_run *run)
{
    struct err err = {0};
    const struct bench_variant *variant = &b->variants[b->variant];
    if (run->outcome != CONTEST_OK || run->n_items > 0 || !b->methods[variant->method].is_map)
        return;
    fail(&err, ERR_USAGE, "there are no items in %s%s", b->request->inputs.at[0],
         b->request->inputs.len > 1 ? " and the other inputs" : "");
    shell_abort(b->session.shell, &err);
}

static void other_work_note(struct benching *b, const struct contest_run *run)
{
    struct bench_variant *variant = &b->variants[b->variant];
    uint64_t n_first = contest_n_items(b->contest);
    if (contest_outcome(b->contest, b->variant) != CONTEST_OTHER_WORK)
        return;
    if (run->is_piece)
        snprintf(variant->end, sizeof(variant->end),
                 "did not tell how many items it did (--items); the first row that ended well did "
                 "%lu",
                 n_first);
    else if (n_first == 0)
        snprintf(
            variant->end, sizeof(variant->end),
            "did %lu item%s; the first row that ended well did not tell how many (--items %lu)",
            run->n_items, plural(run->n_items), run->n_items);
    else
        snprintf(variant->end, sizeof(variant->end),
                 "did %lu item%s; the first row that ended well did %lu", run->n_items,
                 plural(run->n_items), n_first);
}

static void on_ended(void *context, const struct trial_end *end)
{
    struct benching *b = context;
    struct contest_run run;
    if (shell_is_to_end(b->session.shell))
        return;
    if (end->was_late && b->is_out_of_time)
        return;
    b->is_out_of_time = false;
    run_judge(b, end, &run);
    items_check(b, &run);
    if (shell_is_to_end(b->session.shell))
        return;
    contest_took(b->contest, &run);
    other_work_note(b, &run);
    run_json_note(b, &run);
    run_say(b, &run);
    if (run.outcome == CONTEST_FAILED && contest_n_runs(b->contest, b->variant) == 0)
        trial_last_lines_say(&b->session.run);
}

static int run_start(struct benching *b, struct err *err)
{
    struct env_list env = {0}, words = {0};
    int rc = scratch_empty(b, err);
    if (rc)
        return rc;
    variant_environment(b, b->variant, &env);
    variant_words(b, b->variant, &words);
    struct trial_request request = {.argv = (const char *const *)words.at,
                                    .envp = (const char *const *)env.at,
                                    .n_seats = b->variants[b->variant].n_devices,
                                    .grace_ms = b->request->grace_ms,
                                    .limit_ms = limit_ms(b, &b->is_out_of_time),
                                    .patterns = {&b->items, &b->rate, &b->ready}};
    if (!b->methods[b->variants[b->variant].method].is_map)
        request.stdin_path = b->request->stdin_path;
    rc = trial_start(&b->session.run, &request, err);
    if (b->begin_us == 0)
        b->begin_us = b->session.run.begin_us;
    env_list_release(&env);
    env_list_release(&words);
    return rc;
}

/* Starts the next run. Returns false if there is none. */
static bool run_next(struct benching *b)
{
    struct err err = {0};
    struct contest_step step = contest_next(b->contest, (double)elapsed_ms(b) / 1000);
    b->ended = step.end;
    b->variant = step.variant;
    if (step.end != CONTEST_GOES_ON)
        return false;
    if (run_start(b, &err) != 0)
        shell_abort(b->session.shell, &err);
    return true;
}

static void runs_do(struct benching *b)
{
    bool goes_on = run_next(b);
    while (b->session.run.process || (goes_on && !shell_is_to_end(b->session.shell))) {
        shell_turn(b->session.shell);
        if (!b->session.run.process && b->is_out_of_time && b->session.run.is_late) {
            b->ended = CONTEST_TIME;
            return;
        }
        if (trial_is_ready(&b->session.run) && !shell_is_to_end(b->session.shell))
            goes_on = run_next(b);
    }
}

/* ---- the whole ---- */

static int end_status(const struct benching *b, struct err *err)
{
    bool any_failed = false;
    int rc = shell_outcome(b->session.shell, err);
    if (rc)
        return rc;
    if (b->ended == CONTEST_TIME && contest_n_rounds(b->contest) == 0)
        return fail(err, ERR_TIMEOUT, "the time of --max-time was over before every row had a run");
    for (uint32_t i = 0; i < b->n_variants; i++) {
        enum contest_outcome outcome = contest_outcome(b->contest, i);
        any_failed = any_failed || (outcome != CONTEST_OK && outcome != CONTEST_OOM);
    }
    return any_failed || b->ended == CONTEST_NOTHING ? err_exit_status(ERR_FAILED) : 0;
}

static bool any_run(const struct benching *b)
{
    for (uint32_t i = 0; i < b->n_variants; i++)
        if (contest_n_runs(b->contest, i) > 0 || contest_outcome(b->contest, i) != CONTEST_OK)
            return true;
    return false;
}

static int runs_report(struct benching *b, struct buf *out, struct err *err)
{
    int rc = scratch_make(b, err);
    if (rc)
        return rc;
    runs_do(b);
    if (any_run(b) && b->request->format == BENCH_JSON)
        bench_json_add(b, out);
    else if (any_run(b))
        bench_report_add(b, out);
    rc = end_status(b, err);
    if (b->request->plot_path && any_run(b) && rc >= 0)
        bench_plot_add(b, &b->picture);
    return rc;
}

/* After the session, whose handlers of signals would wait for the reader of a pipe. */
static int picture_put(const struct benching *b, struct err *err)
{
    return b->picture.len > 0 ? outfile_put(b->request->plot_path, buf_str(&b->picture), err) : 0;
}

static int answer(struct benching *b, struct buf *out, struct err *err)
{
    const struct bench_request *r = b->request;
    int rc = variants_make(b, b->session.allocation.n_seats, err);
    if (rc)
        return rc;
    b->contest = contest_new(&(struct contest_wish){.n_variants = b->n_variants,
                                                    .rounds_max = (uint32_t)r->n_rounds,
                                                    .n_items = r->n_items,
                                                    .near = near_share,
                                                    .seconds_max = (double)r->time_limit_ms / 1000,
                                                    .runs_all = r->runs_all});
    if (!b->contest)
        return fail(err, ERR_STOPPED, "out of memory");
    if (r->is_plan) {
        bench_plan_add(b, out);
        return 0;
    }
    rc = runs_report(b, out, err);
    scratch_remove(b);
    return rc;
}

/*
 * Fails if the program of the command does not exist. A program that only a run can find (--setup, a placeholder) is
 * not checked.
 */
static int program_look(const struct benching *b, struct err *err)
{
    const struct bench_request *r = b->request;
    bool is_found_later = !r->command || !r->command[0] || r->environment.setup ||
                          template_uses(str_of(r->command[0])) != 0;
    return is_found_later ? 0 : program_check(r->command[0], err);
}

static int patterns_make(struct benching *b, struct err *err)
{
    const struct bench_request *r = b->request;
    int rc = output_pattern_make(&b->items, "--items-pattern", r->items_pattern, err);
    rc = rc ? rc : output_pattern_make(&b->rate, "--rate-pattern", r->rate_pattern, err);
    return rc ? rc : output_pattern_make(&b->ready, "--ready-pattern", r->ready_pattern, err);
}

int bench_run(const struct bench_caller *caller, const struct bench_request *request,
              struct buf *out, struct err *err)
{
    cleanup_free struct benching *b = xcalloc(1, sizeof(*b));
    *b = (struct benching){.request = request, .caller = caller};
    int rc = patterns_make(b, err);
    rc = rc ? rc : methods_make(b, err);
    rc = rc ? rc : program_look(b, err);
    if (rc == 0) {
        const struct trial_session_wish wish = {.verb = "bench",
                                                .self_path = caller->self_path,
                                                .log = caller->log,
                                                .allocation = &request->allocation,
                                                .n_devices = methods_devices_max(b),
                                                .ended = on_ended,
                                                .context = b};
        rc = trial_session_open(&b->session, &wish, err);
        rc = rc ? rc : answer(b, out, err);
        trial_session_close(&b->session);
        int put = picture_put(b, err);
        rc = put ? put : rc;
    }
    output_pattern_release(&b->items);
    output_pattern_release(&b->rate);
    output_pattern_release(&b->ready);
    buf_release(&b->runs_json);
    buf_release(&b->picture);
    contest_free(b->contest);
    methods_release(b);
    return rc;
}
